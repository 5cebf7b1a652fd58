"""PyTorch, all episodes of a batch in lock step: tensors over episodes, then decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch

from agentic_rl.agent_loop import Episode
from agentic_rl.grpo import Config
from agentic_rl.policy import SoftmaxPolicy
from agentic_rl.tasks import Task

Draws = Callable[[Sequence[int], int], Sequence[float]]


def own_draws(seed: int) -> Draws:
    """Draws from a generator of its own."""
    generator = torch.Generator().manual_seed(seed)
    double = torch.float64
    return lambda live, turn: torch.rand(len(live), generator=generator, dtype=double)


class Decisions(NamedTuple):
    """The D decisions of a batch; every tensor is (D,)."""

    episode: torch.Tensor
    state: torch.Tensor
    action: torch.Tensor
    logprob: torch.Tensor


class Learner:
    """``logits`` (S, A); ``draws(episodes, turn)`` gives a number an episode."""

    def __init__(self, policy: SoftmaxPolicy, config: Config, draws: Draws):
        self.rows = {state: row for row, state in enumerate(policy.logits)}
        self.actions = policy.actions
        logits = torch.tensor(list(policy.logits.values()), dtype=torch.float64)
        self.logits = torch.nn.Parameter(logits)
        self.optimizer = torch.optim.SGD([self.logits], lr=config.learning_rate)
        self.config = config
        self.draws = draws

    def play(self, tasks: Iterable[Task]) -> tuple[list[Episode], Decisions]:
        """All episodes at once, turn after turn, until none is live."""
        size, limits = self.config.group_size, self.config.limits
        episodes = [Episode(task, limits) for task in tasks for _ in range(size)]
        turns: list[Decisions] = []
        live = list(range(len(episodes)))
        while live:
            state = torch.tensor([self.rows[episodes[number].state] for number in live])
            action, logprob = self.sample(state, self.draws(live, len(turns)))
            turns.append(Decisions(torch.tensor(live), state, action, logprob))
            for number, a, lp in zip(live, action.tolist(), logprob.tolist()):
                episodes[number].act(self.actions[a], lp)
            live = [number for number in live if not episodes[number].done]
        return episodes, Decisions(*(torch.cat(column) for column in zip(*turns)))

    @torch.no_grad()
    def sample(
        self, state: torch.Tensor, draws: Sequence[float]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(actions, their log-probs), each (N,), for N live episodes."""
        log_probs = torch.log_softmax(self.logits[state], dim=1)  # (N, A)
        reached = torch.cumsum(torch.exp(log_probs), dim=1)
        reached[:, -1] = 1.0  # the shares may end a hair under one
        drawn = torch.as_tensor(draws, dtype=torch.float64)[:, None]
        action = torch.searchsorted(reached, drawn, right=True)  # (N, 1)
        return action[:, 0], log_probs.gather(1, action)[:, 0]

    def improve(self, decisions: Decisions, advantages: Sequence[float]) -> float:
        """PPO's clip, autograd, torch.optim.SGD; the last step's loss."""
        low = 1 - self.config.convention.clip_low
        high = 1 + self.config.convention.clip_high
        episode, state, action, old = decisions
        advantage = torch.tensor(advantages, dtype=torch.float64)[episode]  # (D,)
        for _ in range(self.config.epochs):
            log_probs = torch.log_softmax(self.logits[state], dim=1)  # (D, A)
            ratio = torch.exp(log_probs.gather(1, action[:, None])[:, 0] - old)
            surrogate = ratio * advantage
            clipped = torch.clamp(ratio, low, high) * advantage
            loss = -torch.min(surrogate, clipped).sum() / len(advantages)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return loss.item()

    def table(self) -> list[list[float]]:
        """The logits as lists."""
        return self.logits.tolist()
