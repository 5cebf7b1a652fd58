"""Properties of what reads text: calculator, answers, JSON, an assistant's turn, tokens.

A property takes an input and says what became of it, in a word or two. It raises
whatever the core should not have raised, and AssertionError where an answer is wrong.
"""

from __future__ import annotations

import itertools
import re
from fractions import Fraction
from typing import Any

from agentic_rl import answers, messages, tokens
from agentic_rl.calculator import CalculatorError, calculate
from agentic_rl.golden import GOLDEN_TASK, golden_group
from agentic_rl.messages import MessageError
from agentic_rl.scripted import SCRIPTED
from agentic_rl.tasks import generate, one_of_each
from agentic_rl.trajectory import Trajectory
from fuzzing import reference
from fuzzing.engine import fuzzed, refused
from fuzzing.mutation import Case, Numbers, edit_text, same, texts

TASKS = [*one_of_each(generate(1, seed=7)).values(), GOLDEN_TASK]


def episodes() -> list[Trajectory]:
    """Real episodes: the golden group, and every scripted agent on every kind of task."""
    return golden_group() + [agent.run(task) for agent in SCRIPTED for task in TASKS]


# ------------------------------------------------------------------- calculator

EXPRESSIONS = (
    *("347 * 86", "2+3*4", "(2+3)*4", "10-4-3", "16/4/2", "2**3**2", "-2**2", "2**-1"),
    *("-7//2", "7%-3", "0.1+0.2", "1/3*3", "(2/3)**-2", "1.50", ".5", "007", "2--3"),
    *("2**4095", "10**1000", "1/3", "-(2**4095 + (2**4095 - 1)) * 2**-4095", "9**9**9"),
    *("(1+2*(3+4*(5-6)))", "1 - -1 + +1", "12 * 34.25 / (7 - 3) % 5", "(-2)**-3"),
    *("1/0", "2**0.5", "0**0", "((((((7))))))", "3 * 4 - 5 // 6 + 7 % 8 - 9 ** 2"),
)
ARITHMETIC = (
    *(
        "(",
        ")",
        "-",
        "+",
        "*",
        "**",
        "/",
        "//",
        "%",
        ".",
        " ",
        "0",
        "1",
        "2",
        "7",
        "10",
    ),
    *("2**", "(-", "-(", "1/3", "0.5", "99", "**-1", "\t", "e", "_", ",", "x", "()"),
)
CANONICAL = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]*[1-9]|/[1-9][0-9]*)?")


@fuzzed(
    "calculator: exact or refused",
    texts(EXPRESSIONS, ARITHMETIC),
    24,
    ("refused", "value"),
)
def exact_or_refused(text: str) -> str:
    """The value is the one that Python's grammar and Fraction give; errors agree."""
    try:
        expected: Fraction | None = reference.expression(text)
    except reference.Refused:
        expected = None
    except reference.Unknown:
        return _itself(text)
    try:
        result = calculate(text)
    except CalculatorError as error:
        assert expected is None, f"refused, but its value is {expected}"
        return refused(error)
    assert expected is not None, f"gave {result!r}, but has no value"
    assert Fraction(result) == expected, f"gave {result!r}, but its value is {expected}"
    return _itself(result)


def _itself(text: str) -> str:
    """A result is an expression with the same result, in its one canonical form."""
    try:
        result = calculate(text)
    except CalculatorError as error:
        return refused(error)
    assert CANONICAL.fullmatch(result) and result != "-0", f"gave {result!r}"
    if "/" in result:
        assert str(Fraction(result)) == result, f"{result!r} is not reduced"
    assert calculate(result) == result, f"{result!r} is {calculate(result)!r}"
    return "value"


# ---------------------------------------------------------------------- answers

