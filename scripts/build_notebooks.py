"""Build the notebooks of the chapters, in both languages, with their outputs.

    python3 scripts/build_notebooks.py                 build and execute all of them
    python3 scripts/build_notebooks.py --no-execute    build them without outputs
    python3 scripts/build_notebooks.py --check         build again, exit 1 on a difference
    ... 00_toy_mdp                                     only the named chapters

A notebook is made of its prose, ``examples/NN_name/notebook.md`` or ``notebook.en.md``,
and of code that stands elsewhere. In the prose, a fence says what becomes a code cell:

    ```python source              the source of functions and classes, by their names, from
    agentic_rl.policy.pick        the package or from the chapter's script
    ```
    ```python run                 these lines
    show_world()
    ```

It is executed in its own folder, by the pinned tools of requirements.txt.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

from environments import enter

EXAMPLES = ROOT / "examples"
SOURCES = {"": "notebook.md", ".en": "notebook.en.md"}  # ending -> prose
FENCE = re.compile(r"^```python (source|run)\n(.*?)^```$\n?", re.DOTALL | re.MULTILINE)
SECONDS = 120  # after which a cell is said to hang
KERNEL = "agentic-rl-from-scratch"
METADATA = {
    "kernelspec": {
        "display_name": f"Python ({KERNEL})",
        "language": "python",
        "name": KERNEL,
    },
    "language_info": {"name": "python"},
}
SETUP = """\
import sys
from pathlib import Path

# The chapter's folder, whether this runs in it or in the project's root.
places = (Path.cwd(), Path.cwd() / "examples" / "{chapter}")
here = next((place for place in places if (place / "{script}.py").exists()), None)
if here is None:
    raise FileNotFoundError("start this in the project's folder or in the chapter's")
sys.path[:0] = [str(here), str(here.parents[1])]

from {script} import *
{borrowed}"""
BORROWED = """
# What the functions shown below call. To define one again in a cell replaces it where
# cells call it by its name; the package, and defaults of arguments, keep their own.
import {modules}

for module in ({modules},):
    globals().update({{k: v for k, v in vars(module).items() if not k.startswith("__")}})
"""


class BuildError(Exception):
    """Prose that can't become a notebook; the text names the file and what is wrong."""


# ------------------------------------------------------------------ prose -> cells


def cells(source: Path) -> Iterator[tuple[str, str]]:
    """(markdown or code, its text) of each cell, in order."""
    try:
        text = source.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BuildError(f"{source}: {error}") from None
    check_prose(source, text)
    yield from first_cells(source, text)
    for kind, content in pieces(text.partition("\n## ")[2]):
        if kind == "run":
            yield "code", content
        elif kind == "source":
            names = content.split()
            yield "code", "\n\n\n".join(source_of(name, source) for name in names)
        else:
            for part in re.split(r"(?m)^(?=## )", content):
                if part.strip():
                    yield "markdown", part.strip()


def check_prose(source: Path, text: str) -> None:
    """Raise BuildError for prose with a fence that would silently stay prose."""
    if "\n## " not in text:
        raise BuildError(f"{source}: expected a section, a line that begins with '## '")
    for fence in FENCE.finditer(text):
        if not fence[2].strip():
            raise BuildError(f"{source}: an empty {fence[1]} fence")
    rest = FENCE.sub("", text)
    fences = re.findall(r"(?m)^``` *\S*.*$", rest)
    wrong = [line for line in fences if "python" in line] or fences[-1:] * (
        len(fences) % 2
    )
    if wrong:
        raise BuildError(
            f"{source}: a fence that is no cell, or is not closed: {wrong[0]}"
        )


def first_cells(source: Path, text: str) -> Iterator[tuple[str, str]]:
    """What stands above the first section, then the cell that finds the code."""
    opening = text.partition("\n## ")[0]
    if FENCE.search(opening):
        raise BuildError(f"{source}: expected a section before the first code")
    yield "markdown", opening.strip()
    names = [
        name
        for kind, content in pieces(text)
        if kind == "source"
        for name in content.split()
    ]
    modules = sorted({name.rpartition(".")[0] for name in names if "." in name})
    shown = [name for name in modules if name.startswith("agentic_rl")]
    yield (
        "code",
        SETUP.format(
            chapter=source.parent.name,
            script=script_of(source).stem,
            borrowed=BORROWED.format(modules=", ".join(shown)) if shown else "",
        ).strip(),
    )


def pieces(text: str) -> Iterator[tuple[str, str]]:
    """(prose, source or run; its content), in order. Sections keep their headings."""
    end = 0
    text = f"## {text}" if not text.startswith("#") else text
    for fence in FENCE.finditer(text):
        yield "prose", text[end : fence.start()]
        yield fence[1], fence[2].strip("\n")
        end = fence.end()
    yield "prose", text[end:]


