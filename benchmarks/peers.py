"""The same closed loop in NumPy and in PyTorch: the same updates, at what price.

    python3 benchmarks/peers.py            the whole of it, about two minutes
    python3 benchmarks/peers.py --quick    fewer repeats, under half a minute
    ... --check                            exit 1 if an aim below is missed
    ... --write                            keep the ratios in benchmarks/peers.json

Five contestants: this course, and NumPy and PyTorch (eager, on the CPU) both naive, one
decision at a time, and vectorised over the batch. loops/ has one short file for each.
First, each must end at the same logits as ours after the same draws. Then they take
turns, and each time is divided by ours of the same round.

NumPy and PyTorch are installed, pinned, into an environment outside the checkout, and
this program starts itself again in there.
"""

from __future__ import annotations

import json
import math
import platform
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from core import Spread, spread, timed, yes
from environments import LOCKS, python

from agentic_rl.cli import render
from agentic_rl.cli.terminal import Progress, run
from agentic_rl.grpo import Config

RESULTS = HERE / "peers.json"
COMPARED = ("numpy", "torch")
NEEDED = (3, 11)  # by the pinned NumPy
OPTIONS = ("--quick", "--check", "--write")

CLOSE = 1e-9  # between logits that were moved by the same draws
AIMS = {"PyTorch naive": 10.0, "NumPy naive": 2.0}  # times our time, teaching size

TEACHING = Config()
LARGE = Config(updates=3, tasks_per_update=48, group_size=64)
# The second one's queue of tasks is shuffled again in the middle of a batch.
SAME = (
    replace(TEACHING, updates=10),
    replace(TEACHING, updates=2, tasks_per_update=48),
)

PROGRESS = Progress()


class Effort(NamedTuple):
    """Rounds in which all contestants take turns once, and updates at the large size."""

    rounds: int = 11
    large_rounds: int = 5
    large_updates: int = 3
    phase_rounds: int = 7


FULL = Effort()
QUICK = Effort(rounds=3, large_rounds=1, large_updates=1, phase_rounds=2)


# ------------------------------------------------------------------ the environment


def pinned() -> dict[str, str]:
    """name -> the version that the lock file asks for, of what is compared with."""
    lines = LOCKS["peers"].read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if "==" in line)
    return {name: pins[name] for name in COMPARED}


def installed() -> dict[str, str]:
    """name -> the version that this Python would import; "none" if it has none."""
    found = dict.fromkeys(COMPARED, "none")
    for name in COMPARED:
        try:
            # A build's own mark, as in 2.13.0+cpu, is no other version.
            found[name] = metadata.version(name).partition("+")[0]
        except metadata.PackageNotFoundError:
            continue
    return found


def run_in_environment(arguments: Sequence[str]) -> int:
    """Start this program again where the pinned packages are; its exit status."""
    wanted = " and ".join(f"{name} {version}" for name, version in pinned().items())
    if sys.version_info < NEEDED:
        version = platform.python_version()
        print(f"{wanted} need Python 3.11 or newer, this is {version}", file=sys.stderr)
        return 1
    try:
        interpreter = python("peers")
    except subprocess.CalledProcessError:
        print(f"pip could not install {wanted}, see above", file=sys.stderr)
        return 1
    if Path(interpreter) == Path(sys.executable):
        print(f"expected {wanted} here, found {installed()}", file=sys.stderr)
        return 1
    return subprocess.run([interpreter, __file__, *arguments]).returncode


# ------------------------------------------------------------------ the same updates


def show_same() -> bool:
    """Print how far each contestant's logits are from ours; True if none is far."""
    from loops.contestants import differences

    PROGRESS.show("the same draws, the same updates?")
    columns = [differences(config) for config in SAME]
    PROGRESS.clear()
    same = all(far <= CLOSE for column in columns for far in column.values())
    print(render.heading("The same updates", "largest difference of a logit"))
    head = [
        "contestant",
        *(f"{size(config)}, {config.updates} updates" for config in SAME),
    ]
    rows = [
        (name, *(f"{column[name]:.0e}" for column in columns)) for name in columns[0]
    ]
    print(render.table(head, rows))
    print(f"\nafter the same draws, all within {CLOSE:g} of ours: {yes(same)}")
    return same


def size(config: Config) -> str:
    """The shape of an update, in words."""
    return f"{config.tasks_per_update} tasks x {config.group_size}"


# ------------------------------------------------------------------ time

Seconds = dict[str, list[float]]  # contestant -> CPU seconds, one number a round


def measure(config: Config, rounds: int) -> Seconds:
    """All contestants take turns, so a slow minute hits all of them."""
    from loops.contestants import CONTESTANTS

    seconds: Seconds = {name: [] for name in CONTESTANTS}
    for number in range(rounds):
        for name, train in CONTESTANTS.items():
            PROGRESS.show(f"{size(config)}, round {number + 1}: {name}")
            seconds[name].append(timed(partial(train, config)))
    PROGRESS.clear()
    return seconds


