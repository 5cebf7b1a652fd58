"""What a page names is there: links, commands, options, tests, names. Its sums come out."""

from __future__ import annotations

import itertools
import re
import unittest
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path

from agentic_rl.calculator import calculate
from agentic_rl.cli import COMMANDS
from agentic_rl.cli.arguments import read_arguments
from tests.pages import (
    DOCS,
    NO_BACKTICKS,
    ROOT,
    anchors,
    both_languages,
    code_blocks,
    links,
    notebook_cells,
    page,
    prose,
    read,
    sums,
    tables,
    target,
)

PAGES = [path for pair in both_languages() for path in pair]

FOLDERS = ("agentic_rl", "benchmarks", "checks", "examples", "exercises", "scripts")
CODE = [
    path
    for name in FOLDERS
    for ending in ("*.py", "*.sh", "*.yaml")
    for path in sorted((ROOT / name).rglob(ending))
]
TESTS = [*sorted((ROOT / "tests").glob("test_*.py"))]
SHELL = {"bash", "cd", "clone", "git", "python3"}
THEIRS = {  # of verl and of the Agents SDK, in no row of the glossary
    *("TokenOutput", "ADV_ESTIMATOR_REGISTRY", "POLICY_LOSS_REGISTRY", "agg_loss"),
    *("max_user_turns", "function_tool", "nproc_per_node"),
}

NAME = re.compile(r"[A-Za-z]\w+", re.ASCII)
OPTION = re.compile(r"(?<![\w-])--[a-z][\w.-]*")
OURS = re.compile(r"python3 -m agentic_rl\b[ \t]*([^`|\n#>]*)")


def in_backticks(path: Path) -> list[str]:
    """What a page names."""
    return [name.strip("`") for name in NO_BACKTICKS.findall(prose(page(path)))]


def own_code(path: Path) -> str:
    """The code on a page."""
    cells = notebook_cells(path, "code") if path.suffix == ".ipynb" else []
    return "\n".join([*code_blocks(page(path)), *cells])


def of_frameworks() -> set[str]:
    """The names in the glossary's columns of the frameworks, and in its last section."""
    text = read(DOCS / "en" / "glossary.md")
    rows = [row for table in tables(text) if "TRL" in table[0] for row in table[1:]]
    cells = [cell for row in rows for cell in row[1:]]
    return set(NO_BACKTICKS.findall(" ".join([*cells, re.split(r"\n## ", text)[-1]])))


def names(texts: Iterable[str]) -> set[str]:
    """All the names in some texts."""
    return {name for text in texts for name in NAME.findall(text)}


class Links(unittest.TestCase):
    def test_each_leads_to_a_file_and_to_a_place_in_it(self):
        for path in PAGES:
            for link in links(page(path)):
                self.assertNotRegex(link, r"^[a-z]+:", "expected a relative link")
                file, anchor = target(path, link), link.partition("#")[2]
                self.assertTrue(file.exists(), (path, link))
                if anchor:
                    self.assertIn(anchor, anchors(file), (path, link))


class Commands(unittest.TestCase):
    def test_ours_take_their_arguments(self):
        count = 0
        for path in PAGES:
            for line in OURS.findall(page(path).replace("\\\n", " ")):
                name, *arguments = line.split() or ["tour"]
                if name not in ("--help", "--version") and "--help" not in arguments:
                    with self.subTest(page=path, command=line):
                        read_arguments(COMMANDS[name], arguments)
                    count += 1
        self.assertGreater(count, 20)

    def test_an_option_that_is_named_is_ours_or_a_frameworks(self):
        options = {option.name for c in COMMANDS.values() for option in c.options}
        scripts = "".join(map(read, sorted((ROOT / "scripts").glob("*.py"))))
        known = {"--help", "--version", *options, *OPTION.findall(scripts)}
        theirs = {word for name in of_frameworks() for word in OPTION.findall(name)}
        for path in PAGES:
            for name in in_backticks(path):
                if name.startswith("--"):
                    found = set(OPTION.findall(name))
                    self.assertLessEqual(found, known | theirs, path)

    def test_another_program_is_there_and_knows_its_options(self):
        for path in PAGES:
            for line in re.findall(r"python3 ([\w./]+\.py[^`|\n#]*)", page(path)):
                program, *arguments = line.split()
                source = read(ROOT / program)
                for option in OPTION.findall(" ".join(arguments)):
                    self.assertIn(option, source, (path, line))

    def test_what_unittest_is_to_select_is_there(self):
        defined = [name for test in TESTS for name in defined_in(test)]
        for path in PAGES:
            for pattern in re.findall(r"unittest .*-k ['\"]?([\w.]+)", page(path)):
                self.assertTrue(
                    any(pattern in name for name in defined), (path, pattern)
                )


def defined_in(test: Path) -> list[str]:
    """The classes and methods of a file of tests."""
    return re.findall(r"^ *(?:class|def) (\w+)", read(test), re.MULTILINE)


class Names(unittest.TestCase):
    def test_a_test_stands_in_the_file_linked_before_it(self):
        for path in PAGES:
            for line in page(path).splitlines():
                file = path
                for link, name in re.findall(r"\]\(([^)]+\.py)\)|`(test_\w+)`", line):
                    if link:
                        file = target(path, link)
                    elif file in TESTS:
                        self.assertIn(name, defined_in(file), (path, name))

    def test_a_name_is_in_the_code_on_the_page_or_in_a_framework(self):
        files = {part for path in [*CODE, *TESTS, *PAGES] for part in path.parts}
        tests = {name for test in TESTS for name in defined_in(test)}
        known = names([*map(read, CODE), *files, *of_frameworks()])
        known |= tests | SHELL | THEIRS
        for path in PAGES:
            for name in in_backticks(path):
                left = names([name]) - known - names([own_code(path)])
                left = {x for x in left if not any(x in test for test in tests)}
                self.assertEqual(left, set(), f"{name!r} on {path} is nowhere else")


class Sums(unittest.TestCase):
    def test_each_comes_out(self):
        """Up to what rounding to four digits may add."""
        count = 0
        for path in PAGES:
            for found in sums(page(path)):
                parts = [Fraction(calculate(part)) for part in found.split(" = ")]
                for one, other in itertools.pairwise(parts):
                    self.assertLess(abs(one - other), Fraction("0.0002"), (path, found))
                    count += 1
        self.assertGreater(count, 50)


if __name__ == "__main__":
    unittest.main()
