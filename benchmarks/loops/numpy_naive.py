"""NumPy, one decision at a time: softmax of a row, a draw, a log-prob; then its slope."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from agentic_rl.agent_loop import Episode
from agentic_rl.grpo import Config
from agentic_rl.policy import SoftmaxPolicy
from agentic_rl.tasks import Task


class Decision(NamedTuple):
    """Which episode decided, in which state (row), for which action (column)."""

    episode: int
    state: int
    action: int
    logprob: float


class Learner:
    """``logits`` (S, A): one row a state.

    ``draw`` gives one number in [0, 1) a decision; without it, the library draws.
    """

    def __init__(
        self,
        policy: SoftmaxPolicy,
        config: Config,
        draw: Callable[[], float] | None = None,
    ):
        self.rows = {state: row for row, state in enumerate(policy.logits)}
        self.actions = policy.actions
        self.logits = np.array(list(policy.logits.values()))
        self.config = config
        self.draw = draw
        self.generator = np.random.default_rng(config.seed)

    def play(self, tasks: Iterable[Task]) -> tuple[list[Episode], list[Decision]]:
        """Episode after episode."""
        episodes: list[Episode] = []
        decisions: list[Decision] = []
        for task in tasks:
            for _ in range(self.config.group_size):
                episode = Episode(task, self.config.limits)
                while not episode.done:
                    state = self.rows[episode.state]
                    action, logprob = self.sample(state)
                    decisions.append(Decision(len(episodes), state, action, logprob))
                    episode.act(self.actions[action], logprob)
                episodes.append(episode)
        return episodes, decisions

    def sample(self, state: int) -> tuple[int, float]:
        """(action, its log-prob)."""
        log_probs = log_softmax(self.logits[state])
        probs = np.exp(log_probs)
        if self.draw is None:
            action = int(self.generator.choice(len(probs), p=probs))
        else:
            reached = np.cumsum(probs)
            reached[-1] = 1.0  # the shares may end a hair under one
            action = int(np.searchsorted(reached, self.draw(), side="right"))
        return action, float(log_probs[action])

    def improve(
        self, decisions: Sequence[Decision], advantages: Sequence[float]
    ) -> float:
        """PPO's clip, its gradient by hand, plain descent; the last step's loss."""
        low = 1 - self.config.convention.clip_low
        high = 1 + self.config.convention.clip_high
        for _ in range(self.config.epochs):
            loss = 0.0
            gradient = np.zeros_like(self.logits)
            for episode, state, action, old in decisions:
                log_probs = log_softmax(self.logits[state])
                ratio = np.exp(log_probs[action] - old)
                surrogate = ratio * advantages[episode]
                clipped = np.clip(ratio, low, high) * advantages[episode]
                loss -= min(surrogate, clipped)
                if surrogate <= clipped:
                    score = -np.exp(log_probs)
                    score[action] += 1.0
                    gradient[state] -= surrogate * score
            self.logits -= self.config.learning_rate * gradient / len(advantages)
        return loss / len(advantages)

    def table(self) -> list[list[float]]:
        """The logits as lists."""
        return self.logits.tolist()


def log_softmax(row: np.ndarray) -> np.ndarray:
    """log pi of one row of logits: (A,) -> (A,)."""
    shifted = row - row.max()
    return shifted - np.log(np.exp(shifted).sum())