VALUES = (
    *(
        "15",
        "-15",
        "+7",
        "0.5",
        ".5",
        "1,234",
        "12,345,678.5",
        "1e3",
        "2.5E-1",
        "1e-30",
    ),
    *("5/8", "-5 / 8", "3 1/4", "35%", "35 percent", r"35\%", "5 km", "1/2km", "$15$"),
    *(r"\frac{5}{8}", r"-\dfrac{1,000}{8}", r"3\frac{1}{4}", r"$\tfrac{-5}{8}$", "007"),
    *("1e400", "5 million", "5x", "1/0", "6 9/4", "Paris", "x + 1", "29842", "1/3"),
    *("0.3333333333333333", "paris", "5 m", "1e-30 km", "0.5 KM"),
)
WRITTEN = (
    *("0", "1", "5", "9", ",", ".", "/", "-", "+", "%", "$", " ", "e", "E", "km", "m"),
    *(r"\frac{", "}{", "}", "{", r"\%", "percent", " 1/4", ",000", "000", "1e", "pi"),
)


@fuzzed(
    "answers: a value is read whole", texts(VALUES, WRITTEN), 20, ("value", "no value")
)
def read_whole(text: str) -> str:
    """A text is a value just where a reader of our own finds one, and the same one."""
    value = answers.parse_value(text)
    try:
        expected: tuple[Fraction, str] | None = reference.answer(text)
    except reference.Refused:
        expected = None
    assert value == expected, f"read as {value}, but it is {expected}"
    if value is None:
        return "no value"
    plain = f" {value.number} {value.unit}"
    assert len(plain) > 1000 or answers.parse_value(plain) == value, f"not {plain}"
    assert answers.extract_answer(text.strip()) == text.strip(), "not its own answer"
    return "value"


def pairs(numbers: Numbers) -> Case:
    """Two texts: of one origin or two, or one text with white space around it."""
    left, right = VALUE(numbers), VALUE(numbers)
    kind = numbers.below(4)
    if kind == 2:
        right = Case(edit_text(left.value, numbers, WRITTEN), True)
    elif kind == 3:
        right = Case(f" {left.value}\n", left.mutated)
    return Case((left.value, right.value), left.mutated or right.mutated)


VALUE = texts(VALUES, WRITTEN)


@fuzzed("answers: equality", pairs, 12, ("equal", "different"))
def equality(pair: tuple[str, str]) -> str:
    """Symmetric, true of a text and itself, and exact where two numbers are written."""
    left, right = pair
    result = answers.answers_equal(left, right)
    assert answers.answers_equal(right, left) is result, "not symmetric"
    for text in pair:
        assert answers.answers_equal(text, text) is bool(text.strip()), "not reflexive"
    try:
        (one, unit), (other, unit_too) = map(reference.answer, pair)
        expected = one == other and (unit == unit_too or not (unit and unit_too))
    except reference.Refused:
        expected = bool(left.strip()) and left.strip() == right.strip()
    assert result is expected, f"gave {result}"
    return "equal" if result else "different"


SAYINGS = (
    *("Answer: 29842", "The answer is 150.", "I guess 7", "so 35% of them", "x = -7"),
    *(r"first \boxed{8}, then \boxed{9}", r"\boxed{\frac{3}{4}}", r"\fbox{ 5 km }"),
    *("**Answer:** 3 1/4 cups", "14, 15 or 16", r"hence $\frac{5}{8}$ of it", "7, 7.0"),
    *(
        "Answer: 8. No, wait. Answer: 9",
        "The answer is Paris.",
        r"so \(7\)",
        "2^10 = x",
    ),
    *("\u7b54\u6848\u662f\uff1a150\u3002 2 + 2", "Answer:\n\n5 km\n\nIn 12 steps."),
)
SAID = (
    *(r"\boxed{", r"\fbox{", "{", "}", r"\{", r"\frac{1}{2}", "Answer:", "answer is"),
    *(
        "\u7b54\u6848\uff1a",
        ". ",
        "\n",
        "*",
        "7",
        "8",
        "1/2",
        " 1/4",
        "%",
        "$",
        "-",
        ",",
    ),
)
BOX = re.compile(r"\\(?:boxed|fbox)[ ]*\{")


