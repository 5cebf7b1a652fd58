"""A conversation that was recorded elsewhere, as tokens with their mask.

A chat log has messages and no tokens. Written out in the course's template, it shows
what a trainer would train on: each assistant turn with its end token, and nothing that a
user, a tool or the template wrote. Log-probs nobody recorded, so there are none.

As in OpenAI's fine-tuning files, an assistant message of ``"weight": 0`` is context: it
was the assistant's, and is not trained on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from agentic_rl.messages import (
    Message,
    MessageError,
    assistant_text,
    checked_flags,
    from_openai,
    render_assistant,
)
from agentic_rl.tokens import IM_END, encode, header, turn
from agentic_rl.values import excerpt

USED = ("role", "content", "reasoning_content", "tool_calls", "tool_call_id", "weight")


class ChatLog(NamedTuple):
    """A conversation with its tokens; what is aligned with them has their names.

    messages    with arguments as objects, and content as one text
    odd         what a reader should know about it, in words
    unused      fields of messages that say something and mean nothing here
    """

    messages: list[Message]
    tokens: list[str]
    loss_mask: list[int]
    decision: list[int]
    odd: list[str]
    unused: list[str]


def read_log(messages: Any) -> ChatLog:
    """A recorded conversation -> ChatLog.

    Arguments of calls may be objects or, as at OpenAI's edge, strings; content may be
    text or a list of text parts. Raises MessageError for a conversation that is not well
    formed.
    """
    if isinstance(messages, list):
        messages = [_with_one_text(message) for message in messages]
    checked = from_openai(messages)
    log = ChatLog(checked, [], [], [], checked_flags(messages), [])
    for position, message in enumerate(log.messages):
        for tokens, mask in _pieces(message, f"message {position}"):
            log.tokens.extend(tokens)
            log.loss_mask.extend([mask] * len(tokens))
            log.decision.extend([mask] + [0] * (len(tokens) - 1))
        if message["role"] == "assistant":
            log.odd.extend(_misread(message, position))
        said = (key for key, value in message.items() if value and key not in USED)
        log.unused.extend(key for key in said if key not in log.unused)
    return log


def _with_one_text(message: Any) -> Any:
    """The message with its text parts joined; any other content stays as it is."""
    parts = message.get("content") if isinstance(message, dict) else None
    if not isinstance(parts, list) or not all(map(_is_text, parts)):
        return message
    return {**message, "content": "".join(part["text"] for part in parts)}


def _is_text(part: Any) -> bool:
    is_text = isinstance(part, dict) and part.get("type") == "text"
    return is_text and isinstance(part.get("text"), str)


def _pieces(message: Message, where: str) -> Iterator[tuple[tuple[str, ...], int]]:
    """(tokens, their mask) of a message, in order."""
    if message["role"] != "assistant":
        yield turn(message["role"], message["content"]), 0
        return
    weight = message.get("weight", 1)
    if type(weight) is not int or weight not in (0, 1):
        raise MessageError(f"{where}: weight: expected 0 or 1, got {excerpt(weight)}")
    yield header("assistant"), 0
    yield (*encode(assistant_text(message)), IM_END), weight
    yield ("\n",), 0


def _misread(message: Message, position: int) -> Iterator[str]:
    try:
        render_assistant(message)
    except MessageError:
        yield f"message {position}: its content holds a marker that would be read as more"
