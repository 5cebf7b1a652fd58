"""Chapter 02: GRPO, written by yourself.

Replace each ``raise NotImplementedError``, from top to bottom; a function may call those
above it. This says what is done, and what is wrong with the rest:

    python3 -m agentic_rl check exercises/chapter_02.py
"""

from __future__ import annotations

from collections.abc import Hashable

from agentic_rl.conventions import COURSE, Convention  # noqa: F401 (for you to use)


def leave_one_out(rewards: list[float]) -> list[float]:
    """RLOO's advantages: each reward less the mean of the others in the group.

    rewards     one number an episode of one group
    returns     one number an episode; 0.0 for an episode that has no others

    >>> leave_one_out([1.0, 0.0])
    [1.0, -1.0]
    """
    raise NotImplementedError


def group_advantages(rewards: list[float | None]) -> list[float]:
    """GRPO's advantages: each reward less the group's mean, divided by the group's std.

    The std is the sample standard deviation (the sum of squares is divided by n - 1), and
    nothing is added to it.

    rewards     one number an episode of one group; None where nobody could score it. Such
                an episode leaves mean and std, and its advantage is 0.0
    returns     one number an episode. All 0.0 where there is nothing to compare: fewer
                than two scored episodes, or rewards that are equal. Two rewards that
                differ by less than 1e-9 are equal, the difference is rounding

    >>> [round(a, 4) for a in group_advantages([0.9, 0.0, 0.7, 0.0])]
    [1.066, -0.8528, 0.6396, -0.8528]
    """
    raise NotImplementedError


def batch_advantages(rewards: list[float], groups: list[Hashable]) -> list[float]:
    """GRPO's advantages of a batch in which episodes of several groups stand mixed.

    groups      which group each episode belongs to; any number of episodes a group
    returns     one number an episode, in the order of the rewards

    >>> [round(a, 4) for a in batch_advantages([1.0, 5.0, 0.0], ["a", "b", "a"])]
    [0.7071, 0.0, -0.7071]
    """
    raise NotImplementedError


def keep_informative(rewards: list[float | None], groups: list[Hashable]) -> list[bool]:
    """Which episodes DAPO keeps: those of groups whose rewards differ.

    rewards     one number an episode, None where nobody could score it
    groups      which group each episode belongs to
    returns     one answer an episode; a group stays or goes as a whole. Two rewards that
                differ by less than 1e-9 are equal

    >>> keep_informative([1.0, 1.0, 0.0, 1.0], ["a", "b", "a", "b"])
    [True, False, True, False]
    """
    raise NotImplementedError


def informative_share(success: float, size: int) -> float:
    """The probability that a group's rewards differ, so that it teaches something.

    success     the probability that an episode is right, each for itself; a right one
                gets 1, a wrong one 0
    size        episodes a group, at least 1

    >>> informative_share(0.5, 2)
    0.5
    """
    raise NotImplementedError


def clipped_loss(
    ratio: float, advantage: float, low: float, high: float
) -> tuple[float, float]:
    """PPO's loss of one decision, and its slope.

        loss = -min(ratio * A, clip(ratio, 1 - low, 1 + high) * A)

    ratio       new probability of the decision / the one it was sampled with
    returns     (loss, d loss / d ratio). No test asks for the slope at a corner of the
                loss

    >>> clipped_loss(1.0, 2.0, 0.2, 0.2)
    (-2.0, -2.0)
    """
    raise NotImplementedError


def k3(logprob: float, ref_logprob: float) -> float:
    """Schulman's estimate of KL(policy || reference), from one sample of the policy.

        exp(-d) + d - 1        with d = logprob - ref_logprob

    >>> k3(-1.0, -1.0)
    0.0
    """
    raise NotImplementedError


def aggregation_weights(lengths: list[int], rule: str) -> list[float]:
    """How much the loss of one token weighs in the loss of the batch.

        "episode_sum"     sum over the tokens of an episode, mean over episodes
        "episode_mean"    mean over the tokens of an episode, mean over episodes
        "batch_mean"      mean over all tokens of the batch

    lengths     tokens of each episode; an episode without any still counts as an episode
    returns     one weight an episode, that of each of its tokens; 0.0 if it has none

    Raises ValueError for another rule.

    >>> aggregation_weights([2, 8], "batch_mean")
    [0.1, 0.1]
    """
    raise NotImplementedError


def trainer_convention() -> Convention:
    """A trainer's code, read and written down as switches; see agentic_rl/conventions.py.

    Nobody's trainer, but each line is somebody's. Rewards are of one group, the other
    arrays have one number a token, and mask is 1 where the assistant wrote.

        advantage = (reward - reward.mean()) / (reward.std(unbiased=False) + 1e-6)
        ratio = exp(clamp(logprob - old_logprob, -20, 20))
        loss = -min(ratio * advantage, clip(ratio, 0.8, 1.28) * advantage)
        d = logprob - ref_logprob
        loss += 0.04 * (exp(-d) + d - 1)
        return (loss * mask).sum() / mask.sum()

    Start from COURSE and turn the switches that differ: COURSE.but(switch=value, ...).

    >>> trainer_convention().std_epsilon
    1e-06
    """
    raise NotImplementedError
