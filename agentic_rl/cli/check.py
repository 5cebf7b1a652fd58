"""``check``: answers to the exercises, graded by what must hold of them."""
# ruff: noqa: RUF001  (the Chinese texts have their own punctuation)

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from agentic_rl.cli import render
from agentic_rl.cli.arguments import (
    Command,
    Operand,
    Option,
    UsageError,
    Values,
    one_of,
    whole,
)
from agentic_rl.cli.storage import FileError, dump
from agentic_rl.cli.terminal import Progress, encoding, paint
from agentic_rl.exercises import CHAPTERS
from agentic_rl.exercises.grading import DONE, FAILED, NOT_YET, Result
from agentic_rl.exercises.isolated import SECONDS, Grade, grade

FOLDER, FILES = "exercises", "chapter_NN.py"
PATTERN = "chapter_[0-9][0-9]*.py"
COLOUR = {DONE: "green", NOT_YET: "yellow", FAILED: "red"}
LABELS = {
    "en": ("it must", "asked", "expected", "came back", "hint", "first"),
    "zh": ("必须", "调用", "应为", "得到", "提示", "先看"),
}
FIRST = {
    "en": "{} above has failed too, and this uses it. Mend that one first and run again; "
    "there may be another fault here.",
    "zh": "上面的 {} 也没有通过，这里用到了它。先改它，再跑一次；这里也可能另有错。",
}
UNREADABLE = {"en": "The file can't be run: ", "zh": "这个文件没法运行："}


def main(values: Values) -> int:
    """Grade the files; the exit status."""
    files = [file for name in values["operands"] for file in named(Path(name))]
    answered = [(file, chapter_of(file)) for file in files or found()]
    grades, progress = [], Progress()
    for file, chapter in answered:
        progress.show(f"grading {file.name}")
        grades.append(grade(file, chapter, values["seconds"]))
        progress.clear()
        if not values["json"]:
            print_grade(grades[-1], values["language"])
    results = [result for one in grades for result in one.results]
    if values["json"]:
        print(dump(as_json(grades, values["language"])))
    else:
        print(f"\n{count(results)}")
    return 0 if all(result.status == DONE for result in results) else 1


# ------------------------------------------------------------------ the files


def named(path: Path) -> list[Path]:
    """The file, or the chapters in the folder. Raises FileError."""
    if path.is_dir():
        files = sorted(path.glob(PATTERN))
        if not files:
            raise FileError(f"{path}: expected files called {FILES}")
        return files
    if not path.exists():
        raise FileError(f"{path}: No such file")
    return [path]


def found() -> list[Path]:
    """The learner's files: in this folder or one above, or where the package stands."""
    package = Path(__file__).resolve().parents[2]
    for folder in (Path.cwd(), *Path.cwd().parents, package):
        if files := sorted((folder / FOLDER).glob(PATTERN)):
            return [shortest(file) for file in files]
    raise UsageError(f"expected FILE: there is no {FOLDER}/{FILES} here or above")


def shortest(path: Path) -> Path:
    """The path from here, if it lies below."""
    try:
        return path.relative_to(Path.cwd())
    except ValueError:
        return path


def chapter_of(path: Path) -> str:
    """The chapter that a file's name names. Raises UsageError."""
    match = re.search(r"chapter_([0-9]+)", path.name)
    if match is None or match[1] not in CHAPTERS:
        names = ", ".join(f"chapter_{chapter}" for chapter in CHAPTERS)
        raise UsageError(f"{path}: expected a name with one of {names} in it")
    return match[1]


def seconds(text: str) -> int:
    """A reader of how long to wait."""
    if (value := whole(1)(text)) > 3600:
        raise ValueError(f"expected a whole number, at most 3600, got {text!r}")
    return value


# ------------------------------------------------------------------ the page


def print_grade(grade: Grade, language: str) -> None:
    """A heading, one line an exercise, and below it what is wrong."""
    print(render.heading(str(grade.path), count(grade.results)))
    if grade.unreadable:
        said = f"{UNREADABLE[language]}{grade.unreadable[language]}"
        print("\n".join(folded(f"{'':<10}", said)))
    about = {exercise.name: exercise.about for exercise in CHAPTERS[grade.chapter]}
    for result in grade.results:
        print("\n".join(verdict(result, about[result.name][language])))
        for line in details(result, language):
            print(line)


def verdict(result: Result, about: str) -> Iterator[str]:
    """How an exercise stands, its name, and what it is about, in lines."""
    first, *others = folded(f"{result.status:<9} {result.name:<20} ", about)
    yield paint(first[:9], COLOUR[result.status]) + first[9:]
    yield from others


