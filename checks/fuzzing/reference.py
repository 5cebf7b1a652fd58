"""What the core must agree with: each thing read a second time, in another way.

The calculator's expressions are read by Python's own parser, numbers by Fraction, JSON
by the standard library under our bounds, texts of assistants with ``str.find``. Nothing
here calls the core.
"""

from __future__ import annotations

import ast
import json
import math
import re
import string
import warnings
from fractions import Fraction
from typing import Any, NamedTuple

MAX_BITS = 4096
MAX_DIGITS = 4000
MAX_DEPTH = 64


class Unknown(Exception):
    """The reference can't say: the core's answer is not judged."""


class Refused(Exception):
    """The core must refuse this, says the reference."""


# ------------------------------------------------------------------ expressions

_FOREIGN = re.compile(r"[^0-9.+\-*/%() \t]")
_LEADING_ZEROS = re.compile(r"(?<![0-9.])0+(?=[0-9])")  # which Python does not read
LONGEST = 400  # an expression that Python's recursive parser is trusted with


def expression(text: str) -> Fraction:
    """The exact value. Raises Refused, or Unknown for what is long or deep."""
    if _FOREIGN.search(text):
        raise Refused("a foreign character")
    if len(text) > LONGEST or sum(map(text.count, "(+-*")) > MAX_DEPTH:
        raise Unknown
    source = _LEADING_ZEROS.sub("", text.strip(" \t"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source, mode="eval")
    except SyntaxError:
        raise Refused("no expression") from None
    return _value(tree.body, source)


def _value(node: ast.expr, source: str) -> Fraction:
    if isinstance(node, ast.Constant) and node.value is not ...:
        return _bounded(Fraction(source[node.col_offset : node.end_col_offset]))
    if isinstance(node, ast.UnaryOp):
        value = _value(node.operand, source)
        return -value if isinstance(node.op, ast.USub) else value
    if not isinstance(node, ast.BinOp):
        raise Refused("a tuple, a call or another thing that is no arithmetic")
    left, right = _value(node.left, source), _value(node.right, source)
    try:
        return _bounded(_apply(node.op, left, right))
    except ZeroDivisionError:
        raise Refused("division by zero") from None


def _apply(operator: ast.operator, left: Fraction, right: Fraction) -> Fraction:
    if isinstance(operator, ast.Add):
        return left + right
    if isinstance(operator, ast.Sub):
        return left - right
    if isinstance(operator, ast.Mult):
        return left * right
    if isinstance(operator, ast.Div):
        return left / right
    if isinstance(operator, ast.FloorDiv):
        return Fraction(math.floor(left / right))
    if isinstance(operator, ast.Mod):
        return left - right * math.floor(left / right)
    if not isinstance(operator, ast.Pow) or right.denominator != 1:
        raise Refused("an exponent that is no whole number")
    bits = max(abs(left.numerator), left.denominator).bit_length()
    if (bits - 1) * abs(right) > MAX_BITS:  # at least that many bits in the power
        raise Refused("too large")
    return left ** int(right)


def _bounded(value: Fraction) -> Fraction:
    if max(abs(value.numerator), value.denominator) >= 2**MAX_BITS:
        raise Refused("too large")
    return value


# ---------------------------------------------------------------------- answers

FACTORS = "dozen hundred thousand million billion trillion pi e i x y".split()


def answer(text: str) -> tuple[Fraction, str]:
    """The number and the unit that a text writes. Raises Refused."""
    text = text.strip()
    if len(text) > 1000:
        raise Refused("too long")
    if text[:1] == text[-1:] == "$":
        text = text.strip("$")
    text = without_latex(text).strip()
    number = text.rstrip(string.ascii_letters)
    unit = text[len(number) :]
    percent = unit.lower() == "percent"
    number = number.rstrip(" ")
    if not unit and number.endswith("%"):
        percent, number = True, number[:-1].removesuffix("\\").rstrip(" ")
    if unit.lower() in FACTORS:
        raise Refused("a factor is no unit")
    size = _unsigned(number[1:] if number[:1] in ("+", "-") else number)
    value = -size if number[:1] == "-" else size
    return (value / 100, "") if percent else (value, unit)


def without_latex(text: str) -> str:
    r"""The text with 5/8 for \frac{5}{8}, and 3 1/4 for 3\frac{1}{4}."""
    for name in (r"\dfrac{", r"\tfrac{"):
        text = text.replace(name, r"\frac{")
    before, *rest = text.split(r"\frac{")
    for piece in rest:
        top, closed, piece = piece.partition("}{")
        bottom, closed_too, piece = piece.partition("}")
        digits = top[1:] if top[:1] in ("+", "-") else top
        if not (closed and closed_too and _is_whole(digits) and _is_whole(bottom)):
            return text  # which is no value: a backslash stays in it
        space = " " if before[-1:].isdecimal() and before[-1:].isascii() else ""
        before += f"{space}{top}/{bottom} {piece}"
    return before


def _unsigned(text: str) -> Fraction:
    left, slash, bottom = text.partition("/")
    if not slash:
        return _decimal(text)
    if left[:1] == " " or len(parts := left.split()) not in (1, 2):
        raise Refused("no fraction")
    if any(c.isspace() and c != " " for c in text):
        raise Refused("white space that is no space")
    top, bottom_value = _whole(parts[-1]), _whole(bottom.lstrip(" "))
    if bottom_value == 0 or (len(parts) == 2 and top >= bottom_value):
        raise Refused("no fraction below one")
    whole = _whole(parts[0]) if len(parts) == 2 else 0
    return whole + Fraction(top, bottom_value)


def _decimal(text: str) -> Fraction:
    mantissa, e, exponent = text.replace("E", "e").partition("e")
    whole, point, decimals = mantissa.partition(".")
    sized = exponent[1:] if exponent[:1] in ("+", "-") else exponent
    if (point and not _is_plain(decimals)) or (e and not _is_plain(sized)):
        raise Refused("no number")
    if e and int(sized) > 400:
        raise Refused("too large")
    size = _whole(whole) if whole or not point else 0
    return Fraction(f"{size}.{decimals or 0}") * Fraction(10) ** int(exponent or 0)


def _is_plain(digits: str) -> bool:
    return digits.isascii() and digits.isdecimal()


def _is_whole(text: str) -> bool:
    digits = text.replace(",", "")
    return _is_plain(text) or (_is_plain(digits) and f"{int(digits):,}" == text)


def _whole(text: str) -> int:
    if not _is_whole(text):
        raise Refused("no whole number")
    return int(text.replace(",", ""))


# ------------------------------------------------------------------------- JSON


def strict_json(text: str) -> Any:
    """What strict JSON says, under the core's bounds. Raises Refused."""
    try:
        value = json.loads(
            text,
            parse_int=_json_int,
            parse_float=_json_float,
            parse_constant=_json_float,
            object_pairs_hook=_json_object,
        )
    except (ValueError, RecursionError):
        raise Refused("no JSON") from None
    if not is_json(value):
        raise Refused("too deep")
    return value


def _json_int(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError
    return int(digits)


def _json_float(digits: str) -> float:
    if math.isinf(value := float(digits)) or math.isnan(value):
        raise ValueError
    return value


def _json_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError
    return dict(pairs)


def is_json(value: Any, deepest: int = MAX_DEPTH) -> bool:
    """Whether JSON can hold this value, and no deeper than that."""
    if isinstance(value, (dict, list)) and deepest == 0:
        return False
    if isinstance(value, dict):
        return all(
            isinstance(key, str) and is_json(item, deepest - 1)
            for key, item in value.items()
        )
    if isinstance(value, list):
        return all(is_json(item, deepest - 1) for item in value)
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        return bool(abs(value) < 10**MAX_DIGITS)
    return value is None or isinstance(value, str)


# --------------------------------------------------------------------- messages


class Spoken(NamedTuple):
    """An assistant's text in its parts; of a call, its text and whether it ends."""

    content: str
    thoughts: list[str]
    calls: list[tuple[str, bool]]


def spoken(text: str) -> Spoken:
    """The parts of a text, found from left to right."""
    content, thoughts, calls = "", [], []
    while text:
        places = {text.find(tag): tag for tag in ("<think>", "<tool_call>")}
        places.pop(-1, None)
        if not places:
            content += text
            break
        start = min(places)
        tag = places[start]
        content += text[:start]
        body, end, text = text[start + len(tag) :].partition(tag.replace("<", "</"))
        if tag == "<think>":
            thoughts.append(body)
        else:
            calls.append((body, bool(end)))
    return Spoken(content, thoughts, calls)


ROLES = ["system", "developer", "user", "assistant", "tool"]


def well_formed(messages: Any) -> bool:
    """Whether a conversation follows the rules that ``messages.check`` names."""
    if not isinstance(messages, list):
        return False
    used: list[str] = []
    waiting: list[str] = []
    for message in messages:
        if not isinstance(message, dict) or message.get("role") not in ROLES:
            return False
        if not is_json(message, deepest=500):
            return False
        calls = message.get("tool_calls")
        is_assistant = message["role"] == "assistant"
        texts = [message.get("content"), message.get("reasoning_content")]
        nothing = [None] if is_assistant else []
        fits = isinstance(texts[0], str) or texts[0] in nothing
        if not fits or not isinstance(texts[1], (str, type(None))):
            return False
        if not isinstance(calls, (list, type(None))) or (calls and not is_assistant):
            return False
        if message["role"] == "tool":
            if message.get("tool_call_id") not in waiting:
                return False
            waiting.remove(message["tool_call_id"])
            continue
        if not all(is_call(call) and has_arguments(call) for call in calls or []):
            return False
        waiting = [call["id"] for call in calls or []]
        used += waiting
    return len(set(used)) == len(used)


def is_call(call: Any) -> bool:
    """Whether a call can be answered: it has an id and names a function."""
    function = call.get("function") if isinstance(call, dict) else None
    return (
        isinstance(function, dict)
        and isinstance(call.get("id"), str)
        and isinstance(function.get("name"), str)
        and call.get("type", "function") == "function"
    )


def has_arguments(call: dict[str, Any]) -> bool:
    """Whether a call's arguments are text, or an object that JSON can hold."""
    arguments = call["function"].get("arguments")
    if isinstance(arguments, str):
        return True
    return isinstance(arguments, dict) and is_json(arguments)
