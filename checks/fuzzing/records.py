"""Properties of what reads JSON records: conversations, tool calls, tasks, trajectories."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Generator
from typing import Any

from agentic_rl import messages, tasks
from agentic_rl.calculator import calculate
from agentic_rl.messages import MessageError, tool, tool_call, user
from agentic_rl.tasks import TaskError
from agentic_rl.tool_math import CALCULATOR, lookup_tool
from agentic_rl.tools import Tool, ToolBox
from agentic_rl.trajectory import Trajectory, TrajectoryError
from fuzzing import reference
from fuzzing.engine import fuzzed, refused
from fuzzing.mutation import records, same, texts
from fuzzing.texts import TASKS, episodes

RECORDS = [episode.to_dict() for episode in episodes()]

# ---------------------------------------------------------------- conversations


def _conversations() -> list[list[messages.Message]]:
    inside = [record["messages"] for record in RECORDS]
    two = [tool_call("a", "f", {"x": [1, {"y": None}]}), tool_call("b", "g", "[1]")]
    turn = {"role": "assistant", "content": None, "tool_calls": two}
    closing = {"role": "assistant", "content": "3", "reasoning_content": "hm"}
    system = {"role": "system", "content": "Be exact."}
    full = [system, user("x"), turn, tool("b", "2"), tool("a", "1"), user("?"), closing]
    return [*inside[:12], full, *map(messages.to_openai, inside[:6]), full[:4]]


@fuzzed(
    "messages: conversations", records(_conversations()), 20, ("refused", "well formed")
)
def conversations(log: Any) -> str:
    """Refused just where a rule is broken; else both directions keep all there is."""
    before, expected = copy.deepcopy(log), reference.well_formed(log)
    try:
        messages.check(log)
    except MessageError as error:
        assert not expected, f"refused, but it is well formed: {error}"
        for read in (messages.from_openai, messages.to_openai, messages.flags):
            _refuses(read, log)
        return refused(error)
    assert expected, "accepted, but it is not well formed"
    inside = messages.from_openai(log)
    assert same([_read(message) for message in log], inside), f"read as {inside}"
    edge = messages.to_openai(inside)
    assert all(isinstance(a, str) for m in edge for a in _arguments(m))
    assert same(messages.from_openai(edge), inside), f"lost on the way back: {edge}"
    assert same([_read(message) for message in edge], inside), f"written as {edge}"
    _check_flags(inside, messages.flags(log))
    for message in inside:
        _check_text(message)
    assert same(log, before), "the conversation itself was changed"
    return "well formed"


def _refuses(read: Any, value: Any) -> None:
    try:
        read(value)
    except MessageError as error:
        refused(error)
    else:
        raise AssertionError(f"{read.__name__} took what check refuses")


def _arguments(message: messages.Message) -> list[Any]:
    calls = message.get("tool_calls") or []
    return [call["function"]["arguments"] for call in calls]


def _read(message: messages.Message) -> messages.Message:
    """A message with its arguments read as strict JSON, where they are an object."""
    message = copy.deepcopy(message)
    for call in message.get("tool_calls") or []:
        written = call["function"]["arguments"]
        if isinstance(written, str):
            try:
                value = reference.strict_json(written)
            except reference.Refused:
                continue
            if isinstance(value, dict):
                call["function"]["arguments"] = value
    return message


def _check_flags(inside: list[messages.Message], flags: list[str]) -> None:
    """One flag a call that can't be read, one a call without answer, one for the end."""
    roles = [message["role"] for message in inside]
    calls = [call["id"] for m in inside for call in m.get("tool_calls") or []]
    unread = sum(isinstance(a, str) for m in inside for a in _arguments(m))
    ends = "assistant" not in roles or roles[-1] == "tool"
    assert len(flags) == unread + len(calls) - roles.count("tool") + ends, f"{flags}"
    assert all(flags), "an empty flag"


def _check_text(message: messages.Message) -> None:
    """The text of a message is read back as that message, or there is none."""
    try:
        text = messages.render_assistant(message)
    except MessageError as error:
        refused(error)
        return
    assert message["role"] == "assistant", "rendered for another role"
    again = messages.parse_assistant(text)
    for key in ("content", "reasoning_content"):
        assert (again.get(key) or "") == (message.get(key) or ""), f"other {key}"
    calls = [
        [c["function"] for c in m.get("tool_calls") or []] for m in (again, message)
    ]
    assert same(*calls), f"other calls: {calls[0]}"


# ------------------------------------------------------------------- tool calls


def _rest(minutes: int) -> Generator[None, None, str]:
    for _ in range(minutes):
        yield
    return "rested"


def _say(text: str, count: int, share: float, loud: bool) -> str:
    return f"{text!r} {count} {share} {loud}"


