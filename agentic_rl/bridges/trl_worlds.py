"""Three ways to let TRL's trainer use our tools.

    ours                            TRL's
    ToolBox                         tools=                      shared_tools, as_functions
    ToolMath                        environment_factory=        Environment
    Episode                         rollout_func=               rollout_function

In the first two the loop is TRL's: it samples a turn, reads the calls, runs the functions,
and goes on. In the third it is ours, and only the ids of each turn come from TRL's model.
The calculator and the price list are those of tool_math.py in all of them.
"""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from agentic_rl.agent_loop import Episode, Limits
from agentic_rl.bridges.frameworks import BridgeError
from agentic_rl.bridges.token_ids import TokenIds, context_ids, to_ids
from agentic_rl.bridges.trl import RewardFunction, columns, record_of, say, task_of
from agentic_rl.calculator import calculate
from agentic_rl.messages import Message, tool_call
from agentic_rl.reward import attach
from agentic_rl.tasks import Task, with_price
from agentic_rl.tokens import header
from agentic_rl.tool_math import CALCULATOR, ToolMath, lookup_tool
from agentic_rl.tools import Tool, ToolBox
from agentic_rl.trajectory import last_trainable
from agentic_rl.values import excerpt

# ------------------------------------------------------------------ ToolBox -> tools=

_HINTS = {"string": str, "integer": int, "number": float, "boolean": bool}


def as_function(tool: Tool, run: Callable[..., str], *first: str) -> Callable[..., str]:
    """A tool as TRL wants it: hints, and a docstring in Google's style.

    ``run(*first, **arguments)`` does the work. Whatever arguments a model writes arrive
    there, so that our own tool box answers for them and not Python.
    """

    def function(*objects: Any, **arguments: Any) -> str:
        return run(*objects, **arguments)

    named = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(name, named) for name in first]
    for name, kind in tool.parameters.items():
        hint = inspect.Parameter(name, named, annotation=_HINTS[kind])
        parameters.append(hint)
    arguments = "".join(f"    {name}: The {name}.\n" for name in tool.parameters)
    function.__name__ = function.__qualname__ = tool.name
    function.__doc__ = f"{tool.description}\n\nArgs:\n{arguments}"
    signature = inspect.Signature(parameters, return_annotation=str)
    function.__signature__ = signature  # type: ignore[attr-defined]
    hints = {name: _HINTS[kind] for name, kind in tool.parameters.items()}
    function.__annotations__ = {**hints, "return": str}
    return function


def call_text(box: ToolBox, name: str, arguments: dict[str, Any]) -> str:
    """What our tool box answers to a call, an error included."""
    return box.call(tool_call("call", name, arguments)).content


def as_functions(box: ToolBox) -> list[Callable[..., str]]:
    """The tools of a box, for ``tools=``. An error is the same text as ours."""

    def bound(name: str) -> Callable[..., str]:
        return lambda **arguments: call_text(box, name, arguments)

    return [as_function(tool, bound(name)) for name, tool in box.tools.items()]


def shared_tools(tasks: Iterable[Task]) -> ToolBox:
    """One box for all tasks: a function in ``tools=`` is told nothing about its row.

    Raises BridgeError if two tasks have different prices for one item; see ``on_one_shelf``.
    """
    shelf: dict[str, str] = {}
    for task in tasks:
        for item, price in (task.prices or {}).items():
            if shelf.setdefault(item, price) != price:
                raise BridgeError(
                    f"task {task.id!r}: {item!r} costs {price} here and {shelf[item]} in "
                    "another task; tools= has one price list"
                )
    return ToolBox([CALCULATOR, lookup_tool(shelf)])


def on_one_shelf(tasks: Sequence[Task]) -> list[Task]:
    """The same questions under one price list; the answers follow."""
    shelf: dict[str, str] = {}
    for task in tasks:
        for item, price in (task.prices or {}).items():
            shelf.setdefault(item, price)

    def priced(task: Task) -> Task:
        if task.item is None:
            return task
        answer = calculate(with_price(task.expression, shelf[task.item]))
        return replace(task, prices=dict(shelf), answer=answer)

    return [priced(task) for task in tasks]


# ------------------------------------------------------------------ ToolMath -> environment


class Environment:
    """``environment_factory=Environment``: one world a rollout, with its row's own prices.

    TRL makes as many as it needs and calls ``reset`` with the row before each rollout. The
    methods are our tools; what the assistant writes around its calls is not shown here.
    """

    def reset(self, task: str, **row: Any) -> None:
        """Start the world of a row; nothing is added to the question."""
        self._world = ToolMath(task_of({"task": task}))

    def _answer(self, name: str, arguments: dict[str, Any]) -> str:
        return call_text(self._world.tools, name, arguments)


def _method(tool: Tool) -> Callable[..., str]:
    def run(world: Environment, /, **arguments: Any) -> str:
        return world._answer(tool.name, arguments)

    return as_function(tool, run, "self")


for _tool in (CALCULATOR, lookup_tool({})):
    setattr(Environment, _tool.name, _method(_tool))


# ------------------------------------------------------------------ Episode -> rollout_func


