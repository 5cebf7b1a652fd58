"""Reward: named terms -> one number and its breakdown.

A term counts something in a trajectory and gives it a weight. The breakdown says what
each term paid, and it adds up to the reward. A term may be gated, that is, paid or charged
only when the answer is right; and it may count up to a cap.

Only what the policy said is scored: its final answer and its calls. A tool's output is
never read for an answer, or an agent would be paid for what a tool said.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from agentic_rl.answers import answers_equal, extract_answer
from agentic_rl.tasks import Task
from agentic_rl.trajectory import Trajectory
from agentic_rl.values import excerpt

Measure = Callable[[Trajectory, Task], float]


class RewardError(ValueError):
    """A reward that can't be used; the text says what was expected."""


class Score(NamedTuple):
    """A reward and the parts it is made of; ``total`` None means nobody could score it."""

    total: float | None
    breakdown: dict[str, float]


def finite_number(name: str, value: Any) -> float:
    """The number as a float; a library's own number types are welcome.

    Raises RewardError, naming it, for text, nothing, NaN, infinity or a number that no
    float can hold.
    """
    if type(value) is float and math.isfinite(value):
        return value
    try:
        number = math.nan if isinstance(value, (str, bytes)) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise RewardError(f"{name}: expected a finite number, got {excerpt(value)}")
    return number


# ------------------------------------------------------------------ what can be counted


def right(trajectory: Trajectory, task: Task) -> float:
    """1.0 if the final answer equals the task's, else 0.0. No final answer is not right."""
    if trajectory.answer is None:
        return 0.0
    answer = extract_answer(trajectory.answer)
    return 1.0 if answer is not None and answers_equal(task.answer, answer) else 0.0


def invalid_calls(trajectory: Trajectory, task: Task) -> float:
    """Calls that could not be run: an unknown name, or arguments that can't be read."""
    return float(trajectory.invalid_calls)


def calls(trajectory: Trajectory, task: Task) -> float:
    """Calls that were run, whatever the tool then said."""
    return float(len(trajectory.observations) - trajectory.invalid_calls)


def answered(trajectory: Trajectory, task: Task) -> float:
    """1.0 if the agent ended the episode with an answer, right or wrong, else 0.0."""
    return 0.0 if trajectory.answer is None else 1.0


def always(trajectory: Trajectory, task: Task) -> float:
    """1.0: for a constant that every episode gets."""
    return 1.0


MEASURES: dict[str, Measure] = {
    measure.__name__: measure
    for measure in (right, calls, invalid_calls, answered, always)
}


# ---------------------------------------------------------------------------- rewards


@dataclass(frozen=True)
class Term:
    """``weight`` for each one that ``measure`` counts, up to ``cap`` of them."""

    name: str
    weight: float
    measure: Measure
    only_if_right: bool = False
    cap: float | None = None

    def __post_init__(self) -> None:
        finite_number(f"{self.name}: weight", self.weight)
        if self.cap is not None:
            finite_number(f"{self.name}: cap", self.cap)

    def pay(self, trajectory: Trajectory, task: Task, is_right: bool) -> float:
        """What this term adds to the reward."""
        if self.only_if_right and not is_right:
            return 0.0
        count = finite_number(self.name, self.measure(trajectory, task))
        if self.cap is not None:
            count = min(count, self.cap)
        return self.weight * count if count else 0.0


@dataclass(frozen=True)
class Reward:
    """A sum of terms. Call it with a trajectory and its task to get a Score."""

    terms: tuple[Term, ...]

    def __post_init__(self) -> None:
        names = [term.name for term in self.terms]
        if twice := [name for name in names if names.count(name) > 1]:
            raise RewardError(f"two terms are called {twice[0]!r}")

    def __call__(self, trajectory: Trajectory, task: Task) -> Score:
        breakdown = self._breakdown(trajectory, task)
        return Score(math.fsum(breakdown.values()), breakdown)

    def total(self, trajectory: Trajectory, task: Task) -> float:
        """The number alone: a sum of terms always has one."""
        return math.fsum(self._breakdown(trajectory, task).values())

    def _breakdown(self, trajectory: Trajectory, task: Task) -> dict[str, float]:
        is_right = right(trajectory, task) == 1.0
        return {term.name: term.pay(trajectory, task, is_right) for term in self.terms}


def tool_math_reward(
    call: float, invalid_call: float, gated: bool, constant: float = 0.0
) -> Reward:
    """Right pays 1; ``call`` and ``invalid_call`` are the (negative) prices of each call.

    ``gated``: the prices are charged only on a right answer.
    """
    terms = [
        Term("right", 1.0, right),
        Term("calls", call, calls, only_if_right=gated),
        Term("invalid_calls", invalid_call, invalid_calls, only_if_right=gated),
    ]
    if constant:
        terms.append(Term("constant", constant, always))
    return Reward(tuple(terms))


COURSE_REWARD = tool_math_reward(call=-0.1, invalid_call=-0.2, gated=True)
SMALL_COSTS = tool_math_reward(call=-0.02, invalid_call=-0.05, gated=False)
SMALL_COSTS_GATED = tool_math_reward(call=-0.02, invalid_call=-0.05, gated=True)
LARGE_COSTS = tool_math_reward(call=-0.1, invalid_call=-0.2, gated=False)
PLUS_FIVE = tool_math_reward(call=-0.1, invalid_call=-0.2, gated=True, constant=5.0)
PAID_CALLS = Reward((Term("right", 1.0, right), Term("call_bonus", 0.5, calls)))
PAID_CALLS_GATED = Reward(
    (
        Term("right", 1.0, right),
        Term("call_bonus", 0.5, calls, only_if_right=True, cap=1.0),
        Term("calls", -0.1, calls, only_if_right=True),
    )
)

REWARDS = {
    "course": COURSE_REWARD,
    "small_costs": SMALL_COSTS,
    "small_costs_gated": SMALL_COSTS_GATED,
    "large_costs": LARGE_COSTS,
    "plus_five": PLUS_FIVE,
    "paid_calls": PAID_CALLS,
    "paid_calls_gated": PAID_CALLS_GATED,
}


def attach(
    trajectories: Sequence[Trajectory], scores: Sequence[Score | float | None]
) -> None:
    """Write one score on each trajectory; a plain number is its own breakdown.

    Raises RewardError unless there is exactly one score a trajectory: one number for a
    whole group would make all its advantages 0, and nothing would fail. Raises it too
    for a reward that is no finite number, or that its breakdown does not add up to.
    """
    if len(scores) != len(trajectories):
        raise RewardError(
            f"reward function returned {len(scores)} rewards for "
            f"{len(trajectories)} completions"
        )
    checked = [_checked(score) for score in scores]
    for trajectory, score in zip(trajectories, checked):
        trajectory.reward, trajectory.breakdown = score.total, score.breakdown


def _checked(score: Score | float | None) -> Score:
    total, parts = score if isinstance(score, Score) else (score, None)
    if total is None:
        if parts:
            raise RewardError("breakdown: there is one, but the reward is None")
        return Score(None, {})
    total = finite_number("reward", total)
    if parts is None:
        return Score(total, {"reward": total})
    if not isinstance(parts, dict):
        raise RewardError(f"breakdown: expected a dict, got {type(parts).__name__}")
    parts = {name: finite_number(name, part) for name, part in parts.items()}
    if abs(math.fsum(parts.values()) - total) > 1e-9:
        raise RewardError(f"reward {total:g}: its breakdown adds up to something else")
    return Score(total, parts)
