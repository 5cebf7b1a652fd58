"""Chat messages in the OpenAI form, and the text an assistant writes.

A message is a plain dict: ``{"role": ..., "content": ...}``. An assistant message may
carry ``tool_calls``, each with an id, a name and arguments; a tool message answers one
of them by its id. Thinking text stands apart, in ``reasoning_content``.

Arguments are an object inside this package and a JSON string at the OpenAI edge. Where
a model wrote something that is no JSON object, the string it wrote is kept as it is:
a string in that place means "this call can't be run".

The text form is the one many open models are trained on:

    <think>...</think>optional content<tool_call>{"name": ..., "arguments": {...}}</tool_call>
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, TypeGuard

from agentic_rl.values import excerpt

Message = dict[str, Any]
ToolCall = dict[str, Any]

ROLES = ("system", "developer", "user", "assistant", "tool")
MAX_JSON_DEPTH = 64
MAX_DIGITS = 4000  # of a whole number; below 4300, int() and str() never refuse

_PART = re.compile(
    r"<think>(?P<thought>.*?)(?:</think>|\Z)"
    r"|<tool_call>(?P<call>.*?)(?P<closed></tool_call>|\Z)",
    re.DOTALL,
)
_MARKER = re.compile(r"</?(?:think|tool_call)>")
_NAME = re.compile(r'"name"\s*:\s*"([^"\\]*)"')
_NAME_ALONE = re.compile(rf'\s*\{{\s*{_NAME.pattern}\s*,\s*"arguments"\s*:\s*')
_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*\\?(?:"|\Z)|[\[\]{}]', re.DOTALL)


class MessageError(ValueError):
    """A message that can't be read; the text names the message and what was expected."""


# ---------------------------------------------------------------- building messages


def user(content: str) -> Message:
    """A user message."""
    return {"role": "user", "content": content}


def tool(tool_call_id: str, content: str) -> Message:
    """The answer of a tool to the call with this id."""
    return {"role": "tool", "tool_call_id": tool_call_id, "content": content}


def tool_call(call_id: str, name: str, arguments: dict[str, Any] | str) -> ToolCall:
    """One call of an assistant message; a string as ``arguments`` can't be run."""
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


# ----------------------------------------------------------------- text <-> message


def render_call(name: str, arguments: dict[str, Any] | str) -> str:
    """The text of one tool call, as a model would write it.

    A string as ``arguments`` is written as it is, in a call that nobody ever closed.
    Raises TypeError or ValueError for arguments that JSON can't hold.
    """
    if isinstance(arguments, str):
        body = f'{{"name": {_dump(name)}, "arguments": {arguments}'
    else:
        body = _dump({"name": name, "arguments": arguments})
        if _MARKER.search(body):  # a marker inside an argument must not end the call
            body = body.replace("<", "\\u003c")
    return f"<tool_call>{body}</tool_call>"


def assistant_text(message: Message) -> str:
    """Thinking, content and calls of a well-formed message, as one text."""
    thinking = message.get("reasoning_content") or ""
    calls = [call["function"] for call in message.get("tool_calls") or []]
    text = f"<think>{thinking}</think>" if thinking else ""
    text += message.get("content") or ""
    return text + "".join(
        render_call(call["name"], call["arguments"]) for call in calls
    )


def render_assistant(message: Message) -> str:
    """The text an assistant must have written to mean this message.

    Raises MessageError for what is no message of an assistant, and where that text
    would be read back as another one, for example because the content contains a marker
    such as ``<tool_call>``.
    """
    if not isinstance(message, dict) or message.get("role") != "assistant":
        raise MessageError(f"expected an assistant's message, got {excerpt(message)}")
    check([message])
    text = assistant_text(message)
    if _meaning(parse_assistant(text)) != _meaning(message):
        raise MessageError(
            f"no text means this message: {excerpt(text)} is read differently"
        )
    return text


def _meaning(message: Message) -> tuple[str, str, list[dict[str, Any]]]:
    calls = [call["function"] for call in message.get("tool_calls") or []]
    return message.get("reasoning_content") or "", message.get("content") or "", calls


def _dump(value: Any) -> str:
    return _PLAIN.encode(value)


def parse_assistant(text: str, first_call: int = 1) -> Message:
    """The message that an assistant's text means.

    It is read once, from left to right: a call drafted inside a thought is no call, and
    a thought that is never closed swallows the rest. ``first_call`` numbers the call ids
    (``call_1``, ``call_2``, ...), which must differ within an episode.

    A call is an object with a name and, unless it takes none, arguments. Any other keeps
    its text as a string in ``arguments``: what follows ``"arguments":`` if only the name
    stands before it, else all of it. Raises MessageError for what is no text.
    """
    if not isinstance(text, str):
        raise MessageError(f"an assistant writes text, got {type(text).__name__}")
    parts = list(_PART.finditer(text))
    message: Message = {"role": "assistant", "content": _PART.sub("", text)}
    thoughts = [part["thought"] for part in parts if part["thought"] is not None]
    if thoughts:
        message["reasoning_content"] = "".join(thoughts)
    written = [part for part in parts if part["call"] is not None]
    calls = [
        _parse_call(part["call"], bool(part["closed"]), f"call_{number}")
        for number, part in enumerate(written, first_call)
    ]
    if calls:
        message["tool_calls"] = calls
    return message