class _Run:
    """One of our episodes, and beside it the ids as they were sampled.

    Tokens in, tokens out: what the model wrote is never decoded and encoded again.
    """

    def __init__(self, task: Task, limits: Limits, tokenizer: Any) -> None:
        self.episode = Episode(task, limits)
        self.tokenizer = tokenizer
        self.prompt_ids = self._new_context(header("assistant"))
        self.ids: list[int] = []
        self.mask: list[int] = []
        self.logprobs: list[float] = []

    def _new_context(self, more: Sequence[str] = ()) -> list[int]:
        """The ids of what the harness wrote since the assistant's last token."""
        record = self.episode.trajectory
        start = last_trainable(record.loss_mask) + 1 if record.actions else 0
        return context_ids([*record.tokens[start:], *more], self.tokenizer)

    def _append(self, ids: list[int], mask: int, logprobs: list[float]) -> None:
        self.ids += ids
        self.mask += [mask] * len(ids)
        self.logprobs += logprobs

    def write(self, ids: list[int], logprobs: list[float], length: int) -> None:
        """A turn that the model sampled; then what the tools say to it.

        The episode ends if the answer to a call leaves no room in ``length`` ids.
        """
        ended = ids[-1] == self.tokenizer.eos_token_id
        text = self.tokenizer.decode(ids[:-1] if ended else ids)
        say(self.episode, text, not ended, math.fsum(logprobs))
        self._append(ids, 1, logprobs)
        record = self.episode.trajectory
        if record.messages[-1]["role"] == "assistant":
            return
        heard = self._new_context(header("assistant"))
        if not self.episode.done and len(self.ids) + len(heard) >= length:
            record.finish_reason = "length"
        if self.episode.done:
            heard = self._new_context()[:-1]  # no header, no line end after the turn
        self._append(heard, 0, [0.0] * len(heard))

    def record(self) -> dict[str, Any]:
        """This rollout as TRL wants it, notes included."""
        notes = to_ids(self.episode.trajectory, self.tokenizer).notes
        found = TokenIds(self.prompt_ids, self.ids, self.mask, self.logprobs, notes)
        return record_of(found, len(self.ids))


def rollout_function(
    tasks: Iterable[Task], reward: RewardFunction, limits: Limits = Limits()
) -> Callable[[list[list[Message]], Any], dict[str, list[Any]]]:
    """``rollout_func``: our agent loop, with the trainer's model writing each turn.

    TRL hands over prompts alone, so a task is found by its question. The episodes are
    scored here, where each message still has its author; use ``recorded_reward`` beside it.
    Raises BridgeError for a question that two tasks share, or that none has.
    """
    known: dict[str, Task] = {}
    for task in tasks:
        if known.setdefault(task.question, task) != task:
            raise BridgeError(f"two tasks ask {excerpt(task.question)}")

    def play(prompts: list[list[Message]], trainer: Any) -> dict[str, list[Any]]:
        asked = []
        for prompt in prompts:
            if prompt[-1]["content"] not in known:
                raise BridgeError(f"no task asks {excerpt(prompt[-1]['content'])}")
            asked.append(known[prompt[-1]["content"]])
        runs = [_Run(task, limits, trainer.processing_class) for task in asked]
        length = trainer.max_completion_length
        while live := [run for run in runs if not run.episode.done]:
            for run, turn in zip(live, _sample(trainer, live, length)):
                run.write(*turn, length)
        for run, task in zip(runs, asked):
            attach([run.episode.trajectory], [reward(run.episode.trajectory, task)])
        return columns([run.record() for run in runs])

    return play


def _sample(
    trainer: Any, runs: Sequence[_Run], length: int
) -> list[tuple[list[int], list[float]]]:
    """(ids, their log-probs in nats) of one turn for each run, in one batch."""
    import torch
    from trl.models import unwrap_model_for_generation

    contexts = [[*run.prompt_ids, *run.ids] for run in runs]
    rooms = [length - len(run.ids) for run in runs]
    width = max(map(len, contexts))
    pad, end = (
        trainer.processing_class.pad_token_id,
        trainer.processing_class.eos_token_id,
    )
    padded = [[pad] * (width - len(row)) + row for row in contexts]
    marks = [[0] * (width - len(row)) + [1] * len(row) for row in contexts]
    device = trainer.accelerator.device
    how = copy.deepcopy(trainer.generation_config)
    how.update(
        max_new_tokens=max(rooms), return_dict_in_generate=True, output_logits=True
    )
    with (
        unwrap_model_for_generation(
            trainer.model_wrapped, trainer.accelerator
        ) as model,
        torch.no_grad(),
    ):
        found = model.generate(
            torch.tensor(padded, device=device),
            attention_mask=torch.tensor(marks, device=device),
            generation_config=how,
        )
    new = found.sequences[:, width:]
    logits = torch.stack(found.logits, 1) / trainer.temperature
    logprobs = torch.log_softmax(logits, -1).gather(-1, new[..., None])[..., 0]
    turns = []
    for ids, values, room in zip(new.tolist(), logprobs.tolist(), rooms):
        stop = ids.index(end) + 1 if end in ids else len(ids)
        turns.append((ids[: min(stop, room)], values[: min(stop, room)]))
    return turns
