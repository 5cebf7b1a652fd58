"""What all contestants share: the tasks, the loop around a learner, the comparison.

A learner is a policy and a way to improve it. It plays a batch of tasks with this
course's Episode, so messages, JSON, tools and tokens are the same Python code for all of
them, and it takes its steps with arithmetic of its own. The course's rewards and
advantages come in between.

The course's clamp of log-ratios at 20 is left out: nothing here comes near it, and it
would only slow the others down.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from agentic_rl.advantage import group_advantages
from agentic_rl.agent_loop import Episode
from agentic_rl.grpo import Config
from agentic_rl.reward import COURSE_REWARD
from agentic_rl.tasks import Task


class Learner(Protocol):
    """What each module of this folder offers under the name ``Learner``."""

    def play(self, tasks: Iterable[Task]) -> tuple[list[Episode], Any]:
        """A group of finished episodes a task, in order, and the decisions in them."""

    def improve(self, decisions: Any, advantages: Sequence[float]) -> float:
        """Take the steps on a batch, one advantage an episode; the last step's loss."""

    def table(self) -> list[list[float]]:
        """The logits, one row a state, one number an action."""


def batches(
    tasks: Sequence[Task], config: Config, rng: random.Random
) -> Iterator[Iterator[Task]]:
    """The tasks of each update, drawn from ``rng`` as grpo.sample_batch draws them."""
    queue: list[int] = []

    def batch() -> Iterator[Task]:
        # Task by task: a shuffle comes between two episodes that draw from ``rng`` too.
        for _ in range(config.tasks_per_update):
            if not queue:
                queue.extend(range(len(tasks)))
                rng.shuffle(queue)
            yield tasks[queue.pop()]

    for _ in range(config.updates):
        yield batch()


def train(learner: Learner, updates: Iterable[Iterable[Task]], config: Config) -> None:
    """The loop of grpo.train: play a batch, compare, take the steps; again."""
    for tasks in updates:
        episodes, decisions = learner.play(tasks)
        learner.improve(decisions, compare(episodes, config))


def compare(episodes: Sequence[Episode], config: Config) -> list[float]:
    """The advantage of each episode: the course's reward against that of its group."""
    rewards = [
        COURSE_REWARD(episode.trajectory, episode.world.task).total
        for episode in episodes
    ]
    groups = [number // config.group_size for number in range(len(episodes))]
    return group_advantages(rewards, groups, config.convention)
