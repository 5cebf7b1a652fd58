"""What happened in one episode, and the rules that keep the record straight.

    messages      the conversation, in the form of messages.py
    actions       one a decision: tool_call or final_answer, the state it was made in,
                  the choice, and why the turn ended (finish_reason)
    observations  one a tool call: result, tool_error, timeout or invalid_call
    tokens        the whole episode as the policy saw it; and, always as long as tokens:
    loss_mask     1 on every token the assistant wrote, its end of turn included;
                  0 on user and tool tokens, on headers, on what the harness appends
    logprobs      log pi(a|s), in nats, on the first token of an assistant turn; 0.0 on
                  its other tokens, whose probability is one given the action; None where
                  the mask is 0
    decision      1 on the token that carries the choice, else 0
    finish_reason how the episode ended: stop, length, max_turns or invalid_streak
    reward        one number, or None while (or because) nobody scored it
    breakdown     named parts that add up to the reward

The mask is written when a token is, by the one who knows who wrote it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agentic_rl.messages import Message, check, is_json
from agentic_rl.tools import OBSERVATION_KINDS, Observation
from agentic_rl.values import excerpt, is_finite

ACTION_TYPES = ("tool_call", "final_answer")
FINISH_REASONS = ("stop", "length", "max_turns", "invalid_streak")

Action = dict[str, Any]  # type, state, choice, content or calls, finish_reason


class TrajectoryError(ValueError):
    """A record that breaks a rule; the text names the field and the place."""


@dataclass
class Trajectory:
    """One episode; see the module's text for each field."""

    task_id: str
    messages: list[Message] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    loss_mask: list[int] = field(default_factory=list)
    logprobs: list[float | None] = field(default_factory=list)
    decision: list[int] = field(default_factory=list)
    finish_reason: str | None = None
    reward: float | None = None
    breakdown: dict[str, float] = field(default_factory=dict)

    # ------------------------------------------------------------- while it happens

    def add_context(self, tokens: Sequence[str]) -> None:
        """Tokens that the policy reads and did not write: mask 0."""
        count = len(tokens)
        self.tokens += tokens
        self.loss_mask += [0] * count
        self.logprobs += [None] * count
        self.decision += [0] * count

    def add_decision(self, tokens: Sequence[str], logprob: float) -> None:
        """The tokens of one assistant turn: mask 1, the choice on the first of them.

        Raises TrajectoryError if there is no token to carry the choice, or for a
        log-prob that is no log-probability.
        """
        if not tokens:
            raise TrajectoryError(
                "tokens: an assistant turn has at least its end token"
            )
        check_logprob(logprob, len(self.tokens))
        rest = len(tokens) - 1
        self.tokens += tokens
        self.loss_mask += [1] * (rest + 1)
        self.logprobs += [logprob] + [0.0] * rest
        self.decision += [1] + [0] * rest

    # ------------------------------------------------------------------- afterwards

    @property
    def answer(self) -> str | None:
        """The text of the final answer; None if the episode ended without one."""
        finished = self.finish_reason == "stop" and self.actions
        if not finished or self.actions[-1]["type"] != "final_answer":
            return None
        return str(self.actions[-1]["content"])

    @property
    def truncated(self) -> bool:
        """True if something other than the agent ended the episode."""
        return self.finish_reason != "stop"

    @property
    def invalid_calls(self) -> int:
        """How many calls could not be run."""
        return sum(seen.kind == "invalid_call" for seen in self.observations)

    def logprob(self, position: int) -> float:
        """The log-prob at a trainable token. Raises TrajectoryError where the mask is 0."""
        value = self.logprobs[position]
        if not self.loss_mask[position] or value is None:
            raise TrajectoryError(
                f"logprobs[{position}]: nothing stands here, the mask is 0"
            )
        return value

    def positions(self, unit: str) -> list[int]:
        """Where the objective acts: at each "decision", or at each trainable "token"."""
        if unit not in ("decision", "token"):
            raise TrajectoryError(f"unit: expected 'decision' or 'token', got {unit!r}")
        marks = self.decision if unit == "decision" else self.loss_mask
        return [position for position, mark in enumerate(marks) if mark]

    def choices(self) -> list[tuple[str, str]]:
        """(state, action) of each decision, as the policy knows them."""
        return [(action["state"], action["choice"]) for action in self.actions]

    def fork(self) -> Trajectory:
        """A record with the same past and a future of its own."""
        return Trajectory(
            self.task_id,
            list(self.messages),
            list(self.actions),
            list(self.observations),
            list(self.tokens),
            list(self.loss_mask),
            list(self.logprobs),
            list(self.decision),
            self.finish_reason,
            self.reward,
            dict(self.breakdown),
        )

    def check(self) -> None:
        """Raise TrajectoryError, or MessageError, unless every rule holds."""
        check(self.messages)
        _check_lengths(self)
        _check_alignment(self)
        _check_actions(self)
        _check_reward(self)

    def to_dict(self) -> dict[str, Any]:
        """JSON form, checked. ``from_dict`` gives the same trajectory back."""
        self.check()
        record = dict(vars(self))
        record["observations"] = [seen._asdict() for seen in self.observations]
        return record

    @classmethod
    def from_dict(cls, record: Any) -> Trajectory:
        """The checked trajectory of a JSON record. Raises TrajectoryError, MessageError."""
        if not isinstance(record, dict):
            raise TrajectoryError(f"expected an object, got {type(record).__name__}")
        expected = set(cls.__dataclass_fields__)
        if odd := sorted(expected.symmetric_difference(record), key=str):
            problem = "is missing" if odd[0] in expected else "is not known"
            raise TrajectoryError(f"field {excerpt(odd[0])} {problem}")
        if not isinstance(record["observations"], list):
            raise TrajectoryError("observations: expected a list")
        seen = [
            _read_observation(item, i) for i, item in enumerate(record["observations"])
        ]
        trajectory = cls(**{**record, "observations": seen})
        trajectory.check()
        return trajectory


