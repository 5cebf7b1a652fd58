"""How the tests read a page of prose: its code, tables, links and numbers."""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
NAMES = ("README.md", "README.en.md")

CODE = re.compile(r"^```[a-z]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"\d+\.\d+")
VERSION = re.compile(r"Python \d+\.\d+|\b\d+\.\d+\.\d+\b|arXiv:? ?\d{4}\.\d{5}")
SECTION = re.compile(r"\b0\d\.\d+\b")
MACHINE = re.compile(r"/(?:home|root|Users|tmp|work|mnt|opt|usr)\b|[A-Z]:\\|~/|file://")
FULL_WIDTH = re.compile(r"[\u3000-\u303f\uff00-\uffef]")
DISPLAYED = re.compile(r"^\$\$\n(.*?)^\$\$$", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"(?<![\\$])\$([^$\n]+)\$(?!\$)")
NO_BACKTICKS = re.compile(r"`[^`\n]*`")
HAN = re.compile(r"[\u4e00-\u9fff]")
# 0.5 / 0.4690 = 1.0660, where it doesn't go on to the left
SUM = re.compile(
    r"(?<![-\w(+*/^=,.])(?<![+*/^-] )(?<!log )[-(]*\d[-+*/=().\d ]* = [-+*/=().\d ]*\d"
)
ANCHOR = re.compile(r'<a id="([\w-]+)"></a>')


def read(path: Path) -> str:
    """The text of a page."""
    return path.read_text(encoding="utf-8")


def notebook_cells(path: Path, kind: str) -> list[str]:
    """The texts of a notebook's cells of one kind, in order."""
    found = [c for c in json.loads(read(path))["cells"] if c["cell_type"] == kind]
    return ["".join(cell["source"]) for cell in found]


def page(path: Path) -> str:
    """What a page says; of a notebook, what stands between its code cells."""
    if path.suffix == ".ipynb":
        return "\n\n".join(notebook_cells(path, "markdown"))
    return read(path)


def is_english(path: Path) -> bool:
    """Whether a page is the English one of two."""
    return ".en." in path.name or path.parent == DOCS / "en"


def twin(path: Path) -> Path | None:
    """The same page in the other language, if there are two."""
    stem, _, ending = path.name.rpartition(".")
    if path.parent == DOCS:
        other = DOCS / "en" / path.name
    elif path.parent == DOCS / "en":
        other = DOCS / path.name
    elif stem.endswith(".en"):
        other = path.with_name(f"{stem[:-3]}.{ending}")
    else:
        other = path.with_name(f"{stem}.en.{ending}")
    return other if other.exists() else None


def both_languages() -> list[tuple[Path, Path]]:
    """(Chinese, English) of every page of the project, its notebooks included."""
    chapters = sorted(x for x in (ROOT / "examples").iterdir() if x.is_dir())
    folders = (ROOT, DOCS, ROOT / "exercises", *chapters)
    files = [
        path
        for folder in folders
        for pattern in ("*.md", "*.ipynb")
        for path in sorted(folder.glob(pattern))
        if path.name != "notebook.md"  # read where it has become a notebook
    ]
    return [
        (path, other)
        for path in files
        if not is_english(path) and (other := twin(path)) is not None
    ]


def code_blocks(text: str) -> list[str]:
    """What stands between the fences."""
    return CODE.findall(text)


def prose(text: str) -> str:
    """The text without its code blocks."""
    return CODE.sub("", text)


def title(text: str) -> str:
    """Which page a failure is about."""
    return text.splitlines()[0]


def headings(text: str) -> list[str]:
    """The marks of the headings: their levels, in order."""
    return re.findall(r"^(#+) ", prose(text), re.MULTILINE)


def tables(text: str) -> list[list[list[str]]]:
    """Each table as rows of cells; the line under the head is left out."""
    found: list[list[list[str]]] = [[]]
    for line in prose(text).splitlines():
        if not line.startswith("|"):
            found.append([])
        elif not re.fullmatch(r"[|:\- ]+", line):
            found[-1].append([cell.strip() for cell in line.strip("|").split("|")])
    return [table for table in found if table]


def shapes(text: str) -> list[list[int]]:
    """Of each table, the number of cells in each row."""
    return [[len(row) for row in table] for table in tables(text)]


def links(text: str) -> list[str]:
    """The targets of the links."""
    return re.findall(r"\]\(([^)]+)\)", text)


def sums(text: str) -> list[str]:
    """What a page's prose works out in numbers alone: 2 + 3 = 5."""
    plain = INLINE.sub("", NO_BACKTICKS.sub("", DISPLAYED.sub("", prose(text))))
    return [
        found for found in SUM.findall(plain) if found.count("(") == found.count(")")
    ]


def target(path: Path, link: str) -> Path:
    """The file that a link of a page leads to; the page itself for an anchor alone."""
    file = link.partition("#")[0]
    return (path.parent / file).resolve() if file else path


def slug(heading: str) -> str:
    """The anchor that a code host gives a heading."""
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower().replace("`", ""))
    return kept.replace(" ", "-")


def anchors(path: Path) -> set[str]:
    """Where a link into a page may lead."""
    text = page(path)
    titles = re.findall(r"^#+ (.*)$", prose(text), re.MULTILINE)
    return {*map(slug, titles), *ANCHOR.findall(text)}


def printed(main: Callable[[], object]) -> str:
    """What a program's main prints."""
    with contextlib.redirect_stdout(io.StringIO()) as page:
        main()
    return page.getvalue()


def values(text: str) -> set[float]:
    """The numbers with a decimal point, without signs; no versions, no section numbers."""
    return {
        float(number)
        for number in NUMBER.findall(SECTION.sub("", VERSION.sub("", text)))
    }


def maths(text: str) -> tuple[list[str], list[str]]:
    """(displayed formulas, inline ones) of a page."""
    plain = prose(text)
    inline = INLINE.findall(NO_BACKTICKS.sub("", DISPLAYED.sub("", plain)))
    return DISPLAYED.findall(plain), inline
