"""A trajectory as the token ids of a language model, and back.

The course's tokens are texts. A trainer holds numbers, and cuts the text in its own way.
Where the course has one token, a tokenizer may have three; but who wrote a text does not
change with the way it is cut. So each run of text by one author is encoded by itself, and
its mask is the author's. Encoding the whole text at once could join two authors in one id.

Ids, mask and log-probs do not say everything. What they leave out is kept beside them, in
``Notes``: the way back needs it, and a framework that drops it can't give it back.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from agentic_rl.bridges.frameworks import BridgeError
from agentic_rl.messages import Message, parse_assistant, tool
from agentic_rl.tokens import IM_END, IM_START, encode, header
from agentic_rl.tools import Observation
from agentic_rl.trajectory import Action, Trajectory, check_length
from agentic_rl.values import excerpt


class Tokenizer(Protocol):
    """What is used of a tokenizer of the transformers library."""

    def __call__(
        self, text: str, *, add_special_tokens: bool, split_special_tokens: bool
    ) -> Any: ...

    def decode(self, token_ids: Sequence[int]) -> str: ...

    def convert_tokens_to_ids(self, tokens: str) -> Any: ...


class Notes(NamedTuple):
    """What happened and can't be read off the tokens.

    choices         (state, choice) of each decision; choice None for free text
    turn_ends       finish_reason of each assistant turn
    observations    the kind of each tool answer: result, tool_error, timeout, invalid_call
    """

    task_id: str
    choices: list[tuple[str, str | None]]
    turn_ends: list[str]
    observations: list[str]
    finish_reason: str | None
    reward: float | None
    breakdown: dict[str, float]


class TokenIds(NamedTuple):
    """An episode as a trainer holds it; what follows the prompt has one length.

    prompt_ids      up to and with the header of the first assistant turn
    response_ids    everything after it
    response_mask   1 on what the assistant wrote, its end of turn included
    logprobs        log-prob of each id; the choice's on the first id of its turn. Frameworks
                    have no None: it is 0.0 where the mask is 0
    """

    prompt_ids: list[int]
    response_ids: list[int]
    response_mask: list[int]
    logprobs: list[float]
    notes: Notes


# ------------------------------------------------------------------ there


def to_ids(trajectory: Trajectory, tokenizer: Tokenizer) -> TokenIds:
    """The ids of a checked trajectory.

    Raises BridgeError if the assistant wrote nothing, if a text is not Unicode, or if the
    tokenizer does not know the ends of the template's turns.
    """
    trajectory.check()
    start_id, end_id = markers(tokenizer)
    if not any(trajectory.loss_mask):
        raise BridgeError(f"{trajectory.task_id}: no token of an assistant to train on")
    ids: list[int] = []
    mask: list[int] = []
    logprobs: list[float] = []
    for text, special, author, logprob in _runs(trajectory):
        if special:
            new = [start_id if text == IM_START else end_id]
        else:
            new = ordinary(text, tokenizer)
        ids += new
        mask += [author] * len(new)
        logprobs += [logprob] + [0.0] * (len(new) - 1)
    start = mask.index(1)
    return TokenIds(
        ids[:start], ids[start:], mask[start:], logprobs[start:], _notes(trajectory)
    )


def markers(tokenizer: Tokenizer) -> tuple[int, int]:
    """The ids that open and close a turn. Raises BridgeError for a tokenizer without."""
    found = []
    for name in (IM_START, IM_END):
        token = tokenizer.convert_tokens_to_ids(name)
        if token is None or tokenizer.decode([token]) != name:
            raise BridgeError(f"tokenizer: expected a token {name}, it has none")
        found.append(int(token))
    return found[0], found[1]


def ordinary(text: str, tokenizer: Tokenizer) -> list[int]:
    """A text's ids; a special token's name that stands in it is text like any other."""
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise BridgeError(
            f"expected Unicode text, got half of a pair in {excerpt(text)}"
        )
    encoded = tokenizer(text, add_special_tokens=False, split_special_tokens=True)
    return list(encoded["input_ids"])


def context_ids(tokens: Sequence[str], tokenizer: Tokenizer) -> list[int]:
    """The ids of tokens that the harness wrote."""
    start, end = markers(tokenizer)
    ids: list[int] = []
    for special, run in itertools.groupby(tokens, lambda x: x in (IM_START, IM_END)):
        if special:
            ids += [start if token == IM_START else end for token in run]
        else:
            ids += ordinary("".join(run), tokenizer)
    return ids


def _runs(trajectory: Trajectory) -> Iterator[tuple[str, bool, int, float]]:
    """(text, special, mask, log-prob): each special token, each text by one author."""
    rows = zip(trajectory.tokens, trajectory.loss_mask, trajectory.logprobs)
    for (special, mask), run in itertools.groupby(rows, _author):
        tokens = list(run)
        if special:
            for token, _, value in tokens:
                yield token, True, mask, value or 0.0
        else:
            total = math.fsum(value or 0.0 for _, _, value in tokens)
            yield "".join(token for token, _, _ in tokens), False, mask, total


def _author(row: tuple[str, int, float | None]) -> tuple[bool, int]:
    token, mask, _ = row
    return token in (IM_START, IM_END), mask


def _notes(trajectory: Trajectory) -> Notes:
    return Notes(
        trajectory.task_id,
        [(action["state"], action.get("choice")) for action in trajectory.actions],
        [action["finish_reason"] for action in trajectory.actions],
        [seen.kind for seen in trajectory.observations],
        trajectory.finish_reason,
        trajectory.reward,
        dict(trajectory.breakdown),
    )


# ------------------------------------------------------------------ and back


def from_ids(record: TokenIds, tokenizer: Tokenizer) -> Trajectory:
    """The trajectory that these ids are of. ``from_ids(to_ids(t)) == t``.

    For reading and scoring. A model may have cut its text otherwise than the tokenizer
    would, so ids that were sampled are trained on as they are, never encoded again.

    The log-prob of a decision is the sum over the ids of its turn, by the chain rule. A
    trainer's record may end with the last end of turn, or before it where a turn was cut;
    what the template would put behind it is added.

    Raises BridgeError where the ids are no episode, TrajectoryError where what comes out
    breaks a rule of trajectories; nothing is cut, padded or guessed.
    """
    for name in ("response_mask", "logprobs"):
        check_length(name, getattr(record, name), len(record.response_ids), "ids")
    check_length(
        "turn_ends", record.notes.turn_ends, len(record.notes.choices), "turns"
    )
    ids = [*record.prompt_ids, *record.response_ids]
    mask = [*[0] * len(record.prompt_ids), *record.response_mask]
    trajectory = Trajectory(record.notes.task_id)
    logprobs = [*[0.0] * len(record.prompt_ids), *record.logprobs]
    for turn in _turns(ids, mask, logprobs, tokenizer):
        if turn.role == "assistant":
            _add_assistant(trajectory, turn, record.notes)
        else:
            _add_context(trajectory, turn, record.notes)
    notes = record.notes
    for found, noted, what in (
        (trajectory.actions, notes.choices, "decisions"),
        (trajectory.observations, notes.observations, "observations"),
    ):
        if len(found) != len(noted):
            raise BridgeError(f"{len(found)} {what} in the ids, noted {len(noted)}")
    trajectory.finish_reason, trajectory.reward = notes.finish_reason, notes.reward
    trajectory.breakdown = dict(notes.breakdown)
    trajectory.check()
    return trajectory


class _Turn(NamedTuple):
    """One turn of the template: its text, and who wrote the end of it."""

    role: str
    text: str
    own_end: bool
    logprob: float


def _turns(
    ids: Sequence[int],
    mask: Sequence[int],
    logprobs: Sequence[float],
    tokenizer: Tokenizer,
) -> Iterator[_Turn]:
    start, end = markers(tokenizer)
    place = 0
    while place < len(ids):
        if ids[place] != start:
            raise BridgeError(f"id {place}: expected the start of a turn")
        stop = ids.index(end, place) if end in ids[place:] else len(ids)
        role, text = _read_turn(
            ids[place + 1 : stop], mask[place + 1 : stop], tokenizer
        )
        own = [i for i in range(place, min(stop + 1, len(ids))) if mask[i]]
        if own and role != "assistant":
            raise BridgeError(f"id {own[0]}: mask 1 in a turn of role {role!r}")
        if stop == len(ids) and role != "assistant":
            raise BridgeError(f"id {place}: a turn of role {role!r} without its end")
        yield _Turn(role, text, stop in own, math.fsum(logprobs[i] for i in own))
        if stop + 1 < len(ids) and tokenizer.decode([ids[stop + 1]]) != "\n":
            raise BridgeError(f"id {stop + 1}: expected a line end after a turn")
        place = stop + 2


def _read_turn(
    ids: Sequence[int], mask: Sequence[int], tokenizer: Tokenizer
) -> tuple[str, str]:
    """(role, text) of what stands between the two ends of a turn."""
    own = mask.index(1) if 1 in mask else len(mask)
    if not all(mask[own:]):
        raise BridgeError("two authors in one turn: mask 0 after mask 1")
    role, line, text = tokenizer.decode(ids[:own]).partition("\n")
    if not line:
        raise BridgeError(f"a turn without a header, only {role!r}")
    return role, text + (tokenizer.decode(ids[own:]) if own < len(ids) else "")


def _add_context(trajectory: Trajectory, turn: _Turn, notes: Notes) -> None:
    """A turn of the user, or a tool's answer to the call that is due."""
    trajectory.add_context((*header(turn.role), *encode(turn.text), IM_END, "\n"))
    if turn.role != "tool":
        message: Message = {"role": turn.role, "content": turn.text}
        trajectory.messages.append(message)
        return
    made = [call for m in trajectory.messages for call in m.get("tool_calls", ())]
    place = len(trajectory.observations)
    if place >= min(len(made), len(notes.observations)):
        raise BridgeError(f"observation {place}: nobody made a call for it")
    call = made[place]
    trajectory.messages.append(tool(call["id"], turn.text))
    trajectory.observations.append(
        Observation(
            notes.observations[place], call["id"], call["function"]["name"], turn.text
        )
    )


