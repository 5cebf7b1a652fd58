"""How the tests read a page of prose: its code, tables, links and numbers."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
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


def read(path: Path) -> str:
    """The text of a page."""
    return path.read_text(encoding="utf-8")


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
