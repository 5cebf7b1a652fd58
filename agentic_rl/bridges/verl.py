"""A dictionary between this course and verl.

    Trajectory      AgentLoopOutput                     output, from_output
    trajectories    the padded batch of its trainer     batch, from_batch
    Task            a row of its parquet files          rows, task_of
    Tool            OpenAIFunctionToolSchema            tool_schema, toolbox
    Reward          compute_score                       score
    Convention      Hydra overrides                     overrides, unsaid

Importing this file imports no framework: only ``batch``, ``from_batch`` and
``tool_schema`` need one, and say so.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from agentic_rl.bridges.frameworks import BridgeError, require
from agentic_rl.bridges.reading import read_notes
from agentic_rl.bridges.token_ids import TokenIds, Tokenizer, from_ids, to_ids
from agentic_rl.conventions import Convention
from agentic_rl.messages import MessageError, parse_assistant, parse_json, user
from agentic_rl.reward import COURSE_REWARD, Reward, finite_number
from agentic_rl.tasks import Task, kind_of, parse_task
from agentic_rl.tool_math import CALCULATOR, lookup_tool
from agentic_rl.tools import OBSERVATION_KINDS, Observation, Tool, ToolBox
from agentic_rl.trajectory import Trajectory
from agentic_rl.values import is_finite

DATA_SOURCE = "tool-math"
TOOL_KINDS = "tool_kinds"  # where our tools write what came of each call
NUM_TURNS = "__num_turns__"  # verl's name for the column of turns
SCORE, UNCLEAR = "score", "unclear"  # names in a result that no term may have
ANSWERING = "\nassistant\n"  # the header of a turn, its special tokens left out

# ------------------------------------------------------------- one episode, there and back


def output(trajectory: Trajectory, tokenizer: Tokenizer) -> dict[str, Any]:
    """The fields of ``verl.experimental.agent_loop.AgentLoopOutput`` of a trajectory.

    prompt_ids and response_ids are flat lists of ids. The response ends with the last id
    that the assistant wrote, as verl's own loop ends it: verl puts the reward on the last
    id of the response, and some estimators drop what stands where the mask is 0. What a
    tool or the template wrote after it goes into ``extra_fields["tail_ids"]``.

    num_turns counts as verl does: the prompt, the assistant's turns, the tools' turns
    between them. Raises as ``to_ids`` does.
    """
    record = to_ids(trajectory, tokenizer)
    end = len(record.response_mask) - record.response_mask[::-1].index(1)
    kinds = [seen.kind for seen in trajectory.observations]
    return {
        "prompt_ids": record.prompt_ids,
        "response_ids": record.response_ids[:end],
        "response_mask": record.response_mask[:end],
        "response_logprobs": record.logprobs[:end],
        "reward_score": trajectory.reward,
        "num_turns": 2 * len(trajectory.actions),
        "metrics": {},
        "extra_fields": {
            "turn_scores": [],
            "tool_rewards": [0.0] * len(kinds),
            TOOL_KINDS: kinds,
            "notes": record.notes._asdict(),
            "tail_ids": record.response_ids[end:],
        },
    }


def from_output(fields: Mapping[str, Any], tokenizer: Tokenizer) -> Trajectory:
    """The trajectory of what ``output`` made. ``from_output(output(t)) == t``.

    Raises BridgeError if nothing is noted, as in what verl's own loop returns: states,
    choices and kinds of observations can't be read off ids. Raises as ``from_ids`` does.
    """
    extra = fields["extra_fields"]
    notes = read_notes(extra.get("notes"))
    if fields["response_logprobs"] is None:
        raise BridgeError("response_logprobs: None, verl computed none")
    tail = extra.get("tail_ids", [])
    return from_ids(
        TokenIds(
            list(fields["prompt_ids"]),
            [*fields["response_ids"], *tail],
            [*fields["response_mask"], *[0] * len(tail)],
            [*fields["response_logprobs"], *[0.0] * len(tail)],
            notes,
        ),
        tokenizer,
    )


# ------------------------------------------------------------- a batch, there and back


class Batch(NamedTuple):
    """What verl calls a DataProto: ``DataProto.from_dict(tensors, non_tensors)``.

    tensors       prompts [B, P], padded on the left; responses, response_mask,
                  rollout_log_probs [B, R], padded on the right; input_ids,
                  attention_mask, position_ids [B, P + R]; rm_scores [B, R], the reward on
                  the last id of each response, if every episode has one
    non_tensors   __num_turns__ and the extra fields, one list of B values each
    """

    tensors: dict[str, Any]
    non_tensors: dict[str, list[Any]]


def batch(
    outputs: Sequence[Mapping[str, Any]],
    pad: int,
    prompt_length: int,
    response_length: int,
    dtype: Any = None,
) -> Batch:
    """Outputs, padded to P = prompt_length and R = response_length ids.

    ``dtype`` of log-probs and rewards: float32 if not given, as verl has them. Raises
    BridgeError for what does not fit, which verl would cut; where only some of the
    episodes have a reward, whose batch would have none in verl; for lists of different
    lengths, an empty response, and numbers that are not finite.
    """
    require("verl")
    import torch

    if not outputs:
        raise BridgeError("outputs: expected at least one")
    for item in outputs:
        _check_output(item)
    scores = [item["reward_score"] for item in outputs]
    unscored = [place for place, score in enumerate(scores) if score is None]
    if unscored and len(unscored) < len(scores):
        raise BridgeError(f"reward_score[{unscored[0]}]: None, but others have one")
    padded = [_padded(item, pad, prompt_length, response_length) for item in outputs]
    floats = ("rollout_log_probs", "rm_scores")
    tensors = {
        name: torch.tensor(
            [row[name] for row in padded],
            dtype=(dtype or torch.float32) if name in floats else torch.int64,
        )
        for name in padded[0]
    }
    names = dict.fromkeys(name for item in outputs for name in item["extra_fields"])
    extra = {
        name: [item["extra_fields"].get(name) for item in outputs] for name in names
    }
    turns = [item["num_turns"] for item in outputs]
    return Batch(tensors, {NUM_TURNS: turns, **extra})


def _check_output(fields: Mapping[str, Any]) -> None:
    """Raise BridgeError for what would be misaligned, or lost in a trainer's sums."""
    count = len(fields["response_ids"])
    if not count:
        raise BridgeError("response_ids: expected at least one")
    for name in ("response_mask", "response_logprobs"):
        if fields[name] is None or len(fields[name]) != count:
            found = "none" if fields[name] is None else len(fields[name])
            raise BridgeError(f"{name}: {found} for {count} response_ids")
    numbers = list(fields["response_logprobs"])
    if fields["reward_score"] is not None:
        numbers.append(fields["reward_score"])
    if odd := [value for value in numbers if not is_finite(value)]:
        raise BridgeError(f"response_logprobs, reward_score: {odd[0]!r} is not finite")
    if NUM_TURNS in fields["extra_fields"]:
        raise BridgeError(
            f"extra_fields: {NUM_TURNS!r} is the name of the turns' column"
        )