def _read_observation(record: Any, place: int) -> Observation:
    expected = set(Observation._fields)
    if not isinstance(record, dict) or set(record) != expected:
        raise TrajectoryError(f"observations[{place}]: expected {sorted(expected)}")
    if not all(isinstance(value, str) for value in record.values()):
        raise TrajectoryError(f"observations[{place}]: expected text in every field")
    return Observation(**record)


def _check_lengths(trajectory: Trajectory) -> None:
    if not isinstance(trajectory.task_id, str):
        raise TrajectoryError("task_id: expected text")
    for name in (
        "actions",
        "observations",
        "tokens",
        "loss_mask",
        "logprobs",
        "decision",
    ):
        if not isinstance(getattr(trajectory, name), list):
            raise TrajectoryError(f"{name}: expected a list")
    for name in ("loss_mask", "logprobs", "decision"):
        check_length(name, getattr(trajectory, name), len(trajectory.tokens), "tokens")


def check_length(name: str, values: Sequence[Any], length: int, of: str) -> None:
    """Raise TrajectoryError unless ``values`` is as long as what it is aligned with."""
    if not hasattr(values, "__len__"):
        raise TrajectoryError(
            f"{name}: expected {length} values, got one {type(values).__name__}"
        )
    if len(values) != length:
        raise TrajectoryError(f"{name}: {len(values)} values for {length} {of}")


def check_logprob(value: Any, position: int) -> None:
    """Raise TrajectoryError unless the value is a log-probability."""
    if not is_finite(value) or value > 0:
        raise TrajectoryError(
            f"logprobs[{position}]: expected a finite number, at most 0, "
            f"got {excerpt(value)}"
        )


