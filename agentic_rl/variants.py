"""The experiments of chapter 02: the default run with one thing changed.

Each variant says what was changed and nothing else differs, the tasks and the seeds
included. What came out on five seeds is in data/variants.json, which a check computes
again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agentic_rl.conventions import COURSE
from agentic_rl.evaluation import SEEDS, ByKind, Sheets, as_dicts, exact
from agentic_rl.grpo import Config, start, train
from agentic_rl.oracle import Outcome, ascend, outcomes
from agentic_rl.policy import SoftmaxPolicy
from agentic_rl.reward import (
    COURSE_REWARD,
    LARGE_COSTS,
    PAID_CALLS,
    PAID_CALLS_GATED,
    PLUS_FIVE,
    SMALL_COSTS,
    SMALL_COSTS_GATED,
    Reward,
)
from agentic_rl.tasks import KINDS, Task, one_of_each


@dataclass(frozen=True)
class Variant:
    """One run. ``switches`` turn the convention, ``settings`` the rest of the config.

    A slow one is not run live in the chapter's script: its stored row is shown.
    """

    name: str
    reward: Reward = COURSE_REWARD
    switches: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    slow: bool = False

    def config(self, seed: int) -> Config:
        """The default configuration with this variant's changes."""
        convention = COURSE.but(**self.switches)
        return replace(Config(), seed=seed, convention=convention, **self.settings)


SLOW = {"learning_rate": 4.0, "updates": 30}  # so that a diluted signal shows

DEFAULT = Variant("G = 8")  # the default run
GROUP_SIZES = (
    Variant("G = 2", settings={"group_size": 2}),
    Variant("G = 4", settings={"group_size": 4}),
    DEFAULT,
    Variant("G = 16", settings={"group_size": 16}),
    Variant("G = 32", settings={"group_size": 32}, slow=True),
)
BASELINE = (
    Variant("no baseline", switches={"baseline": "none", "std": "none"}),
    Variant("no baseline, +5", PLUS_FIVE, {"baseline": "none", "std": "none"}),
    Variant("group mean, +5", PLUS_FIVE, {"std": "none"}),
)
SCALING = (Variant("no std scaling", switches={"std": "none"}),)
CLIPPING = (Variant("clip off", switches={"clip": "off"}),)
UNITS = tuple(
    Variant(
        f"{unit}, {aggregation}",
        switches={"unit": unit, "aggregation": aggregation},
        settings=SLOW,
    )
    for unit, aggregation in (
        ("decision", "episode_sum"),
        ("decision", "episode_mean"),
        ("token", "episode_mean"),
        ("token", "batch_mean"),
        ("token", "episode_sum"),
    )
)
PAID = (
    Variant("+0.5 a call", PAID_CALLS),
    Variant("gated and capped", PAID_CALLS_GATED),
)


def give_up(reward: Reward, gated: Reward) -> tuple[Variant, ...]:
    """The agent that learns to give up under one reward, and its cures.

    ``gated`` charges the same costs, on a right answer only.
    """
    return (
        Variant("std scaling", reward),
        Variant("no std scaling", reward, {"std": "none"}),
        Variant("solved groups only", reward, {"groups": "solved"}),
        Variant("G = 32", reward, settings={"group_size": 32}, slow=True),
        Variant("costs gated", gated),
    )


EXPERIMENTS: dict[str, tuple[Variant, ...]] = {
    "group size": GROUP_SIZES,
    "baseline": BASELINE,
    "scaling": SCALING,
    "clipping": CLIPPING,
    "unit": UNITS,
    "paid calls": PAID,
    "give up, small costs": give_up(SMALL_COSTS, SMALL_COSTS_GATED),
    "give up, large costs": give_up(LARGE_COSTS, COURSE_REWARD),
}
RATES = (2.0, 5.0, 10.0)  # of exact ascent
MAX_ASCENT = 400  # updates after which it is said never to get there
ASCENTS = {"give up, small costs": SMALL_COSTS, "give up, large costs": LARGE_COSTS}


def run(variant: Variant, tasks: list[Task], sheets: Sheets, seed: int) -> ByKind:
    """The exact report of the policy that this variant trains."""
    policy = train(tasks, variant.config(seed), reward=variant.reward).policy
    return exact(policy, sheets)


def reward_sheets(reward: Reward, tasks: list[Task]) -> list[list[Outcome]]:
    """The answer sheet of each kind whose values are this reward."""
    first = one_of_each(tasks)
    return [outcomes(first[kind], reward.total) for kind in KINDS]


def climb(
    sheets: Sequence[Sequence[Outcome]], rate: float, updates: int
) -> Iterator[tuple[float, SoftmaxPolicy]]:
    """Exact ascent: (J, policy) after each update, from the uniform policy."""
    policy = start(Config()).policy
    for value in ascend(policy, sheets, rate, updates):
        yield value, policy


def best_mean(sheets: Sequence[Sequence[Outcome]]) -> float:
    """The optimum of J: the mean over the kinds of their best episode's reward."""
    values = [max(line.value for line in sheet) for sheet in sheets]
    return math.fsum(values) / len(values)


def updates_to(
    share: float, sheets: Sequence[Sequence[Outcome]], rate: float
) -> int | None:
    """Updates of exact ascent until J is this share of its optimum; None: never."""
    goal = share * best_mean(sheets)
    for update, (value, _) in enumerate(climb(sheets, rate, MAX_ASCENT), 1):
        if value >= goal:
            return update
    return None


def compute_ascents(tasks: list[Task]) -> dict[str, Any]:
    """experiment -> rate -> updates to 95 % of the optimum: data/ascents.json."""
    results = {}
    for experiment, reward in ASCENTS.items():
        sheets = reward_sheets(reward, tasks)
        results[experiment] = {
            f"{rate:g}": updates_to(0.95, sheets, rate) for rate in RATES
        }
    return results


def compute_variants(tasks: list[Task], sheets: Sheets) -> dict[str, Any]:
    """experiment -> variant -> one exact report a seed: data/variants.json."""
    return {
        experiment: {
            variant.name: [
                as_dicts(run(variant, tasks, sheets, seed)) for seed in SEEDS
            ]
            for variant in variants
        }
        for experiment, variants in EXPERIMENTS.items()
    }
