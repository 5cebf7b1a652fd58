"""Where the time of a run goes, phase by phase, in the same places of all five loops.

    environment  episodes: messages, JSON, tools, tokens      the same code for all five
    scoring      rewards and advantages                       the same code for all five
    sampling     what else happens while episodes are played: states, softmax, draws
    update       log-probs, loss, gradient, steps
    metrics      the training log, which ours keeps and the others don't

A clock is read before and after each call that opens or closes a phase.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

from loops import numpy_naive, numpy_vectorised, torch_naive, torch_vectorised

from agentic_rl import grpo
from agentic_rl.agent_loop import Episode
from agentic_rl.reward import Reward

PHASES = ("environment", "scoring", "sampling", "update", "metrics")
LEARNERS = (numpy_naive, numpy_vectorised, torch_naive, torch_vectorised)

# (where a function is, its name, the phase that its call ends, the phase it is)
BORDERS: tuple[tuple[Any, str, str, str], ...] = (
    (Episode, "__init__", "sampling", "environment"),
    (Episode, "act", "sampling", "environment"),
    (Reward, "__call__", "sampling", "scoring"),
    (grpo, "attach", "sampling", "scoring"),
    (grpo, "right", "sampling", "scoring"),
    (grpo, "improve", "scoring", "update"),
    (grpo, "measure", "update", "metrics"),
    *((module.Learner, "improve", "scoring", "update") for module in LEARNERS),
)


class Clock:
    """Seconds by phase. Wall clock: it is read in a tenth of the CPU clock's time."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PHASES, 0.0)
        self.last = time.perf_counter()

    def charge(self, phase: str) -> None:
        """The time since the last charge was spent on this phase."""
        now = time.perf_counter()
        self.seconds[phase] += now - self.last
        self.last = now

    def around(
        self, function: Callable[..., Any], before: str, phase: str
    ) -> Callable[..., Any]:
        """The function, with the time before it and the time in it charged."""

        def charged(*arguments: Any) -> Any:
            self.charge(before)
            result = function(*arguments)
            self.charge(phase)
            return result

        return charged


def phases(run: Callable[[], object]) -> dict[str, float]:
    """phase -> seconds of one run."""
    with ExitStack() as borders:
        clock = Clock()
        for owner, name, before, phase in BORDERS:
            charged = clock.around(getattr(owner, name), before, phase)
            borders.enter_context(patch.object(owner, name, charged))
        clock.last = time.perf_counter()
        run()
    return clock.seconds
