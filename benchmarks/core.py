"""What the course costs: time, memory, growth, and how many updates learning takes.

    python3 benchmarks/core.py            the whole of it, about two minutes
    python3 benchmarks/core.py --quick    fewer repeats, about half a minute
    ... --check                           exit 1 if a limit below is broken

Times are CPU seconds, so other programs on the machine disturb them little. A figure is
the median of repeated runs, with the lowest and the highest beside it.
"""

from __future__ import annotations

import gc
import math
import os
import platform
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from agentic_rl.advantage import group_advantages
from agentic_rl.agent_loop import Limits, run_episode
from agentic_rl.cli import render
from agentic_rl.cli.terminal import Progress, run
from agentic_rl.conventions import COURSE, Convention
from agentic_rl.evaluation import SEEDS, training_tasks
from agentic_rl.grpo import Batch, Config, State, start, train
from agentic_rl.oracle import Outcome, expectation
from agentic_rl.policy import SoftmaxPolicy
from agentic_rl.reward import COURSE_REWARD
from agentic_rl.scripted import ScriptedAgent, follow
from agentic_rl.tasks import Task, kind_of
from agentic_rl.variants import MAX_ASCENT, best_mean, reward_sheets, updates_to

MAX_MEGABYTES = 50  # of 10^6 bytes, the peak of a process; reaching it is too much
MAX_EXPONENT = 1.05  # of time against size: 1 is proportional
MAX_RATIO = 1.5  # leave-one-out against exact ascent, updates to the goal
GOAL = 0.95  # share of the optimum

PROGRESS = Progress()
TASKS = training_tasks()


class Effort(NamedTuple):
    """How often things are repeated, and at which step sizes learning is measured."""

    bare: int = 15
    short: int = 7  # runs of the tour and of chapters 00 and 01
    long: int = 3  # runs of chapter 02
    repeats: int = 5  # of what is timed in this process
    rates: tuple[float, ...] = (2.0, 5.0, 10.0)


FULL = Effort()
QUICK = Effort(bare=5, short=3, long=1, repeats=3, rates=(10.0,))


class Spread(NamedTuple):
    """The median of repeated measurements, the lowest and the highest."""

    median: float
    lowest: float
    highest: float

    def shown(self, digits: int) -> list[str]:
        """The three as text."""
        return [render.number(value, digits) for value in self]


def spread(values: Iterable[float]) -> Spread:
    """The spread of some measurements."""
    known = sorted(values)
    return Spread(statistics.median(known), known[0], known[-1])


def timed(work: Callable[[], object]) -> float:
    """CPU seconds of this process; garbage of the work before is not charged to it."""
    gc.collect()
    before = time.process_time()
    work()
    return time.process_time() - before


# ------------------------------------------------------------------ whole processes

# A child's peak starts at the size of the process that starts it, so a small Python
# without the course in it starts the program and reports what the program used.
LAUNCHER = """
import os, sys
program = os.posix_spawn(sys.executable, [sys.executable] + sys.argv[1:], os.environ)
_, status, used = os.wait4(program, 0)
sys.stderr.write("\\n%r %d" % (used.ru_utime + used.ru_stime, used.ru_maxrss))
sys.exit(status != 0)
"""
PEAK_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes in ru_maxrss
MEASURES_CHILDREN = hasattr(os, "wait4") and hasattr(os, "posix_spawn")


class Program(NamedTuple):
    """What is started, as arguments of this Python, and how many runs are measured."""

    name: str
    arguments: tuple[str, ...]
    runs: int


class Cost(NamedTuple):
    """Of one run: CPU seconds (else wall clock) and peak memory in MB (else None)."""

    seconds: float
    peak: float | None


def programs(effort: Effort) -> list[Program]:
    """The bare interpreter first: what the others are compared with."""
    scripts = (
        ("chapter 00", "examples/00_toy_mdp/toy_policy_update.py", effort.short),
        ("chapter 01", "examples/01_tool_math_agent/tool_math_agent.py", effort.short),
        ("chapter 02", "examples/02_grpo_tool_agent/grpo_tool_agent.py", effort.long),
    )
    return [
        Program("python -c pass", ("-c", "pass"), effort.bare),
        Program("tour", ("-m", "agentic_rl"), effort.short),
        *(Program(name, (script,), runs) for name, script, runs in scripts),
    ]


