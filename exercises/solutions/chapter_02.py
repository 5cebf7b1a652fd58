"""Chapter 02, solved."""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable

from agentic_rl.conventions import COURSE, Convention


def leave_one_out(rewards: list[float]) -> list[float]:
    """RLOO's advantages: each reward less the mean of the others in the group."""
    if len(rewards) < 2:
        return [0.0] * len(rewards)
    total, others = math.fsum(rewards), len(rewards) - 1
    return [reward - (total - reward) / others for reward in rewards]


def group_advantages(rewards: list[float | None]) -> list[float]:
    """GRPO's advantages: each reward less the group's mean, divided by the group's std."""
    scored = [reward for reward in rewards if reward is not None]
    if len(scored) < 2 or max(scored) - min(scored) < 1e-9:
        return [0.0] * len(rewards)
    mean, std = statistics.fmean(scored), statistics.stdev(scored)
    return [0.0 if reward is None else (reward - mean) / std for reward in rewards]


def batch_advantages(rewards: list[float], groups: list[Hashable]) -> list[float]:
    """GRPO's advantages of a batch in which episodes of several groups stand mixed."""
    advantages = [0.0] * len(rewards)
    for group in set(groups):
        places = [place for place, name in enumerate(groups) if name == group]
        compared = group_advantages([rewards[place] for place in places])
        for place, advantage in zip(places, compared):
            advantages[place] = advantage
    return advantages


def keep_informative(rewards: list[float | None], groups: list[Hashable]) -> list[bool]:
    """Which episodes DAPO keeps: those of groups whose rewards differ."""

    def differ(group: Hashable) -> bool:
        mine = [r for r, name in zip(rewards, groups) if name == group]
        scored = [reward for reward in mine if reward is not None]
        return bool(scored) and max(scored) - min(scored) >= 1e-9

    return [differ(group) for group in groups]


def informative_share(success: float, size: int) -> float:
    """The probability that a group's rewards differ, so that it teaches something."""
    return 1.0 - success**size - (1.0 - success) ** size


def clipped_loss(
    ratio: float, advantage: float, low: float, high: float
) -> tuple[float, float]:
    """PPO's loss of one decision, and its slope."""
    clipped = min(max(ratio, 1.0 - low), 1.0 + high)
    if clipped * advantage < ratio * advantage:
        return -clipped * advantage, 0.0
    return -ratio * advantage, -advantage


def k3(logprob: float, ref_logprob: float) -> float:
    """Schulman's estimate of KL(policy || reference), from one sample of the policy."""
    d = logprob - ref_logprob
    return math.exp(-d) + d - 1.0


def aggregation_weights(lengths: list[int], rule: str) -> list[float]:
    """How much the loss of one token weighs in the loss of the batch."""
    episodes, tokens = len(lengths), sum(lengths)
    if rule == "episode_sum":
        return [1.0 / episodes if length else 0.0 for length in lengths]
    if rule == "episode_mean":
        return [1.0 / (episodes * length) if length else 0.0 for length in lengths]
    if rule == "batch_mean":
        return [1.0 / tokens if length else 0.0 for length in lengths]
    raise ValueError(f"no rule {rule!r}")


def trainer_convention() -> Convention:
    """A trainer's code, read and written down as switches; see agentic_rl/conventions.py."""
    return COURSE.but(
        ddof=0,
        std_epsilon=1e-6,
        zero_spread="divide",
        clip_high=0.28,
        unit="token",
        aggregation="batch_mean",
        kl_place="loss",
        kl_weight=0.04,
    )
