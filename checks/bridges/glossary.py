"""The names that the glossary's tables give for a framework, looked up in its package.

test_NAME_names.py asks this in the environment of each framework.
"""

from __future__ import annotations

import functools
import importlib.util
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("docs/glossary.md", "docs/en/glossary.md")
ENDINGS = (".py", ".yaml")


def names(column: str) -> dict[str, str]:
    """name -> the row's term, from every table that has a column of this framework."""
    found: dict[str, str] = {}
    for page in PAGES:
        place = None
        for line in (ROOT / page).read_text(encoding="utf-8").splitlines():
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if not line.startswith("|"):
                place = None
            elif place is None:
                place = cells.index(column) if column in cells else -1
            elif place > 0:
                for name in re.findall(r"`([^`]+)`", cells[place]):
                    found.setdefault(name, cells[0])
    return found


@functools.cache
def text(*packages: str) -> str:
    """All that installed packages say in code and configuration."""
    pages = []
    for package in packages:
        spec = importlib.util.find_spec(package)
        assert spec is not None and spec.origin, package
        folder = Path(spec.origin).parent
        pages += [
            file.read_text(encoding="utf-8", errors="replace")
            for file in sorted(folder.rglob("*"))
            if file.suffix in ENDINGS
        ]
    return "\n".join(pages)


def missing(column: str, *packages: str) -> dict[str, str]:
    """The names that do not stand in these packages as whole words: name -> term.

    A dotted name is looked for whole, then word by word: config keys are nested, and the
    parts of a log's name are joined when it is written.
    """
    words = set(re.findall(r"\w+", text(*packages)))
    found = {}
    for name, term in names(column).items():
        whole = name.lstrip("-").removesuffix("*")
        if whole not in text(*packages) and not set(re.findall(r"\w+", whole)) <= words:
            found[name] = term
    return found


class Names(unittest.TestCase):
    """The tests of one framework: its column, and the packages whose names it gives."""

    column: str
    packages: tuple[str, ...]

    def test_every_name_of_the_glossary_stands_in_the_package(self):
        self.assertEqual(missing(self.column, *self.packages), {})

    def test_there_are_names(self):
        self.assertGreater(len(names(self.column)), 20)
