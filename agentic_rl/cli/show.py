"""``show``: any trajectory file, episode by episode, with who wrote each token."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from agentic_rl.cli import render
from agentic_rl.cli.arguments import Command, Operand, Option, Values, text, whole
from agentic_rl.cli.records import Record, read_record
from agentic_rl.cli.runs import TRAJECTORIES
from agentic_rl.cli.storage import BadLines, stream
from agentic_rl.cli.terminal import complain, encoding, flush, paint
from agentic_rl.tokens import IM_START

MAX_PEERS = 64  # of a group that are listed
HEAD = ("line", "task", "step", "group", "turns", "trained", "reward", "advant.", "end")
WIDTHS = (6, -17, 5, 5, 5, 9, 8, 8, -9)  # of the list's columns; text is to the left

Chosen = Iterator[tuple[int, Record | None]]  # (line, its episode, None if it is bad)


def main(values: Values) -> int:
    """Print the file's episodes; the exit status is 1 if some lines were bad."""
    path = Path(values["operands"][0])
    if path.is_dir():
        path /= TRAJECTORIES
    bad = BadLines(path)
    chosen = chosen_records(path, values, bad)
    if values["json"]:
        last = show_json(chosen)
    elif values["full"] or values["step"] or values["line"]:
        last = show_full(path, chosen, values)
    else:
        last = show_list(chosen)
    flush()
    if bad.count:
        complain(bad.summary())
    elif not last:
        complain(f"{path}: no such episode")
    return 1 if bad.count or not last else 0


def chosen_records(path: Path, values: Values, bad: BadLines) -> Chosen:
    """The episodes that were asked for, and the bad lines among them."""
    first, last = values["line"] or (1, None)
    for line, record in stream(path, read_record, bad, first, last):
        if record is None or _is_chosen(record, values):
            yield line, record


def _is_chosen(record: Record, values: Values) -> bool:
    wanted = {"task_id": values["task"], "step": values["training_step"]}
    return all(
        value is None or getattr(record, name) == value
        for name, value in wanted.items()
    )


def read_lines(text: str) -> tuple[int, int]:
    """N or FIRST-LAST -> (first, last)."""
    found = re.fullmatch(r"([1-9][0-9]{0,17})(?:-([1-9][0-9]{0,17}))?", text)
    if found is None or int(found[2] or found[1]) < int(found[1]):
        raise ValueError(f"expected a line, or FIRST-LAST, got {text!r}")
    return int(found[1]), int(found[2] or found[1])


# ------------------------------------------------------------------ one line an episode


def show_json(chosen: Chosen) -> int:
    """A JSON object an episode; the last line that was read."""
    last = 0
    for last, record in chosen:
        if record is not None:
            print(json.dumps({"line": last, **as_json(record)}))
    return last


def as_json(record: Record) -> dict[str, Any]:
    """A record as plain data; a chat log has the same rows, and no actions."""
    around = {
        name: getattr(record, name)
        for name in ("task_id", "step", "group", "advantage", "reward", "messages")
    }
    rows = {
        name: getattr(record, name)
        for name in ("tokens", "loss_mask", "decision", "logprobs")
    }
    if record.trajectory is None:
        return {**around, **rows}
    return {**record.trajectory.to_dict(), **around, **rows}


def show_list(chosen: Chosen) -> int:
    """A row an episode; the last line that was read."""
    last, shown = 0, 0
    for last, record in chosen:
        if record is not None:
            if not shown:
                print(paint(_row(HEAD), "bold"))
            print(_row(_cells(last, record)))
            shown += 1
    return last


def _cells(line: int, record: Record) -> tuple[str, ...]:
    end = record.trajectory.finish_reason if record.trajectory else "-"
    return (
        str(line),
        _fitting(record.task_id or "-", 17),
        _or_dash(record.step),
        _fitting(_or_dash(record.group), 5),
        str(sum(message["role"] == "assistant" for message in record.messages)),
        f"{sum(record.loss_mask)}/{len(record.tokens)}",
        _number(record.reward),
        _number(record.advantage),
        (end or "-").removeprefix("invalid_"),
    )


