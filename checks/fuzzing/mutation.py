"""Valid inputs -> broken ones: edits of a text, and edits of a JSON record.

Hypothesis draws a row of bytes, and the bytes choose the valid input and what happens to
it. Other bytes make another input, and a shorter or smaller row makes a simpler one, so
hypothesis is fast here, seldom draws the same input twice, and still finds the smallest.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Case(NamedTuple):
    """An input, and whether it was mutated from a valid one."""

    value: Any
    mutated: bool


class Numbers:
    """Numbers out of a row of bytes, two bytes each; zeros once they have run out."""

    def __init__(self, row: bytes):
        self.row = row
        self.used = 0

    def below(self, limit: int) -> int:
        """The next number, from 0 to less than the limit."""
        number = int.from_bytes(self.row[self.used : self.used + 2], "big")
        self.used += 2
        return number % limit

    def one_of(self, items: Sequence[Any]) -> Any:
        """One of some items."""
        return items[self.below(len(items))]


ROW = 96  # bytes, enough for the longest case
Source = Callable[[Numbers], Case]  # how a property's inputs are made
EDITS = (1, 1, 1, 1, 2, 2, 3, 4)  # how many there are in one input

# ------------------------------------------------------------------------ texts

LOOK_ALIKES = {
    **{digit: chr(0xFF10 + int(digit)) for digit in "0123456789"},
    **{"-": "\u2212", "+": "\uff0b", "*": "\u00d7", "/": "\u00f7", ".": "\u3002"},
    **{",": "\uff0c", ":": "\uff1a", "(": "\uff08", ")": "\uff09", "%": "\uff05"},
    **{" ": "\u00a0", "\n": "\u2028", '"': "\u201d", "'": "\u2019", "$": "\uff04"},
    **{"<": "\uff1c", ">": "\uff1e", "{": "\uff5b", "}": "\uff5d", "\\": "\u29f5"},
    **{"a": "\u0430", "e": "\u0435", "o": "\u043e", "p": "\u0440", "s": "\u017f"},
    **{"[": "\uff3b", "]": "\uff3d", "_": "\u02cd", "|": "\u01c0", "K": "\u212a"},
}
ODD = (
    *("\x00", "\n", "\r", "\t", " ", "\u00a0", "\u200b", "\ufeff", "\u2028", "\x85"),
    *("\ud800", "\udfff", "\U0001f600", "\u0663", "\u00b2", "\u00bd", "\\", "\\\\"),
    *(
        "9" * 30,
        "9" * 1300,
        "9" * 4100,
        "9" * 4301,
        "1e999",
        "10**400",
        "-0",
        "NaN",
        "Infinity",
    ),
)
COUNTS = (2, 3, 5, 8, 40, 70, 300, 20_000)  # of a piece that is repeated
LONGEST = 20_000  # characters that a repeated piece makes


def _insert(text: str, start: int, size: int, piece: str) -> str:
    return text[:start] + piece + text[start:]


def _delete(text: str, start: int, size: int, piece: str) -> str:
    return text[:start] + text[start + size :]


def _double(text: str, start: int, size: int, piece: str) -> str:
    return text[: start + size] + text[start:]


def _swap(text: str, start: int, size: int, piece: str) -> str:
    middle, end = start + size, start + 2 * size
    return text[:start] + text[middle:end] + text[start:middle] + text[end:]


def _replace(text: str, start: int, size: int, piece: str) -> str:
    return text[:start] + piece + text[start + size :]


def _disguise(text: str, start: int, size: int, piece: str) -> str:
    part = text[start : start + size]
    disguised = "".join(LOOK_ALIKES.get(character, character) for character in part)
    return text[:start] + disguised + text[start + size :]


def _repeat(text: str, start: int, size: int, piece: str) -> str:
    count = min(COUNTS[size - 1], LONGEST // len(piece))
    return text[:start] + piece * count + text[start:]


TEXT_EDITS = (_insert, _insert, _delete, _double, _swap, _replace, _disguise, _repeat)


def edit_text(text: str, numbers: Numbers, pieces: Sequence[str]) -> str:
    """The text after one edit."""
    edit, start = numbers.one_of(TEXT_EDITS), numbers.below(len(text) + 1)
    changed: str = edit(text, start, numbers.below(8) + 1, numbers.one_of(pieces))
    return changed


def texts(valid: Sequence[str], pieces: Sequence[str]) -> Source:
    """Mutated texts mostly; one in eight is made of pieces from the start."""
    pieces = (*pieces, *ODD, *valid)

    def draw(numbers: Numbers) -> Case:
        if numbers.below(8) == 7:
            row = [numbers.one_of(pieces) for _ in range(numbers.below(9))]
            return Case("".join(row), False)
        text = changed = numbers.one_of(valid)
        for _ in range(numbers.one_of(EDITS)):
            changed = edit_text(changed, numbers, pieces)
        return Case(changed, changed != text)

    return draw


# ---------------------------------------------------------------------- records


def nested(depth: int) -> list[Any]:
    """Lists inside one another."""
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


JUNK: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 0.0, 1.0, -0.0, -1.5, 0.5, "", "x", "1", [], {}),
    *(float("nan"), float("inf"), float("-inf"), 10**400, -(10**400), 1e308, 10**5000),
    *(
        "\x00",
        "\ud800",
        "\u2028\n",
        " ",
        "9" * 1300,
        [None],
        [0],
        [[]],
        {"a": 1},
        ["x"],
    ),
    *(nested(64), nested(70), {"x": nested(30)}, {"id": "x"}, {"type": "text"}),
    *("stop", "tool", "assistant", "user", "result", "call_1", "call_2", "function"),
)
KEYS: tuple[Any, ...] = (
    *("x", "id", "type", "role", "name", "content", "calls", "arguments", "tool_calls"),
    *("item", "prices", "reasoning_content", "", "\ud800", 7, None, True, 1.5),
)


def walk(root: list[Any], numbers: Numbers) -> tuple[Any, Any]:
    """(container, key) of a node of the record in ``root[0]``."""
    container: Any = root
    key: Any = 0
    for _ in range(numbers.below(6)):
        node = container[key]
        if not isinstance(node, (dict, list)) or not node:
            break
        keys = list(node) if isinstance(node, dict) else range(len(node))
        container, key = node, numbers.one_of(keys)
    return container, key


def _retyped(value: Any) -> Any:
    """The value as a careless program would keep it: in another type."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return bool(value) if value in (0, 1) else str(value) if value < 10**9 else 0
    if isinstance(value, float):
        return int(value) if value == value and abs(value) < 1e9 else None
    if isinstance(value, str):
        return json.dumps(value)
    return list(value) if isinstance(value, dict) else dict(enumerate(value or ()))


