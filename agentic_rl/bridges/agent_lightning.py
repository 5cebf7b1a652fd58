"""A dictionary between this course and Agent Lightning.

    Task                RolloutCreate: input, local config      rollout, task_of
    messages, tools     the body of a chat completion           request, written
    Trajectory          the events that its gateway keeps       events, from_events
    Score               a reward event, a breakdown event       score_events, score_of
    assistant turns     triplets: prompt, response, log-probs   triplets
    trajectories        the rows its verl adapter trains on     merge, merged
    Convention          overrides of its verl trainer           overrides, unsaid

The gateway stands between an agent and a model server. Each model call becomes an event
of type model_request; what an agent tells becomes an event too. A triplet is what is left
of a model call for training: the ids of the prompt, those of the response, their
log-probs. What ids can't say travels in an event of our own, ``trajectory_notes``.

All of it is plain JSON, so nothing here needs the framework.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from agentic_rl.bridges import verl
from agentic_rl.bridges.frameworks import BridgeError
from agentic_rl.bridges.token_ids import (
    Notes,
    TokenIds,
    Tokenizer,
    context_ids,
    from_ids,
    markers,
    ordinary,
    to_ids,
)
from agentic_rl.conventions import Convention, check_convention
from agentic_rl.messages import (
    Message,
    assistant_text,
    from_openai,
    render_assistant,
    to_openai,
)
from agentic_rl.reward import Score
from agentic_rl.tasks import Task, parse_task
from agentic_rl.trajectory import Trajectory
from agentic_rl.values import excerpt, is_finite

MODEL_REQUEST, REWARD = "model_request", "reward"  # the two that it knows
BREAKDOWN, NOTES = "reward_breakdown", "trajectory_notes"  # ours
ENV_MAP = {"TASK": "input.task", "SEED": "input.seed"}  # variable -> place in the input

Event = dict[str, Any]  # event_type and data, at least

# ------------------------------------------------------------------------- the tasks


def rollout(
    task: Task, seed: int, rollout_id: str, agent_class: str, seconds: int = 60
) -> dict[str, Any]:
    """The fields of ``agentlightning.schemas.RolloutCreate``: one episode to be played.

    agent_class     "module:Class", made without arguments and told to run()
    seed            of the samples; an agent passes it on to the model server
    seconds         after which its controller ends the agent

    ``data_id`` is a label in its list of finished rollouts, and no more: which of them are
    a group, whoever asked for them has to remember.
    """
    return {
        "rollout_id": rollout_id,
        "input": {"data_id": task.id, "task": task.to_dict(), "seed": seed},
        "is_train": True,
        "config": {
            "timeout_seconds": seconds,
            "local": {"agent_class": agent_class, "env_map": dict(ENV_MAP)},
        },
    }


def task_of(task: str) -> Task:
    """The task that an agent finds in its environment variable TASK.

    Raises BridgeError for what is no JSON, TaskError for what is no task.
    """
    try:
        record = json.loads(task)
    except (TypeError, ValueError, RecursionError):
        raise BridgeError(f"TASK: expected JSON, got {excerpt(task)}") from None
    return parse_task(record, "TASK")


# ------------------------------------------------------- what is said to a model server


def request(
    messages: Sequence[Message],
    tools: Sequence[Mapping[str, Any]],
    seed: int,
    turn_tokens: int | None = None,
    texts: Sequence[str] = (),
) -> dict[str, Any]:
    """The body of OpenAI's chat completion; model and temperature the gateway sets.

    texts   what the assistant wrote in its turns so far. Several texts mean one message,
            and the next prompt has to hold the one that was written: where it is not the
            course's own, they go along as a field of ours
    """
    body = {"messages": to_openai(list(messages)), "tools": list(tools), "seed": seed}
    if turn_tokens is not None:
        body["max_tokens"] = turn_tokens
    own = [assistant_text(m) for m in messages if m["role"] == "assistant"]
    return body if list(texts) in ([], own) else {**body, "texts": list(texts)}


def written(response: Mapping[str, Any]) -> tuple[str, str | None]:
    """(the text that the assistant wrote, its choice): a server of ours names both.

    Any other server gives a message, and the text is the course's own for it. Raises
    BridgeError for an error's body, MessageError where no text of the course means the
    message.
    """
    choices = response.get("choices") if isinstance(response, Mapping) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, Mapping) else None
    if not (isinstance(choice, Mapping) and isinstance(message, Mapping)):
        raise BridgeError(f"no chat completion: {excerpt(response)}")
    text = choice.get("text")
    if text is None:
        text = _meant(message, cut=choice.get("finish_reason") == "length")
    if not isinstance(text, str):
        raise BridgeError(f"an assistant writes text, got {excerpt(text)}")
    return text, choice.get("choice")


def _meant(message: Mapping[str, Any], cut: bool) -> str:
    """The course's text for a message in OpenAI's form, with vLLM's names of a thought."""
    content = message.get("content") or ""
    thought = message.get("reasoning_content") or message.get("reasoning")
    if cut:  # what was parsed of it is not what was written: the words alone are
        start = f"<think>{thought}" if thought else ""
        return f"{start}</think>{content}" if start and content else start or content
    known = {**message, "content": content, "reasoning_content": thought}
    return render_assistant(from_openai([known])[0])


