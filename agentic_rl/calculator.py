"""A calculator for agents: exact, bounded arithmetic; never ``eval``.

An expression is text that a model wrote, so it may be anything. It is read by an
operator-precedence parser with explicit stacks (Dijkstra's shunting yard): nothing
recurses, and every size is bounded before a number is built.

Python's precedence and associativity hold, loosest first:

    + -          left to right
    * / // %     left to right; // and % round towards minus infinity
    unary + -
    **           right to left; the exponent may carry a sign: 2**-1 is 0.5

Numbers are ASCII digits with an optional point: ``15``, ``1.5``, ``.5``, ``2.``,
``007``. There is no scientific notation (write ``10**5``) and no thousands comma.
Spaces and tabs may stand between tokens; any other character is an error.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

Number = int | Fraction

MAX_BITS = 4096  # of the numerator and of the denominator of every value
MAX_DEPTH = 64  # parentheses, signs and powers inside one another

# Every result fits back in: the longest has a sign, one digit, a point and 4095
# decimals. And below 4300 digits, Python's int() and str() never refuse.
MAX_LENGTH = 4200

_TOKEN = re.compile(
    r"(?P<number>[0-9]+\.?[0-9]*|\.[0-9]+)"
    r"|(?P<operator>\*\*|//|[-+*/%()])"
    r"|(?P<unknown>[^ \t])"
)


class CalculatorError(ValueError):
    """An expression without a value here; the text says what is wrong, and where."""


def calculate(expression: str) -> str:
    """The exact value of an arithmetic expression, as text.

    An integer is printed as such, a value with a finite decimal expansion as a decimal
    ("1/4" gives "0.25"), any other as a reduced fraction ("2/6" gives "1/3"). A result
    is itself an expression with the same result.

    Raises CalculatorError, and nothing else, if ``expression`` is not a str, is longer
    than MAX_LENGTH characters, is not an expression, nests deeper than MAX_DEPTH,
    divides by zero, has a fractional exponent, or if any value on the way is too large:
    more than MAX_BITS bits in its numerator or denominator. Positions in the messages
    count characters from 1.
    """
    if not isinstance(expression, str):
        kind = type(expression).__name__
        raise CalculatorError(f"expected the expression as text, got {kind}")
    if len(expression) > MAX_LENGTH:
        raise CalculatorError(
            f"expression too long: {len(expression)} characters, "
            f"the limit is {MAX_LENGTH}"
        )
    return _value(expression)


@functools.lru_cache(maxsize=4096)  # a group's episodes make the same calls
def _value(expression: str) -> str:
    return _format(_evaluate(expression))


# ------------------------------------------------------------------- the operators


def _divide(left: Number, right: Number) -> Fraction:
    return Fraction(left, right)


def _power(base: Number, exponent: Number) -> Number:
    if exponent.denominator != 1:
        raise CalculatorError(
            f"exponent of ** must be an integer, got {_excerpt(_format(exponent))}"
        )
    # A base of b bits is at least 2**(b - 1): nothing that would fit is refused here,
    # and what goes through has at most twice MAX_BITS.
    if (_bits(base) - 1) * abs(exponent.numerator) >= MAX_BITS:
        raise _too_large()
    if exponent < 0:
        base = _divide(1, base)
    return base ** abs(exponent.numerator)


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divide,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": _power,
}
_UNARY: dict[str, Callable[[Any], Any]] = {
    "unary +": operator.pos,
    "unary -": operator.neg,
}
_PREFIX = {"+": "unary +", "-": "unary -", "(": "("}
_NESTING = ("(", "unary +", "unary -", "**")

# An open parenthesis binds nothing: it stops every operator that comes after it.
_PRECEDENCE = {
    **dict.fromkeys(["("], 0),
    **dict.fromkeys(["+", "-"], 1),
    **dict.fromkeys(["*", "/", "//", "%"], 2),
    **dict.fromkeys(["unary +", "unary -"], 3),
    **dict.fromkeys(["**"], 4),
}


# ------------------------------------------------------------------- the evaluation


def _evaluate(expression: str) -> Number:
    """Read token by token; an operator waits until its right operand is complete."""
    values: list[Number] = []
    pending: list[str] = []
    operand_next = True
    for match in _TOKEN.finditer(expression):
        token = match[0]
        if operand_next:
            if match.lastgroup == "number":
                values.append(_literal(token))
                operand_next = False
            elif token in _PREFIX:
                _push(pending, _PREFIX[token])
            else:
                raise _unexpected(match, "a number, a sign or '('")
        elif token in _BINARY:
            precedence = _PRECEDENCE[token]
            if token == "**":
                precedence += 1  # right to left: an earlier ** goes on waiting
            _apply(values, pending, precedence)
            _push(pending, token)
            operand_next = True
        elif token == ")":
            _apply(values, pending, 1)
            if not pending:
                raise CalculatorError(
                    f"')' at position {match.start() + 1} closes no '('"
                )
            pending.pop()
        else:
            raise _unexpected(match, "an operator or ')'")
    if operand_next:
        raise CalculatorError("expected a number, found the end of the expression")
    _apply(values, pending, 1)
    if pending:
        raise CalculatorError("a '(' is never closed: expected ')' at the end")
    return values[0]


def _push(pending: list[str], name: str) -> None:
    pending.append(name)
    if sum(waiting in _NESTING for waiting in pending) > MAX_DEPTH:
        raise CalculatorError(
            f"nested too deeply: more than {MAX_DEPTH} parentheses, signs and powers "
            "inside one another"
        )


def _apply(values: list[Number], pending: list[str], precedence: int) -> None:
    """Apply the waiting operators that bind at least as tightly as ``precedence``."""
    while pending and _PRECEDENCE[pending[-1]] >= precedence:
        name = pending.pop()
        right = values.pop()
        if name in _UNARY:
            values.append(_UNARY[name](right))
            continue
        try:
            result = _BINARY[name](values.pop(), right)
        except ZeroDivisionError:
            raise CalculatorError("division by zero") from None
        values.append(_bounded(result))


def _literal(digits: str) -> Number:
    whole, _, decimals = digits.partition(".")
    number = int(whole + decimals)
    if not decimals:
        return _bounded(number)
    return _bounded(Fraction(number, 10 ** len(decimals)))


# --------------------------------------------------------------------- the bounds


def _bits(value: Number) -> int:
    return max(value.numerator.bit_length(), value.denominator.bit_length())


def _bounded(value: Number) -> Number:
    if _bits(value) > MAX_BITS:
        raise _too_large()
    return value


def _too_large() -> CalculatorError:
    return CalculatorError(
        f"too large: a numerator or denominator has more than {MAX_BITS} bits"
    )


# ----------------------------------------------------------------------- the text


def _format(value: Number) -> str:
    numerator, denominator = value.numerator, value.denominator
    if denominator == 1:
        return str(numerator)
    # A denominator 2**a * 5**b divides 10**max(a, b), so its bit length suffices.
    places = denominator.bit_length()
    digits, remainder = divmod(abs(numerator) * 10**places, denominator)
    if remainder:
        return f"{numerator}/{denominator}"
    text = str(digits).zfill(places + 1)
    sign = "-" if numerator < 0 else ""
    return f"{sign}{text[:-places]}.{text[-places:].rstrip('0')}"


def _unexpected(match: re.Match[str], expected: str) -> CalculatorError:
    character = ascii(match[0][0])
    return CalculatorError(
        f"expected {expected} at position {match.start() + 1}, found {character}"
    )


def _excerpt(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."