def _padded(
    fields: Mapping[str, Any], pad: int, prompt_length: int, response_length: int
) -> dict[str, list[float]]:
    """One row of each tensor."""
    prompt, response = list(fields["prompt_ids"]), list(fields["response_ids"])
    left, right = prompt_length - len(prompt), response_length - len(response)
    for name, ids, room in (("prompt", prompt, left), ("response", response, right)):
        if room < 0:
            raise BridgeError(
                f"{name}_ids: {len(ids)} don't fit into {len(ids) + room}"
            )
    attention = [0] * left + [1] * (len(prompt) + len(response)) + [0] * right
    prompts, responses = [pad] * left + prompt, response + [pad] * right
    row = {
        "prompts": prompts,
        "responses": responses,
        "response_mask": [*fields["response_mask"], *[0] * right],
        "input_ids": prompts + responses,
        "attention_mask": attention,
        "position_ids": [max(count - 1, 0) for count in accumulate(attention)],
        "rollout_log_probs": [*fields["response_logprobs"], *[0.0] * right],
    }
    if fields["reward_score"] is not None:
        rewards = [0.0] * response_length
        rewards[len(response) - 1] = fields["reward_score"]
        row["rm_scores"] = rewards
    return row


def from_batch(padded: Batch) -> list[dict[str, Any]]:
    """The outputs of a batch, without their padding; attention_mask says what it is."""
    tensors, non_tensors = padded
    if "rollout_log_probs" not in tensors:
        raise BridgeError("batch: no rollout_log_probs, verl computed none")
    width = tensors["prompts"].shape[1]
    found = []
    for row, marks in enumerate(tensors["attention_mask"].bool()):
        before, after = marks[:width], marks[width:]
        extra = {name: values[row] for name, values in non_tensors.items()}
        scores = tensors.get("rm_scores")
        found.append(
            {
                "prompt_ids": tensors["prompts"][row][before].tolist(),
                "response_ids": tensors["responses"][row][after].tolist(),
                "response_mask": tensors["response_mask"][row][after].tolist(),
                "response_logprobs": tensors["rollout_log_probs"][row][after].tolist(),
                "reward_score": None if scores is None else float(scores[row].sum()),
                "num_turns": int(extra.pop(NUM_TURNS)),
                "metrics": {},
                "extra_fields": extra,
            }
        )
    return found