def _or_dash(value: Any) -> str:
    return "-" if value is None else str(value)


def _number(value: float | None) -> str:
    return "-" if value is None else render.number(value)


def _fitting(text: str, width: int) -> str:
    """Text of one line and of this width at most, its end left out if it is longer."""
    plain = "".join(map(render.readable("ascii"), text))
    return plain if len(plain) <= width else plain[: width - 2] + ".."


def _row(cells: Iterable[str]) -> str:
    columns = [
        text.ljust(-width) if width < 0 else text.rjust(width)
        for text, width in zip(cells, WIDTHS)
    ]
    return " ".join(columns).rstrip()


# ------------------------------------------------------------------ a whole episode


def show_full(path: Path, chosen: Chosen, values: Values) -> int:
    """Every chosen episode in full, or turn by turn; the last line that was read."""
    last = 0
    for last, record in chosen:
        if record is None:
            continue
        print(render.heading(f"line {last}: {_title(record)}", _group(record)))
        for fact in facts(record):
            print(render.wrapped("", fact, render.readable(encoding())))
        if values["step"]:
            if not walk(record):
                break
        else:
            print()
            show_messages(record.messages)
            print()
            show_tokens(record, 0, len(record.tokens))
        if values["line"] and values["line"][0] == values["line"][1]:
            show_group(path, record)
    return last


def _title(record: Record) -> str:
    return _fitting(record.task_id or "a chat log", 40)


def _group(record: Record) -> str:
    parts = [f"step {record.step}"] if record.step is not None else []
    if record.group is not None:
        parts.append(f"group {_fitting(str(record.group), 12)}")
    return ", ".join(parts)


def facts(record: Record) -> Iterator[str]:
    """What is known of an episode besides its conversation, a line each."""
    trajectory = record.trajectory
    parts = trajectory.breakdown if trajectory else {}
    paid = " + ".join(f"{name} {value:g}" for name, value in parts.items())
    reward = "nobody scored it" if record.reward is None else f"{record.reward:g}"
    yield f"task: {record.task_id or 'unknown'}"
    yield f"reward: {reward}" + (f" = {paid}" if paid else "")
    if record.advantage is not None:
        yield f"advantage: {render.number(record.advantage)}"
    if trajectory is None:
        yield "a chat log: tokens are those of the course's template, log pi is unknown"
    else:
        yield f"end: {trajectory.finish_reason}"
    for odd in record.odd:
        yield f"odd: {odd}"
    if record.unused:
        yield f"fields not used: {', '.join(record.unused)}"


def show_messages(messages: list[dict[str, Any]]) -> None:
    """A conversation, what the assistant wrote in the colour of mask 1."""
    printable = render.readable(encoding())
    for message, block in render.message_blocks(messages, printable):
        print(paint(block, "green") if message["role"] == "assistant" else block)


def show_tokens(record: Record, first: int, last: int) -> None:
    """Tokens ``first`` to before ``last``, those with mask 1 in colour."""
    print(paint(render.TOKENS_HEAD, "bold"))
    rows = zip(
        render.runs(record), render.token_blocks(record, render.readable(encoding()))
    )
    for (start, _), block in rows:
        if first <= start < last:
            print(paint(block, "green") if record.loss_mask[start] else block)
    if (first, last) == (0, len(record.tokens)):
        print(
            f"{len(record.tokens)} tokens, {sum(record.loss_mask)} with mask 1, "
            f"{sum(record.decision)} decisions"
        )


