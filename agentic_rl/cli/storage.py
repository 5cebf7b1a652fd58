"""Files: the data that ships, JSON lines of any size, and writing that leaves no halves."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from agentic_rl.messages import MessageError, parse_json
from agentic_rl.tasks import Task, TaskError, read_tasks
from agentic_rl.tool_math import check_fair

DATA = Path(__file__).resolve().parents[1] / "data"
TRAINING, HELD_OUT = DATA / "train.jsonl", DATA / "held_out.jsonl"
PART = ".part"  # ends the name of a file that is being written
MAX_LINE = 1 << 24  # bytes; a longer line is bad, and is never held in memory
MAX_REASONS = 10  # of bad lines, that are kept
MAX_RANGES = 100  # of bad lines

Read = TypeVar("Read")


class FileError(ValueError):
    """A file that can't be used; the text names the file, and where in it."""


def load(name: str) -> Any:
    """The contents of a JSON file in data/."""
    return json.loads((DATA / name).read_text(encoding="utf-8"))


# ------------------------------------------------------------------ reading


def read_text(path: Path) -> str:
    """A whole file as text. Raises FileError."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise FileError(f"{path}: expected UTF-8 text") from None


def read_json(path: Path) -> Any:
    """A whole file as JSON. Raises FileError."""
    try:
        return parse_json(read_text(path))
    except MessageError as error:
        raise FileError(f"{path}: {error}") from None


def load_tasks(path: Path) -> list[Task]:
    """A reader's own tasks. Raises FileError, naming file, line and field."""
    try:
        tasks = read_tasks(read_text(path).split("\n"), str(path))
    except TaskError as error:
        raise FileError(str(error)) from None
    try:
        for task in tasks:
            check_fair(task)
    except TaskError as error:
        raise FileError(f"{path}: {error}") from None
    return tasks


class BadLines:
    """How many lines could not be used, and which; the memory it takes is bounded."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0
        self.lines = 0  # that were read, good ones too
        self._last = ""
        self.reasons: list[str] = []
        self.ranges: list[
            list[int]
        ] = []  # [first, last] of lines that follow each other

    def add(self, line: int, reason: str) -> None:
        """One more bad line. A reason is kept once while it repeats itself."""
        self.count += 1
        if len(self.reasons) < MAX_REASONS and reason != self._last:
            self.reasons.append(f"{self.path}:{line}: {reason}")
        self._last = reason
        if self.ranges and self.ranges[-1][1] == line - 1:
            self.ranges[-1][1] = line
        elif len(self.ranges) < MAX_RANGES:
            self.ranges.append([line, line])

    def summary(self) -> str:
        """All of it in words."""
        shown = [
            str(first) if first == last else f"{first}-{last}"
            for first, last in self.ranges
        ]
        listed = sum(last - first + 1 for first, last in self.ranges)
        more = f" and {self.count - listed} later ones" if listed < self.count else ""
        which = f"{self.count} of {self.lines} lines bad: {', '.join(shown)}{more}"
        folded = textwrap.fill(f"{self.path}: {which}", 80, break_long_words=False)
        return "\n".join([*self.reasons, folded])


def stream(
    path: Path,
    read: Callable[[Any], Read],
    bad: BadLines,
    first: int = 1,
    last: int | None = None,
) -> Iterator[tuple[int, Read | None]]:
    """(line number, what ``read`` makes of its JSON, or None) of each line not blank.

    One line at a time is in memory; those before ``first`` are passed over, those after
    ``last`` are not looked at. A line that is no JSON, or that ``read`` refuses with a
    ValueError, is noted in ``bad``. The path "-" is standard input. Raises FileError if
    the file can't be read.
    """
    try:
        with _opened(path) as file:
            number = 0
            while number != last and (line := file.readline(MAX_LINE)):
                number += 1
                bad.lines = number
                if line.strip() and number >= first:
                    try:
                        value = read(_parsed(line))
                    except ValueError as error:
                        bad.add(number, str(error))
                        value = None
                    yield number, value
                while not line.endswith(b"\n") and line:
                    line = file.readline(MAX_LINE)
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from None


def _opened(path: Path) -> AbstractContextManager[BinaryIO]:
    if str(path) == "-":
        return nullcontext(sys.stdin.buffer)
    return path.open("rb")


def _parsed(line: bytes) -> Any:
    if len(line) >= MAX_LINE and not line.endswith(b"\n"):
        raise FileError(f"longer than {MAX_LINE} bytes")
    try:
        return parse_json(line.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise FileError("not UTF-8 text") from None


# ------------------------------------------------------------------ writing


def write(path: Path, text: str) -> None:
    """Write beside, then rename: the old contents or the new, never a part of them.

    Raises FileError.
    """
    beside = path.with_name(path.name + PART)
    try:
        with beside.open("w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        os.replace(beside, path)
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from None


def dump(value: Any, indent: int | None = None) -> str:
    """JSON, on one line unless indented. Text of any language stays readable."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair can only be escaped
        return json.dumps(value, allow_nan=False, indent=indent)
    return text