# ------------------------------------------------------------------------- the tasks


def rows(tasks: Iterable[Task], split: str) -> Iterator[dict[str, Any]]:
    """The rows of a parquet file that ``verl.utils.dataset.RLHFDataset`` reads.

    A parquet column has one type for all its rows. An object whose keys differ from row to
    row, as a price list, would come back with the keys of all of them; so it is text.
    """
    for index, task in enumerate(tasks):
        prices = json.dumps(task.prices or {})
        yield {
            "data_source": DATA_SOURCE,
            "agent_name": "tool_agent",
            "prompt": [user(task.question)],
            "ability": kind_of(task.question),
            "reward_model": {"style": "rule", "ground_truth": task.answer},
            "extra_info": {
                "split": split,
                "index": index,
                "task": json.dumps(task.to_dict()),
                "need_tools_kwargs": True,
                "tools_kwargs": {"lookup": {"create_kwargs": {"prices": prices}}},
            },
        }


def task_of(extra_info: Mapping[str, Any]) -> Task:
    """The task of a row, checked. Raises BridgeError if there is none, else TaskError."""
    text = extra_info.get("task") if isinstance(extra_info, Mapping) else None
    if not isinstance(text, str):
        raise BridgeError("extra_info: no task: not a row that this bridge made")
    return parse_task(parse_json(text), "extra_info: task")


# ------------------------------------------------------------------------- the tools


def tool_schema(tool: Tool) -> Any:
    """A tool as ``verl.tools.schemas.OpenAIFunctionToolSchema``.

    verl's form has no ``additionalProperties``: it is dropped, and a tool has to refuse
    arguments that it does not know. Ours do.
    """
    require("verl")
    from verl.tools.schemas import OpenAIFunctionToolSchema

    return OpenAIFunctionToolSchema.model_validate(tool.schema())


def toolbox(name: str, create_kwargs: Mapping[str, Any]) -> ToolBox:
    """A box with the tool of this name, made of what a row gives it in create_kwargs.

    Raises BridgeError for an unknown name, and for a lookup without its prices.
    """
    if name == CALCULATOR.name:
        return ToolBox([CALCULATOR])
    if name != "lookup":
        raise BridgeError(f"no tool {name!r}; the tools are calculator, lookup")
    try:
        prices = parse_json(create_kwargs["prices"])
    except (KeyError, TypeError, MessageError):
        prices = None
    if not isinstance(prices, dict):
        raise BridgeError("lookup: create_kwargs: expected prices, an object as text")
    return ToolBox([lookup_tool(prices)])