def prompt_ids(
    messages: Sequence[Message], tokenizer: Tokenizer, texts: Sequence[str] = ()
) -> list[int]:
    """A conversation in the course's template, up to the header of the next answer.

    As ``to_ids`` cuts it: each author's text is encoded by itself. ``texts`` are those of
    the assistant's turns, as in ``request``; without them it is the course's own for each
    message. Arguments of calls may be objects or, as at OpenAI's edge, text. Raises
    MessageError as ``from_openai`` does.
    """
    start, end = markers(tokenizer)
    spoken = iter(texts)
    ids: list[int] = []
    for message in from_openai(list(messages)):
        role = message["role"]
        if role == "assistant":
            parts = [f"{role}\n", next(spoken, assistant_text(message))]
        else:
            parts = [f"{role}\n{message['content']}"]
        inside = [token for part in parts for token in ordinary(part, tokenizer)]
        ids += [start, *inside, end, *ordinary("\n", tokenizer)]
    return [*ids, start, *ordinary("assistant\n", tokenizer)]


# ------------------------------------------------------------------------ the rewards


def score_events(score: Score, reason: str | None = None) -> list[Event]:
    """A score as events to be posted, the breakdown before the reward; none if unscored.

    value is the total. Its list of triplets keeps value, source and reason of a reward
    and drops the rest, so the breakdown has an event of its own. Raises BridgeError for
    numbers that ``score_of`` would refuse.
    """
    if score.total is None:
        return []
    score = _checked(score.total, score.breakdown)
    parts = ", ".join(f"{name} {part:g}" for name, part in score.breakdown.items())
    data = {
        "value": score.total,
        "message": parts,
        "source": "agent",
        "reason": reason,
    }
    return [
        {"event_type": BREAKDOWN, "data": dict(score.breakdown)},
        {"event_type": REWARD, "data": data},
    ]


def score_of(found: Sequence[Mapping[str, Any]]) -> Score:
    """The score that these events tell; total None if they tell none.

    Raises BridgeError for two rewards, of which its trainer takes the last without a
    word, for a value that is no finite number, as true is none, and for a breakdown that
    is missing or adds up to something else.
    """
    rewards, parts = _data(found, REWARD), _data(found, BREAKDOWN)
    if len(rewards) > 1 or len(parts) > 1:
        raise BridgeError(
            f"{len(rewards)} rewards and {len(parts)} breakdowns: expected one each"
        )
    if not rewards:
        if parts:
            raise BridgeError("a breakdown, but no reward")
        return Score(None, {})
    if not parts:
        raise BridgeError("a reward, but no breakdown: not an agent of this course")
    return _checked(rewards[0].get("value"), parts[0])


def _checked(total: Any, breakdown: Mapping[str, Any]) -> Score:
    """The score of these numbers, which have to be finite, and to add up."""
    for name, value in [("reward", total), *breakdown.items()]:
        if not is_finite(value):
            raise BridgeError(f"{name}: expected a finite number, got {excerpt(value)}")
    if abs(sum(breakdown.values()) - total) > 1e-9:
        raise BridgeError(f"reward {total:g}: its breakdown adds up to something else")
    return Score(float(total), {name: float(x) for name, x in breakdown.items()})


def _data(found: Sequence[Mapping[str, Any]], kind: str) -> list[dict[str, Any]]:
    """The data of the events of this kind. Raises BridgeError for what is no event."""
    for place, event in enumerate(found):
        data = event.get("data") if isinstance(event, Mapping) else None
        if not isinstance(data, Mapping) or "event_type" not in event:
            raise BridgeError(
                f"event {place}: expected event_type and data, got {excerpt(event)}"
            )
    return [dict(event["data"]) for event in found if event["event_type"] == kind]


