"""What the tests of TRL's half share: one tiny world, and trainers that write from a script."""

from __future__ import annotations

import atexit
import functools
import logging
import tempfile
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from agentic_rl.bridges import sums, tiny_model
from agentic_rl.bridges import trl as bridge
from agentic_rl.bridges.frameworks import require
from agentic_rl.messages import Message
from agentic_rl.tasks import Task

bridge.silent()
trl = require("trl")

import torch

torch.set_num_threads(1)
# TRL's advice goes to nobody here; assertLogs still hears it.
logging.getLogger("trl").setLevel(logging.ERROR)
SCRATCH = tempfile.TemporaryDirectory()
atexit.register(SCRATCH.cleanup)
ROW = {"prompt": [{"role": "user", "content": "What is 4 + 2?"}]}


@functools.cache
def tokenizer() -> Any:
    """The course's tokenizer, with what TRL needs to read calls."""
    return bridge.readable(tiny_model.make_tokenizer())


@functools.cache
def model_folder() -> str:
    """A model of 16 hidden units on disk: TRL reads a reference model from there."""
    folder = f"{SCRATCH.name}/model"
    tiny_model.make_model(tokenizer(), seed=0, hidden=16, layers=1).save_pretrained(
        folder
    )
    return folder


@functools.cache
def small_model_folder() -> str:
    """The same for the sixteen tokens of the sums."""
    folder = f"{SCRATCH.name}/small"
    made = tiny_model.make_model(sums.make_tokenizer(), seed=0, hidden=16, layers=1)
    made.save_pretrained(folder)
    return folder


def config(**settings: Any) -> Any:
    """A real GRPOConfig for this machine."""
    return trl.GRPOConfig(**{"output_dir": SCRATCH.name, **bridge.LAPTOP, **settings})


def trainer(
    reward: Callable[..., Any], rows: Sequence[dict[str, Any]], **arguments: Any
) -> Any:
    """A real GRPOTrainer of the tiny model; what is no argument of it is a setting."""
    named = (
        "tools",
        "environment_factory",
        "rollout_func",
        "model",
        "processing_class",
    )
    given = {name: arguments.pop(name) for name in named if name in arguments}
    from datasets import Dataset

    made = trl.GRPOTrainer(
        **{"model": model_folder(), "processing_class": tokenizer(), **given},
        reward_funcs=reward,
        args=config(**arguments),
        train_dataset=Dataset.from_list(list(rows)),
    )
    made.model.train()
    made.current_gradient_accumulation_steps = made.args.gradient_accumulation_steps
    return made


def constant(completions: Sequence[Any], **others: Any) -> list[float]:
    """A reward that nobody looks at."""
    return [0.0] * len(completions)


def ids_of(text: str) -> list[int]:
    """A turn of the assistant as its ids, the end token last."""
    return [*tokenizer()(text, add_special_tokens=False)["input_ids"], end()]


def end() -> int:
    """The id of the end of a turn."""
    return int(tokenizer().eos_token_id)


class Played(NamedTuple):
    """One rollout of TRL's own loop: its ids and mask, and what the reward was told.

    fields   the names of what it is kept in: the trainer's batch, the reward's arguments
    """

    prompt_ids: list[int]
    ids: list[int]
    mask: list[int]
    messages: list[Message]
    trainer: Any
    fields: set[str]


def play(row: dict[str, Any], turns: Sequence[list[int]], **arguments: Any) -> Played:
    """TRL's loop with a model that writes these turns, one after the other.

    Only ``_generate_single_turn`` is ours. The group has two rollouts with one script,
    which TRL takes through its loop side by side.
    """
    heard: list[list[Message]] = []
    fields: set[str] = set()

    def reward(completions: Any, **others: Any) -> list[float]:
        heard.extend(completions)
        fields.update(others, ["completions"])
        return [0.0] * len(completions)

    made = trainer(
        reward,
        [row, row],
        per_device_train_batch_size=2,
        num_generations=2,
        **{"max_completion_length": 400, **arguments},
    )
    script = iter(turns)

    def write(prompt_ids: list[list[int]], *rest: Any, **named: Any) -> Any:
        turn = next(script)
        return [list(turn) for _ in prompt_ids], None

    made._generate_single_turn = write
    batch = bridge.keep_batch(made)
    made._generate_and_score_completions([dict(row), dict(row)])
    length = int(batch["completion_mask"][0].sum())
    ids = batch["completion_ids"][0][:length].tolist()
    mask = [1] * length
    if "tool_mask" in batch:
        mask = batch["tool_mask"][0][:length].tolist()
    prompt = batch["prompt_ids"][0][batch["prompt_mask"][0] == 1].tolist()
    return Played(prompt, ids, mask, heard[0], made, fields | set(batch))


def row_of(task: Task) -> dict[str, Any]:
    """The dataset's row of a task."""
    return bridge.rows([task])[0]
