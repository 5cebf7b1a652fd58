"""A learner's file, run and graded in a process of its own.

Whatever the file does, to end, to hang, to print, to run out of memory, happens there. The
process writes one line of JSON for each exercise that it has graded; if it ends before the
last one, the exercise it was at has failed, and a new process goes on behind it.

A function that uses a wrong one is wrong as well, for a reason that its own hints don't
know. The source says who uses whom, so the verdict can say what to mend first.
"""
# ruff: noqa: RUF001  (the Chinese texts have their own punctuation)

from __future__ import annotations

import faulthandler
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from importlib.util import decode_source
from pathlib import Path
from symtable import SymbolTable, symtable
from types import ModuleType
from typing import Any, NamedTuple

from agentic_rl.exercises import CHAPTERS
from agentic_rl.exercises.grading import (
    FAILED,
    Exercise,
    General,
    Problem,
    Result,
    Watch,
    described,
    judge,
    shown,
)

SECONDS = 10  # that loading the file, and each exercise, may take
ROOM = 2 << 30  # bytes of memory for the process, where a system lets us say so
LABEL = "<answers>"  # the name of the file in tracebacks
MODULE = "answers"  # the name of the module that the file becomes
# What the process writes: results; the call that it is at; where it was when time was up.
WRITTEN = ("told", "asked", "alarm")

ENDS = General(
    {"en": "come to an end", "zh": "有结束的时候"},
    {
        "en": "Some loop or recursion never gets there. What changes from one pass to the "
        "next, and does it bring the end closer?",
        "zh": "有个循环或递归永远走不到头。每一遍有什么在变，变了之后离结束更近了吗？",
    },
)
LIVES = General(
    {"en": "leave the process alive", "zh": "让进程活着"},
    {
        "en": "Python itself came to an end here. Leave out whatever ends it, and a "
        "recursion that nothing stops.",
        "zh": "Python 进程在这里整个没了。不要去结束它，也不要写没有出口的递归。",
    },
)
MISSING = General(
    {"en": "be there", "zh": "存在"},
    {
        "en": "Keep the name and the arguments of each function as they were given.",
        "zh": "函数的名字和参数都保持原样。",
    },
)


class Grade(NamedTuple):
    """What became of a file; ``unreadable`` says why it could not be run at all."""

    path: Path
    chapter: str
    results: tuple[Result, ...]
    unreadable: str | None = None


Uses = dict[str, list[str]]  # function -> the names of the file that it uses


class Ended(NamedTuple):
    """How a process ended: too late, or by itself; where it was, and its status."""

    too_late: bool
    asked: str
    line: str
    status: int


def grade(path: Path, chapter: str, seconds: int = SECONDS) -> Grade:
    """Grade a file of answers to the exercises of a chapter."""
    exercises = CHAPTERS[chapter]
    results: list[Result] = []
    used: Uses = {}
    while len(results) < len(exercises):
        told, ended = _run(path, chapter, len(results), seconds)
        if not told:
            return _unreadable(path, chapter, _said(ended, seconds))
        if isinstance(told[0], str):
            return _unreadable(path, chapter, told[0])
        used = told[0]
        results += map(_result, told[1:])
        if len(results) < len(exercises):
            problem = _cut_short(exercises[len(results)], ended, seconds)
            results.append(Result(exercises[len(results)].name, FAILED, problem))
    return Grade(path, chapter, tuple(blamed(results, used)))


def _unreadable(path: Path, chapter: str, reason: str) -> Grade:
    failed = [Result(exercise.name, FAILED) for exercise in CHAPTERS[chapter]]
    return Grade(path, chapter, tuple(failed), reason)


def _result(record: Any) -> Result:
    """The result that ``_serve`` wrote down."""
    name, status, problem, _ = record
    return Result(name, status, problem and Problem(*problem))


def _cut_short(exercise: Exercise, ended: Ended, seconds: int) -> Problem:
    name, hint = ENDS if ended.too_late else LIVES
    asked, expected = ended.asked or exercise.name, exercise.gives.name
    return Problem(name, asked, expected, _said(ended, seconds), hint)


def _said(ended: Ended, seconds: int) -> str:
    where = f", at line {ended.line}" if ended.line else ""
    if ended.too_late:
        return f"nothing within {seconds} s{where}"
    return f"the end of the process, with status {ended.status}"


def blamed(results: Iterable[Result], used: Uses) -> Iterator[Result]:
    """The results; a failed one that uses a failed one above says so."""
    failed: list[str] = []
    for result in results:
        if result.status == FAILED:
            above = [name for name in failed if name in used.get(result.name, ())]
            failed.append(result.name)
            result = result._replace(first=above[0] if above else "")
        yield result


# ------------------------------------------------------------------ who uses whom


