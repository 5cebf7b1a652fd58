"""TRL's GRPOTrainer in the terms of this course, and this course in TRL's.

    ours                            TRL's
    Trajectory                      a rollout record            rollout, trajectory_of
    Trajectory.messages             a completion                completion, replay
    Task                            a dataset row               rows, task_of
    Reward                          a reward function           reward_function
    Convention                      arguments of GRPOConfig     settings
    ToolBox, ToolMath, Episode      tools=, environment_factory=, rollout_func=
                                    are in trl_worlds.py

Importing this file imports no framework. Functions that need one say so; what is said of
TRL holds for the version in frameworks.py, and checks/bridges/test_trl_*.py call it.
"""

from __future__ import annotations

import json
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from agentic_rl.agent_loop import Episode, Limits
from agentic_rl.bridges.frameworks import OFFLINE, BridgeError
from agentic_rl.bridges.reading import read_notes
from agentic_rl.bridges.token_ids import Notes, TokenIds, Tokenizer, from_ids, to_ids
from agentic_rl.conventions import (
    TRL,
    Convention,
    ConventionError,
    check_convention,
)
from agentic_rl.messages import Message, assistant_text, parse_json, user
from agentic_rl.reward import Score, attach
from agentic_rl.tasks import Task, parse_task
from agentic_rl.tokens import IM_END, IM_START, decode, encode, header
from agentic_rl.tools import ToolBox
from agentic_rl.trajectory import Trajectory, last_trainable
from agentic_rl.values import excerpt

RewardFunction = Callable[[Trajectory, Task], "Score | float | None"]

# ------------------------------------------------------------------ quiet, on a laptop

QUIET = {**OFFLINE, "HF_HUB_DISABLE_PROGRESS_BARS": "1"}

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
    """Keep hubs and telemetry off. Call it before anything of TRL's is imported.

    TRL sets a transformers option by its old name; what transformers says to that is for
    TRL and not for a reader of this course.
    """
    os.environ.update(QUIET)
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    warnings.filterwarnings("ignore", message="IProgress not found")  # in a notebook


def peak_megabytes() -> float | None:
    """The most memory this process has held, or None where the system does not say."""
    try:
        import resource
    except ImportError:
        return None
    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, kilobytes elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


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


def keep_batch(trainer: Any) -> dict[str, Any]:
    """A dict that always holds the trainer's last batch of rollouts, as TRL has it.

    The keys are those that its ``_compute_loss`` reads, and "rows", the dataset's row of
    each rollout. The way in is TRL's private ``_generate_and_score_completions``.
    """
    kept: dict[str, Any] = {}
    generate = trainer._generate_and_score_completions

    def watched(rows: list[dict[str, Any]]) -> Any:
        found = generate(rows)
        kept.clear()
        kept.update(found, rows=rows)
        return found

    trainer._generate_and_score_completions = watched
    return kept


def completion_of(batch: dict[str, Any], place: int) -> tuple[list[int], list[int]]:
    """(ids, tool_mask) of one rollout of a kept batch, without the padding."""
    length = int(batch["completion_mask"][place].sum())
    if "tool_mask" not in batch:
        raise BridgeError("batch: no tool_mask: a trainer without tools has none")
    ids, mask = batch["completion_ids"][place], batch["tool_mask"][place]
    return ids[:length].tolist(), mask[:length].tolist()


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
    return record_of(record, length)


def record_of(record: TokenIds, length: int) -> dict[str, Any]:
    """The first ``length`` ids after the prompt, under TRL's names."""
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
    notes = read_notes({name: record[name] for name in Notes._fields})
    prompt, ids, mask, logprobs = (record[name] for name in keys[:4])
    return from_ids(TokenIds(prompt, ids, mask, logprobs, notes), tokenizer)