def details(result: Result, language: str) -> Iterator[str]:
    """What is wrong, in lines; none if nothing is."""
    if (problem := result.problem) is None:
        return
    texts = [problem.property[language], problem.given, problem.expected, problem.got]
    texts.append(problem.hint[language])
    if result.first:
        texts.append(FIRST[language].format(result.first))
    for label, text in zip(LABELS[language], texts):
        yield from folded(f"{'':<10}{filled(label, 11)}", text)


def count(results: Iterable[Result]) -> str:
    """How many of them are done, and what the others are."""
    statuses = [result.status for result in results]
    told = [f"{statuses.count(DONE)} of {len(statuses)} done"]
    for status in (FAILED, NOT_YET):
        if status in statuses:
            told.append(f"{statuses.count(status)} {status}")
    return ", ".join(told)


def as_json(grades: Sequence[Grade], language: str) -> dict[str, Any]:
    """All of it for another program."""
    results = [result for one in grades for result in one.results]
    return {
        "exercises": len(results),
        "done": sum(result.status == DONE for result in results),
        "files": [
            {
                "file": str(grade.path),
                "chapter": grade.chapter,
                "unreadable": grade.unreadable and grade.unreadable[language],
                "results": [_result(result, language) for result in grade.results],
            }
            for grade in grades
        ],
    }


def _result(result: Result, language: str) -> dict[str, Any]:
    told: dict[str, Any] = {"name": result.name, "status": result.status}
    if problem := result.problem:
        told |= problem._asdict()
        told |= {"property": problem.property[language], "hint": problem.hint[language]}
    if result.first:
        told["first"] = result.first
    return told


# ------------------------------------------------------------------ lines of both languages

# A word with the punctuation behind it, or one Chinese character with that around it.
_WIDE = r"\u2e80-\u2fff\u3040-\u9fff\uac00-\ud7a3\uff21-\uff5a"
_OPENS, _CLOSES = (
    "\uff08\u300a\u201c",
    "\uff0c\u3002\uff1b\uff1a\u3001\uff1f\uff09\u300b\u201d",
)
_PIECE = re.compile(
    rf"[{_OPENS}]*(?:[{_WIDE}]|[^\s{_WIDE}{_OPENS}{_CLOSES}]+)?[{_CLOSES}]*"
    r"[ ]*"
)


def columns(text: str) -> int:
    """How wide a text is; what some terminals draw wide counts as wide."""
    return sum(1 + (unicodedata.east_asian_width(c) in "WFA") for c in text)


def printable(text: str) -> str:
    """The text as it can be shown here."""
    return "".join(map(render.readable(encoding()), text))


def filled(text: str, width: int) -> str:
    """The text, and spaces up to the width; at least one."""
    shown = printable(text)
    return shown + " " * max(width - columns(shown), 1)


def folded(label: str, text: str) -> Iterator[str]:
    """The text beside its label. A line may end between two Chinese characters, but none
    begins with a comma."""
    indent = columns(label)
    room = render.WIDTH - indent
    line = ""
    for piece in _pieces(printable(text), room):
        if line and columns(line + piece.rstrip()) > room:
            yield f"{label}{line}".rstrip()
            label, line = " " * indent, ""
        line += piece
    yield f"{label}{line}".rstrip()


def _pieces(text: str, room: int) -> Iterator[str]:
    """What stays together on a line; none is wider than there is room."""
    for piece in _PIECE.findall(text):
        while columns(piece.rstrip()) > room:
            most = room if piece.isascii() else room // 2
            yield piece[:most]
            piece = piece[most:]
        yield piece


COMMAND = Command(
    "check",
    "answers to the exercises, graded",
    "Grade what has been filled in: one line an exercise, done, not yet or failed. Below a "
    "failed one stand the property that does not hold, the call that shows it, what was "
    "expected, what came back, and a hint; and, if it uses one above that has failed too, "
    "which one to mend first.\n\n"
    "Each file runs in a process of its own, so it may hang, crash or print. Its name says "
    "which chapter it answers: chapter_00.py, my_chapter_00.py. The exit status is 0 if all "
    "of the exercises are done, and 1 if not.",
    main,
    Operand(
        "FILE",
        f"answers, or a folder of them; {FOLDER}/{FILES} by default",
        0,
        100,
    ),
    (
        Option(
            "--language", "of properties and hints", one_of("zh", "en"), "zh|en", "en"
        ),
        Option("--seconds", "that an exercise may take", seconds, "SECONDS", SECONDS),
        Option("--json", "print it as JSON"),
    ),
    (
        ("check", "all chapters"),
        ("check exercises/chapter_00.py", "one of them"),
        ("check --language zh", "with properties and hints in Chinese"),
        ("check exercises/solutions", "the solutions"),
    ),
)
