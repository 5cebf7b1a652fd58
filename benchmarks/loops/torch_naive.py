"""PyTorch, one decision at a time: a Categorical, a draw; autograd does the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch
from torch.distributions import Categorical

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
        logits = torch.tensor(list(policy.logits.values()), dtype=torch.float64)
        self.logits = torch.nn.Parameter(logits)
        self.optimizer = torch.optim.SGD([self.logits], lr=config.learning_rate)
        self.config = config
        self.draw = draw
        torch.manual_seed(config.seed)

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

    @torch.no_grad()
    def sample(self, state: int) -> tuple[int, float]:
        """(action, its log-prob)."""
        policy = Categorical(logits=self.logits[state])
        if self.draw is None:
            action = policy.sample()
        else:
            reached = torch.cumsum(policy.probs, dim=0)
            reached[-1] = 1.0  # the shares may end a hair under one
            action = torch.searchsorted(reached, self.draw(), right=True)
        return int(action), float(policy.log_prob(action))

    def improve(
        self, decisions: Sequence[Decision], advantages: Sequence[float]
    ) -> float:
        """PPO's clip, autograd, torch.optim.SGD; the last step's loss."""
        low = 1 - self.config.convention.clip_low
        high = 1 + self.config.convention.clip_high
        for _ in range(self.config.epochs):
            loss = torch.zeros((), dtype=torch.float64)
            for episode, state, action, old in decisions:
                policy = Categorical(logits=self.logits[state])
                ratio = torch.exp(policy.log_prob(torch.tensor(action)) - old)
                surrogate = ratio * advantages[episode]
                clipped = torch.clamp(ratio, low, high) * advantages[episode]
                loss = loss - torch.min(surrogate, clipped)
            loss = loss / len(advantages)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return loss.item()

    def table(self) -> list[list[float]]:
        """The logits as lists."""
        return self.logits.tolist()