@fuzzed(
    "answers: what a text states",
    texts(SAYINGS, SAID),
    16,
    ("nothing", "a value", "a text"),
)
def stated(text: str) -> str:
    """The answer stands in the text, and an answer that is added takes its place."""
    answer = answers.extract_answer(text)
    closing = answers.extract_answer(text + r" \boxed{7}")
    assert closing == "7", f"with a last box of 7 it states {closing!r}"
    marked = answers.extract_answer(f"{text}\nAnswer: 7.")
    assert marked == (answer if BOX.search(text) else "7"), f"marked 7: {marked!r}"
    if not any(c in text for c in "{}\\"):
        inner = answers.extract_answer(rf"\boxed{{{text}\boxed{{7}}}}")
        assert inner == "7", f"of nested boxes it takes {inner!r}"
    if answer is None:
        return "nothing"
    assert answer.strip(), "an empty answer"
    letters = iter(text)  # a fraction written in LaTeX is answered as 5/8
    assert answer in text or (
        "frac{" in text and all(c in letters for c in answer if c not in " /")
    ), f"{answer!r} does not stand in the text"
    if answers.parse_value(answer) is not None:
        assert answers.extract_answer(answer) == answer, f"{answer!r} is not its own"
        return "a value"
    return "a text"


# ------------------------------------------------------------------------- JSON

DOCUMENTS = (
    '{"id": "hard-001", "question": "What is 347 * 86?", "answer": "29842"}',
    '[1, -2.5, 1e3, true, false, null, "a\\u00e9\\n", {"a": {"b": [[]]}}]',
    '{"name": "calculator", "arguments": {"expression": "3*4"}}',
    '{"a": 1, "b": 1, "ab": 1}',
    '"text"',
    "[" * 60 + "]" * 60,
    "-0.5",
    "12345678901234567890",
)
WRITTEN_JSON = (
    *("{", "}", "[", "]", ",", ":", '"', "\\", "null", "true", "1", "-", ".5", "e9"),
    *('"a": 1, ', '"id": "x", ', "[[", "]]", '{"a":', "01", "1.", "'", "\\ud800", "[]"),
)


@fuzzed(
    "messages: JSON is read strictly",
    texts(DOCUMENTS, WRITTEN_JSON),
    16,
    ("refused", "JSON"),
)
def strict_json(text: str) -> str:
    """What is read is what the standard library reads, and what is not JSON is not."""
    expected, is_json = _strict(text)
    try:
        value = messages.parse_json(text)
    except MessageError as error:
        assert not is_json, f"refused, but it is {expected!r}"
        return refused(error)
    assert is_json, f"read as {value!r}, but it is no strict JSON"
    assert same(value, expected), f"read as {value!r}, but it is {expected!r}"
    return "JSON"


def _strict(text: str) -> tuple[Any, bool]:
    try:
        return reference.strict_json(text), True
    except reference.Refused:
        return None, False


# ------------------------------------------------------------ an assistant's turn


def _turns() -> list[str]:
    """Every turn that a scripted agent writes, and some that use all of the form."""
    written = {
        messages.render_assistant(message)
        for episode in episodes()
        for message in episode.messages
        if message["role"] == "assistant"
    }
    call = messages.render_call(
        "calculator", {"expression": "2+2", "n": [1, True, 1.5]}
    )
    return [
        *sorted(written),
        f"Let me see.{call}{call} And so.",
        f"<think>try {call}</think>{call}",
        '<tool_call>{"name": "f", "arguments": "{\\"a\\": 1}"}</tool_call>',
        '<tool_call>{"name": "f", "arguments": "\\"{}\\""}</tool_call>',
        '<tool_call>{"name": "f", "arguments": [1]}</tool_call>',
        '<tool_call>{"name": "f"}</tool_call>',
        '<tool_call>{"name": "f", "arguments": {}}',
        "<think>a</think>Answer: 4<think>b</think>",
    ]


SPOKEN = (
    *("<think>", "</think>", "<tool_call>", "</tool_call>", "{", "}", '"', "\\", ", "),
    *(
        '{"name": "f"',
        '"name": "g", ',
        '"arguments": ',
        '"arguments": {}, ',
        '{"a": 1}',
    ),
    *(
        "null",
        "[1]",
        '"id": "x", ',
        '"parameters": {"a": 1}',
        "<tool_",
        "</",
        "\\u0022",
    ),
    *("Answer: 4", "<|im_end|>", "1", "true", "1.0", "NaN", "[" * 70, '"{\\"a\\": 1}"'),
)
TURNS = texts(_turns(), SPOKEN)


