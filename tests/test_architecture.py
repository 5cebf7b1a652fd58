"""The house: one concept a file, imports go one way, the core needs nothing installed."""

from __future__ import annotations

import ast
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "agentic_rl"

READING_ORDER = (
    "values",
    "calculator",
    "answers",
    "messages",
    "tokens",
    "tasks",
    "tools",
    "tool_math",
    "toy_mdp",
    "policy",
    "trajectory",
    "chat_log",
    "agent_loop",
    "scripted",
    "reward",
    "conventions",
    "advantage",
    "objective",
    "grpo",
    "oracle",
    "evaluation",
    "variants",
    "golden",
)


def imported(path: Path) -> set[str]:
    """The full names of the modules that a file imports."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.add(node.module or "")
    return names


CHAPTERS = ("00_toy_mdp", "01_tool_math_agent", "02_grpo_tool_agent")


def core_files() -> list[Path]:
    """The core: the package without bridges, the required chapters, the tests."""
    chapters = (ROOT / "examples" / name for name in CHAPTERS)
    folders = (PACKAGE, *chapters, ROOT / "tests")
    files = [path for folder in folders for path in sorted(folder.rglob("*.py"))]
    return [path for path in files if "bridges" not in path.parts]


class ReadingOrder(unittest.TestCase):
    def test_every_file_of_the_package_has_its_place(self):
        files = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__", "__main__"}
        self.assertEqual(files, set(READING_ORDER))

    def test_a_file_imports_only_from_files_above_it(self):
        for place, name in enumerate(READING_ORDER):
            above = {f"agentic_rl.{earlier}" for earlier in READING_ORDER[:place]}
            ours = {
                module
                for module in imported(PACKAGE / f"{name}.py")
                if module.startswith("agentic_rl")
            }
            self.assertLessEqual(ours, above, name)

    def test_nothing_imports_from_examples(self):
        for path in core_files():
            for module in imported(path):
                self.assertFalse(module.startswith("examples"), f"{path}: {module}")


class StandardLibraryOnly(unittest.TestCase):
    def test_the_core_imports_nothing_that_must_be_installed(self):
        own = {
            "agentic_rl",
            "checks",  # its modules that need a framework import it when they are asked
            "tests",
            *(x.stem for x in (ROOT / "scripts").glob("*.py")),
            *(x.stem for x in (ROOT / "checks").glob("*.py")),
        }
        for path in core_files():
            for module in imported(path):
                known = module.split(".")[0] in own | sys.stdlib_module_names
                self.assertTrue(known, f"{path}: {module}")


class Reproducible(unittest.TestCase):
    """What differs between Pythons is not used: see each line's reason."""

    def calls(self, path: Path) -> set[str]:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        called = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
        names = {node.id for node in called if isinstance(node, ast.Name)}
        return names | {node.attr for node in called if isinstance(node, ast.Attribute)}

    def test_no_call_whose_result_differs(self):
        differing = {
            "gauss",  # other digits on other machines
            "hash",  # other values under other PYTHONHASHSEEDs
            "eval",  # never
            "time",  # no clock decides anything
        }
        for path in core_files():
            if "tests" not in path.parts:
                self.assertEqual(self.calls(path) & differing, set(), path)


if __name__ == "__main__":
    unittest.main()