def cost(arguments: Sequence[str]) -> Cost:
    """Run a program once, from the project's root. RuntimeError if it fails."""
    launch = ("-S", "-c", LAUNCHER) if MEASURES_CHILDREN else ()
    before = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *launch, *arguments],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    wall = time.perf_counter() - before
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)} failed:\n{done.stderr}")
    if not MEASURES_CHILDREN:
        return Cost(wall, None)
    seconds, peak = done.stderr.splitlines()[-1].split()
    return Cost(float(seconds), int(peak) * PEAK_UNIT / 1e6)


def measure_programs(effort: Effort) -> dict[str, list[Cost]]:
    """name -> the cost of each run. They take turns, so a slow minute hits all."""
    known = programs(effort)
    cost(("-m", "agentic_rl"))  # once unmeasured: bytecode is cached, files are read
    costs: dict[str, list[Cost]] = {program.name: [] for program in known}
    for number in range(max(program.runs for program in known)):
        for program in known:
            if number < program.runs:
                PROGRESS.show(f"{program.name}, run {number + 1}")
                costs[program.name].append(cost(program.arguments))
    return costs


def show_programs(costs: dict[str, list[Cost]]) -> bool:
    """Print the table; True if every program stays under the limit of memory."""
    bare = spread(run.seconds for run in next(iter(costs.values()))).median
    rows, peaks = [], []
    for name, runs in costs.items():
        seconds = spread(run.seconds for run in runs)
        known = [run.peak for run in runs if run.peak is not None]
        peak = render.number(max(known), 1) if known else "-"
        peaks += known
        ratio = render.number(seconds.median / bare, 1)
        rows.append((name, str(len(runs)), *seconds.shown(3), ratio, peak))
    clock = "CPU" if MEASURES_CHILDREN else "wall clock"
    print(render.heading("Whole processes", f"{clock} seconds, peak memory in MB"))
    head = ("program", "runs", "median", "lowest", "highest", "x bare", "peak MB")
    print(render.table(head, rows))
    small = all(peak < MAX_MEGABYTES for peak in peaks)
    if peaks:
        print(f"\nhighest peak < {MAX_MEGABYTES} MB: {yes(small)}")
    return small


# ------------------------------------------------------------------ this process


def episodes_a_second(policy: SoftmaxPolicy, episodes: int = 1200) -> float:
    """Messages, JSON, tools, tokens and mask included; the training tasks in turn."""
    rng = random.Random(0)

    def play() -> None:
        for number in range(episodes):
            run_episode(policy, TASKS[number % len(TASKS)], rng)

    return episodes / timed(play)


class Stopwatch:
    """Of a training run: how long it sampled, read where the loop calls back.

    The advantage is called when a batch has been played and scored, on_update when the
    update is done.
    """

    def __init__(self) -> None:
        self.sampling = 0.0
        self.last = time.process_time()

    def advantage(
        self,
        rewards: Sequence[float | None],
        groups: Sequence[int],
        convention: Convention,
    ) -> list[float]:
        """The course's advantage; before it, sampling ends."""
        self.sampling += time.process_time() - self.last
        return group_advantages(rewards, groups, convention)

    def on_update(self, state: State, batch: Batch) -> None:
        """The next update begins, with sampling."""
        self.last = time.process_time()


def training_speed() -> tuple[float, float]:
    """(updates a second, share of the time that is sampling) of the default run."""
    config = Config()
    watch = Stopwatch()
    seconds = timed(lambda: train(TASKS, config))
    gc.collect()
    before = watch.last = time.process_time()
    train(TASKS, config, advantage=watch.advantage, on_update=watch.on_update)
    share = watch.sampling / (time.process_time() - before)
    return config.updates / seconds, share


