"""TRL's GRPOTrainer in the terms of this course, and this course in TRL's.

    ours                            TRL's
    Trajectory                      a rollout record            rollout, trajectory_of
    Trajectory.messages             a completion                completion, replay
    Task                            a dataset row               rows, task_of
    Reward                          a reward function           reward_function
    ToolBox                         tools=                      shared_tools, as_functions
    ToolMath                        environment_factory=        Environment
    Episode                         rollout_func=               rollout_function
    Convention                      arguments of GRPOConfig     settings

Importing this file imports no framework. Functions that need one say so; what is said of
TRL holds for the version in frameworks.py, and checks/bridges/test_trl_*.py call it.
"""

from __future__ import annotations

import inspect
import json
import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from agentic_rl.agent_loop import Episode, Limits
from agentic_rl.bridges.frameworks import BridgeError
from agentic_rl.bridges.token_ids import (
    Notes,
    TokenIds,
    Tokenizer,
    from_ids,
    ordinary,
    to_ids,
)
from agentic_rl.calculator import calculate
from agentic_rl.conventions import TRL, Convention, ConventionError
from agentic_rl.messages import Message, assistant_text, parse_json, tool_call, user
from agentic_rl.reward import Score, attach
from agentic_rl.tasks import Task, parse_task, with_price
from agentic_rl.tokens import IM_END, IM_START, decode, encode, header
from agentic_rl.tool_math import CALCULATOR, ToolMath, lookup_tool
from agentic_rl.tools import Tool, ToolBox
from agentic_rl.trajectory import Trajectory, last_trainable
from agentic_rl.values import excerpt

RewardFunction = Callable[[Trajectory, Task], "Score | float | None"]

# ------------------------------------------------------------------ quiet, on a laptop

QUIET = {
    "HF_HUB_OFFLINE": "1",  # no model hub, and no telemetry either
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TRL_EXPERIMENTAL_SILENCE": "1",  # rollout_func and environment_factory warn
    "TOKENIZERS_PARALLELISM": "false",
}

LAPTOP: dict[str, Any] = {
    "use_cpu": True,
    "bf16": False,  # on by default
    "gradient_checkpointing": False,  # on by default
    "lr_scheduler_type": "constant",
    "logging_steps": 1,
    "save_strategy": "no",
    "report_to": "none",  # None is refused
    "disable_tqdm": True,
}


def silent() -> None:
    """Keep hubs and telemetry off. Call it before anything of TRL's is imported."""
    os.environ.update(QUIET)


def watch(trainer: Any, show: Callable[[int, dict[str, float]], None]) -> None:
    """Call ``show(step, logs)`` after each step, in place of TRL's own printing."""
    from transformers import PrinterCallback, TrainerCallback

    class Watch(TrainerCallback):  # type: ignore[misc]
        def on_log(
            self, args: Any, state: Any, control: Any, logs: Any = None, **rest: Any
        ) -> None:
            if logs and "reward" in logs:
                show(state.global_step, logs)

    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(Watch())


# ------------------------------------------------------------------ what a call looks like

# How a tokenizer's ``response_template`` says what tokens.py and messages.py write. TRL
# reads completions with it; without one it takes no tools.
RESPONSE_TEMPLATE: dict[str, Any] = {
    "defaults": {"role": "assistant"},
    "start_anchor": f"{IM_START}assistant\n",
    "fields": {
        "reasoning_content": {
            "open": "<think>",
            "close_pattern": "</think>",
            "content": "text",
        },
        "tool_calls": {
            "open": "<tool_call>",
            "close_pattern": "</tool_call>",
            "repeats": True,
            "content": "json",
            "transform": {"type": "function", "function": "{content}"},
        },
        "content": {"close_pattern": r"<\|im_end\|>", "content": "text"},
    },
}


def readable(tokenizer: Any) -> Any:
    """The same tokenizer, with what TRL needs to read its calls."""
    tokenizer.response_template = RESPONSE_TEMPLATE
    return tokenizer


# ------------------------------------------------------------------ Trajectory <-> record