SCHEMAS: dict[str, dict[str, type]] = {
    "calculator": {"expression": str},
    "lookup": {"item": str},
    "rest": {"minutes": int},
    "say": {"text": str, "count": int, "share": float, "loud": bool},
}
SAY = {"text": "string", "count": "integer", "share": "number", "loud": "boolean"}
BOX = ToolBox(
    [
        CALCULATOR,
        lookup_tool({"kettles": "34"}),
        Tool("rest", "", {"minutes": "integer"}, _rest, 3),
        Tool("say", "", SAY, _say),
    ]
)
CALLS = (
    tool_call("call_1", "calculator", {"expression": "347 * 86"}),
    tool_call("call_2", "lookup", {"item": "kettles"}),
    tool_call("call_3", "rest", {"minutes": 2}),
    tool_call("call_4", "say", {"text": "x", "count": 1, "share": 0.5, "loud": True}),
    tool_call("call_5", "python", {"code": "1"}),
    tool_call("call_6", "calculator", '{"expression": "3*4"'),
    tool_call("call_7", "calculator", {"expression": "1/0"}),
    tool_call("call_8", "rest", {"minutes": 3}),
)


@fuzzed(
    "tools: every call is answered",
    records(CALLS),
    16,
    ("refused", "result", "tool_error", "timeout", "invalid_call"),
)
def answered(call: Any) -> str:
    """An observation for each call, of the kind that the schemas say; else no call."""
    before = copy.deepcopy(call)
    try:
        seen = BOX.call(call)
    except MessageError as error:
        assert not reference.is_call(call), "refused, but it is a call"
        return refused(error)
    assert same(call, before), "the call itself was changed"
    assert reference.is_call(call), "answered, but it is no call"
    name, arguments = call["function"]["name"], call["function"].get("arguments")
    assert (seen.tool_call_id, seen.name) == (call["id"], name)
    assert isinstance(seen.content, str) and seen.content
    valid = _fits(SCHEMAS.get(name), arguments)
    assert (seen.kind != "invalid_call") is valid, f"{seen.kind}, but valid is {valid}"
    if seen.kind != "result":
        assert seen.content.startswith("error: ")
        assert len(seen.content.splitlines()) == 1
        assert len(seen.content) <= 500 or seen.kind == "tool_error"
    elif name == "calculator":
        assert seen.content == calculate(arguments["expression"])
    elif name == "rest":
        assert arguments["minutes"] < 3 and seen.content == "rested"
    elif name == "say":
        assert seen.content == _say(**arguments)
    return seen.kind


def _fits(schema: dict[str, type] | None, arguments: Any) -> bool:
    if schema is None or not isinstance(arguments, dict):
        return False
    if arguments.keys() != schema.keys():
        return False
    for key, kind in schema.items():
        value = arguments[key]
        if type(value) is not kind and not (kind is float and type(value) is int):
            return False
        if isinstance(value, float) and not math.isfinite(value):
            return False
    return True


# ------------------------------------------------------------------------ tasks

EXAMPLES = [task.to_dict() for task in TASKS] + [
    {
        "id": "l1",
        "question": "How much do 12 kettles cost?",
        "expression": "12 * price",
        "answer": "408",
        "item": "kettles",
        "prices": {"kettles": 34, "lamps": "-1.5"},
    },
    {
        "id": "p",
        "question": "What is (3 + 4) * 2?",
        "expression": "2 * (3 + 4)",
        "answer": "14",
    },
]


@fuzzed("tasks: records", records(EXAMPLES), 14, ("refused", "task"))
def task_record(record: Any) -> str:
    """An accepted task says what its record says, and its answer is right."""
    before = copy.deepcopy(record)
    try:
        task = tasks.parse_task(record)
    except TaskError as error:
        assert str(error).startswith("task: ")
        return refused(error)
    assert same(record, before), "the record itself was changed"
    _check_task(task, record)
    return "task"


def _check_task(task: tasks.Task, record: dict[str, Any]) -> None:
    """The task is its record: null fields are left out, and whole prices are text."""
    expected = {key: value for key, value in record.items() if value is not None}
    if "prices" in expected:
        expected["prices"] = {
            name: price if isinstance(price, str) else f"{price:d}"
            for name, price in expected["prices"].items()
        }
    assert same(task.to_dict(), expected), f"became {task.to_dict()}"
    again = tasks.parse_task(task.to_dict())
    assert again == task, f"read again it is {again}"
    price = task.prices[task.item] if task.prices and task.item is not None else ""
    try:
        right = reference.expression(task.expression.replace("price", f"({price})"))
    except reference.Unknown:
        return
    assert reference.answer(task.answer) == (right, ""), f"{right} is right"