def _check_alignment(trajectory: Trajectory) -> None:
    rows = zip(
        trajectory.tokens,
        trajectory.loss_mask,
        trajectory.logprobs,
        trajectory.decision,
    )
    for position, (token, mask, logprob, decision) in enumerate(rows):
        if not isinstance(token, str):
            raise TrajectoryError(
                f"tokens[{position}]: expected text, got {excerpt(token)}"
            )
        for name, mark in (("loss_mask", mask), ("decision", decision)):
            if type(mark) is not int or mark not in (0, 1):
                raise TrajectoryError(f"{name}[{position}]: expected 0 or 1")
        if decision and not mask:
            raise TrajectoryError(f"decision[{position}]: 1 where the mask is 0")
        if mask:
            check_logprob(logprob, position)
        elif logprob is not None:
            raise TrajectoryError(f"logprobs[{position}]: expected null, the mask is 0")


def _check_actions(trajectory: Trajectory) -> None:
    decisions = sum(trajectory.decision)
    if len(trajectory.actions) != decisions:
        raise TrajectoryError(
            f"actions: {len(trajectory.actions)} for {decisions} decisions"
        )
    for place, action in enumerate(trajectory.actions):
        if not isinstance(action, dict) or action.get("type") not in ACTION_TYPES:
            raise TrajectoryError(
                f"actions[{place}]: expected a type of {ACTION_TYPES}"
            )
        if action["type"] == "final_answer" and not isinstance(
            action.get("content"), str
        ):
            raise TrajectoryError(f"actions[{place}]: a final answer needs its content")
        _check_action(action, place)
    _check_calls(trajectory)
    for place, seen in enumerate(trajectory.observations):
        if seen.kind not in OBSERVATION_KINDS:
            raise TrajectoryError(
                f"observations[{place}]: unknown kind {excerpt(seen.kind)}"
            )
    if trajectory.finish_reason not in (None, *FINISH_REASONS):
        raise TrajectoryError(
            f"finish_reason: expected one of {FINISH_REASONS}, "
            f"got {excerpt(trajectory.finish_reason)}"
        )


def _check_action(action: Action, place: int) -> None:
    """The fields that every action has, whatever its type."""
    if not isinstance(action.get("state"), str):
        raise TrajectoryError(f"actions[{place}]: expected a state")
    if not isinstance(action.get("choice", ...), (str, type(None))):
        raise TrajectoryError(f"actions[{place}]: expected a choice, text or null")
    if action.get("finish_reason") not in ("tool_calls", *FINISH_REASONS):
        raise TrajectoryError(f"actions[{place}]: expected a finish_reason")
    calls = action.get("calls", None if action["type"] == "tool_call" else [])
    if not isinstance(calls, list) or not all(isinstance(x, str) for x in calls):
        raise TrajectoryError(f"actions[{place}]: expected calls, a list of ids")
    if not is_json(action):
        raise TrajectoryError(
            f"actions[{place}]: expected what JSON can hold, got {excerpt(action)}"
        )


def _check_calls(trajectory: Trajectory) -> None:
    """Actions, messages and observations tell of the same calls, in the same order."""
    made = [i for action in trajectory.actions for i in action.get("calls", ())]
    messages = trajectory.messages
    told = {
        "messages: tool calls": [
            call["id"] for m in messages for call in m.get("tool_calls") or ()
        ],
        "messages: tool answers": [
            m["tool_call_id"] for m in messages if m["role"] == "tool"
        ],
        "observations": [seen.tool_call_id for seen in trajectory.observations],
    }
    for name, ids in told.items():
        if ids != made:
            raise TrajectoryError(
                f"{name}: {excerpt(ids)}, but the actions made {excerpt(made)}"
            )