def uses(source: bytes) -> Uses:
    """What each function of a file uses of the file, itself or through others."""
    tables = symtable(decode_source(source), LABEL, "exec").get_children()
    direct = {table.get_name(): _globals(table) for table in tables}
    return {name: _reached(name, direct) for name in direct}


def _globals(table: SymbolTable) -> set[str]:
    """The names from outside of a function that it, or one inside of it, reads."""
    names = {one.get_name() for one in table.get_symbols() if one.is_global()}
    return names.union(*map(_globals, table.get_children()))


def _reached(name: str, direct: dict[str, set[str]]) -> list[str]:
    found: set[str] = set()
    ahead = [name]
    while ahead:
        new = direct.get(ahead.pop(), set()) - found
        found |= new
        ahead += new
    return sorted(found & set(direct))


# ------------------------------------------------------------------ on this side


def _run(path: Path, chapter: str, first: int, seconds: int) -> tuple[list[Any], Ended]:
    """(what the process wrote, how it ended), from the exercise with this number on."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        words = [str(path.resolve()), chapter, str(first), str(seconds)]
        command = [sys.executable, "-B", "-X", "utf8", "-m", __name__, *words]
        limit = seconds * (len(CHAPTERS[chapter]) + 2) + 60  # should its own alarm fail
        try:
            status = subprocess.run(
                command,
                cwd=folder,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=limit,
            ).returncode
        except subprocess.TimeoutExpired:
            status = None
        told, asked, trace = (_read(Path(folder, name)) for name in WRITTEN)
    main_thread = trace.rpartition("Thread 0x")[2]  # it comes last
    line = re.search(rf'File "{LABEL}", line (\d+)', main_thread)
    ended = Ended(
        too_late=status is None or bool(trace),
        asked=asked,
        line=line[1] if line else "",
        status=status or 0,
    )
    whole = [line for line in told.splitlines(True) if line.endswith("\n")]
    return [json.loads(line) for line in whole], ended


def _environment() -> dict[str, str]:
    """This environment, in which the same package is found, and sets have one order."""
    package = str(Path(__file__).resolve().parents[2])
    known = os.environ.get("PYTHONPATH")
    paths = os.pathsep.join([package, *([known] if known else [])])
    return {**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": "0"}


def _read(path: Path) -> str:
    """The text of a file, "" if it isn't there."""
    return path.read_text("utf-8", errors="replace") if path.exists() else ""


# ------------------------------------------------------------------ on the other side


def _serve(path: str, chapter: str, first: str, seconds: str) -> None:
    """Load the file, grade from the exercise with this number on, write lines."""
    _limit_memory()
    with (
        open(WRITTEN[0], "w", encoding="utf-8") as told,
        open(WRITTEN[1], "w", encoding="utf-8") as asked,
        open(WRITTEN[2], "w", encoding="utf-8") as alarm,
    ):

        def watch(call: str) -> None:
            asked.seek(0)
            asked.truncate()
            asked.write(call)
            asked.flush()

        def wait() -> None:  # needs no signal: a thread says where Python is, and exits
            faulthandler.dump_traceback_later(int(seconds), exit=True, file=alarm)

        wait()
        for record in _records(Path(path), chapter, int(first), watch):
            told.write(json.dumps(record) + "\n")
            told.flush()
            wait()
        os._exit(0)  # whatever threads the file has started


def _records(path: Path, chapter: str, first: int, watch: Watch) -> Iterator[Any]:
    """Who uses whom, once the file is loaded, or why it can't be; then the results."""
    try:
        source = path.read_bytes()
        module = _load(path, source)
    except SyntaxError as error:
        where = f" in line {error.lineno}" if error.lineno else ""
        yield f"{type(error).__name__}{where}: {error.msg}"
        return
    except (Exception, SystemExit) as error:
        yield described(error, LABEL)
        return
    yield uses(source)
    for exercise in CHAPTERS[chapter][first:]:
        function = getattr(module, exercise.name, None)
        if callable(function):
            yield judge(exercise, function, watch)
        else:
            yield _missing(exercise, function)


def _load(path: Path, source: bytes) -> ModuleType:
    """Run the file as a module: from its source, so that nothing stale is read."""
    module = ModuleType(MODULE)
    module.__file__ = str(path)
    sys.modules[MODULE] = module  # dataclasses look there
    sys.path.append(str(path.parent))  # last, so that no module of Python's is hidden
    exec(compile(source, LABEL, "exec", dont_inherit=True), module.__dict__)
    return module


def _missing(exercise: Exercise, found: Any) -> Result:
    got = "nothing of this name" if found is None else shown(found)
    expected = f"a function {exercise.name}"
    problem = Problem(MISSING.name, exercise.name, expected, got, MISSING.hint)
    return Result(exercise.name, FAILED, problem)


def _limit_memory() -> None:
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (ROOM, ROOM))
    except (ImportError, ValueError, OSError):
        pass  # Windows, or a system with a limit of its own


if __name__ == "__main__":
    _serve(*sys.argv[1:])