@fuzzed(
    "messages: what an assistant's text means",
    TURNS,
    24,
    ("no call", "a call", "a call to refuse"),
)
def meaning(text: str) -> str:
    """Each part is in its place, and each call is what was written, or all of it."""
    message = messages.parse_assistant(text, 5)
    parts = reference.spoken(text)
    assert message["role"] == "assistant" and message["content"] == parts.content
    thoughts = "".join(parts.thoughts) if parts.thoughts else None
    assert message.get("reasoning_content") == thoughts, "other thoughts"
    calls = message.get("tool_calls", [])
    assert ("tool_calls" in message) is bool(calls) and len(calls) == len(parts.calls)
    runs = []
    for number, (call, (body, closed)) in enumerate(zip(calls, parts.calls), 5):
        assert call["id"] == f"call_{number}" and call["type"] == "function"
        runs.append(_call(call["function"], body, closed))
    again = messages.from_openai(messages.to_openai([message]))
    assert same(again, [message]), f"from OpenAI's edge it comes back as {again}"
    assert len(messages.flags([message])) == len(runs) + runs.count(False)
    try:
        rendered = messages.parse_assistant(messages.render_assistant(message), 5)
    except MessageError as error:
        refused(error)
    else:
        assert same(_without_empty(rendered), _without_empty(message)), "rendered anew"
    return "a call" if any(runs) else "a call to refuse" if runs else "no call"


def _without_empty(message: messages.Message) -> messages.Message:
    return {key: value for key, value in message.items() if value != ""}


def _call(function: dict[str, Any], body: str, closed: bool) -> bool:
    """Check one call against its text; True if it can be run."""
    assert function.keys() == {"name", "arguments"}
    name, arguments = function["name"], function["arguments"]
    written, _ = _strict(body)
    whole = (
        closed
        and isinstance(written, dict)
        and isinstance(written.get("name"), str)
        and not written.keys() - {"name", "arguments"}
    )
    if not whole:
        assert isinstance(arguments, str), f"{body!r} became {arguments!r}"
        assert not isinstance(_strict(arguments)[0], dict), f"{arguments!r} could run"
        assert _keeps(name, arguments, body), f"{body!r} was cut to {arguments!r}"
        return False
    assert name == written["name"]
    meant = written.get("arguments", {})
    if isinstance(meant, str) and isinstance(_strict(meant)[0], dict):
        meant = _strict(meant)[0]
    if not isinstance(meant, (dict, str)):
        assert isinstance(arguments, str)
        arguments = _strict(arguments)[0]
    assert same(arguments, meant), f"{body!r} became {arguments!r}"
    return isinstance(meant, dict)


def _keeps(name: str, arguments: str, body: str) -> bool:
    """Whether the text of a call that can't be read is there in full."""
    if arguments in (body, f"<tool_call>{body}"):
        return True
    before = body.removesuffix(arguments)
    parts = ["", "{", '"name"', ":", f'"{name}"', ",", '"arguments"', ":", ""]
    return re.fullmatch(r"\s*".join(map(re.escape, parts)), before) is not None


# ----------------------------------------------------------------------- tokens

MARKERS = ("<think>", "</think>", "<tool_call>", "</tool_call>")
IN_TOKENS = (
    *(*MARKERS, tokens.IM_START, tokens.IM_END, "<", ">", "</", "|", "_", "  ", "\n"),
    *("word", "347", " 86", "?", "?!", "<tool", "_call>", "\u4f60", "a1", "1a", '{"'),
)


@fuzzed(
    "tokens: nothing is lost or forged", texts(_turns(), IN_TOKENS), 12, ("tokens",)
)
def lossless(text: str) -> str:
    """Tokens join to the text; markers are tokens; none is the template's, or empty."""
    row = tokens.encode(text)
    assert tokens.decode(row) == text, "the tokens do not join to the text"
    assert "" not in row and not {tokens.IM_START, tokens.IM_END} & set(row)
    for marker in MARKERS:
        assert row.count(marker) == text.count(marker), f"{marker} is cut or hidden"
    for token in set(itertools.islice(row, 20)):
        assert tokens.encode(token) == (token,), f"{token!r} is not one token"
    turn = tokens.turn("tool", text)
    assert tokens.decode(turn) == f"<|im_start|>tool\n{text}<|im_end|>\n"
    assert turn.count(tokens.IM_START) == turn.count(tokens.IM_END) == 1
    return "tokens"