def _check_reward(trajectory: Trajectory) -> None:
    reward, breakdown = trajectory.reward, trajectory.breakdown
    if not isinstance(breakdown, dict):
        raise TrajectoryError("breakdown: expected an object")
    if odd := [x for x in breakdown if not isinstance(x, str) or not x.isprintable()]:
        raise TrajectoryError(f"breakdown: expected names, got {excerpt(odd[0])}")
    if reward is None:
        if breakdown:
            raise TrajectoryError("breakdown: there is one, but the reward is null")
        return
    for name, part in (("reward", reward), *breakdown.items()):
        if not is_finite(part):
            raise TrajectoryError(
                f"{name:.60}: expected a finite number, got {excerpt(part)}"
            )
    try:
        total = math.fsum(breakdown.values())
    except OverflowError:
        raise TrajectoryError("breakdown: adds up to more than a float holds") from None
    if abs(total - reward) > 1e-9:
        raise TrajectoryError(
            f"breakdown: adds up to {total:g}, the reward is {reward:g}"
        )


# ------------------------------------------------- from tokens to a training example


def next_token(
    tokens: Sequence[Any], loss_mask: Sequence[int]
) -> tuple[list[Any], list[Any], list[int]]:
    """(inputs, targets, target mask), each one shorter than the tokens.

    A model reads token t and is asked for token t + 1, so targets and mask move by one,
    together and exactly once: ``target_mask = loss_mask[1:]``.
    """
    check_length("loss_mask", loss_mask, len(tokens), "tokens")
    if loss_mask and loss_mask[0]:
        raise TrajectoryError("loss_mask[0]: no token stands before the first one")
    return list(tokens[:-1]), list(tokens[1:]), list(loss_mask[1:])


def last_trainable(loss_mask: Sequence[int]) -> int:
    """Where an episode's reward lands: the last position whose mask is 1.

    Raises TrajectoryError if no position is trainable.
    """
    for position in range(len(loss_mask) - 1, -1, -1):
        if loss_mask[position]:
            return position
    raise TrajectoryError("loss_mask: no trainable token")


def pad(
    values: Sequence[Any], length: int, filler: Any, loss_mask: Sequence[int]
) -> list[Any]:
    """The values, filled up to ``length``.

    Raises TrajectoryError instead of cutting: the text says how many trainable tokens
    the cut would have taken out of the loss.
    """
    check_length("loss_mask", loss_mask, len(values), "values")
    if len(values) > length:
        lost, trainable = sum(loss_mask[length:]), sum(loss_mask)
        raise TrajectoryError(
            f"length {length}: {len(values)} values don't fit; cutting would lose {lost} of "
            f"{trainable} trainable tokens"
        )
    return list(values) + [filler] * (length - len(values))


SIDES = ("prompt", "response")


def _token_ids(turn: Any, side: str, place: int) -> list[Any]:
    try:
        ids = turn[side]["token_ids"]
    except (KeyError, TypeError, IndexError):
        raise TrajectoryError(f"turn {place}: expected {side}.token_ids") from None
    if not isinstance(ids, list):
        raise TrajectoryError(f"turn {place}: {side}.token_ids: expected a list")
    return ids


def usable_rows(
    turns: Sequence[dict[str, Any]], final_reward: float | None
) -> tuple[list[dict[str, Any]], list[str]]:
    """(rows, flags) from a tracer's turns, one row of ids and mask a turn.

    A turn is ``{"prompt": {"token_ids": [...]}, "response": {"token_ids": [...]}}``.
    Turns with no prompt or no response ids can't be trained on and are left out; a
    reward that is missing stays None. Both are said in the flags, never filled in.
    Raises TrajectoryError for a turn of another form.
    """
    rows: list[dict[str, Any]] = []
    flags = [] if turns else ["no turns: was the model called through the tracer?"]
    for place, turn in enumerate(turns):
        prompt, response = (_token_ids(turn, side, place) for side in SIDES)
        if not response:
            flags.append(f"turn {place}: empty response ids")
            continue
        if not prompt:  # no token stands before the response's first one
            flags.append(f"turn {place}: empty prompt ids")
            continue
        mask = [0] * len(prompt) + [1] * len(response)
        rows.append({"ids": prompt + response, "mask": mask, "reward": final_reward})
    if final_reward is None:
        flags.append("final reward missing")
    return rows, flags