def rollout(trajectory: Trajectory, tokenizer: Tokenizer) -> dict[str, Any]:
    """One record as a ``rollout_func`` returns it, lists of one length after the prompt.

        prompt_ids      up to and with the assistant's first header
        completion_ids  everything after it; ends with the assistant's own end token where
                        the episode did
        logprobs        of each id, 0.0 where the mask is 0
        env_mask        the loss mask; TRL calls it tool_mask afterwards

    The other keys are the fields of ``Notes``: TRL hands them to the reward function.
    """
    record = to_ids(trajectory, tokenizer)
    length = len(record.response_ids) - 1  # the line end behind the last turn
    if trajectory.messages[-1]["role"] == "assistant":
        length = last_trainable(record.response_mask) + 1
    return _record(record, length)


def _record(record: TokenIds, length: int) -> dict[str, Any]:
    return {
        "prompt_ids": record.prompt_ids,
        "completion_ids": record.response_ids[:length],
        "logprobs": record.logprobs[:length],
        "env_mask": record.response_mask[:length],
        **record.notes._asdict(),
    }


def trajectory_of(record: dict[str, Any], tokenizer: Tokenizer) -> Trajectory:
    """The trajectory of a record: ``trajectory_of(rollout(t, k), k) == t``.

    Raises BridgeError for a record without its notes, or whose ids are no episode.
    """
    keys = ("prompt_ids", "completion_ids", "env_mask", "logprobs", *Notes._fields)
    if missing := [key for key in keys if key not in record]:
        raise BridgeError(f"record: {missing[0]!r} is missing")
    notes = Notes(*(record[name] for name in Notes._fields))
    prompt, ids, mask, logprobs = (record[name] for name in keys[:4])
    return from_ids(TokenIds(prompt, ids, mask, logprobs, notes), tokenizer)