# ------------------------------------------------------------------------ the reward


def score(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: Mapping[str, Any],
    reward: Reward = COURSE_REWARD,
) -> dict[str, float]:
    """A reward of ours as verl's ``compute_score``: "score" and what it is made of.

    solution_str    the response as text, tools and headers in it, special tokens left out
    ground_truth    the task's answer
    extra_info      the row's, and what verl's agent loop adds to it: num_turns,
                    tool_rewards (one a call that was answered) and what our tools write

    A tool's text is never read for an answer: only what stands behind the last header is,
    which is the assistant's. If more headers stand there than turns were taken, somebody
    wrote one as text; then nobody can tell who wrote what, "unclear" is 1.0 and no answer
    is read. Calls are not counted in the text but by who answered them: our tools, or verl
    for a name it does not know.

    Whether the last turn was cut off can't be known here: verl does not say. Raises
    BridgeError for what is missing or contradicts itself.
    """
    if data_source != DATA_SOURCE:
        raise BridgeError(f"data_source: expected {DATA_SOURCE!r}, got {data_source!r}")
    task = task_of(extra_info)
    if ground_truth != task.answer:
        raise BridgeError(
            f"ground_truth: {ground_truth!r}, the task says {task.answer!r}"
        )
    last, unclear = _last_turn(solution_str, extra_info.get("num_turns"))
    read = _as_read(None if unclear else last, _kinds(extra_info), task)
    total, breakdown = reward(read, task)
    if total is None:
        raise BridgeError("reward: None, and verl has no unscored sample")
    finite_number("reward", total)
    if taken := {SCORE, UNCLEAR} & set(breakdown):
        raise BridgeError(
            f"reward: a term named {min(taken)!r}, which is verl's or ours"
        )
    return {SCORE: total, **breakdown, UNCLEAR: float(unclear)}


def _last_turn(text: str, num_turns: Any) -> tuple[str, bool]:
    """(what the assistant wrote last, whether that can't be told)."""
    turns = num_turns if hasattr(num_turns, "__index__") else 0  # numpy's integers too
    if turns < 2 or turns % 2:
        raise BridgeError(
            f"num_turns: expected an even number from verl's agent loop, got {num_turns}"
        )
    tool_turns = int(turns) // 2 - 1
    if not tool_turns:  # no tool wrote anything
        return text, False
    headers = text.count(ANSWERING)
    if headers < tool_turns:
        raise BridgeError(
            f"solution_str: {headers} headers of assistant turns, expected {tool_turns}: "
            "another chat template?"
        )
    return text.rpartition(ANSWERING)[2], headers > tool_turns


def _kinds(extra_info: Mapping[str, Any]) -> list[str]:
    """The kind of each observation; what our tools did not answer, verl refused."""
    ours, answered = extra_info.get(TOOL_KINDS), extra_info.get("tool_rewards")
    kinds = [] if ours is None else list(ours)
    if odd := [kind for kind in kinds if kind not in OBSERVATION_KINDS]:
        raise BridgeError(f"{TOOL_KINDS}: unknown kind {odd[0]!r}")
    refused = (0 if answered is None else len(answered)) - len(kinds)
    if refused < 0:
        raise BridgeError(
            f"{TOOL_KINDS}: {len(kinds)} for {len(answered or ())} answers"
        )
    return kinds + ["invalid_call"] * refused