def _parse_call(body: str, closed: bool, call_id: str) -> ToolCall:
    try:
        call = parse_json(body)
    except MessageError:
        call = None
    if closed and _is_call(call):
        arguments = call.get("arguments", {})
        if isinstance(arguments, str):
            arguments = decode_arguments(arguments)
        elif not isinstance(arguments, dict):
            arguments = _dump(arguments)
        return tool_call(call_id, call["name"], arguments)
    name, start = _NAME.search(body), _NAME_ALONE.match(body)
    raw = body[start.end() :] if start else body
    if isinstance(decode_arguments(raw), dict):  # at OpenAI's edge it would look whole
        raw = f"<tool_call>{body}"
    return tool_call(call_id, name[1] if name else "", raw)


def _is_call(value: Any) -> TypeGuard[dict[str, Any]]:
    """Whether this is an object with a name and nothing else but arguments."""
    if not isinstance(value, dict) or not value.keys() <= {"name", "arguments"}:
        return False
    return isinstance(value.get("name"), str)


def parse_json(text: str) -> Any:
    """JSON, strictly: no NaN or Infinity, no key twice, no endless nesting or number.

    Raises MessageError. The wording is ours: Python's own differs between versions.
    """
    if not isinstance(text, str):
        raise MessageError(f"expected JSON as text, got {type(text).__name__}")
    brackets = text.count("[") + text.count("{")
    if brackets > MAX_JSON_DEPTH and _depth(text) > MAX_JSON_DEPTH:
        raise MessageError(f"JSON is nested deeper than {MAX_JSON_DEPTH}")
    try:
        return _STRICT.decode(text)
    except MessageError:
        raise
    except ValueError:
        raise MessageError("not valid JSON") from None


def _depth(text: str) -> int:
    depth = deepest = 0
    for piece in _BRACKET.findall(text):
        depth += (piece in "[{") - (piece in "]}")
        deepest = max(deepest, depth)
    return deepest


