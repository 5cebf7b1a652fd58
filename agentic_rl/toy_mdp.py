"""Two states, two actions, and a reward that comes late.

    start --take--> 1, end          ready --take--> 3, end
    start --work--> 0, ready        ready --work--> 0, end

Taking at once pays 1. Working first pays nothing now and 3 a step later, so the reward
of an action and the return that follows it differ. And no action is right everywhere:
work in ``start``, take in ``ready``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

STATES = ("start", "ready")
ACTIONS = ("take", "work")
END = "end"

_WORLD = {
    ("start", "take"): (1.0, END),
    ("start", "work"): (0.0, "ready"),
    ("ready", "take"): (3.0, END),
    ("ready", "work"): (0.0, END),
}


class Step(NamedTuple):
    """One decision: the state it was made in, the action, and the reward it paid."""

    state: str
    action: str
    reward: float


def transition(state: str, action: str) -> tuple[float, str]:
    """(reward, next state). Raises ValueError for a state or an action that is not there."""
    if (state, action) not in _WORLD:
        raise ValueError(
            f"no action {action!r} in state {state!r}; states are {', '.join(STATES)}, "
            f"actions {', '.join(ACTIONS)}"
        )
    return _WORLD[state, action]


def play(choose: Callable[[str], str]) -> list[Step]:
    """One episode, from ``start`` to the end; ``choose`` maps a state to an action."""
    steps: list[Step] = []
    state = "start"
    while state != END:
        action = choose(state)
        reward, following = transition(state, action)
        steps.append(Step(state, action, reward))
        state = following
    return steps


def exact_return(probability: Callable[[str, str], float]) -> float:
    """J = p(take|start) * 1 + p(work|start) * p(take|ready) * 3; from ``start``.

    ``probability(state, action)`` gives the policy's probabilities.
    """
    later = probability("ready", "take") * 3.0
    return probability("start", "take") * 1.0 + probability("start", "work") * later
