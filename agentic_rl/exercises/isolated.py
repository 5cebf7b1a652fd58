"""A learner's file, run and graded in a process of its own.

Whatever the file does, to end, to hang, to print, to run out of memory, happens there. The
process writes one line of JSON for each exercise that it has graded; if it ends before the
last one, the exercise it was at has failed, and a new process goes on behind it. What the
file itself has started ends with the process, where a system has process groups.

A function that uses a wrong one is wrong as well, for a reason that its own hints don't
know. The source says who uses whom, so the verdict can say what to mend first.
"""
# ruff: noqa: RUF001  (the Chinese texts have their own punctuation)

from __future__ import annotations

import ast
import faulthandler
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import decode_source
from pathlib import Path
from symtable import SymbolTable, symtable
from types import ModuleType
from typing import Any, NamedTuple

from agentic_rl.exercises import CHAPTERS
from agentic_rl.exercises.grading import (
    DONE,
    FAILED,
    NOT_YET,
    Exercise,
    General,
    Problem,
    Result,
    Text,
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
HERE = "here"  # the folder beside them that the file runs in

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
NO_TEXT = {
    "en": "line {} is not UTF-8. Save the file as UTF-8.",
    "zh": "第 {} 行不是 UTF-8。把文件另存为 UTF-8。",
}
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
    unreadable: Text | None = None


class Unreadable(Exception):
    """A file that can't be run; the argument says why, in both languages."""


Uses = dict[str, list[str]]  # function -> the names of the file that it uses


class Ended(NamedTuple):
    """How a process ended: too late, or by itself; where it was, and its status."""

    too_late: bool
    asked: str
    line: str
    status: int


class Told(NamedTuple):
    """What a process wrote, as far as it is what ``_serve`` writes, and how it ended."""

    uses: Uses
    results: list[Result]
    ended: Ended


def grade(path: Path, chapter: str, seconds: int = SECONDS) -> Grade:
    """Grade a file of answers to the exercises of a chapter."""
    exercises = CHAPTERS[chapter]
    results: list[Result] = []
    used: Uses = {}
    while len(results) < len(exercises):
        try:
            told = _run(path, chapter, len(results), seconds)
        except Unreadable as reason:
            failed = [Result(exercise.name, FAILED) for exercise in exercises]
            return Grade(path, chapter, tuple(failed), reason.args[0])
        used = told.uses
        results += told.results
        if len(results) < len(exercises):
            problem = _cut_short(exercises[len(results)], told.ended, seconds)
            results.append(Result(exercises[len(results)].name, FAILED, problem))
    return Grade(path, chapter, tuple(blamed(results, used)))


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


def uses(text: str) -> Uses:
    """What each function of a file uses of the file, itself or through others."""
    lambdas = _lambdas(ast.parse(text))
    direct: dict[str, set[str]] = {}
    for table in symtable(text, LABEL, "exec").get_children():
        name = table.get_name()
        if name == "lambda":
            name = lambdas.get(table.get_lineno(), name)
        direct[name] = _globals(table)
    return {name: _reached(name, direct) for name in direct}


def _lambdas(tree: ast.Module) -> dict[int, str]:
    """line -> the name that is given to the lambda there: name = lambda ..."""
    found = {}
    for node in tree.body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if isinstance(node.value, ast.Lambda) and isinstance(targets[0], ast.Name):
                found[node.value.lineno] = targets[0].id
    return found


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


def _run(path: Path, chapter: str, first: int, seconds: int) -> Told:
    """What the process did, from the exercise with this number on. Raises Unreadable."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        Path(folder, HERE).mkdir()
        words = [str(path.resolve()), chapter, str(first), str(seconds)]
        command = [sys.executable, "-B", "-X", "utf8", "-m", __name__, *words]
        limit = seconds * (len(CHAPTERS[chapter]) + 2) + 60  # should its own alarm fail
        status = _status(command, Path(folder, HERE), limit)
        told, asked, trace = (_read(Path(folder, name)) for name in WRITTEN)
    main_thread = trace.rpartition("Thread 0x")[2]  # it comes last
    line = re.search(rf'File "{LABEL}", line (\d+)', main_thread)
    ended = Ended(
        too_late=status is None or bool(trace),
        asked=asked,
        line=line[1] if line else "",
        status=status or 0,
    )
    start, *records = [*understood(told)] or [None]
    match start:
        case {"uses": dict(used)} if all(
            isinstance(one, list) for one in used.values()
        ):
            names = [exercise.name for exercise in CHAPTERS[chapter][first:]]
            return Told(used, list(results_in(records, names)), ended)
        case {"unreadable": {"en": str(), "zh": str()} as reason}:
            raise Unreadable(reason)
    said = _said(ended, seconds)
    raise Unreadable({"en": said, "zh": said})


def _status(command: list[str], folder: Path, limit: int) -> int | None:
    """Run a command to its end, and end what it has started; None if it took too long."""
    with _leaving_in_order():
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # nothing on Windows
        )
        try:
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if hasattr(os, "killpg"):
                with suppress(ProcessLookupError, PermissionError):  # none is left
                    os.killpg(process.pid, signal.SIGKILL)
            process.kill()  # nothing if it has ended
            process.wait()


@contextmanager
def _leaving_in_order() -> Iterator[None]:
    """A signal that would end us at once raises SystemExit: ``finally`` gets its turn."""

    def leave(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    changed = []
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number and signal.getsignal(number) == signal.SIG_DFL:
                signal.signal(number, leave)
                changed.append(number)
    try:
        yield
    finally:
        for number in changed:
            signal.signal(number, signal.SIG_DFL)


def understood(told: str) -> Iterator[Any]:
    """The lines of JSON, up to one that is none: the file may have written there too."""
    for line in told.splitlines(True):
        try:
            yield json.loads(line)
        except (ValueError, RecursionError):
            return


def results_in(records: Iterable[Any], names: Iterable[str]) -> Iterator[Result]:
    """The results of these exercises, up to a record that ``_serve`` can't have written."""
    for record, name in zip(records, names):
        match record:
            case [one, str(status), None, ""] if status in (DONE, NOT_YET):
                result = Result(one, status)
            case [
                one,
                status,
                [dict(), str(), str(), str(), dict()] as problem,
                "",
            ] if status == FAILED and all(map(_is_text, (problem[0], problem[4]))):
                result = Result(one, FAILED, Problem(*problem))
            case _:
                return
        if one != name:
            return
        yield result


def _is_text(value: dict[Any, Any]) -> bool:
    return all(isinstance(value.get(language), str) for language in ("en", "zh"))


def _environment() -> dict[str, str]:
    """This environment, in which the same package is found, and sets have one order."""
    package = str(Path(__file__).resolve().parents[2])
    known = os.environ.get("PYTHONPATH")
    paths = os.pathsep.join([package, *([known] if known else [])])
    return {**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": "0"}


def _read(path: Path) -> str:
    """The text of a file, "" if it can't be read."""
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError:
        return ""


# ------------------------------------------------------------------ on the other side


def _serve(path: str, chapter: str, first: str, seconds: str) -> None:
    """Load the file, grade from the exercise with this number on, write lines."""
    _limit_memory()
    above = Path.cwd().parent  # out of the way of what the file writes
    with (
        open(above / WRITTEN[0], "w", encoding="utf-8") as told,
        open(above / WRITTEN[1], "w", encoding="utf-8") as asked,
        open(above / WRITTEN[2], "w", encoding="utf-8") as alarm,
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
        text = decoded(path.read_bytes())
        module = _load(path, text)
        used = uses(text)
    except Unreadable as reason:
        yield {"unreadable": reason.args[0]}
        return
    except BaseException as error:  # SystemExit, KeyboardInterrupt: whatever it is
        said = described(error, LABEL)
        if isinstance(error, SyntaxError):
            where = f" in line {error.lineno}" if error.lineno else ""
            said = f"{type(error).__name__}{where}: {error.msg}"
        yield {"unreadable": {"en": said, "zh": said}}
        return
    yield {"uses": used}
    for exercise in CHAPTERS[chapter][first:]:
        function = getattr(module, exercise.name, None)
        if callable(function):
            yield judge(exercise, function, watch)
        else:
            yield _missing(exercise, function)


def decoded(source: bytes) -> str:
    """The text of a file, in the encoding that it names. Raises Unreadable."""
    try:
        return decode_source(source)
    except (SyntaxError, UnicodeDecodeError):
        try:
            source.decode("utf-8")
        except UnicodeDecodeError as error:
            line = source.count(b"\n", 0, error.start) + 1
            said = {name: text.format(line) for name, text in NO_TEXT.items()}
            raise Unreadable(said) from None
        raise


def _load(path: Path, text: str) -> ModuleType:
    """Run the file as a module: from its source, so that nothing stale is read."""
    module = ModuleType(MODULE)
    module.__file__ = str(path)
    sys.modules[MODULE] = module  # dataclasses look there
    sys.path.append(str(path.parent))  # last, so that no module of Python's is hidden
    exec(compile(text, LABEL, "exec", dont_inherit=True), module.__dict__)
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
