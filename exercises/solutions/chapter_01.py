"""Chapter 01, solved."""

from __future__ import annotations

import json
import math
import re
from fractions import Fraction
from typing import Any


def loss_mask(runs: list[tuple[str, int]]) -> list[int]:
    """1 on every token that the assistant wrote, 0 on all others."""
    return [int(author == "assistant") for author, count in runs for _ in range(count)]


def next_token(
    tokens: list[str], mask: list[int]
) -> tuple[list[str], list[str], list[int]]:
    """What a model reads, what it is asked for, and where the answer counts."""
    if len(tokens) != len(mask):
        raise ValueError(f"{len(mask)} marks for {len(tokens)} tokens")
    return tokens[:-1], tokens[1:], mask[1:]


def place_reward(reward: float, mask: list[int]) -> list[float]:
    """One number per token: the reward on the last one that is trained, 0.0 elsewhere."""
    if 1 not in mask:
        raise ValueError("no token is trained")
    last = max(place for place, mark in enumerate(mask) if mark)
    return [reward if place == last else 0.0 for place in range(len(mask))]


def episode_log_prob(logprobs: list[float | None], mask: list[int]) -> float:
    """The log of the probability that the policy wrote all that it wrote."""
    return math.fsum(logprob for logprob, mark in zip(logprobs, mask) if mark)


def decode_arguments(arguments: Any) -> dict[str, Any] | None:
    """The arguments of a tool call as an object, or None if they can't be run."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return None
    return arguments if isinstance(arguments, dict) else None


def is_valid_call(name: str, arguments: Any, tools: dict[str, list[str]]) -> bool:
    """Whether a call can be run: if not, it is an invalid call, and costs more."""
    decoded = decode_arguments(arguments)
    if name not in tools or decoded is None:
        return False
    texts = all(isinstance(value, str) for value in decoded.values())
    return texts and set(decoded) == set(tools[name])


def extract_answer(text: str) -> str | None:
    """The one number that a text states as its answer, as it is written, or None."""
    said = text.rpartition("Answer:")[2]
    numbers = re.findall(r"-?\d+(?:\.\d+)?", said)
    return numbers[0] if len(set(map(Fraction, numbers))) == 1 else None


def reward(
    is_right: bool, calls: int, invalid_calls: int
) -> tuple[float, dict[str, float]]:
    """The reward of the course, and the parts it is made of."""
    breakdown = {"right": 0.0, "calls": 0.0, "invalid_calls": 0.0}
    if is_right:
        breakdown = {
            "right": 1.0,
            "calls": -0.1 * calls,
            "invalid_calls": -0.2 * invalid_calls,
        }
    return math.fsum(breakdown.values()), breakdown