def script_of(source: Path) -> Path:
    """The chapter's script: the Python file that its folder's README runs."""
    readme = (source.parent / "README.md").read_text(encoding="utf-8")
    found = re.search(rf"python3 examples/{source.parent.name}/(\w+)\.py", readme)
    if found is None:
        raise BuildError(f"{source.parent}: its README runs no script")
    return source.parent / f"{found[1]}.py"


def source_of(name: str, source: Path) -> str:
    """The source of a function, a class or a constant, and where it stands."""
    module, _, item = name.rpartition(".")
    path = ROOT / f"{module.replace('.', '/')}.py" if module else script_of(source)
    if not path.exists():
        raise BuildError(f"{source}: {name}: no file {path.relative_to(ROOT)}")
    lines = path.read_text(encoding="utf-8").splitlines()
    for node in ast.parse("\n".join(lines)).body:
        if item in names_of(node):
            first = min(
                [node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))]
            )
            where = path.relative_to(ROOT).as_posix()
            return "\n".join([f"# {where}", *lines[first - 1 : node.end_lineno]])
    raise BuildError(f"{source}: no {item!r} in {path.relative_to(ROOT)}")


def names_of(node: ast.stmt) -> list[str]:
    """What a statement at the top of a module defines."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    return []


# ------------------------------------------------------------------ cells -> notebook


def build(source: Path, execute: bool) -> str:
    """The notebook as text. Raises BuildError."""
    import nbformat.v4 as v4

    notebook = v4.new_notebook()
    for number, (kind, text) in enumerate(cells(source), 1):
        make = v4.new_code_cell if kind == "code" else v4.new_markdown_cell
        notebook.cells.append(make(text, id=f"cell-{number:02d}"))
    if execute:
        run_cells(notebook, source, source.parent)
    notebook.metadata = METADATA
    return str(v4.writes(notebook)) + "\n"


def run_cells(
    notebook: Any, source: Path, folder: Path, kernel: str = "python3"
) -> None:
    """Fill in the outputs, without what differs from run to run.

    The kernel starts in a folder. Raises BuildError if a cell fails or warns.
    """
    from nbclient import NotebookClient
    from nbclient.exceptions import CellControlSignal, DeadKernelError

    client = NotebookClient(
        notebook,
        extra_arguments=["--log-level=ERROR"],
        kernel_name=kernel,
        timeout=SECONDS,
        resources={"metadata": {"path": str(folder)}},
        record_timing=False,
        coalesce_streams=True,
    )
    try:
        client.execute()
    except (CellControlSignal, DeadKernelError) as error:  # failed, too slow, dead
        raise BuildError(f"{source}: a cell fails:\n{error}") from None
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            if output.get("name") == "stderr":
                raise BuildError(f"{source}: a cell warns: {output['text']}")
        cell.metadata = {}


def main() -> int:
    options = {word for word in sys.argv[1:] if word.startswith("--")}
    names = [word for word in sys.argv[1:] if not word.startswith("--")]
    chapters = sorted(path.parent.name for path in EXAMPLES.glob("*/notebook.md"))
    unknown = sorted(options - {"--no-execute", "--check"}) + [
        name for name in names if name not in chapters
    ]
    if unknown:
        known = f"--no-execute, --check, {', '.join(chapters)}"
        print(f"{unknown[0]!r}: expected some of {known}", file=sys.stderr)
        return 2
    targets = {
        EXAMPLES / chapter / prose: EXAMPLES / chapter / f"{chapter}{ending}.ipynb"
        for chapter in names or chapters
        for ending, prose in SOURCES.items()
    }
    try:
        texts = build_all(list(targets), "--no-execute" not in options)
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped; the notebooks are as they were", file=sys.stderr)
        return 130
    return (compare if "--check" in options else write)(
        dict(zip(targets.values(), texts))
    )


def build_all(sources: list[Path], execute: bool) -> list[str]:
    """The notebooks of some sources, two at a time. Raises BuildError."""
    with ThreadPoolExecutor(2) as pool:  # a thread waits for a kernel of its own
        return list(pool.map(build, sources, [execute] * len(sources)))


def write(texts: dict[Path, str]) -> int:
    """Write the notebooks; the exit status."""
    for target, text in texts.items():
        target.write_text(text, encoding="utf-8", newline="\n")
        print(f"wrote {target.relative_to(ROOT)}")
    return 0


def compare(texts: dict[Path, str]) -> int:
    """Say which of the notebooks that lie here are others; the exit status."""
    stale = [
        target
        for target, text in texts.items()
        if not target.exists() or target.read_text(encoding="utf-8") != text
    ]
    for target in stale:
        print(f"{target.relative_to(ROOT)}: not what its sources make")
    if not stale:
        print("notebooks are up to date")
    return 1 if stale else 0


if __name__ == "__main__":
    enter("notebooks")
    raise SystemExit(main())