def _as_read(text: str | None, kinds: Sequence[str], task: Task) -> Trajectory:
    """What a reward needs of an episode: its last turn, if known, and its observations."""
    read = Trajectory(task.id, finish_reason="stop")
    read.observations.extend(Observation(kind, "", "", "") for kind in kinds)
    if text is None:
        return read
    message = parse_assistant(text)
    calls = message.get("tool_calls", [])
    if not calls:
        read.actions.append({"type": "final_answer", "content": message["content"]})
    for call in calls:  # Never run. One that can't be read is a fault all the same.
        if isinstance(call["function"]["arguments"], str):
            read.observations.append(Observation("invalid_call", call["id"], "", ""))
    return read


# ------------------------------------------------------------------- the conventions

# Each estimator of verl 0.9.1 that our switches can say, and what it does at the edges.
ESTIMATORS: dict[str, dict[str, object]] = {
    "grpo": {
        "baseline": "group_mean",
        "std": "group",
        "returns": "episode",
        "whiten": False,
        "ddof": 1,
        "std_epsilon": 1e-6,
        "epsilon_place": "added",
        "group_of_one": "raw",
        "zero_spread": "divide",
    },
    "grpo without std": {
        "baseline": "group_mean",
        "std": "none",
        "returns": "episode",
        "whiten": False,
        "group_of_one": "raw",
    },
    "rloo": {
        "baseline": "leave_one_out",
        "std": "none",
        "returns": "episode",
        "whiten": False,
        "group_of_one": "raw",
    },
    "rloo_vectorized": {
        "baseline": "leave_one_out",
        "std": "none",
        "returns": "episode",
        "whiten": False,
        "group_of_one": "zero",
    },
    "reinforce_plus_plus": {
        "baseline": "none",
        "std": "none",
        "returns": "to_go",
        "whiten": True,
        "ddof": 1,
        "std_epsilon": 1e-8,
        "epsilon_place": "under_root",
    },
    "reinforce_plus_plus_baseline": {
        "baseline": "group_mean",
        "std": "none",
        "returns": "episode",
        "whiten": True,
        "ddof": 1,
        "std_epsilon": 1e-8,
        "epsilon_place": "under_root",
        "group_of_one": "raw",
    },
}
_STRUCTURE = ("baseline", "std", "returns", "whiten")

AGGREGATIONS = {
    "episode_sum": "seq-mean-token-sum",
    "episode_mean": "seq-mean-token-mean",
    "batch_mean": "token-mean",
    "batch_sum": "token-sum",
    "constant": "seq-mean-token-sum-norm",
}
KL_ESTIMATORS = {"k1": "kl", "k2": "mse", "k3": "low_var_kl"}

# verl always clips. A ratio is at most exp(20) there, so this range never acts.
NEVER = 1e9


def unsaid(convention: Convention) -> dict[str, object]:
    """Switches that verl can't say -> the nearest value that it can.

    ``overrides(convention.but(**unsaid(convention)))`` always works. Switches that change
    nothing in this convention are not listed. Raises BridgeError where nothing is near: no
    estimator of that structure, or a clip of another kind.
    """
    return convention.differing(
        {**ESTIMATORS[_estimator(convention)], **_edges(convention)}
    )


def _estimator(convention: Convention) -> str:
    """The estimator with the convention's structure and the fewest other differences."""

    def differing(name: str) -> int:
        return len(convention.differing(ESTIMATORS[name]))

    wanted = {switch: getattr(convention, switch) for switch in _STRUCTURE}
    fitting = [
        name
        for name, switches in ESTIMATORS.items()
        if wanted == {switch: switches[switch] for switch in _STRUCTURE}
    ]
    if not fitting:
        asked = ", ".join(f"{switch}={value!r}" for switch, value in wanted.items())
        raise BridgeError(f"verl has no estimator of {asked}")
    return min(fitting, key=differing)


