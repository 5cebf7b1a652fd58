"""The prose of a notebook -> its cells.

In ``examples/NN_name/notebook.md`` and ``notebook.en.md`` a fence says what becomes a
code cell:

    ```python source              the source of functions and classes, by their names, from
    agentic_rl.policy.pick        the package or from the chapter's script
    ```
    ```python run                 these lines
    show_world()
    ```
    ```python measured            these lines, whose output is of the machine that ran them:
    train()                       a time, or what follows from the last digits of float32
    ```
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(
    r"^```python (source|run|measured)\n(.*?)^```$\n?", re.DOTALL | re.MULTILINE
)
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


def cells(source: Path) -> Iterator[tuple[str, str]]:
    """(markdown, code or measured; its text) of each cell, in order."""
    try:
        text = source.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BuildError(f"{source}: {error}") from None
    check_prose(source, text)
    yield from first_cells(source, text)
    for kind, content in pieces(text.partition("\n## ")[2]):
        if kind in ("run", "measured"):
            yield "code" if kind == "run" else kind, content
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
    """(prose or the kind of a fence; its content), in order. Sections keep their headings."""
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
