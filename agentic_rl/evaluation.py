"""Before and after, told honestly.

Both are judged with the same decoding: actions are sampled from the policy. Success is
exact, by enumeration, with a sampled figure on held-out tasks beside it; seeds are five,
and their lowest and highest are shown. The policy sees nothing of a task but its kind,
so held-out tasks test the plumbing and not generalisation.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from agentic_rl.agent_loop import Limits, run_episode
from agentic_rl.grpo import Config, start, train
from agentic_rl.oracle import Outcome, expectations, outcomes
from agentic_rl.policy import SoftmaxPolicy
from agentic_rl.reward import COURSE_REWARD, calls, invalid_calls, right
from agentic_rl.scripted import ACTS_WELL
from agentic_rl.tasks import KINDS, Task, generate, kind_of, one_of_each
from agentic_rl.trajectory import Trajectory

SEEDS = (0, 1, 2, 3, 4)
SAMPLES = 300  # episodes a kind, for the sampled figure


class Report(NamedTuple):
    """Means over episodes of one kind of task.

    success     share of right final answers
    calls       calls an episode, invalid ones not among them
    invalid     share of episodes with an invalid call
    reward      the reward of the course: the return of an episode
    """

    success: float
    calls: float
    invalid: float
    reward: float


Sheets = dict[str, list[Outcome]]  # kind -> answer sheet whose values are Reports
ByKind = dict[str, Report]


def training_tasks() -> list[Task]:
    """The tasks that the course trains on: 20 of each kind."""
    return generate(20, seed=0)


def held_out_tasks() -> list[Task]:
    """Other questions, for the sampled figures: 20 of each kind."""
    return generate(20, seed=1, avoid=training_tasks(), prefix="held-out-")


def report(trajectory: Trajectory, task: Task) -> Report:
    """What one episode adds to the means."""
    return Report(
        right(trajectory, task),
        calls(trajectory, task),
        1.0 if invalid_calls(trajectory, task) else 0.0,
        COURSE_REWARD.total(trajectory, task),
    )


def answer_sheets(tasks: Sequence[Task], limits: Limits = Limits()) -> Sheets:
    """One sheet a kind, from the first task of that kind: the others play out alike."""
    first = one_of_each(tasks)
    return {
        kind: outcomes(first[kind], report, limits) for kind in KINDS if kind in first
    }


def exact(policy: SoftmaxPolicy, sheets: Sheets) -> ByKind:
    """The exact report of a policy for each kind."""
    return {
        kind: Report(*expectations(policy, sheet)) for kind, sheet in sheets.items()
    }


def sampled(
    play: Callable[[Task], Trajectory], tasks: Sequence[Task], episodes: int = SAMPLES
) -> ByKind:
    """The mean report of ``episodes`` played episodes a kind, over the tasks in turn."""
    if episodes < 1:
        raise ValueError(f"episodes: expected at least 1, got {episodes}")
    result = {}
    for kind in KINDS:
        ours = [task for task in tasks if kind_of(task.question) == kind]
        if ours:
            turns = (ours[i % len(ours)] for i in range(episodes))
            result[kind] = mean_report(report(play(task), task) for task in turns)
    return result


def sampled_policy(
    policy: SoftmaxPolicy,
    tasks: Sequence[Task],
    seed: int,
    episodes: int = SAMPLES,
    limits: Limits = Limits(),
) -> ByKind:
    """``sampled`` for a policy, with a generator of its own."""
    rng = random.Random(f"evaluation {seed}")
    return sampled(lambda task: run_episode(policy, task, rng, limits), tasks, episodes)


def optimum(sheets: Sheets) -> ByKind:
    """The report of the best episode of each kind, the shortest if several are."""

    def rank(line: Outcome) -> tuple[float, int]:
        return line.value.reward, -sum(count for _, count in line.decisions)

    return {kind: max(sheet, key=rank).value for kind, sheet in sheets.items()}


def mean_report(reports: Iterable[Report]) -> Report:
    """The mean of each column. Raises ValueError if there is no report."""
    columns = [list(column) for column in zip(*reports)]
    if not columns:
        raise ValueError("reports: expected at least one")
    return Report(*(math.fsum(column) / len(column) for column in columns))


# ------------------------------------------------------------------- the honest table


def compute_results(config: Config = Config()) -> dict[str, Any]:
    """Every row of the honest table, as plain data: data/results.json is made of this.

    Each row has "exact" and "sampled" reports by kind; "trained" has a row a seed.
    """
    tasks, others = training_tasks(), held_out_tasks()
    sheets = answer_sheets(tasks)

    def row(policy: SoftmaxPolicy, seed: int) -> dict[str, Any]:
        return {
            "exact": as_dicts(exact(policy, sheets)),
            "sampled": as_dicts(sampled_policy(policy, others, seed)),
        }

    trained = []
    for seed in SEEDS:
        seeded = replace(config, seed=seed)
        trained.append({"seed": seed, **row(train(tasks, seeded).policy, seed)})
    scripted = as_dicts(sampled(ACTS_WELL.run, others, len(others)))
    return {
        "untrained": row(start(config).policy, 0),
        "scripted": {"exact": scripted, "sampled": scripted},
        "trained": trained,
        "optimum": {"exact": as_dicts(optimum(sheets))},
    }


def as_dicts(reports: ByKind) -> dict[str, dict[str, float]]:
    """Reports as plain data, rounded to 6 decimals."""
    return {
        kind: {name: round(value, 6) for name, value in line._asdict().items()}
        for kind, line in reports.items()
    }


def as_reports(record: dict[str, dict[str, float]]) -> ByKind:
    """The reports that ``as_dicts`` wrote."""
    return {kind: Report(**line) for kind, line in record.items()}
