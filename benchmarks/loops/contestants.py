"""The five loops behind one call each, and whether they make the same updates."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from types import ModuleType

import numpy as np
from loops import numpy_naive, numpy_vectorised, shared, torch_naive, torch_vectorised

from agentic_rl.evaluation import training_tasks
from agentic_rl.grpo import Batch, Config, State, start, train
from agentic_rl.tasks import Task

Table = list[list[float]]  # logits: one row a state, one number an action

TASKS = training_tasks()
BY_ID = {task.id: task for task in TASKS}


class Astray(Exception):
    """A contestant plays on where our episode had ended: its updates were others."""


class Recorder(random.Random):
    """A generator that keeps what its ``random`` gives."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.drawn: list[float] = []

    def random(self) -> float:
        """As ever."""
        self.drawn.append(super().random())
        return self.drawn[-1]

    def getrandbits(self, bits: int) -> int:
        """As ever. A class that has only a ``random`` of its own would shuffle by it."""
        return super().getrandbits(bits)


class Tape:
    """Of a run of ours: the tasks of each update, and the draws of each episode in it.

    tasks    one list an update
    draws    one list an update, of one list an episode, of one number a turn
    playing  the draws of the update that is being played again
    logits   those that the run ended with
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.tasks: list[list[Task]] = []
        self.draws: list[list[list[float]]] = []
        self.playing: list[list[float]] = []
        state = start(config)
        self.recorder = Recorder(config.seed)
        self.recorder.setstate(state.rng.getstate())
        state.rng = self.recorder
        train(TASKS, config, state=state, on_update=self._record)
        self.logits: Table = list(state.policy.logits.values())

    def _record(self, state: State, batch: Batch) -> None:
        draws = iter(self.recorder.drawn)
        first = batch.trajectories[:: self.config.group_size]  # of each group
        self.tasks.append([BY_ID[episode.task_id] for episode in first])
        self.draws.append(
            [[next(draws) for _ in x.actions] for x in batch.trajectories]
        )
        self.recorder.drawn = []

    def updates(self) -> Iterator[list[Task]]:
        """The tasks again; meanwhile ``draw`` gives the draws of the update at hand."""
        for tasks, draws in zip(self.tasks, self.draws):
            self.playing = draws
            yield tasks

    def draw(self, live: Sequence[int], turn: int) -> list[float]:
        """What these episodes drew in this turn. Raises Astray if one had ended."""
        try:
            return [self.playing[number][turn] for number in live]
        except IndexError:
            raise Astray from None


def ours(config: Config, tape: Tape | None = None) -> Table:
    """The course itself."""
    return list(train(TASKS, config).policy.logits.values())


def naive(module: ModuleType, config: Config, tape: Tape | None = None) -> Table:
    """One decision at a time. With a tape, our generator draws, in our order."""
    state = start(config)
    learner = module.Learner(state.policy, config, state.rng.random if tape else None)
    shared.train(learner, shared.batches(TASKS, config, state.rng), config)
    return learner.table()


def vectorised(module: ModuleType, config: Config, tape: Tape | None = None) -> Table:
    """In lock step: the draws come in another order, unless a tape gives them."""
    state = start(config)
    draw = tape.draw if tape else module.own_draws(config.seed)
    updates = tape.updates() if tape else shared.batches(TASKS, config, state.rng)
    learner = module.Learner(state.policy, config, draw)
    shared.train(learner, updates, config)
    return learner.table()


OURS = "ours, pure Python"
CONTESTANTS: dict[str, Callable[..., Table]] = {
    OURS: ours,
    "NumPy naive": partial(naive, numpy_naive),
    "NumPy vectorised": partial(vectorised, numpy_vectorised),
    "PyTorch naive": partial(naive, torch_naive),
    "PyTorch vectorised": partial(vectorised, torch_vectorised),
}


def differences(config: Config) -> dict[str, float]:
    """name -> the largest difference of a logit from ours, after the same draws.

    math.inf for one that went astray on the way.
    """
    tape = Tape(config)
    found = dict.fromkeys(CONTESTANTS, math.inf)
    for name, train_again in CONTESTANTS.items():
        with suppress(Astray):
            logits = train_again(config, tape)
            found[name] = float(np.abs(np.subtract(logits, tape.logits)).max())
    return found
