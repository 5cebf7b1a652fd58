"""The same bytes from every Python, and one line from those that are too old.

    python3 checks/same_bytes.py                every CPython 3.6 to 3.14 at hand
    python3 checks/same_bytes.py --allow-one    content with a single new one
    python3 checks/same_bytes.py --wasm         and CPython 3.14 as WebAssembly

The last one is Pyodide, which npm installs, pinned, into a cache folder. Its libm is
another one, so it shows whether a last digit of exp() can change what is printed.

On CPython 3.10 to 3.14 the tour and the chapter scripts run under two hash seeds, in
the project's root and in a folder elsewhere. Each must print what the first Python
printed, write nothing to standard error and exit with 0. An older Python must say in one
line what is needed. One line a check; then how many passed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

import pyodide
import pythons
from verdicts import Verdicts

OLDEST, NEEDED, NEWEST = (3, 6), (3, 10), (3, 14)
AT_A_TIME = 2
SECONDS = 300  # after which a program is said to hang

TOUR = ("-m", "agentic_rl")
SCRIPTS = {
    "chapter 00": "examples/00_toy_mdp/toy_policy_update.py",
    "chapter 01": "examples/01_tool_math_agent/tool_math_agent.py",
    "chapter 02": "examples/02_grpo_tool_agent/grpo_tool_agent.py",
}
SLOW = "chapter 02"  # run once a Python
HASH_SEEDS = ("0", "12345")
PLACES = ("root", "elsewhere")
TESTS = ("-m", "unittest", "discover", "-s", "tests")


class Runner(NamedTuple):
    """Something that runs Python programs: a name, a command to add arguments to."""

    name: str
    command: tuple[str, ...]
    version: tuple[int, int]
    plain: bool = False  # knows no options and no place but the root


class Run(NamedTuple):
    """One program under one set of circumstances."""

    program: str
    hash_seed: str = HASH_SEEDS[0]
    place: str = PLACES[0]
    options: tuple[str, ...] = ()

    def __str__(self) -> str:
        options = "".join(f" {option}" for option in self.options)
        return f"{self.program}{options} hashseed {self.hash_seed} {self.place}"


class Printed(NamedTuple):
    """What a program left behind."""

    status: int
    out: bytes
    err: bytes


class Check(NamedTuple):
    """A line of this check's output; no problem means that it passed."""

    name: str
    problem: str | None = None


# ------------------------------------------------------------------ the Pythons at hand


def runners(wasm: bool) -> list[Runner]:
    """Everything that can run the programs; the first one's output is the reference."""
    found = cpythons()
    if wasm:
        found.append(Runner("3.14 wasm", pyodide.command(), (3, 14), plain=True))
    return found


def cpythons() -> list[Runner]:
    """One CPython for each minor version that the course speaks of."""
    return [
        Runner(".".join(map(str, version)), (command,), version)
        for version, command in pythons.cpythons().items()
        if OLDEST <= version <= NEWEST
    ]


# ------------------------------------------------------------------ running


def environment(**added: str) -> dict[str, str]:
    """This environment without what others may have told Python, and then some."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PYTHON")
    }
    return {**kept, **added}


def start(command: Sequence[str], folder: str | Path, **added: str) -> Printed:
    """Run a command to its end, or until its time is over."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment(**added),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired as late:
        return Printed(1, late.stdout or b"", str(late).encode())
    return Printed(done.returncode, done.stdout, done.stderr)


def carry_out(runner: Runner, run: Run, scratch: str) -> Printed:
    """One run. Bytecode is kept apart, so that each Python compiles all files once, and
    once more with its warnings as errors."""
    added = {
        "PYTHONHASHSEED": run.hash_seed,
        "PYTHONPYCACHEPREFIX": str(Path(scratch, runner.name, *run.options)),
    }
    at_home = run.place == "root"
    arguments: tuple[str, ...] = TOUR
    if run.program == "tour":
        if not at_home:
            added["PYTHONPATH"] = str(ROOT)
    else:
        script = SCRIPTS[run.program]
        arguments = (script if at_home else str(ROOT / script),)
    command = (*runner.command, *run.options, *arguments)
    return start(command, ROOT if at_home else scratch, **added)


