"""A softmax policy over a few actions: one row of logits a state.

    pi(a|s) = exp(logit[s][a]) / sum_b exp(logit[s][b])                         (eq. softmax)
    d log pi(a|s) / d logit[s][b] = 1[a = b] - pi(b|s)                          (eq. score)

The second line is the derivative that all of the course rests on: what a sample pushes
up is what it chose, and what it pushes down is everything in proportion to its
probability. The numbers of a state add up to zero.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agentic_rl.values import excerpt, is_finite

Gradient = dict[str, list[float]]  # state -> one number an action, as the logits


class PolicyError(ValueError):
    """Logits, a state or an action that don't fit; the text names them."""


class SoftmaxPolicy:
    """``logits[state]`` holds one number an action; all 0.0 is the uniform policy."""

    def __init__(
        self,
        states: Sequence[str],
        actions: Sequence[str],
        logits: Mapping[str, Sequence[float]] | None = None,
    ):
        self.actions = tuple(actions)
        self._index = {action: index for index, action in enumerate(self.actions)}
        if not self.actions or len(self._index) < len(self.actions):
            raise PolicyError(f"actions: expected some, each once, got {self.actions}")
        given = logits or {}
        if unknown := [state for state in given if state not in states]:
            raise PolicyError(f"logits for {unknown[0]!r}, which is no state")
        self.logits: Gradient = {}
        for state in states:
            row = list(given.get(state, [0.0] * len(self.actions)))
            if len(row) != len(self.actions):
                raise PolicyError(
                    f"{state!r}: {len(row)} logits for {len(self.actions)} actions"
                )
            if not all(is_finite(logit) for logit in row):
                raise PolicyError(
                    f"{state!r}: logits must be finite numbers, got {excerpt(row)}"
                )
            self.logits[state] = row

    def probabilities(self, state: str) -> list[float]:
        """pi(.|state), in the order of ``actions``; eq. softmax."""
        _, weights, total = self._weights(state)
        return [weight / total for weight in weights]

    def probability(self, state: str, action: str) -> float:
        """pi(action|state)."""
        return self.probabilities(state)[self.index(action)]

    def log_probs(self, state: str) -> list[float]:
        """log pi(.|state), in nats; finite even where a probability rounds to 0."""
        shifted, _, total = self._weights(state)
        log_total = math.log(total)
        return [logit - log_total for logit in shifted]

    def log_prob(self, state: str, action: str) -> float:
        """log pi(action|state), in nats."""
        return self.log_probs(state)[self.index(action)]

    def score(self, state: str, action: str) -> list[float]:
        """d log pi(action|state) / d logits[state], one number an action; eq. score."""
        chosen = self.index(action)
        return [
            (1.0 if index == chosen else 0.0) - probability
            for index, probability in enumerate(self.probabilities(state))
        ]

    def sample(self, state: str, rng: random.Random) -> tuple[str, float]:
        """(action, its log-prob), drawn with one ``rng.random()``."""
        shifted, weights, total = self._weights(state)
        index = pick([weight / total for weight in weights], rng.random())
        return self.actions[index], shifted[index] - math.log(total)

    def entropy(self, state: str) -> float:
        """-sum_a pi(a|s) log pi(a|s), in nats; log(number of actions) when uniform."""
        rows = zip(self.probabilities(state), self.log_probs(state))
        return -math.fsum(probability * log_prob for probability, log_prob in rows)

    def kl(self, other: SoftmaxPolicy, state: str) -> float:
        """KL(self || other) in this state, in nats; never negative.

        Both must have the same actions in the same order. Raises PolicyError.
        """
        if self.actions != other.actions:
            raise PolicyError(
                "a KL needs two policies with the same actions in one order"
            )
        rows = zip(
            self.probabilities(state), self.log_probs(state), other.log_probs(state)
        )
        return math.fsum(p * (ours - theirs) for p, ours, theirs in rows)

    def zero_gradient(self) -> Gradient:
        """A gradient of this policy's shape, all 0.0."""
        return {state: [0.0] * len(self.actions) for state in self.logits}

    def move(self, gradient: Gradient, step: float) -> None:
        """logits += step * gradient, in place. States that are left out stay."""
        for state, row in gradient.items():
            if len(row) != len(self._row(state)):
                raise PolicyError(f"{state!r}: {len(row)} slopes for its logits")
        for state, row in gradient.items():
            logits = self._row(state)
            for index, slope in enumerate(row):
                logits[index] += step * slope

    def copy(self) -> SoftmaxPolicy:
        """A policy of its own with the same logits."""
        return SoftmaxPolicy(list(self.logits), self.actions, self.logits)

    def index(self, action: str) -> int:
        """The place of an action in ``actions``. Raises PolicyError."""
        if action not in self._index:
            raise PolicyError(f"{action!r} is no action of {', '.join(self.actions)}")
        return self._index[action]

    def _weights(self, state: str) -> tuple[list[float], list[float], float]:
        """(the logits less their highest, exp of each, the sum of those)."""
        row = self._row(state)
        highest = max(row)  # shifting all logits changes nothing and prevents overflow
        shifted = [logit - highest for logit in row]
        weights = [math.exp(logit) for logit in shifted]
        return shifted, weights, math.fsum(weights)

    def _row(self, state: str) -> list[float]:
        if state not in self.logits:
            raise PolicyError(f"{state!r} is no state of {', '.join(self.logits)}")
        return self.logits[state]

    def to_dict(self) -> dict[str, Any]:
        """JSON form; floats survive JSON exactly."""
        logits = {state: list(row) for state, row in self.logits.items()}
        return {"actions": list(self.actions), "logits": logits}

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> SoftmaxPolicy:
        """The policy that ``to_dict`` wrote. Raises PolicyError."""
        try:
            logits, actions = record["logits"], record["actions"]
        except (KeyError, TypeError):
            raise PolicyError(
                "expected an object with 'actions' and 'logits'"
            ) from None
        rows = list(logits.values()) if isinstance(logits, dict) else [None]
        if not all(isinstance(row, (list, tuple)) for row in (actions, *rows)):
            raise PolicyError("expected a list of actions and a list of logits a state")
        return cls(list(logits), actions, logits)


def pick(probabilities: Sequence[float], draw: float) -> int:
    """The index whose share of [0, 1) holds ``draw``: inverse-transform sampling."""
    reached = 0.0
    for index, probability in enumerate(probabilities):
        reached += probability
        if draw < reached:
            return index
    # rounding can leave the shares a hair under one; what has no share is still not drawn
    return max(index for index, share in enumerate(probabilities) if share > 0)


def weighted_score(
    policy: SoftmaxPolicy, decisions: Iterable[tuple[str, str, float]]
) -> Gradient:
    """sum of weight * d log pi(action|state) / d logits, over (state, action, weight).

    With a return or an advantage as the weight, this is REINFORCE (Williams 1992).
    """
    totals: dict[tuple[str, str], float] = {}
    for state, action, weight in decisions:
        totals[state, action] = totals.get((state, action), 0.0) + weight
    gradient = policy.zero_gradient()
    for (state, action), weight in totals.items():
        row = gradient[state]
        for index, slope in enumerate(policy.score(state, action)):
            row[index] += weight * slope
    return gradient
