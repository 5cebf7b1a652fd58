"""Advantage: the rewards of a group -> how much better each episode was than its peers.

    A_i = r_i - mean(r)                                                      (eq. group)
    A_i = (r_i - mean(r)) / std(r)                                           (eq. scaled)
    A_i = r_i - mean(r without i) = G / (G - 1) * (r_i - mean(r))            (eq. loo)

A group is the set of episodes that started from the same task. Which of these lines is
meant, and what happens at their edges, is a Convention.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

from agentic_rl.conventions import COURSE, Convention, check_convention
from agentic_rl.trajectory import check_length
from agentic_rl.values import excerpt, is_finite


class AdvantageError(ValueError):
    """Rewards that the convention refuses; the text names the group and the reason."""


def group_advantages(
    rewards: Sequence[float | None],
    groups: Sequence[Hashable],
    convention: Convention = COURSE,
) -> list[float]:
    """One advantage an episode, in the order of the rewards.

    rewards     one number an episode; None where nobody scored it
    groups      the group of each episode; episodes of a group need not be neighbours

    Raises TrajectoryError if the two differ in length, AdvantageError for a group or a
    sample that the convention refuses. An episode that is left out gets 0.0.
    """
    scored = _scored(rewards, groups, convention)
    members: dict[Hashable, list[int]] = {}
    for index in scored:
        members.setdefault(groups[index], []).append(index)
    batch = list(scored.values())
    advantages = [0.0] * len(rewards)
    for group, indices in members.items():
        values = [scored[index] for index in indices]
        try:
            compared = _one_group(group, values, batch, convention)
        except OverflowError:
            compared = [math.inf]
        if not all(is_finite(value) for value in compared):
            raise AdvantageError(
                f"group {group!r}: its rewards are too large to compare"
            )
        for index, value in zip(indices, compared):
            advantages[index] = value
    return advantages


def _scored(
    rewards: Sequence[float | None], groups: Sequence[Hashable], convention: Convention
) -> dict[int, float]:
    """index -> reward, of the episodes that count in the statistics."""
    check_convention(convention)
    check_length("groups", groups, len(rewards), "rewards")
    scored = {}
    for index, reward in enumerate(rewards):
        if reward is None:
            if convention.unscored == "refuse":
                raise AdvantageError(
                    f"rewards[{index}]: None, and unscored is 'refuse'"
                )
            if convention.unscored == "left_out":
                continue
            reward = 0.0
        if not is_finite(reward):
            raise AdvantageError(
                f"rewards[{index}]: expected a finite number, got {excerpt(reward)}"
            )
        scored[index] = reward
    return scored


def _one_group(
    group: Hashable, values: list[float], batch: list[float], convention: Convention
) -> list[float]:
    if len(values) == 1 and convention.baseline in ("group_mean", "leave_one_out"):
        if convention.group_of_one == "refuse":
            raise AdvantageError(
                f"group {group!r}: one episode has no peers to compare with"
            )
        if convention.group_of_one == "zero":
            return [0.0]
        return [values[0] / _unit_scale(convention)]
    compared = batch if convention.baseline == "batch_mean" else values
    spread = batch if convention.std == "batch" else values
    if convention.zero_spread == "zero":
        if convention.baseline != "none" and _all_equal(compared):
            return [0.0] * len(values)
        if convention.std != "none" and _all_equal(spread):
            return [0.0] * len(values)
    centred = _centre(values, batch, convention)
    scale = 1.0 if convention.std == "none" else _scale(spread, convention)
    if scale == 0.0:
        return [0.0] * len(values)
    return [value / scale for value in centred]


def _centre(
    values: list[float], batch: list[float], convention: Convention
) -> list[float]:
    count = len(values)
    if convention.baseline == "none":
        return list(values)
    if convention.baseline == "batch_mean":
        baseline = math.fsum(batch) / len(batch)
        return [value - baseline for value in values]
    mean = math.fsum(values) / count
    if convention.baseline == "group_mean":
        return [value - mean for value in values]
    return [(value - mean) * count / (count - 1) for value in values]


def _scale(values: Sequence[float], convention: Convention) -> float:
    """The standard deviation, with the convention's ddof and epsilon."""
    mean = math.fsum(values) / len(values)
    squares = math.fsum((value - mean) ** 2 for value in values)
    return _guarded(squares / max(len(values) - convention.ddof, 1), convention)


def _guarded(variance: float, convention: Convention) -> float:
    """The root of a variance, with epsilon in its place."""
    epsilon = convention.std_epsilon
    if convention.epsilon_place == "under_root":
        return math.sqrt(variance + epsilon)
    if convention.epsilon_place == "floor":
        return math.sqrt(max(variance, epsilon))
    return math.sqrt(variance) + epsilon


def _unit_scale(convention: Convention) -> float:
    """What a group of one is divided by where its raw reward is used: a std of 1."""
    return 1.0 if convention.std == "none" else _guarded(1.0, convention)


def _all_equal(values: Sequence[float]) -> bool:
    """Equal up to rounding: dividing by a rounding error would make noise a signal."""
    return math.isclose(max(values), min(values), rel_tol=1e-12, abs_tol=1e-12)


