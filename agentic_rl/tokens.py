"""The small tokenizer: text and template pieces <-> tokens.

A token is the text it stands for, so a printed token row can be read. Joining the
tokens of a text gives the text back, always. Two tokens belong to the template alone:
``<|im_start|>`` and ``<|im_end|>``. Text that contains those characters is cut into
ordinary tokens, so no user and no tool can end a turn.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from agentic_rl.values import remembered

IM_START, IM_END = "<|im_start|>", "<|im_end|>"

# Chinese characters, Japanese kana, Korean syllables.
_IDEOGRAPHS = (
    "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\U00020000-\U0003ffff"
)

_PIECE = re.compile(
    r"</?tool_call>|</?think>"  # what a model writes around calls and thoughts
    r"| ?[A-Za-z]+| ?[0-9]+"  # words and whole numbers
    rf"| ?[{_IDEOGRAPHS}]"  # each is about a word
    rf"| ?(?:(?!</?(?:tool_call|think)>)[^\sA-Za-z0-9{_IDEOGRAPHS}])+"  # runs of the rest
    r"|\s"
)


@remembered  # the same questions and calls come back all the time
def encode(text: str) -> tuple[str, ...]:
    """Text -> ordinary tokens; ``decode(encode(text)) == text``."""
    return tuple(_PIECE.findall(text))


def decode(tokens: Iterable[str]) -> str:
    """Tokens -> text."""
    return "".join(tokens)


def header(role: str) -> tuple[str, ...]:
    """The template's opening of a turn, which no role writes itself."""
    return (IM_START, role, "\n")


def turn(role: str, content: str) -> tuple[str, ...]:
    """A whole turn that the policy did not write: a user's or a tool's."""
    return (*header(role), *encode(content), IM_END, "\n")