def _edges(convention: Convention) -> dict[str, object]:
    """What verl does outside the advantage, where it leaves no choice."""
    if convention.clip == "two_sided":
        raise BridgeError(
            "clip: verl has no 'two_sided', only 'ppo', and 'off' by width"
        )
    by_sequence = convention.ratio == "sequence"
    edges: dict[str, object] = {
        "unscored": "refuse",
        "unit": "token",
        # By sequence from above alone: below -10 ours has no slope, and verl's is less
        # than exp(-10).
        "log_ratio_clamp": 10.0 if by_sequence else 20.0,
    }
    if convention.groups == "solved":
        edges["groups"] = "informative"
    if by_sequence:
        edges["dual_clip"] = None
    if convention.aggregation in ("episode_sum", "episode_mean", "constant"):
        # A loss alone leaves them out; its trainer divides by the size of the batch.
        edges["empty_rows"] = "counted"
    if convention.aggregation == "episode_mean":
        # Its 1e-8 is lost: the count of an integer mask and a float make a float32.
        edges["mean_epsilon"] = 0.0
    if convention.kl_place == "reward" and convention.returns == "to_go":
        # verl charges each token, and a position pays only for those that follow.
        return {**edges, "kl_place": "none", "kl_weight": 0.0}
    if convention.kl_place != "none":
        is_k3 = convention.kl_estimator == "k3"
        edges["kl_log_ratio_clamp"] = 20.0 if is_k3 else None
        edges["kl_clamp"] = 10.0 if is_k3 else None
    if convention.kl_place == "loss":
        edges["kl_ratio"] = False
    return edges


def overrides(convention: Convention) -> list[str]:
    """The Hydra overrides of ``ppo_trainer`` that mean this convention.

    Where a convention leaves out groups without a spread, verl's filter_groups also samples
    others in their place until the batch is full, as the paper of DAPO does; a group of one
    stays.

    Raises BridgeError, naming each switch that verl can't say with what it has instead.
    """
    if missing := unsaid(convention):
        has = ", ".join(f"{switch}={value!r}" for switch, value in missing.items())
        raise BridgeError(f"convention {convention.name!r}: verl only has {has}")
    values = {**_algorithm(convention), **_actor(convention)}
    return [f"{key}={_hydra(value)}" for key, value in values.items()]


def _hydra(value: object) -> str:
    return "null" if value is None else str(value)


def _algorithm(convention: Convention) -> dict[str, object]:
    estimator = _estimator(convention)
    in_reward = convention.kl_place == "reward"
    found: dict[str, object] = {
        "algorithm.adv_estimator": estimator.partition(" ")[0],
        "algorithm.norm_adv_by_std_in_grpo": convention.std == "group",
        "algorithm.gamma": convention.discount,
        "algorithm.filter_groups.enable": convention.groups == "informative",
        "algorithm.use_kl_in_reward": in_reward,
    }
    if convention.groups == "informative":
        found["algorithm.filter_groups.metric"] = "reward"
    if in_reward:
        found["algorithm.kl_penalty"] = KL_ESTIMATORS[convention.kl_estimator]
        found["algorithm.kl_ctrl.kl_coef"] = convention.kl_weight
    return found


def _actor(convention: Convention) -> dict[str, object]:
    clips, in_loss = convention.clip == "ppo", convention.kl_place == "loss"
    by_sequence = convention.ratio == "sequence"
    found: dict[str, object] = {
        "policy_loss.loss_mode": "gspo" if by_sequence else "vanilla",
        "loss_agg_mode": AGGREGATIONS[convention.aggregation],
        "clip_ratio_low": convention.clip_low if clips else NEVER,
        "clip_ratio_high": convention.clip_high if clips else NEVER,
        "clip_ratio_c": convention.dual_clip or NEVER,
        "use_kl_loss": in_loss,
    }
    if convention.aggregation == "constant":
        found["loss_scale_factor"] = convention.max_length
    if in_loss:
        found["kl_loss_type"] = KL_ESTIMATORS[convention.kl_estimator]
        found["kl_loss_coef"] = convention.kl_weight
    return {f"actor_rollout_ref.actor.{name}": value for name, value in found.items()}