def columns(records: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    """Records side by side, as TRL wants them: key -> one value a rollout."""
    return {name: [record[name] for record in records] for name in records[0]}


# ------------------------------------------------------------------ Task <-> row


def rows(tasks: Iterable[Task]) -> list[dict[str, Any]]:
    """Dataset rows: the question as a conversation, the task as one column of JSON.

    JSON as text, and not as a column of its own kind: a column has one set of keys, and
    every task would get the items of all the others, priced None.
    """
    return [
        {"prompt": [user(task.question)], "task": json.dumps(task.to_dict())}
        for task in tasks
    ]


def task_of(row: dict[str, Any]) -> Task:
    """The task of a row. Raises TaskError or MessageError for what is none."""
    return parse_task(parse_json(row["task"]))


def dataset(tasks: Iterable[Task]) -> Any:
    """The rows as a ``datasets.Dataset``; it comes with TRL."""
    from datasets import Dataset

    return Dataset.from_list(rows(tasks))


# ------------------------------------------------------------------ messages <-> completion


def written(trajectory: Trajectory) -> list[str]:
    """What the assistant wrote, one text a turn, without the end of turn."""
    turns: list[str] = []
    for token, mask, decision in zip(
        trajectory.tokens, trajectory.loss_mask, trajectory.decision
    ):
        if decision:
            turns.append("")
        if mask and token != IM_END:
            turns[-1] += token
    return turns


def completion(trajectory: Trajectory) -> list[Message]:
    """The messages that TRL's tool loop hands to a reward function for this episode.

    TRL numbers no calls. A turn with a call that can't be read is plain text to it, and
    ends the rollout; so does the last turn of an episode that ran out of turns.
    """
    texts = iter(written(trajectory))
    names: dict[str, str] = {}
    told: list[Message] = []
    for message in trajectory.messages[1:]:
        if message["role"] == "tool":
            name = names[message["tool_call_id"]]
            told.append({"role": "tool", "name": name, "content": message["content"]})
            continue
        text, calls = next(texts), message.get("tool_calls", [])
        if any(isinstance(call["function"]["arguments"], str) for call in calls):
            return [*told, {"role": "assistant", "content": text}]
        plain = {key: value for key, value in message.items() if key != "tool_calls"}
        if calls:
            plain["tool_calls"] = [
                {key: call[key] for key in ("type", "function")} for call in calls
            ]
        told.append(plain)
        names.update((call["id"], call["function"]["name"]) for call in calls)
    if trajectory.finish_reason == "max_turns":
        while told[-1]["role"] == "tool":
            told.pop()
    return told


def replay(
    task: Task,
    completion: Sequence[Message],
    limits: Limits = Limits(),
    tools: ToolBox | None = None,
    cut: bool = False,
) -> Trajectory:
    """Our episode, played again with what TRL says the assistant wrote.

    It can be scored: its messages and observations are ours. Its tokens are our rendering
    of the messages, not the ids that TRL trains on.

    cut     the last turn has no end token: the completion was full

    Where TRL stopped although a call was made, because nothing fitted any more or the
    call could not be read, the finish reason is "length". Raises BridgeError where a tool
    said something else than TRL recorded, or the two disagree on when it was over.
    """
    episode = Episode(task, limits, tools)
    seen = episode.trajectory.observations
    heard = 0
    for place, message in enumerate(completion):
        if message["role"] == "tool":
            told = seen[heard].content if heard < len(seen) else None
            if told != message["content"]:
                raise BridgeError(
                    f"message {place}: TRL recorded {excerpt(message['content'])}, "
                    f"our tool says {excerpt(told)}"
                )
            heard += 1
            continue
        if message["role"] != "assistant" or heard < len(seen) or episode.done:
            reason = episode.trajectory.finish_reason or f"{len(seen) - heard} to hear"
            raise BridgeError(
                f"message {place}: TRL has a turn of {message['role']!r}, our episode "
                f"has none there ({reason})"
            )
        say(episode, assistant_text(message), cut and place == len(completion) - 1)
    if not episode.done:
        episode.trajectory.finish_reason = "length"
    return episode.trajectory


def say(episode: Episode, text: str, cut: bool, logprob: float = 0.0) -> None:
    """One assistant turn of this text; ``cut``: its end token was never written."""
    if cut:
        room = max(len(encode(text)), 1)
        episode.limits = replace(episode.limits, turn_tokens=room)
    episode.say(text, logprob)


# ------------------------------------------------------------------ Reward -> function


def reward_function(
    reward: RewardFunction,
    end_id: int,
    limits: Limits = Limits(),
    tools: ToolBox | None = None,
) -> Callable[..., list[float | None]]:
    """Our reward as TRL's: it plays each completion again and scores that.

    The breakdown goes into TRL's table of completions (``log_extra``) and, as means, into
    its metrics (``log_metric``). A completion that can't be played again gets None, which
    TRL leaves out of its group; the metric ``unscored`` counts them.

    end_id  of the end-of-turn token: a completion that does not end with it was cut
    tools   the tools that the trainer was given, for ``tools=``; otherwise the task's own
    """

    def tool_math_reward(
        completions: Sequence[Sequence[Message]],
        completion_ids: Sequence[Sequence[int]],
        task: Sequence[str],
        log_extra: Callable[[str, list[Any]], None],
        log_metric: Callable[[str, float], None],
        **others: Any,
    ) -> list[float | None]:
        scores = []
        for messages, ids, row in zip(completions, completion_ids, task):
            asked, cut = task_of({"task": row}), ids[-1] != end_id
            try:
                episode = replay(asked, messages, limits, tools, cut)
            except BridgeError:
                scores.append(Score(None, {}))
                continue
            attach([episode], [reward(episode, asked)])
            scores.append(Score(episode.reward, episode.breakdown))
        return report(scores, log_extra, log_metric)

    return tool_math_reward


def recorded_reward(
    reward: Sequence[float | None],
    breakdown: Sequence[dict[str, float]],
    log_extra: Callable[[str, list[Any]], None],
    log_metric: Callable[[str, float], None],
    **others: Any,
) -> list[float | None]:
    """TRL's reward function beside ``rollout_function``, whose episodes are scored."""
    scores = [Score(total, parts) for total, parts in zip(reward, breakdown)]
    return report(scores, log_extra, log_metric)


def report(
    scores: Sequence[Score],
    log_extra: Callable[[str, list[Any]], None],
    log_metric: Callable[[str, float], None],
) -> list[float | None]:
    """The totals; what they are made of goes where TRL logs."""
    scored = [score.breakdown for score in scores if score.total is not None]
    for name in dict.fromkeys(name for parts in scored for name in parts):
        log_extra(name, [score.breakdown.get(name) for score in scores])
        paid = math.fsum(parts.get(name, 0.0) for parts in scored)
        log_metric(f"breakdown/{name}", paid / len(scored))
    log_metric("unscored", 1 - len(scored) / len(scores))
    return [score.total for score in scores]


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
    def run(world: Environment, **arguments: Any) -> str:
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
        return _record(found, len(self.ids))


def context_ids(tokens: Sequence[str], tokenizer: Tokenizer) -> list[int]:
    """The ids of tokens that the harness wrote."""
    ids: list[int] = []
    for special, texts in groupby(tokens, lambda token: token in (IM_START, IM_END)):
        if special:
            ids += [int(tokenizer.convert_tokens_to_ids(text)) for text in texts]
        else:
            ids += ordinary(decode(texts), tokenizer)
    return ids


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
    with (
        unwrap_model_for_generation(
            trainer.model_wrapped, trainer.accelerator
        ) as model,
        torch.no_grad(),
    ):
        found = model.generate(
            torch.tensor(padded, device=device),
            attention_mask=torch.tensor(marks, device=device),
            generation_config=trainer.generation_config,
            max_new_tokens=max(rooms),
            return_dict_in_generate=True,
            output_logits=True,
        )
    new = found.sequences[:, width:]
    logits = torch.stack(found.logits, 1) / trainer.temperature
    logprobs = torch.log_softmax(logits, -1).gather(-1, new[..., None])[..., 0]
    turns = []
    for ids, values, room in zip(new.tolist(), logprobs.tolist(), rooms):
        stop = ids.index(end) + 1 if end in ids else len(ids)
        turns.append((ids[: min(stop, room)], values[: min(stop, room)]))
    return turns


# ------------------------------------------------------------------ Convention -> GRPOConfig

LOSS_TYPES = {
    "batch_mean": "dapo",
    "episode_mean": "grpo",
    "episode_sum": "luspo",
    "constant": "dr_grpo",
}
_ALWAYS = (
    "baseline",
    "group_of_one",
    "unscored",
    "groups",
    "returns",
    "discount",
    "whiten",
    "unit",
    "log_ratio_clamp",
)
_IF_SCALED = ("ddof", "std_epsilon", "epsilon_place", "zero_spread")
_IF_KL = ("kl_estimator", "kl_log_ratio_clamp", "kl_clamp")


def unsayable(convention: Convention) -> dict[str, Any]:
    """switch -> what TRL has in its place, for each that no GRPOConfig can say.

    Switches that act on nothing, such as the std's epsilon where nothing is divided, are
    not asked about. ``convention.but(**unsayable(convention))`` is the nearest that TRL
    can say.
    """
    asked = list(_ALWAYS)
    if convention.std != "none":
        asked += _IF_SCALED
    if convention.kl_weight:
        asked += _IF_KL
    wrong = {
        name: getattr(TRL, name)
        for name in asked
        if getattr(convention, name) != getattr(TRL, name)
    }
    if convention.kl_weight and convention.kl_place == "reward":
        wrong["kl_place"] = "loss"
    if convention.aggregation not in LOSS_TYPES:
        wrong["aggregation"] = TRL.aggregation
    if convention.aggregation == "episode_mean" and convention.mean_epsilon:
        wrong["mean_epsilon"] = 0.0
    if convention.aggregation != "batch_mean" and convention.empty_rows != "counted":
        wrong["empty_rows"] = "counted"
    if convention.clip == "two_sided":
        wrong["clip"] = "ppo"
    bound = convention.dual_clip  # TRL's delta bounds the ratio whatever the sign
    if bound and (convention.clip == "off" or bound < 1 + convention.clip_high):
        wrong["dual_clip"] = None
    return wrong


def settings(
    convention: Convention, group_size: int = 8, epochs: int = 1
) -> dict[str, Any]:
    """The arguments of GRPOConfig that mean this convention.

    Raises ConventionError naming every switch that TRL can't say, BridgeError for a group
    that TRL refuses.
    """
    if wrong := unsayable(convention):
        told = (
            f"{name}={getattr(convention, name)!r} (it has {value!r})"
            for name, value in wrong.items()
        )
        raise ConventionError(f"{convention.name}: TRL can't say {', '.join(told)}")
    if group_size < 2:
        raise BridgeError(f"group_size: TRL needs at least 2, got {group_size}")
    clips = convention.clip != "off"
    found = {
        "num_generations": group_size,
        "num_iterations": epochs,
        "scale_rewards": convention.std,
        "loss_type": LOSS_TYPES[convention.aggregation],
        "importance_sampling_level": (
            "sequence" if convention.ratio == "sequence" else "token"
        ),
        "epsilon": convention.clip_low if clips else math.inf,
        "epsilon_high": convention.clip_high if clips else math.inf,
        "delta": convention.dual_clip,
        "beta": convention.kl_weight,
        "use_bias_correction_kl": convention.kl_ratio,
    }
    if convention.aggregation == "constant":
        found["max_completion_length"] = convention.max_length
    return found
