"""A line of a trajectory file: an episode of ours, or a chat log from elsewhere.

    {"trajectory": {...}, "step": 1, "group": 0, "advantage": 0.5}    as train writes it
    {"task_id": ..., "messages": [...], "loss_mask": [...], ...}        a trajectory alone
    {"messages": [...], "reward": 1.0, ...}                             a chat log
    [{"role": "user", ...}, ...]                                        its messages alone

A chat log may say ``task_id`` (or ``id``), ``reward``, ``group`` and ``advantage``; what
else it says is named and not used.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from agentic_rl.chat_log import read_log
from agentic_rl.messages import Message, checked_flags
from agentic_rl.trajectory import Trajectory
from agentic_rl.values import excerpt, is_finite

AROUND = ("step", "group", "advantage")
LOG_FIELDS = ("messages", "task_id", "id", "reward", *AROUND)


class RecordError(ValueError):
    """A line that holds no episode; the text says what was expected."""


@dataclass(frozen=True)
class Record:
    """One episode with what the file says around it; all rows have one length.

    trajectory  None for a chat log
    logprobs    None where nobody recorded one
    odd         what is odd in it, in words
    unused      fields of a chat log that mean nothing here
    """

    messages: list[Message]
    tokens: list[str]
    loss_mask: list[int]
    decision: list[int]
    logprobs: list[float | None]
    trajectory: Trajectory | None = None
    task_id: str | None = None
    step: int | None = None
    group: Hashable = None
    advantage: float | None = None
    reward: float | None = None
    odd: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()

    @property
    def peers(self) -> tuple[Hashable, Hashable] | None:
        """What names the group within the file; None if the record has none."""
        return None if self.group is None else (self.step, self.group)


def read_record(value: Any) -> Record:
    """A parsed JSON line -> Record. Raises RecordError, MessageError, TrajectoryError."""
    if isinstance(value, list):
        return _chat_log({"messages": value})
    if not isinstance(value, dict):
        raise RecordError(f"expected an object, got {type(value).__name__}")
    if "trajectory" in value:
        if odd := sorted(set(value) - {"trajectory", *AROUND}):
            raise RecordError(f"field {excerpt(odd[0])} is not known")
        return _ours(value["trajectory"], value)
    if "loss_mask" in value:
        return _ours(value, {})
    if "messages" in value:
        return _chat_log(value)
    raise RecordError("expected a trajectory, or a chat log with 'messages'")


def _ours(record: Any, around: dict[str, Any]) -> Record:
    trajectory = Trajectory.from_dict(record)
    return Record(
        trajectory.messages,
        trajectory.tokens,
        trajectory.loss_mask,
        trajectory.decision,
        trajectory.logprobs,
        trajectory,
        trajectory.task_id,
        reward=trajectory.reward,
        odd=tuple(checked_flags(trajectory.messages)),
        **_around(around),
    )


def _chat_log(record: dict[str, Any]) -> Record:
    log = read_log(record["messages"])
    unused = [key for key in record if key not in LOG_FIELDS]
    name = record.get("task_id", record.get("id"))
    return Record(
        log.messages,
        log.tokens,
        log.loss_mask,
        log.decision,
        [None] * len(log.tokens),
        task_id=None if name is None else str(name),
        reward=_number(record, "reward"),
        odd=tuple(log.odd),
        unused=(*unused, *(f"messages: {key}" for key in log.unused)),
        **_around(record),
    )


def _around(record: dict[str, Any]) -> dict[str, Any]:
    step, group = record.get("step"), record.get("group")
    if not (step is None or (type(step) is int and step >= 0)):
        raise RecordError(f"step: expected a whole number, got {excerpt(step)}")
    if not (group is None or isinstance(group, (str, int))):
        raise RecordError(f"group: expected text or a number, got {excerpt(group)}")
    return {
        "step": step,
        "group": group,
        "advantage": _number(record, "advantage"),
    }


def _number(record: dict[str, Any], name: str) -> float | None:
    value = record.get(name)
    if value is not None and not is_finite(value):
        raise RecordError(f"{name}: expected a number or null, got {excerpt(value)}")
    return value