def ratios(seconds: Seconds) -> dict[str, Spread]:
    """contestant -> its time divided by ours of the same round."""
    first = next(iter(seconds.values()))
    return {
        name: spread(theirs / ours for theirs, ours in zip(column, first))
        for name, column in seconds.items()
    }


def show_times(title: str, config: Config, rounds: int) -> dict[str, Spread]:
    """Measure and print one size; the ratios."""
    seconds = measure(config, rounds)
    found = ratios(seconds)
    rows = []
    for name, column in seconds.items():
        update = 1000 * statistics.median(column) / config.updates
        rows.append((name, render.number(update, 2), *found[name].shown(2)))
    print(render.heading(title, f"{size(config)} episodes, {config.epochs} steps"))
    head = ("contestant", "ms an update", "x ours: median", "lowest", "highest")
    print(render.table(head, rows))
    print(f"\nrounds: {rounds}; updates in each: {config.updates}")
    return found


def show_phases(config: Config, rounds: int) -> None:
    """Print where the time goes: the lowest of the rounds, in milliseconds an update."""
    from loops.contestants import CONTESTANTS
    from loops.phases import PHASES, phases

    times = {name: dict.fromkeys(PHASES, math.inf) for name in CONTESTANTS}
    for number in range(rounds):
        for name, train in CONTESTANTS.items():
            PROGRESS.show(f"where the time goes, round {number + 1}: {name}")
            for phase, seconds in phases(partial(train, config)).items():
                times[name][phase] = min(times[name][phase], seconds)
    PROGRESS.clear()
    own = {name: spent["sampling"] + spent["update"] for name, spent in times.items()}
    first = next(iter(own.values()))
    rows = [
        (
            name,
            *(_milliseconds(spent[phase] / config.updates) for phase in PHASES),
            render.number(own[name] / first, 2),
        )
        for name, spent in times.items()
    ]
    print(render.heading("Where the time goes", "lowest wall clock, ms an update"))
    print(render.table(("contestant", *PHASES, "x ours"), rows, gap=1))
    print()
    print(
        render.paragraph(
            "Environment (messages, JSON, tools, tokens) and scoring (rewards, "
            "advantages) are this course's Python code in all five. x ours compares "
            "the rest: sampling + update. Only ours keeps a training log (metrics); "
            "its update also checks every number that it is given."
        )
    )


def _milliseconds(seconds: float) -> str:
    return render.number(1000 * seconds, 2) if seconds else "-"


# ------------------------------------------------------------------ all of it


def show_aims(found: dict[str, Spread]) -> bool:
    """Print whether each aim is reached; True if all are."""
    print()
    for name, aim in AIMS.items():
        print(f"{name} takes >= {aim:g} x our time: {yes(found[name].median >= aim)}")
    return all(found[name].median >= aim for name, aim in AIMS.items())


def write(found: dict[str, tuple[Config, dict[str, Spread]]]) -> None:
    """Keep what the documents quote; ratios have two significant digits."""
    record = {
        "versions": {"python": platform.python_version(), **installed()},
        "sizes": {
            title: {
                "tasks_per_update": config.tasks_per_update,
                "group_size": config.group_size,
                "epochs": config.epochs,
                "updates": config.updates,
                "times_ours": {
                    name: {x: float(f"{y:.2g}") for x, y in ratio._asdict().items()}
                    for name, ratio in ratios.items()
                },
            }
            for title, (config, ratios) in found.items()
        },
    }
    text = json.dumps(record, indent=2) + "\n"
    RESULTS.write_text(text, encoding="utf-8", newline="\n")


def compare(arguments: Sequence[str]) -> int:
    """All of it, where NumPy and PyTorch can be imported."""
    import torch

    torch.set_num_threads(1)
    effort = QUICK if "--quick" in arguments else FULL
    versions = ", ".join(f"{name} {version}" for name, version in installed().items())
    print(
        f"{platform.python_implementation()} {platform.python_version()}, {versions} "
        f"on {platform.system()} {platform.machine()}"
    )
    print("CPU seconds of one process; PyTorch with one thread; float64 everywhere.")
    if not show_same():
        return 1
    large = replace(LARGE, updates=effort.large_updates)
    found = {
        "teaching": (TEACHING, show_times("Teaching size", TEACHING, effort.rounds)),
        "64 times": (large, show_times("64 times that", large, effort.large_rounds)),
    }
    show_phases(TEACHING, effort.phase_rounds)
    reached = show_aims(found["teaching"][1])
    if "--write" in arguments:
        write(found)
    return 1 if "--check" in arguments and not reached else 0


def main() -> int:
    arguments = sys.argv[1:]
    if unknown := sorted(set(arguments) - set(OPTIONS)):
        expected = ", ".join(OPTIONS)
        print(f"{unknown[0]!r}: expected some of {expected}", file=sys.stderr)
        return 2
    if installed() != pinned():
        return run_in_environment(arguments)
    return compare(arguments)


if __name__ == "__main__":
    run(main)