def _whole(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise MessageError(f"{digits:.20}... has more than {MAX_DIGITS} digits")
    return int(digits)


def _finite(number: str) -> float:
    if not math.isfinite(value := float(number)):
        raise MessageError(f"{number:.40} is not a JSON number")
    return value


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise MessageError(f"an object has the key {excerpt(key)} twice")
        result[key] = value
    return result


# Made once: json.loads and json.dumps make one a call where they are given options.
_STRICT = json.JSONDecoder(
    parse_int=_whole,
    parse_float=_finite,
    parse_constant=_finite,
    object_pairs_hook=_no_twins,
)
_PLAIN = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


def is_json(value: Any, read: Callable[[str], Any] = json.loads) -> bool:
    """Whether a value, written as JSON, is read back as the same."""
    try:
        return bool(read(_dump(value)) == value)
    except (TypeError, ValueError, RecursionError):
        return False


# --------------------------------------------------------------------- OpenAI's edge


def decode_arguments(text: str) -> dict[str, Any] | str:
    """Arguments as they stand at OpenAI's edge -> object, or the same string.

    A string that decodes to another string was encoded twice. It is kept, so the call
    can't be run, and ``flags`` names it.
    """
    try:
        arguments = parse_json(text)
    except MessageError:
        return text
    return arguments if isinstance(arguments, dict) else text


def to_openai(messages: list[Message]) -> list[Message]:
    """A checked copy with each call's arguments as a JSON string, as OpenAI has them.

    Raises MessageError as ``check`` does.
    """
    check(messages)
    return [_with_arguments(message, _encode_arguments) for message in messages]


def from_openai(messages: list[Message]) -> list[Message]:
    """A checked copy with each call's arguments as an object where they are one.

    Raises MessageError as ``check`` does.
    """
    check(messages)
    return [_with_arguments(message, _decode_arguments) for message in messages]


def _encode_arguments(arguments: dict[str, Any] | str) -> str:
    if isinstance(arguments, str):
        return arguments
    return _dump(arguments)


def _decode_arguments(arguments: dict[str, Any] | str) -> dict[str, Any] | str:
    return decode_arguments(arguments) if isinstance(arguments, str) else arguments


def _with_arguments(message: Message, convert: Any) -> Message:
    if not message.get("tool_calls"):
        return dict(message)
    calls = []
    for call in message["tool_calls"]:
        arguments = convert(call["function"]["arguments"])
        calls.append({**call, "function": {**call["function"], "arguments": arguments}})
    return {**message, "tool_calls": calls}


def check(messages: list[Message]) -> None:
    """Raise MessageError for a conversation that is not well formed.

    Named are the message's position and what was expected: a known role, text as
    content, calls with ids that are used once and arguments that JSON can hold, a tool
    message for a call that the assistant made just before.
    """
    if not isinstance(messages, list):
        raise MessageError(f"messages: expected a list, got {type(messages).__name__}")
    seen: set[str] = set()
    open_ids: set[str] = set()
    for position, message in enumerate(messages):
        where = f"message {position}"
        if not isinstance(message, dict) or message.get("role") not in ROLES:
            raise MessageError(f"{where}: expected a role, one of {', '.join(ROLES)}")
        _check_content(message, where)
        calls = _check_calls(message, where)
        if message["role"] == "tool":
            _check_answer(message, open_ids, where)
        else:
            open_ids = {call["id"] for call in calls}
        for call in calls:
            if call["id"] in seen:
                raise MessageError(
                    f"{where}: call id {excerpt(call['id'])} is used twice"
                )
            seen.add(call["id"])
        for key, value in message.items():
            if not is_json({key: value}):
                raise MessageError(
                    f"{where}: field {excerpt(key)}: expected what JSON can hold, "
                    f"got {excerpt(value)}"
                )


def _check_content(message: Message, where: str) -> None:
    content = message.get("content")
    if isinstance(content, list):
        kinds = [
            part.get("type") if isinstance(part, dict) else part for part in content
        ]
        raise MessageError(
            f"{where}: content parts {excerpt(kinds)} are not supported, only text"
        )
    may_be_empty = message["role"] == "assistant"
    if not (isinstance(content, str) or (content is None and may_be_empty)):
        raise MessageError(f"{where}: expected text as content, got {excerpt(content)}")
    thinking = message.get("reasoning_content")
    if not (thinking is None or isinstance(thinking, str)):
        raise MessageError(
            f"{where}: expected text as reasoning_content, got {excerpt(thinking)}"
        )


def _check_calls(message: Message, where: str) -> list[ToolCall]:
    """The calls of a message; MessageError if one of them is none."""
    calls = message.get("tool_calls")
    if not (calls is None or isinstance(calls, list)):
        raise MessageError(
            f"{where}: expected a list of tool_calls, got {excerpt(calls)}"
        )
    if calls and message["role"] != "assistant":
        raise MessageError(
            f"{where}: only an assistant makes tool calls, not {message['role']!r}"
        )
    for call in calls or []:
        check_call(call, where)
        _check_arguments(call, where)
    return calls or []


def _check_answer(message: Message, open_ids: set[str], where: str) -> None:
    call_id = message.get("tool_call_id")
    if not isinstance(call_id, str) or call_id not in open_ids:
        raise MessageError(
            f"{where}: answers call {excerpt(call_id)}, which is not open"
        )
    open_ids.discard(call_id)


def check_call(call: Any, where: str) -> None:
    """Raise MessageError, which starts with ``where``, for a call without id or name."""
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(call.get("id"), str):
        raise MessageError(f"{where}: expected a call with id and function")
    if not isinstance(function.get("name"), str):
        raise MessageError(f"{where}: call {excerpt(call['id'])} has no name")
    if call.get("type", "function") != "function":
        raise MessageError(f"{where}: call {excerpt(call['id'])} is no function call")


def _check_arguments(call: ToolCall, where: str) -> None:
    arguments = call["function"].get("arguments")
    if not isinstance(arguments, (dict, str)):
        raise MessageError(f"{where}: call {excerpt(call['id'])} has no arguments")
    if not isinstance(arguments, str) and not is_json(arguments, parse_json):
        raise MessageError(
            f"{where}: call {excerpt(call['id'])}: expected arguments that JSON can "
            f"hold, got {excerpt(arguments)}"
        )


def flags(messages: list[Message]) -> list[str]:
    """What is odd in a well-formed conversation, in words. Raises as ``check`` does."""
    check(messages)
    return checked_flags(messages)


def checked_flags(messages: list[Message]) -> list[str]:
    """``flags`` of a conversation that has been through ``check``."""
    found = []
    answered = {m["tool_call_id"] for m in messages if m["role"] == "tool"}
    for position, message in enumerate(messages):
        for call in message.get("tool_calls") or []:
            where = f"message {position}: call {call['id']}"
            if reason := unreadable(call["function"]["arguments"]):
                found.append(f"{where}: {reason}")
            if call["id"] not in answered:
                found.append(f"{where} was never answered")
    roles = [message["role"] for message in messages]
    if "assistant" not in roles:
        found.append("no assistant message: nothing to train on")
    elif roles[-1] == "tool":
        found.append("ends on tool message: no final answer")
    return found


def unreadable(arguments: Any) -> str | None:
    """Why arguments, an object or the text of one, can't be read; None if they can."""
    if isinstance(arguments, dict):
        return None
    if isinstance(arguments, str):
        if arguments.startswith("<tool_call>"):
            return 'the call is not {"name": ..., "arguments": {...}}'
        try:
            arguments = parse_json(arguments)
        except MessageError:
            return "arguments are not valid JSON"
        if isinstance(arguments, str):
            return "arguments were encoded twice"
    return None if isinstance(arguments, dict) else "arguments are not a JSON object"