def runs(runner: Runner, first: bool) -> list[Run]:
    """What one runner runs.

    The slow chapter runs once: under the first circumstances on the first runner, under
    the last ones on the others.
    """
    if runner.plain:
        return [Run(program) for program in ("tour", *SCRIPTS)]
    settled = [(seed, place) for seed in HASH_SEEDS for place in PLACES]
    plan = []
    for program in ("tour", *SCRIPTS):
        here = settled
        if program == SLOW:
            here = settled[:1] if first else settled[-1:]
        plan += [Run(program, seed, place) for seed, place in here]
    return [*plan, Run("tour", options=("-W", "error"))]


# ------------------------------------------------------------------ judging


def problem_of(printed: Printed, expected: bytes) -> str | None:
    """What is wrong with a run, in words; None if nothing is."""
    if printed.status != 0:
        return f"exit status {printed.status}: {last_line(printed.err)}"
    if printed.err:
        return f"standard error: {last_line(printed.err)}"
    if printed.out == expected:
        return None
    found, wanted = printed.out.split(b"\n"), expected.split(b"\n")
    for number, (line, other) in enumerate(zip(found, wanted), 1):
        if line != other:
            return f"line {number}: expected {other!r}, got {line!r}"
    return f"expected {len(wanted) - 1} lines, got {len(found) - 1}"


def last_line(text: bytes) -> str:
    """The last line of what a program said."""
    lines = text.decode(errors="replace").split("\n")
    return next((line for line in reversed(lines) if line.strip()), "nothing said")


def check_old(runner: Runner) -> list[Check]:
    """An old Python: each command ends at once with one line that names 3.10."""
    commands = {
        "tour": TOUR,
        **{name: (script,) for name, script in SCRIPTS.items()},
        "tests": TESTS,
    }
    checks = []
    for name, arguments in commands.items():
        command = (*runner.command, *arguments)
        printed = start(command, ROOT, PYTHONDONTWRITEBYTECODE="1")
        checks.append(Check(f"{runner.name} {name} refused", old_problem(printed)))
    return checks


def old_problem(printed: Printed) -> str | None:
    """What is wrong with how an old Python was turned away."""
    lines = printed.err.decode(errors="replace").splitlines()
    if printed.status == 0:
        return "exit status 0"
    if printed.out:
        return f"standard output: {last_line(printed.out)}"
    if len(lines) != 1 or "Python 3.10" not in lines[0]:
        return f"{len(lines)} lines on standard error: {last_line(printed.err)}"
    return None


def check_new(known: Sequence[Runner]) -> Iterator[Check]:
    """Every run on every runner against what the first one printed."""
    expected: dict[str, bytes] = {}
    pool = ThreadPoolExecutor(AT_A_TIME)
    with tempfile.TemporaryDirectory() as scratch, pool:

        def all_runs(runner: Runner) -> list[tuple[Run, Printed]]:
            plan = runs(runner, first=runner is known[0])
            return [(run, carry_out(runner, run, scratch)) for run in plan]

        for runner, results in zip(known, pool.map(all_runs, known)):
            for run, printed in results:
                page = expected.setdefault(run.program, printed.out)
                yield Check(f"{runner.name} {run}", problem_of(printed, page))


def check_enough(known: Sequence[Runner]) -> Check:
    """One Python alone can't differ from another."""
    names = ", ".join(runner.name for runner in known) or "none"
    enough = len({runner.version for runner in known}) >= 2
    problem = None if enough else "expected two versions or more, or --allow-one"
    return Check(f"Pythons from 3.10 on: {names}", problem)


def all_checks(allow_one: bool, wasm: bool) -> Iterator[Check]:
    found = runners(wasm)
    new = [runner for runner in found if runner.version >= NEEDED]
    old = [runner for runner in found if runner.version < NEEDED]
    if not allow_one:
        yield check_enough(new)
    yield from check_new(new)
    for runner in old:
        yield from check_old(runner)


def main() -> int:
    known = ("--allow-one", "--wasm")
    if unknown := sorted(set(sys.argv[1:]) - set(known)):
        print(f"{unknown[0]!r}: expected {' or '.join(known)}", file=sys.stderr)
        return 2
    options = [option in sys.argv for option in known]
    verdicts = Verdicts()
    for check in all_checks(*options):
        verdicts.add(check.name, [check.problem] if check.problem else [])
    return verdicts.close()


if __name__ == "__main__":
    raise SystemExit(main())