def edit_record(root: list[Any], numbers: Numbers) -> None:
    """Change the record in ``root[0]`` in place; what does not suit a node replaces it."""
    edit, (container, key) = numbers.one_of(RECORD_EDITS), walk(root, numbers)
    node = container[key]
    if edit == "retype":
        container[key] = _retyped(node)
    elif edit == "text" and isinstance(node, str):
        container[key] = edit_text(node, numbers, ("x", *ODD))
    elif edit == "add" and isinstance(node, dict):
        node[numbers.one_of(KEYS)] = copy.deepcopy(numbers.one_of(JUNK))
    elif edit == "add" and isinstance(node, list):
        place = numbers.below(len(node) + 1)
        node.insert(place, copy.deepcopy(numbers.one_of(JUNK)))
    elif edit == "shorten" and isinstance(node, list):
        del node[numbers.below(len(node) + 1) :]
    elif edit == "graft":
        source, place = walk(root, numbers)
        container[key] = copy.deepcopy(source[place])
    elif edit in PLACE_EDITS and container is not root:
        _edit_place(edit, container, key, numbers)
    else:
        container[key] = copy.deepcopy(numbers.one_of(JUNK))


def _edit_place(edit: str, container: Any, key: Any, numbers: Numbers) -> None:
    """Edits of a member's place in its dict or list."""
    keys = list(container) if isinstance(container, dict) else range(len(container))
    partner = numbers.one_of(keys)
    if edit == "remove":
        del container[key]
    elif edit == "double" and isinstance(container, list):
        container.insert(key, copy.deepcopy(container[key]))
    elif edit == "double":
        container[numbers.one_of(KEYS)] = copy.deepcopy(container[key])
    elif edit == "swap":
        container[key], container[partner] = container[partner], container[key]


PLACE_EDITS = ("remove", "double", "swap")
RECORD_EDITS = (
    *("replace", "replace", "retype", "retype", "text", "text", "text", "add"),
    *("shorten", "graft", *PLACE_EDITS),
)


def records(valid: Sequence[Any]) -> Source:
    """Mutated JSON records; now and then a record that is nothing but junk."""
    sources = [json.dumps(record) for record in valid]

    def draw(numbers: Numbers) -> Case:
        if numbers.below(100) == 99:
            return Case(copy.deepcopy(numbers.one_of(JUNK)), False)
        source = numbers.one_of(sources)
        root = [json.loads(source)]
        for _ in range(numbers.one_of(EDITS)):
            edit_record(root, numbers)
        return Case(root[0], not same(root[0], json.loads(source)))

    return draw


def same(left: Any, right: Any) -> bool:
    """Equal, type by type: 1, True and 1.0 are three values, and NaN is itself."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        if len(left) != len(right):
            return False
        pairs = zip(
            sorted(left.items(), key=_by_key), sorted(right.items(), key=_by_key)
        )
        return all(same(a, c) and same(b, d) for (a, b), (c, d) in pairs)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float):
        return repr(left) == repr(right)
    return bool(left == right)


def _by_key(item: tuple[Any, Any]) -> tuple[str, str]:
    return type(item[0]).__name__, str(item[0])


def show(value: Any) -> str:
    """A value as ASCII on one line; ``ascii`` alone refuses numbers of many digits."""
    try:
        return ascii(value)
    except ValueError:
        if isinstance(value, dict):
            pairs = (f"{show(key)}: {show(item)}" for key, item in value.items())
            return "{" + ", ".join(pairs) + "}"
        if isinstance(value, (list, tuple)):
            return "[" + ", ".join(map(show, value)) + "]"
        return hex(value)
