"""What the checks of verl share: its configuration, a scripted server, its agent loop.

The chapter's script plays episodes in verl's loop; so do the checks, by the same functions.
Importing verl takes a quarter of a minute, so the checks run in one process. What is set
here must be set before verl is imported: a check imports this file first.
"""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "04_verl_minimal"
TOOLS_FILE = EXAMPLE / "tool_config.yaml"
sys.path[:0] = [str(ROOT), str(EXAMPLE)]

_FOLDER = tempfile.TemporaryDirectory()  # gone with the process
SCRATCH = Path(_FOLDER.name)
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["HF_DATASETS_CACHE"] = str(SCRATCH / "datasets")
os.environ["HF_DATASETS_DISABLE_PROGRESS_BARS"] = "1"
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"

import rollout
import torch
from rollout import Server, objects, row_of
from verl import DataProto
from verl.experimental.agent_loop.agent_loop import AgentLoopOutput

from agentic_rl.bridges import verl as bridge
from agentic_rl.bridges.tiny_model import make_tokenizer
from agentic_rl.tasks import Task
from agentic_rl.trajectory import Trajectory

__all__ = (
    "AgentLoopOutput",
    "DataProto",
    "Server",
    "bridge",
    "objects",
    "row_of",
    "torch",
)

# verl's warnings go to a log that nobody reads here; assertLogs still sees them.
logging.getLogger().handlers[:] = [logging.NullHandler()]

TOKENIZER = make_tokenizer()
config = functools.cache(rollout.composed)
CONFIG = config()
tools = functools.cache(rollout.loaded_tools)

Turns = list[tuple[list[int], list[float]]]


def quiet() -> contextlib.redirect_stdout[io.StringIO]:
    """Without what verl prints while it loads tools and data."""
    return contextlib.redirect_stdout(io.StringIO())


def turns_of(trajectory: Trajectory) -> Turns:
    """What the assistant wrote: (ids, log-probs) of each of its turns."""
    return rollout.turns_of(trajectory, TOKENIZER)


def said(*texts: str) -> Turns:
    """Turns that a model ends by itself, each with log-prob -0.5 an id."""
    found = []
    for text in texts:
        ids = [
            *TOKENIZER.encode(text, add_special_tokens=False),
            TOKENIZER.eos_token_id,
        ]
        found.append((ids, [-0.5] * len(ids)))
    return found


def play(
    task: Task,
    server: Server,
    cfg: Any = CONFIG,
    with_tools: list[Any] | None = None,
    tokenizer: Any = TOKENIZER,
) -> AgentLoopOutput:
    """One episode of the task in verl's own ToolAgentLoop."""
    return rollout.play(
        task, server, cfg, tools() if with_tools is None else with_tools, tokenizer
    )


def managed(task: Task, output: AgentLoopOutput, cfg: Any = CONFIG) -> dict[str, Any]:
    """{"reward_score", "reward_extra_info"} of verl's own reward manager."""
    return rollout.managed(task, output, cfg, TOKENIZER)


def text_of(output: AgentLoopOutput, mask: int) -> list[str]:
    """The text of each run of ids with this mask."""
    runs: list[list[int]] = []
    before = 1 - mask
    for token, mark in zip(output.response_ids, output.response_mask):
        if mark == mask and before != mask:
            runs.append([])
        if mark == mask:
            runs[-1].append(token)
        before = mark
    return [TOKENIZER.decode(run) for run in runs]
