"""Final answers: extracting the one a text states, deciding whether two are equal.

Both are strict, because a reward is only as good as its checker. A text that names
several candidates states no answer, and a number is read whole or not at all: there is
no tolerance and no "first number found". Nothing here recurses, sets a timer or keeps
state, so any thread may call it; time grows linearly with the text.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple

from agentic_rl.values import remembered

MAX_LENGTH = 1000  # characters of a text that is read as a value
MAX_EXPONENT = 400  # of scientific notation, in either direction


class AnswerError(ValueError):
    """What was given as a text to read is none; the error says what it is."""


class Value(NamedTuple):
    """An exact number and its unit, "" if it has none. A percentage is a number."""

    number: Fraction
    unit: str


# ----------------------------------------------------------------- reading a value

# [0-9], as \d also matches the digits of other scripts.
_INTEGER = r"(?:[1-9][0-9]{0,2}(?:,[0-9]{3})+|[0-9]+)"
_FRACTION = (
    rf"(?:(?P<whole>{_INTEGER})[ ]+)?"
    rf"(?P<numerator>{_INTEGER})[ ]*/[ ]*(?P<denominator>{_INTEGER})"
)
_DECIMAL = (
    rf"(?P<mantissa>{_INTEGER}(?:\.[0-9]+)?|\.[0-9]+)(?:[eE](?P<exponent>[-+]?[0-9]+))?"
)
_NUMBER = rf"(?P<sign>[-+]?)(?:{_FRACTION}|{_DECIMAL})"
_VALUE = re.compile(rf"{_NUMBER}[ ]*(?P<suffix>\\?%|[A-Za-z]*)")

_LATEX_FRACTION = re.compile(
    rf"\\[dt]?frac\{{(?P<top>[-+]?{_INTEGER})\}}\{{(?P<bottom>{_INTEGER})\}}"
)
_MIXED_LATEX = re.compile(r"(?<=[0-9])(?=\\[dt]?frac\{)")

_PERCENT = ("%", "\\%", "percent")
# Words and letters that change the number they follow, so they are no unit of it.
_FACTORS = (
    *("dozen", "hundred", "thousand", "million", "billion", "trillion"),
    *("pi", "e", "i", "x", "y"),
)


def parse_value(text: str) -> Value | None:
    r"""The value that the whole text writes, exactly, or None if it isn't one.

    A value is a number, perhaps signed, with an optional suffix; surrounding white
    space and dollar signs ("$5$") are dropped. The forms of a number:

    - 1234 or 1,234 (commas in groups of three), 0.5 or .5, 1e-30
    - 5/8, and \frac{5}{8} with its variants \dfrac and \tfrac
    - 3 1/4 or 3\frac{1}{4}, where the fraction must be below one

    The suffix %, \% or the word percent divides by 100; any other ASCII letters are
    the unit ("5 km"), save for words and letters that multiply ("5 million", "5x").

    Not values: digits of other scripts, a zero denominator, texts of more than
    MAX_LENGTH characters, exponents beyond MAX_EXPONENT. Raises AnswerError for what is
    no text.
    """
    _check_text(text)
    return _parse_value(text)


def _check_text(text: object) -> None:
    if not isinstance(text, str):
        raise AnswerError(f"an answer is text, got {type(text).__name__}")


@remembered  # a group's episodes keep giving the same answers
def _parse_value(text: str) -> Value | None:
    text = text.strip()
    if len(text) > MAX_LENGTH:
        return None
    if text.startswith("$") and text.endswith("$"):
        text = text.strip("$")
    match = _VALUE.fullmatch(_plain_fractions(text).strip())
    if match is None:
        return None
    number = _decimal(match) if match["mantissa"] else _fraction(match)
    if number is None:
        return None
    if match["sign"] == "-":
        number = -number
    suffix = match["suffix"]
    if suffix.lower() in _PERCENT:
        return Value(number / 100, "")
    if suffix.lower() in _FACTORS:
        return None
    return Value(number, suffix)


def _plain_fractions(text: str) -> str:
    r"""The text with 5/8 for \frac{5}{8}, and 3 1/4 for 3\frac{1}{4}."""
    text = _MIXED_LATEX.sub(" ", text)
    return _LATEX_FRACTION.sub(r"\g<top>/\g<bottom> ", text)


def _decimal(match: re.Match[str]) -> Fraction | None:
    whole, _, decimals = match["mantissa"].partition(".")
    exponent = int(match["exponent"] or 0)
    if abs(exponent) > MAX_EXPONENT:
        return None
    scale = Fraction(10) ** (exponent - len(decimals))
    return _integer(whole + decimals) * scale


def _fraction(match: re.Match[str]) -> Fraction | None:
    numerator = _integer(match["numerator"])
    denominator = _integer(match["denominator"])
    if denominator == 0:
        return None
    if match["whole"] is None:
        return Fraction(numerator, denominator)
    if numerator >= denominator:
        return None
    return _integer(match["whole"]) + Fraction(numerator, denominator)


def _integer(digits: str) -> int:
    return int(digits.replace(",", ""))


# --------------------------------------------------------------- deciding equality


def answers_equal(gold: str, answer: str) -> bool:
    """Whether two answers are equal: by value if both are values, else as text.

    Values (see parse_value) are equal if their numbers are exactly equal and, where
    both carry a unit, the units are the same: "5 km" equals "5" but not "5 m". As a
    percentage is a hundredth, "50%" equals "0.5", and "35%" is not "35". Frameworks
    differ here; this is our choice.

    If either is not a value, they are equal only if they are the same non-empty text,
    apart from white space around it. Raises AnswerError for what is no text.
    """
    expected, given = parse_value(gold), parse_value(answer)
    if expected is None or given is None:
        return bool(gold.strip()) and gold.strip() == answer.strip()
    both_have_units = expected.unit and given.unit
    if both_have_units and expected.unit != given.unit:
        return False
    return expected.number == given.number


# ------------------------------------------------------------ extracting an answer

# A number that stands alone in prose: no letter, digit, operator or LaTeX touches it,
# nor the minus sign and the dash of Unicode, which may mean a negative number.
# A factor after it belongs to it, so that "5 million" isn't read as 5.
_SUFFIX = "|".join((r"\\?%", *(rf"{word}\b" for word in ("percent", *_FACTORS))))
_LONE_NUMBER = re.compile(
    rf"(?<![\w.,/^{{+\u2212\u2013-]){_NUMBER}"
    rf"(?:[ ]*(?:{_SUFFIX}))?(?![\w/^]|[ ]*\\[A-Za-z])",
    re.IGNORECASE,
)

_BRACE = re.compile(
    r"(?P<box>\\(?:boxed|fbox)[ ]*\{)|\\[{}]|(?P<open>\{)|(?P<close>\})"
)
_BOX = re.compile(r"\\(?:boxed|fbox)[ ]*\{")

# \u7b54\u6848 is Chinese for "answer", \u662f and \u4e3a are "is"; \uff1a is its colon.
_MARKER = re.compile(
    r"(?:\banswer[\s*]*(?:is\b|[:=\uff1a])"
    r"|\u7b54\u6848[\s*]*(?:\u662f|\u4e3a|[:=\uff1a]))[\s*]*[:\uff1a]?",
    re.IGNORECASE,
)
# The full stops, exclamation and question marks of English and of Chinese.
_SENTENCE_END = re.compile(r"[.!?](?=\s)|[\n\u3002\uff01\uff1f]")
_SPACE = "".join(filter(str.isspace, map(chr, range(0x3001))))  # all that Unicode has
_LEADING = _SPACE + "*"
_TRAILING = _LEADING + ".,;:!?\u3002\uff0c\uff1b\uff1a\uff01\uff1f"


def extract_answer(text: str) -> str | None:
    r"""The one final answer that a text states, or None. The first rule that fits wins:

    1. Boxes. The last complete \boxed{...} or \fbox{...}, with balanced braces, is
       the answer. An unclosed box is no answer: it doesn't replace a complete one,
       and a text with no other box has none. Of nested boxes the inner one counts.
    2. Marks. After the last "Answer:" or "answer is" (or the same in Chinese), the rest
       of the sentence takes the place of the text in the rules below; without any
       digit in it, it is the answer itself ("The answer is Paris").
    3. The whole text, if it reads as one value (see parse_value): "3 1/4", "5 km".
    4. The only number in the text ("I guess 7"). Several different numbers, or digits
       that are part of something else ("x2", "2^10"), leave no answer.

    Negation is not understood: "The answer is not 15" states 15.

    Markdown asterisks and the punctuation of the sentence's end are dropped. An answer
    is never the empty text. Raises AnswerError for what is no text.
    """
    _check_text(text)
    return _extract_answer(text)


@remembered
def _extract_answer(text: str) -> str | None:
    if _BOX.search(text):
        return _last_box(text)
    marked = _last_marked(text)
    phrase = (text if marked is None else marked).lstrip(_LEADING).rstrip(_TRAILING)
    if parse_value(phrase) is not None:
        return phrase
    if marked is not None and not _has_digit(phrase):
        return phrase or None
    return _only_number(phrase)


def _last_box(text: str) -> str | None:
    open_braces: list[tuple[bool, int]] = []  # (is it a box, where its content starts)
    last_start, last_end = -1, -1
    for brace in _BRACE.finditer(text):
        if brace["box"] or brace["open"]:
            open_braces.append((bool(brace["box"]), brace.end()))
        elif brace["close"] and open_braces:
            is_box, start = open_braces.pop()
            if is_box and start > last_start:
                last_start, last_end = start, brace.start()
    if last_start < 0:
        return None
    return text[last_start:last_end].strip() or None


def _last_marked(text: str) -> str | None:
    start = None
    for marker in _MARKER.finditer(text):
        start = marker.end()
    if start is None:
        return None
    rest = text[start:].lstrip(_LEADING)
    return _SENTENCE_END.split(rest, maxsplit=1)[0]


def _only_number(text: str) -> str | None:
    text = _plain_fractions(text)
    if _has_digit(_LONE_NUMBER.sub("", text)):
        return None
    numbers = [match[0] for match in _LONE_NUMBER.finditer(text)]
    values = {parse_value(number) for number in set(numbers)}
    if len(values) != 1 or None in values:
        return None
    return numbers[0]


def _has_digit(text: str) -> bool:
    return any(character.isdigit() for character in text)