def _files() -> list[str]:
    lines = [json.dumps(record) for record in EXAMPLES]
    return ["\n".join(lines), "\n\n".join(lines[:2]), lines[-1], f"{lines[0]}\n"]


IN_FILES = (
    *('"id": "x", ', '"id": "l1", ', "{", "}", '"', ",", "\n", "[]", "null", ": 1"),
    *('"prices": {"kettles": 34}', "347", " * 86", "\\u0033", '"item": null, ', "{}\n"),
)


@fuzzed("tasks: files", texts(_files(), IN_FILES), 10, ("refused", "tasks"))
def task_files(text: str) -> str:
    """Each line that is not blank is a task, whose record strict JSON reads too."""
    lines = text.split("\n")
    try:
        found = tasks.read_tasks(lines, "mine")
    except TaskError as error:
        told = str(error).split("\n")  # a problem a line, ten at most
        assert 1 <= len(told) <= tasks.MAX_PROBLEMS
        assert all(line.startswith("mine:") for line in told)
        for line in told:
            refused(TaskError(line))
        return "refused"
    written = [reference.strict_json(line) for line in lines if line.strip()]
    assert len(found) == len(written) == len({task.id for task in found})
    for task, record in zip(found, written):
        _check_task(task, record)
    assert tasks.read_tasks(tasks.write_tasks(found).splitlines()) == found
    return "tasks"


QUESTIONS = [*(task.question for task in TASKS), "What is 3 + 4, and 12 * 13?", "9-5"]
IN_QUESTIONS = (
    "3",
    " + ",
    "4",
    "-",
    "(",
    ")",
    "12",
    " * ",
    "?",
    ".",
    " ",
    "/",
    "**",
    "x",
)


@fuzzed("tasks: kinds", texts(QUESTIONS, IN_QUESTIONS), 8, tasks.KINDS)
def kinds(question: str) -> str:
    """A kind, which words around the sums do not change, and another sum only upwards."""
    kind = tasks.kind_of(question)
    for around in (f"Well: {question} !", f"{question} (-", f" {question} ."):
        assert tasks.kind_of(around) == kind, f"not so in {around!r}"
    digits = any(c in "0123456789" for c in question)
    assert digits or kind == "lookup", f"{kind} without a digit"
    more = tasks.kind_of(f"{question}\nAnd 3 + 4?")
    assert more == ("hard" if kind == "hard" else "easy"), f"with 3 + 4 it is {more}"
    assert tasks.kind_of(f"{question}\nAnd 12 * 13?") == "hard", "with 12 * 13 not hard"
    return kind


# ----------------------------------------------------------------- trajectories


@fuzzed("trajectories", records(RECORDS), 20, ("refused", "trajectory"))
def trajectories(record: Any) -> str:
    """An accepted record is kept exactly, type by type, and it keeps the rules."""
    before = copy.deepcopy(record)
    try:
        trajectory = Trajectory.from_dict(record)
    except (TrajectoryError, MessageError) as error:
        assert same(record, before), "the record itself was changed"
        return refused(error)
    kept = trajectory.to_dict()
    assert same(kept, before), "to_dict is not the record"
    assert same(record, before), "the record itself was changed"
    assert reference.well_formed(record["messages"]), (
        "messages that are not well formed"
    )
    assert json.loads(json.dumps(kept, allow_nan=False)) == kept, "JSON can't hold it"
    _check_rows(record)
    _check_episode(record)
    return "trajectory"


def _check_rows(record: dict[str, Any]) -> None:
    rows = [record[name] for name in ("tokens", "loss_mask", "logprobs", "decision")]
    assert len(set(map(len, rows))) == 1, "rows of several lengths"
    for token, mask, logprob, decision in zip(*rows):
        assert type(token) is str and type(mask) is int and type(decision) is int
        assert 0 <= decision <= mask <= 1, "marks that are no 0 or 1"
        if mask:
            assert type(logprob) in (int, float) and math.isfinite(logprob)
            assert logprob <= 0, "a log-probability above 0"
        else:
            assert logprob is None, "a log-probability nobody has"


def _check_episode(record: dict[str, Any]) -> None:
    actions, seen = record["actions"], record["observations"]
    assert len(actions) == sum(record["decision"]), "decisions without an action"
    made = [call for action in actions for call in action.get("calls", [])]
    assert made == [one["tool_call_id"] for one in seen], "calls without observation"
    for one in seen:
        assert all(type(value) is str for value in one.values())
    if record["reward"] is None:
        assert record["breakdown"] == {}, "parts of no reward"
        return
    numbers = [record["reward"], *record["breakdown"].values()]
    assert all(type(number) in (int, float) for number in numbers)
    total = math.fsum(record["breakdown"].values())
    assert abs(total - record["reward"]) <= 1e-9, "parts that do not add up"
