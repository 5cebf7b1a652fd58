"""What a framework hands over, looked at before it is believed.

Each function gives the value back or raises BridgeError, which names the field, what was
expected and what was found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agentic_rl.bridges.frameworks import BridgeError
from agentic_rl.bridges.token_ids import Notes
from agentic_rl.values import excerpt, is_finite


def read_notes(value: Any) -> Notes:
    """Notes as a bridge left them, each in its form; what they say is for ``from_ids``."""
    if not isinstance(value, Mapping):
        raise BridgeError("notes: none: not a record that this bridge made")
    if set(value) != set(Notes._fields):
        raise BridgeError(f"notes: expected {', '.join(Notes._fields)}")
    notes = Notes(**value)
    each("notes: choices", notes.choices, is_choice, "(state, choice)")
    each("notes: turn_ends", notes.turn_ends, is_text, "text")
    each("notes: observations", notes.observations, is_text, "text")
    if not isinstance(notes.breakdown, Mapping):
        raise BridgeError(
            f"notes: breakdown: expected a dict, got {excerpt(notes.breakdown)}"
        )
    return notes


def numbers(name: str, values: Any, length: int) -> list[float]:
    """So many finite numbers."""
    return each(name, values, is_finite, "a finite number", length)


def each(
    name: str,
    values: Any,
    fits: Callable[[Any], bool],
    expected: str,
    length: int | None = None,
) -> list[Any]:
    """The values as a list. Raises BridgeError unless they are one, so long, and each fits."""
    if not isinstance(values, (list, tuple)):
        raise BridgeError(f"{name}: expected a list, got {excerpt(values)}")
    if odd := [value for value in values if not fits(value)]:
        raise BridgeError(f"{name}: expected {expected}, got {excerpt(odd[0])}")
    if length is not None and len(values) != length:
        raise BridgeError(f"{name}: {len(values)} values, expected {length}")
    return list(values)


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_id(value: Any) -> bool:
    return type(value) is int and value >= 0


def is_mark(value: Any) -> bool:
    return type(value) is int and value in (0, 1)


def is_range(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and [*map(type, value)] == [int, int]


def is_choice(value: Any) -> bool:
    """Whether this is (state, choice), whose choice may be None."""
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        return False
    return is_text(value[0]) and (value[1] is None or is_text(value[1]))
