"""A dictionary between this course and OpenRLHF.

    Trajectory      what an AgentExecutor's ``execute`` returns     response, from_response
    a response      the fields of one Experience                    experience, from_experience
    Task            a row of its prompt dataset: input, label       rows, task_of
    observations    the text that ``step`` gives back               feedback
    Reward          rewards, scores, extra_logs                     payment, score
    Convention      dotted flags of ``train_ppo_ray``               flags, unsaid

Importing this file imports no framework, and nothing in it needs one: lists stand where
OpenRLHF has tensors.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from agentic_rl.bridges.frameworks import BridgeError
from agentic_rl.bridges.reading import (
    each,
    is_id,
    is_mark,
    is_range,
    numbers,
    read_notes,
)
from agentic_rl.bridges.token_ids import TokenIds, Tokenizer, from_ids, to_ids
from agentic_rl.conventions import Convention, check_convention
from agentic_rl.messages import Message, parse_assistant, parse_json, user
from agentic_rl.reward import COURSE_REWARD, REWARDS, Reward, finite_number, right
from agentic_rl.tasks import Task, parse_task
from agentic_rl.tokens import IM_END, decode, header
from agentic_rl.tools import Observation
from agentic_rl.trajectory import Trajectory
from agentic_rl.values import excerpt

DATASOURCE = "tool-math"
ANSWERING = decode(header("assistant"))

# ------------------------------------------------------------- one episode, there and back


def response(
    trajectory: Trajectory, task: Task, tokenizer: Tokenizer
) -> dict[str, Any]:
    """What ``MultiTurnAgentExecutor.execute`` returns for this episode.

    observation_tokens   prompt and all that follows, up to the last id that the assistant
                         wrote: our agent gives no feedback once an episode is over
    action_ranges        [(start, end), ...] in these ids, one an assistant turn
    rollout_log_probs    one an id, 0.0 outside the ranges
    reward, scores       the reward, and 1.0 or 0.0 for right or wrong
    truncated            whether the last turn was cut off, as OpenRLHF has it; an episode
                         that ran out of turns is not
    extra_logs           the breakdown

    notes and tail_ids are ours: OpenRLHF carries them along and drops them when it makes
    an Experience. The ids are of the course's own text; where a tool said ``<|``, those
    that OpenRLHF plays are of what ``feedback`` makes of it. Raises as ``to_ids`` does.
    """
    record = to_ids(trajectory, tokenizer)
    start = len(record.prompt_ids)
    ids = [*record.prompt_ids, *record.response_ids]
    mask = [*[0] * start, *record.response_mask]
    end = len(mask) - mask[::-1].index(1)
    return {
        "prompt": tokenizer.decode(record.prompt_ids),
        "label": label_of(task),
        "images": None,
        "mm_train_inputs": None,
        "observation_tokens": ids[:end],
        "action_ranges": ranges_of(mask),
        "rollout_log_probs": [*[0.0] * start, *record.logprobs][:end],
        **_outcome(trajectory, task),
        "notes": record.notes._asdict(),
        "tail_ids": ids[end:],
    }


def _outcome(trajectory: Trajectory, task: Task) -> dict[str, Any]:
    """The fields that are not about ids: how the episode ended, and what it was paid."""
    unscored = trajectory.reward is None
    return {
        "reward": trajectory.reward,
        "scores": None if unscored else right(trajectory, task),
        "truncated": trajectory.actions[-1]["finish_reason"] == "length",
        "extra_logs": dict(trajectory.breakdown),
    }


def from_response(fields: Mapping[str, Any], tokenizer: Tokenizer) -> Trajectory:
    """The trajectory that ``response`` was made of. ``from_response(response(t)) == t``.

    Raises BridgeError if nothing is noted, as in what OpenRLHF's own executor returns:
    states, choices and kinds of observations can't be read off ids. Raises it for fields
    that are missing, do not fit together, or say another outcome than the notes do; and
    as ``from_ids`` does.
    """
    ids, mask, logprobs = _record(fields)
    if logprobs is None:
        raise BridgeError("rollout_log_probs: None; sample with logprobs=1")
    if 1 not in mask:
        raise BridgeError("action_ranges: expected at least one")
    notes = read_notes(fields.get("notes"))
    tail = each("tail_ids", fields.get("tail_ids"), is_id, "an id")
    start = mask.index(1)
    record = TokenIds(
        ids[:start],
        [*ids[start:], *tail],
        [*mask[start:], *[0] * len(tail)],
        [*logprobs[start:], *[0.0] * len(tail)],
        notes,
    )
    try:
        trajectory = from_ids(record, tokenizer)
    except (IndexError, OverflowError):
        raise BridgeError(
            "observation_tokens, tail_ids: an id that the tokenizer does not know"
        ) from None
    for name, noted in _outcome(trajectory, task_of(fields["label"])).items():
        if fields.get(name) != noted:
            raise BridgeError(
                f"{name}: {excerpt(fields.get(name))}, but the notes say {noted!r}"
            )
    return trajectory


def ranges_of(mask: Sequence[int]) -> list[tuple[int, int]]:
    """A loss mask as ranges: (first id, first id after it) of each run of ones."""
    edges = [0, *mask, 0]
    starts = [i for i in range(len(mask)) if edges[i + 1] and not edges[i]]
    ends = [i + 1 for i in range(len(mask)) if edges[i + 1] and not edges[i + 2]]
    return list(zip(starts, ends))


def mask_of(ranges: Sequence[Sequence[int]], length: int) -> list[int]:
    """Ranges as a loss mask. Raises BridgeError if they overlap, run back or stick out."""
    mask = [0] * length
    reached = 0
    for start, end in each("action_ranges", ranges, is_range, "(start, end)"):
        if not reached <= start < end <= length:
            raise BridgeError(
                f"action_ranges: ({start}, {end}) after {reached}, in {length} ids"
            )
        mask[start:end] = [1] * (end - start)
        reached = end
    return mask


# ------------------------------------------------------------------ what a record must be

_FIELDS = (
    *("prompt", "label", "observation_tokens", "action_ranges", "rollout_log_probs"),
    *("reward", "scores", "truncated"),
)


def _record(
    fields: Mapping[str, Any],
) -> tuple[list[int], list[int], list[float] | None]:
    """(ids, mask, log-probs) of a response, checked. Raises BridgeError, naming the field."""
    if missing := [name for name in _FIELDS if name not in fields]:
        raise BridgeError(f"{missing[0]}: it is missing")
    ids = each("observation_tokens", fields["observation_tokens"], is_id, "an id")
    mask = mask_of(fields["action_ranges"], len(ids))
    logprobs = fields["rollout_log_probs"]
    if logprobs is not None:
        logprobs = numbers("rollout_log_probs", logprobs, len(ids))
    for name in ("reward", "scores"):
        if fields[name] is not None:
            numbers(name, [fields[name]], 1)
    return ids, mask, logprobs


def _only(row: Mapping[str, Any], name: str) -> Any:
    """What a field of an Experience of one episode holds."""
    held = row.get(name)
    if not isinstance(held, list) or len(held) != 1:
        raise BridgeError(f"{name}: expected a list of one, got {excerpt(held)}")
    return held[0]


# -------------------------------------------------------- one Experience, there and back


def experience(fields: Mapping[str, Any], max_len: int) -> dict[str, Any]:
    """The tensor fields of the Experience of one response, as lists of one row.

    ``SamplesGenerator._process_response_into_experience`` makes them. sequences and
    attention_mask have length T; action_mask and rollout_log_probs have T - 1, because
    place t speaks of id t + 1: ``action_mask == loss_mask[1:]``. response_length counts
    from the first id of the assistant to its last, tools included.

    Raises BridgeError for fields that are missing or do not fit together, and for more ids
    than max_len, which OpenRLHF would cut on the right.
    """
    ids, mask, logprobs = _record(fields)
    if len(ids) > max_len:
        raise BridgeError(f"observation_tokens: {len(ids)} don't fit into {max_len}")
    marks, reward = mask[1:], fields["reward"]
    span = len(marks) - marks[::-1].index(1) - marks.index(1) if 1 in marks else 0
    return {
        "sequences": [ids],
        "attention_mask": [[1] * len(ids)],
        "action_mask": [marks],
        "rollout_log_probs": None if logprobs is None else [logprobs[1:]],
        "rewards": None if reward is None else [reward],
        "scores": None if fields["scores"] is None else [fields["scores"]],
        "response_length": [span],
        "truncated": [fields["truncated"]],
        "total_length": [len(ids)],
        "prompts": [fields["prompt"]],
        "labels": [fields["label"]],
    }


def from_experience(row: Mapping[str, Any]) -> dict[str, Any]:
    """What of a response can be read off the Experience of one episode.

    Padding goes, by attention_mask. The ranges come back from the mask, so two turns with
    nothing between them become one. Notes, tail_ids, images and the names of the breakdown
    do not come back: an Experience has no place for the first two, and keeps the last
    among its metrics, in ``info``.

    Raises BridgeError for padding on the left, and for fields that are missing or do not
    fit together.
    """
    attention = each("attention_mask", _only(row, "attention_mask"), is_mark, "0 or 1")
    width, length = len(attention), sum(attention)
    if not length or 0 in attention[:length]:
        raise BridgeError("attention_mask: expected ids, then padding on the right")
    ids = each("sequences", _only(row, "sequences"), is_id, "an id", width)
    marks = each("action_mask", _only(row, "action_mask"), is_mark, "0 or 1", width - 1)
    if any(marks[length - 1 :]):
        raise BridgeError(f"action_mask: it goes on behind {length} ids")
    logprobs = row.get("rollout_log_probs")
    if logprobs is not None:
        said = numbers("rollout_log_probs", _only(row, "rollout_log_probs"), width - 1)
        logprobs = [0.0, *said[: length - 1]]
    found = {
        "prompt": _only(row, "prompts"),
        "label": _only(row, "labels"),
        "reward": None if row.get("rewards") is None else _only(row, "rewards"),
        "scores": None if row.get("scores") is None else _only(row, "scores"),
        "observation_tokens": ids[:length],
        "action_ranges": ranges_of([0, *marks[: length - 1]]),
        "rollout_log_probs": logprobs,
        "truncated": bool(_only(row, "truncated")),
    }
    _record(found)
    return found


# ------------------------------------------------------------------------- the tasks


def rows(tasks: Iterable[Task], system: str | None = None) -> Iterator[dict[str, Any]]:
    """Rows for ``--data.prompt_dataset``, read by ``PromptDataset``.

    The flags that go with them: ``--data.input_key input --data.label_key label
    --data.apply_chat_template``. A label is text, so the whole task is put into it.
    OpenRLHF gives no tools to the chat template: a model that has to be told of them
    needs ``system``.
    """
    opening: list[Message] = [{"role": "system", "content": system}] if system else []
    for task in tasks:
        yield {
            "input": [*opening, user(task.question)],
            "label": label_of(task),
            "datasource": DATASOURCE,
        }


def label_of(task: Task) -> str:
    """The task as the text of a label."""
    return json.dumps(task.to_dict())


def task_of(label: Any) -> Task:
    """The task of a label, checked. Raises BridgeError if there is none, else TaskError."""
    if not isinstance(label, str) or not label.startswith("{"):
        raise BridgeError(
            f"label: expected a task as JSON text, got {str(label)[:40]!r}: "
            "--data.label_key label?"
        )
    return parse_task(parse_json(label), "label")


# ------------------------------------------------------------------ what the tools said


def feedback(observations: Sequence[Observation]) -> str:
    """The text that follows a turn with calls: each tool's turn, then the next header.

    It begins with the line end after the assistant's end token. OpenRLHF encodes it in one
    piece, special tokens included, so a tool that says ``<|im_end|>`` would end its own
    turn. A space is put into each ``<|`` of a tool, with which all such names begin in
    templates like this one; a tokenizer whose special tokens are called otherwise, like
    ``</s>``, wants more.
    """
    turns = "".join(
        f"{decode(header('tool'))}{seen.content.replace('<|', '< |')}{IM_END}\n"
        for seen in observations
    )
    return f"\n{turns}{ANSWERING}"


def written(text: str) -> str:
    """A turn of the assistant without its end token, which an engine may leave in or not.

    Any other marker that it spells is text, as in the course's loop: it ends nothing.
    """
    return text.removesuffix(IM_END)


# ------------------------------------------------------------------------ the reward


def chosen_reward() -> Reward:
    """The reward that TOOL_MATH_REWARD names, "course" if it is not set.

    Raises BridgeError for a name that none has.
    """
    name = os.environ.get("TOOL_MATH_REWARD", "course")
    if name not in REWARDS:
        raise BridgeError(
            f"TOOL_MATH_REWARD: expected one of {', '.join(REWARDS)}, got {name!r}"
        )
    return REWARDS[name]


def payment(
    trajectory: Trajectory, task: Task, reward: Reward = COURSE_REWARD
) -> dict[str, Any]:
    """A reward of ours in OpenRLHF's three words, as numbers.

    rewards      the total; an executor adds it up over turns, so the last turn pays it all
    scores       1.0 for right, 0.0 for wrong: what pass@k and dynamic filtering read
    extra_logs   the breakdown; the same names for every episode, or batches can't be made

    An episode that is not over pays nothing: all of it is 0.0. Raises BridgeError for an
    unscored one, which would leave its batch without rewards; RewardError for what is no
    finite number.
    """
    total, breakdown = reward(trajectory, task)
    if total is None:
        raise BridgeError("reward: None, and OpenRLHF has no unscored sample")
    if trajectory.finish_reason is None:
        return {
            "rewards": 0.0,
            "scores": 0.0,
            "extra_logs": dict.fromkeys(breakdown, 0.0),
        }
    return {
        "rewards": finite_number("reward", total),
        "scores": right(trajectory, task),
        "extra_logs": {
            name: finite_number(name, part) for name, part in breakdown.items()
        },
    }


def score(
    query: str, prompt: str, label: str, reward: Reward = COURSE_REWARD
) -> dict[str, Any]:
    """``payment`` for one turn as text: the reward function of ``--reward.remote_url``.

    query     prompt and answer, special tokens included; OpenRLHF may have cut off the
              beginning of the prompt
    prompt    the prompt alone

    The answer is read as the agent's loop would read it; only a call in it is run by
    nobody, so it is no answer. That the turn was cut off can't be known here. Raises
    BridgeError if the query is not this prompt and what follows it.
    """
    task = task_of(label)
    message = parse_assistant(written(_answer(query, prompt)))
    read = Trajectory(task.id, finish_reason="stop")
    if not message.get("tool_calls"):
        read.actions.append({"type": "final_answer", "content": message["content"]})
    return payment(read, task, reward)


def _answer(query: str, prompt: str) -> str:
    """What follows the prompt in the query."""
    if query.startswith(prompt):
        return query[len(prompt) :]
    before, opening, text = query.partition(ANSWERING)
    if not opening or not prompt.endswith(before + opening):
        raise BridgeError("query: expected the end of the prompt, then an answer")
    return text


# ------------------------------------------------------------------- the conventions

# Each estimator of OpenRLHF 0.11.2 that our switches can say.
_WHITENED: dict[str, object] = {
    "std": "none",
    "whiten": True,
    "ddof": 0,
    "std_epsilon": 1e-8,
    "epsilon_place": "floor",
}
ESTIMATORS: dict[str, dict[str, object]] = {
    "group_norm": {
        "baseline": "group_mean",
        "std": "group",
        "whiten": False,
        "ddof": 1,
        "std_epsilon": 1e-9,
        "epsilon_place": "added",
        "group_of_one": "refuse",
        "zero_spread": "divide",
    },
    "dr_grpo": {
        "baseline": "group_mean",
        "std": "none",
        "whiten": False,
        "group_of_one": "refuse",
    },
    "rloo": {
        "baseline": "leave_one_out",
        "std": "none",
        "whiten": False,
        "group_of_one": "refuse",
    },
    "reinforce_baseline": {
        "baseline": "group_mean",
        **_WHITENED,
        "group_of_one": "refuse",
    },
    "reinforce": {"baseline": "none", **_WHITENED},
    "flash_reinforce": {"baseline": "batch_mean", "std": "none", "whiten": False},
}
_STRUCTURE = ("baseline", "std", "whiten")
AGGREGATIONS = {"batch_mean": "token-mean", "episode_mean": "seq-mean-token-mean"}

NEVER = 1e9  # a bound that never acts: a ratio is at most exp(20) there


def unsaid(convention: Convention) -> dict[str, object]:
    """Switches that OpenRLHF can't say -> the nearest value that it can.

    ``flags(convention.but(**unsaid(convention)))`` always works. Switches that change
    nothing in this convention are not listed. Raises BridgeError where nothing is near: no
    estimator of that structure; ConventionError for what is no convention.
    """
    check_convention(convention)
    return convention.differing(
        {**ESTIMATORS[_estimator(convention)], **_edges(convention)}
    )


def _estimator(convention: Convention) -> str:
    wanted = [getattr(convention, switch) for switch in _STRUCTURE]
    for name, switches in ESTIMATORS.items():
        if wanted == [switches[switch] for switch in _STRUCTURE]:
            return name
    asked = ", ".join(f"{k}={v!r}" for k, v in zip(_STRUCTURE, wanted))
    raise BridgeError(f"OpenRLHF has no estimator of {asked}")


def _edges(convention: Convention) -> dict[str, object]:
    """What OpenRLHF does outside the advantage, where it leaves no choice."""
    by_sequence = convention.ratio == "sequence"
    by_episode = by_sequence or convention.aggregation == "episode_mean"
    edges: dict[str, object] = {
        "unscored": "refuse",
        "unit": "token",
        "aggregation": "episode_mean" if by_episode else "batch_mean",
        "log_ratio_clamp": None if by_sequence else 20.0,
        "discount": 1.0,
    }
    if convention.groups == "informative":
        edges["groups"] = "all"  # its filter reads mean scores, not whether they differ
    if convention.clip == "two_sided":
        edges["clip"] = "ppo"
    if by_episode:
        edges["mean_epsilon"] = 1e-8
        edges["empty_rows"] = "left_out"
    if convention.kl_place == "reward" or (
        convention.kl_place == "loss" and by_episode
    ):
        # In the reward it is charged token by token, after the groups were compared; in
        # the loss it is always a mean over tokens.
        return {**edges, "kl_place": "none", "kl_weight": 0.0, "kl_ratio": False}
    if convention.kl_place == "loss":
        edges |= {"kl_log_ratio_clamp": None, "kl_clamp": 10.0, "kl_ratio": False}
    return edges


def flags(convention: Convention) -> list[str]:
    """The flags of ``openrlhf.cli.train_ppo_ray`` that mean this convention.

    ``--reward.clip_range`` is among them: it clips advantages, and no switch of ours does.
    Raises BridgeError, naming each switch that OpenRLHF can't say with what it has instead.
    """
    if missing := unsaid(convention):
        has = ", ".join(f"{switch}={value!r}" for switch, value in missing.items())
        raise BridgeError(f"convention {convention.name!r}: OpenRLHF only has {has}")
    clips = convention.clip == "ppo"
    low, high = convention.clip_low, convention.clip_high
    found = [
        *("--algo.advantage.estimator", _estimator(convention)),
        *("--reward.clip_range", f"{-NEVER}", f"{NEVER}"),
        *(
            "--actor.policy_loss_type",
            "gspo" if convention.ratio == "sequence" else "ppo",
        ),
        *("--actor.loss_agg_mode", AGGREGATIONS[convention.aggregation]),
        "--actor.eps_clip_low_high",
        *((f"{low}", f"{high}") if clips else (f"{NEVER}", f"{NEVER}")),
    ]
    if convention.dual_clip is not None:
        found += ["--actor.dual_clip", f"{convention.dual_clip}"]
    if convention.groups == "solved":  # scores are 1 for right: their mean is over 0
        found += ["--algo.dynamic_filtering_enable"]
        found += ["--algo.dynamic_filtering_range", "0", "2"]
    if convention.kl_place == "none":
        return [*found, "--algo.kl.init_coef", "0"]
    found += ["--algo.kl.use_loss", "--algo.kl.estimator", convention.kl_estimator]
    return [*found, "--algo.kl.init_coef", f"{convention.kl_weight}"]