def show_group(path: Path, record: Record) -> None:
    """The other episodes of the group, from a second look at the file."""
    if record.peers is None or not path.is_file():
        return
    rows: list[tuple[str, ...]] = []
    left_out = 0

    def read_peer(value: Any) -> Record | None:
        is_near = isinstance(value, dict) and value.get("group") == record.group
        return read_record(value) if is_near else None

    for number, other in stream(path, read_peer, BadLines(path)):
        if other is None or other.peers != record.peers:
            continue
        if len(rows) < MAX_PEERS:
            choices = render.choices(other.trajectory) if other.trajectory else ""
            cells = _number(other.reward), _number(other.advantage)
            rows.append((str(number), *cells, choices))
        else:
            left_out += 1
    print(f"\n{paint('its group: ' + _group(record), 'bold')}")
    print(f"{'line':>6} {'reward':>8} {'advant.':>8}  choices")
    for line, reward, advantage, choices in rows:
        print(render.wrapped(f"{line:>6} {reward:>8} {advantage:>8}  ", choices))
    if left_out:
        print(f"and {left_out} more")


# ------------------------------------------------------------------ turn by turn


class Turn(NamedTuple):
    """A stretch of an episode: its messages, and its tokens from first to before last."""

    title: str
    messages: list[dict[str, Any]]
    first: int
    last: int


def turns(record: Record) -> list[Turn]:
    """What stands before the first assistant turn, then each with what answered it."""
    places = [i for i, token in enumerate(record.tokens) if token == IM_START]
    starts = [0]
    for place, message in enumerate(record.messages):
        if message["role"] == "assistant" and place:
            starts.append(place)
    ends = [*starts[1:], len(record.messages)]
    if len(places) != len(record.messages):  # a template of another kind
        return [Turn("the whole episode", record.messages, 0, len(record.tokens))]
    places.append(len(record.tokens))
    return [
        Turn(
            _turn_title(record, number),
            record.messages[start:end],
            places[start],
            places[end],
        )
        for number, (start, end) in enumerate(zip(starts, ends))
    ]


def _turn_title(record: Record, number: int) -> str:
    if record.trajectory is None or not 0 < number <= len(record.trajectory.actions):
        return f"turn {number}" if number else "before the first turn"
    state, choice = record.trajectory.choices()[number - 1]
    place = record.trajectory.positions("decision")[number - 1]
    log_pi = render.number(record.logprobs[place])
    return f"turn {number}: in {state}, {choice or 'a script'} (log pi {log_pi})"


def walk(record: Record) -> bool:
    """Show the episode turn by turn; False if the reader has seen enough."""
    asks = all(end is not None and end.isatty() for end in (sys.stdin, sys.stdout))
    parts = turns(record)
    for number, turn in enumerate(parts, 1):
        title = "".join(map(render.readable(encoding()), turn.title))
        print(f"\n{paint(title, 'bold')}")
        show_messages(turn.messages)
        show_tokens(record, turn.first, turn.last)
        if asks and number < len(parts) and not _goes_on():
            return False
    return True


def _goes_on() -> bool:
    try:
        return input("-- Enter: go on, q: stop -- ").strip().lower() != "q"
    except EOFError:
        print()
        return False


COMMAND = Command(
    "show",
    "trajectories: messages, tokens, mask, decisions, reward, group",
    "Show the episodes of a file of JSON lines: what train writes, trajectories alone, or "
    'OpenAI-style chat logs: {"messages": [...]}, where task_id, reward, step, group and '
    "advantage may stand too. A row an episode; in full with --line or --full. Tokens of "
    "mask 1 are what a trainer would train on; a message of weight 0 is not. Bad lines "
    "are counted and named, and make the exit status 1. The file may be of any size.",
    main,
    Operand("FILE", "JSON lines, a folder of train, or - for standard input"),
    (
        Option("--line", "this line in full, with its group; or N-M", read_lines, "N"),
        Option("--full", "every episode in full"),
        Option("--step", "turn by turn; on a terminal, Enter goes on"),
        Option("--task", "only episodes of this task", text, "ID"),
        Option(
            "--training-step", "only episodes of this step of training", whole(0), "N"
        ),
        Option("--json", "a JSON object an episode, with its tokens and mask"),
    ),
    (
        ("show runs/first/trajectories.jsonl", "a row an episode"),
        ("show runs/first/trajectories.jsonl --line 3", "one in full, with its group"),
        ("show runs/first/trajectories.jsonl --line 3 --step", "turn by turn"),
        ("show chat_logs.jsonl --full | less", "your own logs, with their mask"),
    ),
)