def show_speed(effort: Effort) -> None:
    PROGRESS.show("episodes and updates a second")
    untrained, trained = start(Config()).policy, train(TASKS, Config()).policy
    measured = [
        (episodes_a_second(untrained), episodes_a_second(trained), *training_speed())
        for _ in range(effort.repeats)
    ]
    names = (
        ("episodes a second, untrained policy", 0),
        ("episodes a second, trained policy", 0),
        ("updates a second, default run", 1),
        ("share of an update spent sampling", 3),
    )
    rows = [
        (name, *spread(column).shown(digits))
        for (name, digits), column in zip(names, zip(*measured))
    ]
    PROGRESS.clear()
    print(render.heading("Episodes and updates", "CPU time"))
    print(render.table(("what", "median", "lowest", "highest"), rows))
    config = Config()
    print(
        f"\nAn update: {config.tasks_per_update} tasks x {config.group_size} episodes, "
        f"{config.epochs} steps. Sampling: playing and scoring."
    )


# ------------------------------------------------------------------ how cost grows

EPISODES = 768  # played at every size, and the same ones: see update_seconds
TURNS = 2048
STILL = 1e-9  # a learning rate that changes no sample
HARD = next(task for task in TASKS if kind_of(task.question) == "hard")


def update_seconds(config: Config) -> float:
    """Seconds of one update of this shape, the mean over all that EPISODES fill.

    The policy stays where it is and there is one task, so the same episodes are drawn
    at every size. What differs is only how many of them make an update.
    """
    updates = EPISODES // (config.tasks_per_update * config.group_size)
    config = replace(config, updates=updates, learning_rate=STILL)
    return timed(lambda: train([HARD], config)) / updates


def group_seconds(size: int) -> float:
    return update_seconds(Config(group_size=size))


def tasks_seconds(size: int) -> float:
    return update_seconds(Config(tasks_per_update=size))


def turns_seconds(turns: int) -> float:
    """Seconds of one episode with exactly this many calls, one a turn."""
    agent = ScriptedAgent("calls", "calls until stopped", follow("call_calculator"))
    limits = Limits(max_turns=turns)
    episodes = TURNS // turns

    def play() -> None:
        for _ in range(episodes):
            agent.run(HARD, limits)

    return timed(play) / episodes


GROWTH: dict[str, tuple[Callable[[int], float], tuple[int, ...]]] = {
    "update, by group size": (group_seconds, (2, 4, 8, 16, 32, 64)),
    "update, by tasks": (tasks_seconds, (2, 4, 8, 16, 32)),
    "episode, by turns": (turns_seconds, (2, 4, 8, 16, 32, 64)),
}


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """b of the least-squares line log(seconds) = a + b log(size)."""
    x, y = [math.log(size) for size in sizes], [math.log(value) for value in seconds]
    middle, level = math.fsum(x) / len(x), math.fsum(y) / len(y)
    across = math.fsum((a - middle) * (b - level) for a, b in zip(x, y))
    return across / math.fsum((a - middle) ** 2 for a in x)


def show_growth(effort: Effort) -> bool:
    """Print times and exponents; True if every exponent is within its limit."""
    times, fits, within = [], [], True
    for name, (measure, sizes) in GROWTH.items():
        PROGRESS.show(name)
        measure(sizes[0])  # once unmeasured
        rounds = [[measure(size) for size in sizes] for _ in range(effort.repeats)]
        spreads = [spread(column) for column in zip(*rounds)]
        for size, seconds in zip(sizes, spreads):
            shown = [render.number(1000 * value, 3) for value in seconds]
            times.append((name, str(size), *shown))
        fastest = [seconds.lowest for seconds in spreads]
        half = len(sizes) // 2
        upper = exponent(sizes[half:], fastest[half:])
        holds = upper <= MAX_EXPONENT
        within = within and holds
        everywhere = render.number(exponent(sizes, fastest), 3)
        fits.append((name, everywhere, render.number(upper, 3), yes(holds)))
    PROGRESS.clear()
    print(render.heading("How cost grows", "CPU milliseconds"))
    print(render.table(("what", "size", "median", "lowest", "highest"), times))
    print()
    head = ("exponent of", "all sizes", "upper half", f"<= {MAX_EXPONENT}")
    print(render.table(head, fits))
    print()
    print(
        render.paragraph(
            "Least squares through the lowest times, on log-log scales. Nothing is "
            "subtracted: a fixed cost makes the exponent over all sizes smaller than "
            "growth is, so the limit holds for the upper half of the sizes, where a "
            "fixed cost weighs least."
        )
    )
    return within