def _add_assistant(trajectory: Trajectory, turn: _Turn, notes: Notes) -> None:
    """A turn of the assistant: its tokens, its message, its decision."""
    place = len(trajectory.actions)
    if place >= len(notes.choices):
        raise BridgeError(f"decision {place}: nothing is noted of it")
    (state, choice), ended = notes.choices[place], notes.turn_ends[place]
    if not turn.own_end and ended != "length":
        raise BridgeError(f"decision {place}: cut before its end, noted as {ended!r}")
    trajectory.add_context(header("assistant"))
    end = (IM_END,) if turn.own_end else ()
    trajectory.add_decision((*encode(turn.text), *end), turn.logprob)
    trajectory.add_context(("\n",) if turn.own_end else (IM_END, "\n"))
    message: Message = {"role": "assistant", "content": turn.text}
    if turn.own_end:
        calls = sum(len(m.get("tool_calls", ())) for m in trajectory.messages)
        message = parse_assistant(turn.text, calls + 1)
    trajectory.messages.append(message)
    trajectory.actions.append(_action(message, state, choice, ended))


def _action(message: Message, state: str, choice: str | None, ended: str) -> Action:
    calls = message.get("tool_calls", [])
    action: Action = {"type": "tool_call" if calls else "final_answer", "state": state}
    action["choice"] = choice
    if calls:
        action["calls"] = [call["id"] for call in calls]
    else:
        action["content"] = message["content"]
    action["finish_reason"] = ended
    return action
