"""One property in a process of its own: hypothesis draws, the parent watches.

The process writes each input where the parent can read it, and sets a timer on its own
CPU time. A hang, even inside one long C call, ends the process by the timer's signal; so
does a crash of the interpreter. The parent then still knows the input.
"""

from __future__ import annotations

import mmap
import multiprocessing
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis.strategies import binary

from fuzzing.mutation import ROW, Numbers, Source, show

SECONDS = 2  # of CPU time, for one input
AT_A_TIME = 2  # processes
ROOM = 1 << 20  # bytes in which the parent finds the current input

Holds = Callable[
    [Any], str
]  # what became of an input; raises if the property is broken


class Property(NamedTuple):
    """What must hold of every input, and every outcome that must come up."""

    name: str
    inputs: Source
    share: int  # of all examples
    outcomes: tuple[str, ...]
    holds: Holds


class Found(NamedTuple):
    """What a run of a property found; no problem means that it held."""

    name: str
    mutated: int = 0  # inputs, each counted once
    outcomes: tuple[tuple[str, int], ...] = ()
    missing: tuple[str, ...] = ()  # outcomes that never came up
    problem: str | None = None
    input: str | None = None  # the smallest that was found


PROPERTIES: list[Property] = []


def fuzzed(
    name: str, inputs: Source, share: int, outcomes: tuple[str, ...]
) -> Callable[[Holds], Holds]:
    """Register a function as a property."""

    def register(holds: Holds) -> Holds:
        PROPERTIES.append(Property(name, inputs, share, outcomes, holds))
        return holds

    return register


def refused(error: Exception) -> str:
    """The outcome of an input that the core refuses in words, on one short line."""
    text = str(error)
    assert text.strip() and len(text.splitlines()) == 1, f"the error says {text!r}"
    assert len(text) <= 500, f"the error has {len(text)} characters"
    return "refused"


# ------------------------------------------------------------------- the parent


def run(examples: int, number: int) -> Iterator[Found]:
    """Every property's result, in order; ``number`` is the seed of all draws."""
    total = sum(one.share for one in PROPERTIES)
    waiting = list(PROPERTIES)
    running: list[_Worker] = []
    done: dict[str, Found] = {}
    for one in PROPERTIES:
        while one.name not in done:
            while waiting and len(running) < AT_A_TIME:
                following = waiting.pop(0)
                count = max(1, examples * following.share // total)
                running.append(_Worker(following, count, number))
            ended = wait([worker.process.sentinel for worker in running])
            for worker in [w for w in running if w.process.sentinel in ended]:
                running.remove(worker)
                done[worker.one.name] = worker.result()
        yield done[one.name]


class _Worker:
    """A process that runs one property, seen from the parent."""

    def __init__(self, one: Property, examples: int, number: int):
        fork = multiprocessing.get_context("fork")
        self.one = one
        self.page = mmap.mmap(-1, ROOM)  # shared with the child
        self.here, there = fork.Pipe(duplex=False)
        arguments = (one, examples, number, there, self.page)
        self.process = fork.Process(target=_child, args=arguments, daemon=True)
        self.process.start()
        there.close()

    def result(self) -> Found:
        """What the process sent before it ended, or how it ended."""
        self.process.join()
        status = self.process.exitcode
        if status == 0:
            found: Found = self.here.recv()
            return found
        how = f"the process ended with status {status}"
        if status == -signal.SIGPROF:
            how = f"no end after {SECONDS} seconds of CPU time"
        return Found(self.one.name, problem=how, input=_Watch(self.page).shown())


# -------------------------------------------------------------------- the child


class _Watch:
    """The input under test, on a page that the parent sees, and the timer on it."""

    SIZE = 8  # bytes that say how long the input is

    def __init__(self, page: mmap.mmap):
        self.page = page

    def start(self, shown: str) -> None:
        """Show an input, and end the process if it takes too long."""
        text = shown.encode()[: ROOM - self.SIZE]
        self.page[: self.SIZE] = len(text).to_bytes(self.SIZE, "big")
        self.page[self.SIZE : self.SIZE + len(text)] = text
        signal.setitimer(signal.ITIMER_PROF, SECONDS)

    def stop(self) -> None:
        """The input came to an end."""
        signal.setitimer(signal.ITIMER_PROF, 0)

    def shown(self) -> str:
        """The input that was shown last."""
        size = int.from_bytes(self.page[: self.SIZE], "big")
        return self.page[self.SIZE : self.SIZE + size].decode()


def _child(
    one: Property, examples: int, number: int, there: Connection, page: mmap.mmap
) -> None:
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # which ends the process
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it then
    there.send(_hunt(one, examples, number, _Watch(page)))


def _hunt(one: Property, examples: int, number: int, watch: _Watch) -> Found:
    """Let hypothesis draw examples; the first that fails is made smaller."""
    seen: set[int] = set()
    outcomes: Counter[str] = Counter()
    failing: list[tuple[str, str]] = []
    mutated = 0

    @seed(number)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
        report_multiple_bugs=False,
        print_blob=False,
    )
    @given(binary(min_size=ROW, max_size=ROW))
    def test(row: bytes) -> None:
        nonlocal mutated
        case = one.inputs(Numbers(row))
        shown = show(case.value)
        watch.start(shown)
        try:
            outcome = one.holds(case.value)
        except Exception as error:
            failing.append((f"{type(error).__name__}: {error}", shown))
            raise
        finally:
            watch.stop()
        if (key := hash(shown)) not in seen:
            seen.add(key)
            outcomes[outcome] += 1
            mutated += case.mutated

    problem = smallest = None
    try:
        test()
    except Exception as error:
        # The last failure is the smallest one; none means that hypothesis itself failed.
        problem, smallest = failing[-1] if failing else (repr(error), None)
    missing = tuple(outcome for outcome in one.outcomes if not outcomes[outcome])
    counts = tuple(sorted(outcomes.items()))
    return Found(one.name, mutated, counts, missing, problem, smallest)