def informative(
    rewards: Sequence[float | None], groups: Sequence[Hashable]
) -> dict[Hashable, bool]:
    """group -> whether its rewards differ, in order of first appearance.

    A group whose rewards are all equal, or that has fewer than two, compares nothing.
    """
    check_length("groups", groups, len(rewards), "rewards")
    values: dict[Hashable, list[float]] = {group: [] for group in groups}
    for reward, group in zip(rewards, groups):
        if reward is not None:
            values[group].append(reward)
    return {
        group: len(seen) > 1 and not _all_equal(seen) for group, seen in values.items()
    }


def kept(
    rewards: Sequence[float | None],
    groups: Sequence[Hashable],
    solved: Sequence[bool],
    convention: Convention = COURSE,
) -> list[bool]:
    """Which episodes take part in the update; their groups stay or go as a whole.

    "informative" leaves out groups of equal rewards (DAPO's dynamic sampling), "solved"
    groups in which no episode was right.
    """
    check_length("solved", solved, len(rewards), "rewards")
    if convention.groups == "all":
        return [True] * len(rewards)
    if convention.groups == "informative":
        if convention.unscored == "zero":
            rewards = [0.0 if reward is None else reward for reward in rewards]
        differs = informative(rewards, groups)
        return [differs[group] for group in groups]
    hit = {group for group, is_right in zip(groups, solved) if is_right}
    return [group in hit for group in groups]


def flags(rewards: Sequence[float | None], groups: Sequence[Hashable]) -> list[str]:
    """What a reader should know about these groups, in words."""
    found = []
    for group, differs in informative(rewards, groups).items():
        values = [reward for reward, name in zip(rewards, groups) if name == group]
        scored = [reward for reward in values if reward is not None]
        if len(scored) < len(values):
            found.append(f"group {group!r}: {len(values) - len(scored)} unscored")
        if len(scored) == 1:
            found.append(f"group {group!r}: size 1 has no baseline")
        elif scored and not differs:
            found.append(f"group {group!r}: all rewards equal, nothing to compare")
    return found


def row_advantages(
    rollouts: Sequence[Hashable],
    rewards: Sequence[float | None],
    groups: Sequence[Hashable],
    convention: Convention = COURSE,
) -> list[float]:
    """One advantage a row, where a rollout may have become several rows (one a turn).

    Each rollout counts once in its group's statistics, however many rows it has. Raises
    AdvantageError if rows of one rollout disagree about its reward or its group.
    """
    check_length("rollouts", rollouts, len(rewards), "rewards")
    check_length("groups", groups, len(rewards), "rewards")
    episodes: dict[Hashable, tuple[float | None, Hashable]] = {}
    for rollout, reward, group in zip(rollouts, rewards, groups):
        if episodes.setdefault(rollout, (reward, group)) != (reward, group):
            raise AdvantageError(
                f"rollout {rollout!r}: its rows disagree on reward or group"
            )
    values = group_advantages(
        [reward for reward, _ in episodes.values()],
        [group for _, group in episodes.values()],
        convention,
    )
    by_rollout = dict(zip(episodes, values))
    return [by_rollout[rollout] for rollout in rollouts]


def returns_to_go(
    rewards: Sequence[float], mask: Sequence[int], discount: float = 1.0
) -> list[float]:
    """R_t = r_t + discount * R_next, one number a position; 0.0 where the mask is 0.

    A masked position inside the episode is passed over: the running return goes through
    it undecayed, so an action before a tool's answer still gets what came after.
    Source: Sutton and Barto, eq. 3.9.
    """
    check_length("mask", mask, len(rewards), "rewards")
    returns = [0.0] * len(rewards)
    running = 0.0
    for position in range(len(rewards) - 1, -1, -1):
        if mask[position]:
            running = rewards[position] + discount * running
            returns[position] = running
    return returns


def spread(
    advantages: Sequence[float], lengths: Sequence[int], convention: Convention = COURSE
) -> list[list[float]]:
    """One row an episode, one number a position (a decision or a token; see ``unit``).

    ``returns="episode"`` gives every position of an episode its advantage, "to_go" lets
    it decay by the discount from the last position back. ``whiten`` then subtracts the
    mean over all positions of the batch and divides by their standard deviation
    (REINFORCE++). Raises TrajectoryError if the two differ in length, AdvantageError if
    no float can hold the standard deviation.
    """
    check_length("lengths", lengths, len(advantages), "advantages")
    rows = []
    for advantage, length in zip(advantages, lengths):
        if convention.returns == "episode":
            rows.append([advantage] * length)
        else:
            outcome = [0.0] * (length - 1) + [advantage] if length else []
            rows.append(returns_to_go(outcome, [1] * length, convention.discount))
    if not convention.whiten:
        return rows
    values = [value for row in rows for value in row]
    if not values or _all_equal(values):
        return [[0.0] * len(row) for row in rows]
    try:
        mean, scale = math.fsum(values) / len(values), _scale(values, convention)
    except OverflowError:
        raise AdvantageError("advantages: too large to whiten") from None
    return [[(value - mean) / scale for value in row] for row in rows]
