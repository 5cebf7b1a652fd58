"""NumPy, all episodes of a batch in lock step: arrays over episodes, then decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from agentic_rl.agent_loop import Episode
from agentic_rl.grpo import Config
from agentic_rl.policy import SoftmaxPolicy
from agentic_rl.tasks import Task

Draws = Callable[[Sequence[int], int], Sequence[float]]


def own_draws(seed: int) -> Draws:
    """Draws from a generator of its own."""
    generator = np.random.default_rng(seed)
    return lambda live, turn: generator.random(len(live))


class Decisions(NamedTuple):
    """The D decisions of a batch; every array is (D,)."""

    episode: np.ndarray
    state: np.ndarray
    action: np.ndarray
    logprob: np.ndarray


class Learner:
    """``logits`` (S, A); ``draws(episodes, turn)`` gives a number an episode."""

    def __init__(self, policy: SoftmaxPolicy, config: Config, draws: Draws):
        self.rows = {state: row for row, state in enumerate(policy.logits)}
        self.actions = policy.actions
        self.logits = np.array(list(policy.logits.values()))
        self.config = config
        self.draws = draws

    def play(self, tasks: Iterable[Task]) -> tuple[list[Episode], Decisions]:
        """All episodes at once, turn after turn, until none is live."""
        size, limits = self.config.group_size, self.config.limits
        episodes = [Episode(task, limits) for task in tasks for _ in range(size)]
        turns: list[Decisions] = []
        live = list(range(len(episodes)))
        while live:
            state = np.array([self.rows[episodes[number].state] for number in live])
            action, logprob = self.sample(state, self.draws(live, len(turns)))
            turns.append(Decisions(np.array(live), state, action, logprob))
            for number, a, lp in zip(live, action.tolist(), logprob.tolist()):
                episodes[number].act(self.actions[a], lp)
            live = [number for number in live if not episodes[number].done]
        return episodes, Decisions(*(np.concatenate(column) for column in zip(*turns)))

    def sample(
        self, state: np.ndarray, draws: Sequence[float]
    ) -> tuple[np.ndarray, np.ndarray]:
        """(actions, their log-probs), each (N,), for N live episodes."""
        log_probs = log_softmax(self.logits[state])  # (N, A)
        reached = np.cumsum(np.exp(log_probs), axis=1)
        reached[:, -1] = 1.0  # the shares may end a hair under one
        action = (np.asarray(draws)[:, None] < reached).argmax(axis=1)
        return action, log_probs[np.arange(len(action)), action]

    def improve(self, decisions: Decisions, advantages: Sequence[float]) -> float:
        """PPO's clip, its gradient by hand, plain descent; the last step's loss."""
        low = 1 - self.config.convention.clip_low
        high = 1 + self.config.convention.clip_high
        episode, state, action, old = decisions
        advantage = np.array(advantages)[episode]  # (D,)
        every = np.arange(len(state))
        for _ in range(self.config.epochs):
            log_probs = log_softmax(self.logits[state])  # (D, A)
            ratio = np.exp(log_probs[every, action] - old)
            surrogate = ratio * advantage
            clipped = np.clip(ratio, low, high) * advantage
            loss = -np.minimum(surrogate, clipped).sum()
            slope = np.where(surrogate <= clipped, -surrogate, 0.0)
            score = -np.exp(log_probs)
            score[every, action] += 1.0
            gradient = np.zeros_like(self.logits)
            np.add.at(gradient, state, slope[:, None] * score)
            self.logits -= self.config.learning_rate * gradient / len(advantages)
        return float(loss) / len(advantages)

    def table(self) -> list[list[float]]:
        """The logits as lists."""
        return self.logits.tolist()


def log_softmax(rows: np.ndarray) -> np.ndarray:
    """log pi of each row of logits: (N, A) -> (N, A)."""
    shifted = rows - rows.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