# ------------------------------------------------------------------ updates to the goal

MEAN = COURSE.but(std="none")
ESTIMATORS: dict[str, Convention] = {
    "leave one out": MEAN.but(baseline="leave_one_out"),
    "group mean": MEAN,
    "group mean, std": COURSE,
    "no baseline": MEAN.but(baseline="none"),
}


def updates_to_goal(
    config: Config, tasks: Sequence[Task], sheets: Sequence[list[Outcome]], goal: float
) -> float:
    """Updates until the exact J, the mean over the sheets, is at least ``goal``.

    ``config.updates`` is the most that are made; math.inf if they were not enough. What
    sampling decides is the path; how far it has come is enumerated, not sampled.
    """
    state = start(config)
    while state.update < config.updates:
        train(tasks, replace(config, updates=state.update + 1), state=state)
        values = [expectation(state.policy, sheet) for sheet in sheets]
        if math.fsum(values) / len(values) >= goal:
            return state.update
    return math.inf


def learner(convention: Convention, rate: float, seed: int) -> Config:
    """The default run with one step a batch, and long enough to get there."""
    return Config(
        updates=MAX_ASCENT,
        epochs=1,
        learning_rate=rate,
        seed=seed,
        convention=convention,
    )


def show_learning(effort: Effort) -> None:
    sheets = reward_sheets(COURSE_REWARD, TASKS)
    optimum = best_mean(sheets)
    goal = GOAL * optimum
    columns: list[list[str]] = [["exact ascent", *ESTIMATORS]]
    ratios = {}
    for rate in effort.rates:
        exact = updates_to(GOAL, sheets, rate) or math.inf
        counts, shares = [f"{exact:g}"], ["1.00"]
        for name, convention in ESTIMATORS.items():
            PROGRESS.show(f"{name}, step size {rate:g}")
            found = spread(
                updates_to_goal(learner(convention, rate, seed), TASKS, sheets, goal)
                for seed in SEEDS
            )
            counts.append(f"{found.median:g} ({found.lowest:g}-{found.highest:g})")
            ratios[name, rate] = found.median / exact
            shares.append(f"{ratios[name, rate]:.2f}")
        columns += [counts, shares]
    PROGRESS.clear()
    print(render.heading("Updates to the goal", "exact J, one step a batch"))
    head = ["estimator"]
    for rate in effort.rates:
        head += [f"step {rate:g}", "ratio"]
    print(render.table(head, list(zip(*columns)), gap=1))
    print()
    print(
        render.paragraph(
            f"Updates until J is {100 * GOAL:g} % of its optimum of {optimum:.2f}: the "
            f"median of {len(SEEDS)} seeds (lowest-highest), and the ratio to exact "
            f"ascent at the same step size. An update is {Config().tasks_per_update} "
            f"tasks x {Config().group_size} episodes; inf: not within {MAX_ASCENT}. "
            "Dividing by the std makes steps longer and climbs another objective, so "
            "its ratio is no measure of quality."
        )
    )
    worst = max(ratios["leave one out", rate] for rate in effort.rates)
    print(f"\nleave one out <= {MAX_RATIO} x exact ascent: {yes(worst <= MAX_RATIO)}")


# ------------------------------------------------------------------ all of it


def yes(holds: bool) -> str:
    """A verdict in words."""
    return "yes" if holds else "no"


def main() -> int:
    if unknown := sorted(set(sys.argv[1:]) - {"--quick", "--check"}):
        print(f"{unknown[0]!r}: expected --quick or --check", file=sys.stderr)
        return 2
    effort = QUICK if "--quick" in sys.argv else FULL
    print(
        f"{platform.python_implementation()} {platform.python_version()} on "
        f"{platform.system()} {platform.machine()}; {effort.repeats} repeats"
    )
    costs = measure_programs(effort)
    PROGRESS.clear()
    small = show_programs(costs)
    show_speed(effort)
    within = show_growth(effort)
    show_learning(effort)
    return 1 if "--check" in sys.argv and not (small and within) else 0


if __name__ == "__main__":
    run(main)
