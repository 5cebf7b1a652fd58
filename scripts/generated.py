"""Pages that a script makes: a Markdown table, and writing a page or saying it is stale."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [f"| {' | '.join(row)} |" for row in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def keep(pages: Mapping[Path, str], check: bool, stale: str) -> int:
    """Write each page that is not this text; with ``check`` only say so. The exit status.

    stale   what is wrong with a page that is not
    """
    changed = [
        path
        for path, text in pages.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    for path in changed:
        if not check:
            path.write_text(pages[path], encoding="utf-8", newline="\n")
        name = path.relative_to(ROOT)
        print(f"{name}: {stale}" if check else f"wrote {name}")
    return 1 if check and changed else 0