# -------------------------------------------------------------- one episode, as events


def reports(trajectory: Trajectory) -> list[Event]:
    """What an agent tells when its episode is over: notes, breakdown, reward.

    The notes say what can't be read off the ids of the model calls. ``tail`` is what the
    template and the tools wrote after the last of them, as the course's tokens. Raises
    BridgeError if the assistant wrote nothing.
    """
    trajectory.check()
    if not any(trajectory.loss_mask):
        raise BridgeError(f"{trajectory.task_id}: the assistant wrote nothing")
    ends = len(trajectory.loss_mask) - trajectory.loss_mask[::-1].index(1)
    notes = {
        "task_id": trajectory.task_id,
        "choices": [[a["state"], a.get("choice")] for a in trajectory.actions],
        "turn_ends": [action["finish_reason"] for action in trajectory.actions],
        "observations": [seen.kind for seen in trajectory.observations],
        "finish_reason": trajectory.finish_reason,
        "tail": trajectory.tokens[ends:],
    }
    score = Score(trajectory.reward, trajectory.breakdown)
    told: Event = {"event_type": NOTES, "data": notes}
    return [told, *score_events(score, trajectory.finish_reason)]


def events(trajectory: Trajectory, tokenizer: Tokenizer) -> list[Event]:
    """The events that a gateway would keep of this episode, in their order.

    Each has event_type and data; rollout, attempt and time are the gateway's to add.
    Raises as ``to_ids`` does.
    """
    record = to_ids(trajectory, tokenizer)
    spoken = [i for i, m in enumerate(trajectory.messages) if m["role"] == "assistant"]
    conversation = to_openai(trajectory.messages)
    made = []
    for place, action, turn in zip(spoken, trajectory.actions, turns(record)):
        choice = {
            "index": 0,
            "message": conversation[place],
            "finish_reason": action["finish_reason"],
            "token_ids": turn.response_ids,
            "logprobs": {"content": [{"logprob": x} for x in turn.logprobs or ()]},
        }
        data = {
            "model": "course",
            "request": {"messages": conversation[:place]},
            "response": {"prompt_token_ids": turn.prompt_ids, "choices": [choice]},
            "http_status": 200,
            "status": "ok",
        }
        made.append({"event_type": MODEL_REQUEST, "data": data})
    return [*made, *reports(trajectory)]


def from_events(found: Sequence[Mapping[str, Any]], tokenizer: Tokenizer) -> Trajectory:
    """The trajectory of a rollout's events, whole or as triplets.

    ``from_events(events(t)) == t``. Raises BridgeError if notes, a log-prob or a turn is
    missing, if the turns are no single row, and as ``score_of`` and ``from_ids`` do.
    """
    notes, turned = _notes(found), triplets(found)
    if len(turned) != len(notes["choices"]):
        raise BridgeError(
            f"{len(turned)} model requests for {len(notes['choices'])} decisions"
        )
    rows = merge(turned)
    if len(rows) != 1:
        raise BridgeError(f"its turns are {len(rows)} rows: a prompt was rewritten")
    row = rows[0]
    if row.logprobs is None:
        raise BridgeError("no log-probs: was it played in the mode val?")
    tail = context_ids(notes["tail"], tokenizer)
    score = score_of(found)
    return from_ids(
        TokenIds(
            row.prompt_ids,
            [*row.response_ids, *tail],
            [*row.response_mask, *[0] * len(tail)],
            [*row.logprobs, *[0.0] * len(tail)],
            Notes(
                notes["task_id"],
                [(state, choice) for state, choice in notes["choices"]],
                notes["turn_ends"],
                notes["observations"],
                notes["finish_reason"],
                score.total,
                score.breakdown,
            ),
        ),
        tokenizer,
    )


