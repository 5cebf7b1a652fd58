"""A conversation that was recorded elsewhere, as tokens with their mask.

A chat log has messages and no tokens. Written out in the course's template, it shows
what a trainer would train on: each assistant turn with its end token, and nothing that a
user, a tool or the template wrote. Log-probs nobody recorded, so there are none.
"""

from __future__ import annotations

from typing import NamedTuple

from agentic_rl.messages import Message, from_openai, render_assistant
from agentic_rl.tokens import IM_END, encode, header, turn


class MaskedTokens(NamedTuple):
    """Tokens and, as long as they are, what trajectory.py calls by the same names."""

    tokens: list[str]
    loss_mask: list[int]
    decision: list[int]


def masked(messages: list[Message]) -> MaskedTokens:
    """A conversation -> tokens, loss_mask, decision.

    Arguments of calls may be objects or, as at OpenAI's edge, strings. Raises
    MessageError for a conversation that is not well formed, or an assistant message
    that no text can mean.
    """
    tokens: list[str] = []
    loss_mask: list[int] = []
    decision: list[int] = []
    for message in from_openai(messages):
        if message["role"] == "assistant":
            written = [*encode(render_assistant(message)), IM_END]
            pieces = [*header("assistant"), *written, "\n"]
            before = len(pieces) - len(written) - 1
            mask = [0] * before + [1] * len(written) + [0]
            choice = [0] * before + [1] + [0] * len(written)
        else:
            pieces = list(turn(message["role"], message["content"]))
            mask = choice = [0] * len(pieces)
        tokens += pieces
        loss_mask += mask
        decision += choice
    return MaskedTokens(tokens, loss_mask, decision)