def columns(records: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    """Records side by side, as TRL wants them: key -> one value a rollout."""
    if not records:
        raise BridgeError("records: expected at least one rollout")
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
    """The task of a row. Raises BridgeError without a task, TaskError for what is none."""
    if not isinstance(row.get("task"), str):
        raise BridgeError("row: no task, expected one as text: a row of this bridge?")
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
        if not isinstance(message.get("content") or "", str):
            raise BridgeError(f"message {place}: content parts, only text is supported")
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
        try:
            text = assistant_text(message)
        except ValueError as error:  # NaN, say: TRL runs such a call, JSON has none
            raise BridgeError(f"message {place}: {error}") from None
        say(episode, text, cut and place == len(completion) - 1)
    if not episode.done:
        episode.trajectory.finish_reason = "length"
    return episode.trajectory


def say(episode: Episode, text: str, cut: bool, logprob: float = 0.0) -> None:
    """One assistant turn of this text; ``cut``: its end token was never written."""
    if cut:
        room = max(len(encode(text)), 1)
        episode.limits = replace(episode.limits, turn_tokens=room)
    episode.say(text, logprob)


def replay_ids(
    task: Task,
    completion_ids: Sequence[int],
    tokenizer: Tokenizer,
    limits: Limits = Limits(),
    tools: ToolBox | None = None,
) -> TokenIds:
    """Our episode, played again with what the assistant wrote in these ids.

    Its ids and its mask are ours throughout: who wrote what is not read off TRL's mask,
    and what the tools say is said again. Equal ids are an equal episode.
    """
    episode = Episode(task, limits, tools)
    text = decode(header("assistant")) + tokenizer.decode(completion_ids)
    for turn in text.split(IM_START)[1:]:
        role, _, rest = turn.partition("\n")
        content, end, _ = rest.partition(IM_END)
        if role == "assistant":
            if episode.done:
                raise BridgeError("a turn of the assistant after our episode had ended")
            say(episode, content, cut=not end)
    return to_ids(episode.trajectory, tokenizer)


# ------------------------------------------------------------------ Reward -> function


def reward_function(
    reward: RewardFunction,
    end_id: int | None,
    limits: Limits = Limits(),
    tools: ToolBox | None = None,
) -> Callable[..., list[float | None]]:
    """Our reward as TRL's: it plays each completion again and scores that.

    The breakdown goes into TRL's table of completions (``log_extra``) and, as means, into
    its metrics (``log_metric``). A completion that can't be played again gets None, which
    TRL leaves out of its group; the metric ``unscored`` counts them.

    end_id  of the end-of-turn token: a completion that does not end with it was cut.
            None where answers have no end, being one token long
    tools   the tools that the trainer was given, for ``tools=``; otherwise the task's own
    """
    terms: dict[str, None] = {}

    def tool_math_reward(
        completions: Sequence[Sequence[Message]],
        completion_ids: Sequence[Sequence[int]],
        task: Sequence[str],
        log_extra: Callable[[str, list[Any]], None],
        log_metric: Callable[[str, float], None],
        **others: Any,
    ) -> list[float | None]:
        scores, calls = [], 0
        for messages, ids, row in zip(completions, completion_ids, task):
            asked = task_of({"task": row})
            cut = end_id is not None and ids[-1] != end_id
            try:
                episode = replay(asked, messages, limits, tools, cut)
            except BridgeError:
                scores.append(Score(None, {}))
                continue
            attach([episode], [reward(episode, asked)])
            scores.append(Score(episode.reward, episode.breakdown))
            calls += len(episode.observations)
        return report(scores, calls, terms, log_extra, log_metric)

    return tool_math_reward


def recorded_reward() -> Callable[..., list[float | None]]:
    """TRL's reward function beside ``rollout_function``, whose episodes are scored."""
    terms: dict[str, None] = {}

    def tool_math_reward(
        reward: Sequence[float | None],
        breakdown: Sequence[dict[str, float]],
        observations: Sequence[list[str]],
        log_extra: Callable[[str, list[Any]], None],
        log_metric: Callable[[str, float], None],
        **others: Any,
    ) -> list[float | None]:
        scores = [Score(total, parts) for total, parts in zip(reward, breakdown)]
        calls = sum(map(len, observations))
        return report(scores, calls, terms, log_extra, log_metric)

    return tool_math_reward


def report(
    scores: Sequence[Score],
    calls: int,
    terms: dict[str, None],
    log_extra: Callable[[str, list[Any]], None],
    log_metric: Callable[[str, float], None],
) -> list[float | None]:
    """The totals; what they are made of goes where TRL logs.

    calls   answered in all these rollouts; logged as the mean of one
    terms   the names seen so far, to which new ones are added. A column of a batch with no
            scored rollout is empty; left out, TRL would print that of an earlier batch
    """
    if not scores:
        raise BridgeError("completions: expected at least one rollout")
    scored = [score.breakdown for score in scores if score.total is not None]
    terms.update(dict.fromkeys(name for parts in scored for name in parts))
    for name in terms:
        log_extra(name, [score.breakdown.get(name) for score in scores])
        paid = math.fsum(parts.get(name, 0.0) for parts in scored)
        if scored:
            log_metric(f"breakdown/{name}", paid / len(scored))
    log_metric("calls", calls / len(scores))
    log_metric("unscored", 1 - len(scored) / len(scores))
    return [score.total for score in scores]


# ------------------------------------------------------------------ Convention -> GRPOConfig

LOSS_TYPES = {
    "batch_mean": "dapo",
    "episode_mean": "grpo",
    "episode_sum": "luspo",
    "constant": "dr_grpo",
}
_ALWAYS = (
    "baseline",
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
    wrong = convention.differing({name: getattr(TRL, name) for name in asked})
    if convention.group_of_one == "raw":
        # GRPOConfig refuses such groups; a rollout whose peers are unscored gets 0.
        wrong["group_of_one"] = "zero"
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
    that TRL refuses, for epochs below 1 and for lengths that are no integer.
    """
    check_convention(convention)
    if wrong := unsayable(convention):
        told = (
            f"{name}={getattr(convention, name)!r} (it has {value!r})"
            for name, value in wrong.items()
        )
        raise ConventionError(f"{convention.name}: TRL can't say {', '.join(told)}")
    least = {"group_size": (group_size, 2), "epochs": (epochs, 1)}
    if convention.aggregation == "constant":
        least["max_length"] = (convention.max_length, 1)
    for name, (value, fewest) in least.items():
        if type(value) is not int or value < fewest:
            raise BridgeError(
                f"{name}: TRL needs an integer, at least {fewest}, got {value!r}"
            )
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
