"""The answer sheet: exact expected return and gradient, by playing every episode.

    J(theta) = sum over episodes of p(episode) * R(episode)                    (eq. return)
    dJ/dtheta = sum of p * r * sum over decisions of d log pi / dtheta       (eq. exact)

The environment is deterministic, so p(episode) is the product of the probabilities of
its decisions. With 6 actions and 5 turns a task has 1,706 episodes. All of them are
played through the shipped environment; those with the same decisions, in whatever order,
and the same result are one line of the sheet.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

from agentic_rl.advantage import group_advantages, spread
from agentic_rl.agent_loop import Episode, Limits
from agentic_rl.conventions import Convention
from agentic_rl.grpo import logprob_rows, size
from agentic_rl.objective import policy_loss
from agentic_rl.policy import Gradient, PolicyError, SoftmaxPolicy, weighted_score
from agentic_rl.tasks import Task
from agentic_rl.tool_math import ACTIONS
from agentic_rl.trajectory import Trajectory

Decision = tuple[str, str]  # (state, action)


class Outcome(NamedTuple):
    """Episodes that are alike.

    decisions   ((state, action), how often) of each decision in the episode
    value       what was measured: a reward, or anything that can be averaged
    episodes    how many episodes of the tree are alike
    """

    decisions: tuple[tuple[Decision, int], ...]
    value: Any
    episodes: int


def every_episode(
    task: Task, limits: Limits = Limits(), actions: Sequence[str] = ACTIONS
) -> Iterator[Trajectory]:
    """Each episode that can happen, once. Its log-probs are those of the uniform policy."""
    logprob = -math.log(len(actions))

    def go_on(episode: Episode) -> Iterator[Trajectory]:
        if episode.done:
            yield episode.trajectory
            return
        for action in actions:
            future = episode.fork()
            future.act(action, logprob)
            yield from go_on(future)

    return go_on(Episode(task, limits))


def outcomes(
    task: Task, value: Callable[[Trajectory, Task], Any], limits: Limits = Limits()
) -> list[Outcome]:
    """The answer sheet of one task for one way of measuring an episode.

    ``value`` gives a number, or a tuple of numbers to take several means at once.
    """
    sheet: Counter[tuple[Any, Any]] = Counter()
    for episode in every_episode(task, limits):
        decisions = tuple(sorted(Counter(episode.choices()).items()))
        sheet[decisions, value(episode, task)] += 1
    return [Outcome(*line, count) for line, count in sheet.items()]


def probabilities(policy: SoftmaxPolicy, sheet: Sequence[Outcome]) -> list[float]:
    """The probability of each line of the sheet: all its episodes together.

    Raises PolicyError if the sheet has a decision that the policy doesn't know.
    """
    log_probs = {
        (state, action): log_prob
        for state in policy.logits
        for action, log_prob in zip(policy.actions, policy.log_probs(state))
    }
    chances = []
    for line in sheet:
        try:
            terms = [count * log_probs[choice] for choice, count in line.decisions]
        except KeyError as missing:
            raise PolicyError(f"the policy has no decision {missing}") from None
        chances.append(line.episodes * math.exp(math.fsum(terms)))
    return chances


def expectation(policy: SoftmaxPolicy, sheet: Sequence[Outcome]) -> float:
    """J: the exact mean of ``value`` over episodes of this policy; eq. return."""
    chances = probabilities(policy, sheet)
    return math.fsum(chance * line.value for chance, line in zip(chances, sheet))


def expectations(policy: SoftmaxPolicy, sheet: Sequence[Outcome]) -> tuple[float, ...]:
    """``expectation`` of each part, for a sheet whose values are tuples."""
    chances = probabilities(policy, sheet)
    columns = zip(*(line.value for line in sheet))
    return tuple(
        math.fsum(chance * value for chance, value in zip(chances, column))
        for column in columns
    )


def exact_gradient(policy: SoftmaxPolicy, sheet: Sequence[Outcome]) -> Gradient:
    """dJ / d logits, exactly; eq. exact."""
    slopes: dict[Decision, float] = defaultdict(float)
    for chance, line in zip(probabilities(policy, sheet), sheet):
        for choice, count in line.decisions:
            slopes[choice] += chance * line.value * count
    return weighted_score(
        policy, [(*choice, slope) for choice, slope in slopes.items()]
    )


def expected_estimate(
    policy: SoftmaxPolicy,
    task: Task,
    reward: Callable[[Trajectory, Task], float],
    convention: Convention,
    group_size: int,
    limits: Limits = Limits(),
) -> Gradient:
    """The mean of a group-relative estimate of dJ / d logits, exactly.

    Every group of ``group_size`` episodes is compared by the shipped code, and counted
    by its probability. Order means nothing, so each set of episodes is compared once and
    counted as often as it has orders. The groups must be few: small ``limits``.
    """
    for name, value in (("unit", "decision"), ("kl_place", "none"), ("groups", "all")):
        if getattr(convention, name) != value:
            raise ValueError(f"{name}: expected {value!r} here")
    played = [
        (reward(episode, task), episode.choices())
        for episode in every_episode(task, limits)
    ]
    known = logprob_rows(policy, [choices for _, choices in played])
    chances = [math.exp(math.fsum(row)) for row in known]
    slopes: dict[Decision, float] = defaultdict(float)
    for places in combinations_with_replacement(range(len(played)), group_size):
        orders = math.factorial(group_size)
        for count in Counter(places).values():
            orders //= math.factorial(count)
        weight = orders * math.prod(chances[place] for place in places)
        choices = [played[place][1] for place in places]
        rewards = [played[place][0] for place in places]
        advantages = group_advantages(rewards, [task.id] * group_size, convention)
        logprobs = [known[place] for place in places]
        rows = spread(advantages, [len(row) for row in choices], convention)
        loss = policy_loss(logprobs, logprobs, rows, convention)
        for row, row_slopes in zip(choices, loss.gradient):
            for choice, slope in zip(row, row_slopes):
                slopes[choice] -= weight * slope
    return weighted_score(
        policy, [(*choice, slope) for choice, slope in slopes.items()]
    )


def compare(estimate: Gradient, exact: Gradient) -> tuple[float, float]:
    """(length of the estimate / length of the exact gradient, cosine between them)."""
    pairs = [(a, b) for state in exact for a, b in zip(estimate[state], exact[state])]
    product = math.fsum(a * b for a, b in pairs)
    lengths = size(estimate), size(exact)
    if not all(lengths):
        raise ValueError("a gradient of length 0 has no direction to compare")
    return lengths[0] / lengths[1], product / (lengths[0] * lengths[1])


def best(
    task: Task, value: Callable[[Trajectory, Task], float], limits: Limits = Limits()
) -> tuple[float, list[str]]:
    """(highest value, its shortest action sequence) over every episode of the task."""
    episodes = every_episode(task, limits)
    ranked = max(episodes, key=lambda e: (value(e, task), -len(e.actions)))
    return value(ranked, task), [action for _, action in ranked.choices()]


def ascend(
    policy: SoftmaxPolicy,
    sheets: Sequence[Sequence[Outcome]],
    rate: float,
    updates: int,
) -> Iterator[float]:
    """Exact gradient ascent on the mean of J over the sheets; yields it after each update.

    What no sampling estimator can be blamed for, nor praised: the same objective, climbed
    with the true gradient. The policy is changed in place.
    """
    for _ in range(updates):
        gradients = [exact_gradient(policy, sheet) for sheet in sheets]
        for gradient in gradients:
            policy.move(gradient, rate / len(sheets))
        yield math.fsum(expectation(policy, sheet) for sheet in sheets) / len(sheets)