def _notes(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The notes of a rollout. Raises BridgeError unless they are as ``reports`` has them."""
    noted = _data(found, NOTES)
    if len(noted) != 1:
        raise BridgeError(f"{len(noted)} {NOTES}: expected one")
    notes = noted[0]
    lists = ("choices", "turn_ends", "observations", "tail")
    if set(notes) != {"task_id", "finish_reason", *lists}:
        raise BridgeError(
            f"{NOTES}: not those of this bridge: {excerpt(sorted(notes))}"
        )
    for name in lists:
        if not isinstance(notes[name], list):
            raise BridgeError(f"{NOTES}: {name}: expected a list")
    for place, pair in enumerate(notes["choices"]):
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise BridgeError(f"{NOTES}: choices[{place}]: expected state and choice")
    if odd := [token for token in notes["tail"] if not isinstance(token, str)]:
        raise BridgeError(f"{NOTES}: tail: expected tokens, got {excerpt(odd[0])}")
    return notes


# ------------------------------------------------------------------ triplets and rows


class Triplet(NamedTuple):
    """One model call; logprobs None if it has not one finite number an id."""

    prompt_ids: list[int]
    response_ids: list[int]
    logprobs: list[float] | None


class Row(NamedTuple):
    """A row that is trained on: what follows the prompt has one length.

    response_mask   1 on what the model wrote, 0 on what others wrote between
    logprobs        0.0 where the mask is 0; None if a turn of the row has none
    """

    prompt_ids: list[int]
    response_ids: list[int]
    response_mask: list[int]
    logprobs: list[float] | None


def turns(record: TokenIds) -> Iterator[Triplet]:
    """The model calls of an episode: each prompt holds all that stands before it."""
    place = 0
    for own, run in itertools.groupby(record.response_mask):
        end = place + len(list(run))
        if own:
            yield Triplet(
                [*record.prompt_ids, *record.response_ids[:place]],
                record.response_ids[place:end],
                record.logprobs[place:end],
            )
        place = end


def triplets(found: Sequence[Mapping[str, Any]]) -> list[Triplet]:
    """The model calls that its trainer trains on, of whole events or of triplets.

    Those that failed or gave no ids are left out, and so are, of calls with the same
    prompt, all but the last: ``format=triplet`` of the gateway, and then
    ``AglRolloutManager``. Raises BridgeError for a model_request without ids of a prompt.
    """
    calls = [_call(data) for data in _data(found, MODEL_REQUEST)]
    last = {tuple(call.prompt_ids): place for place, (_, call) in enumerate(calls)}
    kept = []
    for place, (usable, call) in enumerate(calls):
        if not usable:
            continue
        if not call.prompt_ids:
            raise BridgeError(f"model request {place}: no prompt_token_ids")
        if last[tuple(call.prompt_ids)] != place:
            continue
        kept.append(call)
    return kept


def _call(data: Mapping[str, Any]) -> tuple[bool, Triplet]:
    """(whether it can be trained on, its ids) of a model_request in either form."""
    if "prompt_token_ids" in data:  # format=triplet
        prompt, response = data["prompt_token_ids"], data.get("response_token_ids")
        told = data.get("response_log_probs")
    else:
        body = _kind(dict, "response", data.get("response"))
        choices = _kind(list, "choices", body.get("choices"))
        choice = _kind(dict, "choices[0]", choices[0]) if choices else {}
        prompt, response = body.get("prompt_token_ids"), choice.get("token_ids")
        content = _kind(dict, "logprobs", choice.get("logprobs")).get("content")
        told = [
            _kind(dict, "logprobs", value).get("logprob")
            for value in _kind(list, "logprobs", content)
        ]
    status = _kind(int, "http_status", data.get("http_status"))
    failed = data.get("status") == "error" or status >= 400
    given, said = _ids("prompt", prompt), _ids("response", response)
    values = _kind(list, "response_log_probs", told)
    logprobs = None
    if len(values) == len(said) and all(map(is_finite, values)):
        logprobs = [float(value) for value in values]
    return bool(said) and not failed, Triplet(given, said, logprobs)


def _kind(kind: type[Any], name: str, value: Any) -> Any:
    """A value of this kind, an empty one for None. Raises BridgeError for another."""
    if value is None:
        return kind()
    if not isinstance(value, kind):
        word = {dict: "an object", list: "a list", int: "a whole number"}[kind]
        raise BridgeError(f"{name}: expected {word}, got {excerpt(value)}")
    return value


def _ids(name: str, value: Any) -> list[int]:
    """Token ids, none for None. Raises BridgeError for what is no list of them."""
    if value is None:
        return []
    if not isinstance(value, list) or any(type(token) is not int for token in value):
        raise BridgeError(f"{name}: expected a list of token ids, got {excerpt(value)}")
    return list(value)


def merge(turned: Sequence[Triplet]) -> list[Row]:
    """Turns -> rows, by the rule of its verl adapter at level "trajectory".

    A turn whose prompt begins with all the ids so far goes on with the row: what the
    prompt has beyond them gets mask 0, its response 1. Any other turn begins a new row
    of the same rollout. Nothing that it is given is changed.
    """
    rows: list[Row] = []
    for prompt, response, logprobs in turned:
        if rows and _goes_on(rows[-1], prompt):
            row = rows.pop()
            seen = prompt[len(row.prompt_ids) + len(row.response_ids) :]
            both = None
            if row.logprobs is not None and logprobs is not None:
                both = [*row.logprobs, *[0.0] * len(seen), *logprobs]
            ids = [*row.response_ids, *seen, *response]
            mask = [*row.response_mask, *[0] * len(seen), *[1] * len(response)]
            rows.append(Row(row.prompt_ids, ids, mask, both))
        else:
            own = None if logprobs is None else list(logprobs)
            rows.append(Row(list(prompt), list(response), [1] * len(response), own))
    return rows


def _goes_on(row: Row, prompt: Sequence[int]) -> bool:
    so_far = [*row.prompt_ids, *row.response_ids]
    return list(prompt[: len(so_far)]) == so_far


def merged(trajectory: Trajectory, tokenizer: Tokenizer) -> Row:
    """The row of one of our episodes, which is always one: the template only appends."""
    (row,) = merge(list(turns(to_ids(trajectory, tokenizer))))
    return row


# ------------------------------------------------------------------- the conventions

_BY_ROWS = ("episode_sum", "episode_mean", "constant")
_NO_KL: dict[str, object] = {"kl_place": "none", "kl_weight": 0.0}


def unsaid(convention: Convention) -> dict[str, object]:
    """Switches that its verl trainer can't say -> the nearest value that it can.

    verl's own answer, and what Agent Lightning changes: a reward that is missing is
    filled in, all groups take part, rows with nothing to train on are dropped. A KL in
    the loss does not go with per_rollout_mean: that divides by the rows of the batch, the
    KL by those of a mini-batch, so among M of them it would weigh M times as much.

    Raises BridgeError where nothing is near: besides verl's cases, an advantage that
    differs from token to token, which has no one value a rollout.
    """
    check_convention(convention)
    if convention.whiten or convention.returns == "to_go":
        raise BridgeError(
            "returns, whiten: rollout-level advantage needs one value a rollout"
        )
    found = verl.unsaid(_for_verl(convention))
    if convention.unscored != "zero":
        found["unscored"] = "zero"
    if convention.groups != "all":
        found["groups"] = "all"
    if convention.aggregation in _BY_ROWS and convention.empty_rows != "left_out":
        found["empty_rows"] = "left_out"
    if not _kl_fits(convention):
        found |= _NO_KL
    return found


def _kl_fits(convention: Convention) -> bool:
    if convention.kl_place == "reward":  # rows of one rollout would differ in reward
        return False
    return convention.kl_place == "none" or not _per_rollout(convention)


def _per_rollout(convention: Convention) -> bool:
    """Whether its loss is Agent Lightning's own, per_rollout_mean."""
    return convention.ratio == "unit" and convention.aggregation == "episode_mean"


def _for_verl(convention: Convention) -> Convention:
    """With the switches that Agent Lightning decides as verl alone would have them."""
    decided: dict[str, object] = {"unscored": "refuse", "groups": "all"}
    if convention.aggregation in _BY_ROWS:
        decided["empty_rows"] = "counted"
    if not _kl_fits(convention):
        decided |= _NO_KL
    return convention.but(**decided)


def overrides(convention: Convention) -> list[str]:
    """The Hydra overrides of ``agentlightning/verl/config.yaml`` for this convention.

    Exact as long as each rollout is one row and the batch one mini-batch: per_rollout_mean
    divides by the rows of the whole batch, whatever is in a step. Raises BridgeError,
    naming each switch that can't be said and what there is.
    """
    if missing := unsaid(convention):
        has = ", ".join(f"{switch}={value!r}" for switch, value in missing.items())
        raise BridgeError(
            f"convention {convention.name!r}: Agent Lightning only has {has}"
        )
    said = dict(line.split("=", 1) for line in verl.overrides(_for_verl(convention)))
    said = {key: x for key, x in said.items() if ".filter_groups." not in key}
    if _per_rollout(convention):
        said["actor_rollout_ref.actor.policy_loss.loss_mode"] = "per_rollout_mean"
    said |= {
        "algorithm.enable_rollout_level_advantage": "true",
        "agentlightning.reward_fillna_value": "0.0",
        "agentlightning.trace_aggregator.level": "trajectory",
    }
    return [f"{key}={value}" for key, value in said.items()]
