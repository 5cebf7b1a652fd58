"""How an answer is graded: an exercise, its properties, and a careful caller.

An exercise is a function that a learner writes. A property is what must hold of it, no
matter how it was written: an identity, an invariance, a case computed by hand, or the
same number computed in another way. The first one that does not hold is told: on which
input, what was expected, what came back, and a hint.
"""
# ruff: noqa: RUF001  (the Chinese texts have their own punctuation)

from __future__ import annotations

import copy
import inspect
import math
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from agentic_rl.values import excerpt, is_finite

DONE, NOT_YET, FAILED = "done", "not yet", "failed"
LONGEST = 400  # characters of a value that is told

Text = dict[str, str]  # language -> text
Check = Callable[["Probe"], None]  # raises Wrong if the property does not hold
Watch = Callable[[str], None]


class Wrong(Exception):
    """A property does not hold: the call, what was expected, what came back."""

    def __init__(self, given: str, expected: str, got: str, problem: General | None):
        super().__init__(given, expected, got)
        self.given, self.expected, self.got = given, expected, got
        self.problem = problem  # None: the property under check has the hint


class NotYet(Exception):
    """The function, or one that it calls, has not been written."""


class General(NamedTuple):
    """What must hold of every exercise, and its hint."""

    name: Text
    hint: Text


class Problem(NamedTuple):
    """Why an answer is not accepted, in words."""

    property: Text
    given: str
    expected: str
    got: str
    hint: Text


class Result(NamedTuple):
    """What became of one exercise: DONE, NOT_YET, or FAILED and why.

    ``first`` names an exercise above that this one uses and that has failed too: as long
    as that one is wrong, the hint may point at the wrong place.
    """

    name: str
    status: str
    problem: Problem | None = None
    first: str = ""


class Kind(NamedTuple):
    """What a function gives: in words, in English and Chinese, and whether a value is one."""

    name: str
    zh: str
    fits: Callable[[Any], bool]


class Property(NamedTuple):
    """What must hold; its name goes on after "it must"."""

    name: Text
    hint: Text
    check: Check


@dataclass(frozen=True)
class Exercise:
    """A function's name, what it is about, what it gives, and what must hold of it."""

    name: str
    chapter: str
    about: Text
    gives: Kind
    properties: list[Property] = field(default_factory=list)

    def must(
        self, english: str, chinese: str, *, en: str, zh: str
    ) -> Callable[[Check], Check]:
        """A decorator: the check below it is a property. First its name in both languages,
        which goes on after "it must", then its hint in both."""

        def add(check: Check) -> Check:
            name, hint = {"en": english, "zh": chinese}, {"en": en, "zh": zh}
            self.properties.append(Property(name, hint, check))
            return check

        return add


# ------------------------------------------------------------------ what functions give


def list_of(what: str, zh: str, fits: Callable[[Any], bool]) -> Kind:
    """A list, or a tuple, whose items all fit."""
    return Kind(
        f"a list of {what}",
        zh,
        lambda value: isinstance(value, (list, tuple)) and all(map(fits, value)),
    )


def is_whole(value: Any) -> bool:
    """Whether this is an int, and no boolean."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_tuple_of(*fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """A test for a tuple, or a list, with one item for each of the given tests."""

    def fit(value: Any) -> bool:
        if not isinstance(value, (list, tuple)) or len(value) != len(fits):
            return False
        return all(one(item) for one, item in zip(fits, value))

    return fit


NUMBER = Kind("a finite number", "一个有限的数", is_finite)
WHOLE = Kind("a whole number", "一个整数", is_whole)
NUMBERS = list_of("finite numbers", "有限数的列表", is_finite)
MARKS = list_of(
    "0s and 1s", "整数 0 和 1 的列表", lambda mark: is_whole(mark) and mark in (0, 1)
)
TRUTH = Kind("True or False", "布尔值", lambda value: isinstance(value, bool))
TRUTHS = list_of("True and False", "布尔值的列表", TRUTH.fits)
TEXT_OR_NONE = Kind(
    "text or None", "文本或 None", lambda x: x is None or isinstance(x, str)
)
OBJECT_OR_NONE = Kind(
    "a dict or None", "一个 dict 或 None", lambda x: x is None or isinstance(x, dict)
)


# ------------------------------------------------------------------ asking


class Probe:
    """A learner's function, called with care.

    It gets copies of the arguments. An exception, arguments that have changed and an
    answer of another kind than expected raise Wrong; NotImplementedError raises NotYet.
    ``watch`` is told of each call before it is made.
    """

    def __init__(self, exercise: Exercise, function: Callable[..., Any], watch: Watch):
        self.watch = watch
        self.exercise, self.function = exercise, function
        code = getattr(inspect.unwrap(function), "__code__", None)
        self.file = code.co_filename if code else ""
        self.given = ""  # the last call, as it would be typed
        self.answered = False  # whether any answer was of the right kind so far

    def __call__(self, *arguments: Any) -> Any:
        """What the function gives."""
        return self._ask(arguments, self.exercise.gives.name)

    def gives(
        self, expected: Any, *arguments: Any, why: str = "", within: float = 1e-9
    ) -> None:
        """Raise Wrong unless the function gives this, floats up to a tolerance."""
        because = f" ({why})" if why else ""
        got = self._ask(arguments, shown(expected) + because)
        if not close(got, expected, within):
            wanted, told = apart(expected, got)
            raise Wrong(self.given, wanted + because, told, None)

    def sums_to(self, total: float, got: list[float]) -> None:
        """Raise Wrong unless what the last call gave adds up to this."""
        found = math.fsum(got)
        wanted, told = apart(total, found)
        told = f"{shown(got)}, which adds up to {told}"
        self.require(close(found, total), f"a sum of {wanted}", told)

    def refuses(self, *arguments: Any, why: str) -> None:
        """Raise Wrong unless the function raises ValueError."""
        wanted = f"ValueError ({why})"
        try:
            got = self._ask(arguments, wanted)
        except Wrong as wrong:
            if isinstance(wrong.__cause__, ValueError):
                return
            raise
        raise Wrong(self.given, wanted, shown(got), None)

    def require(self, holds: bool, expected: str, got: Any) -> None:
        """Raise Wrong, about the last call, unless what was expected of it holds."""
        if not holds:
            told = got if isinstance(got, str) else shown(got)
            raise Wrong(self.given, expected, told, None)

    def _ask(self, arguments: tuple[Any, ...], wanted: str) -> Any:
        self.given = f"{self.exercise.name}({', '.join(map(typed, arguments))})"
        self.watch(self.given)
        handed = copy.deepcopy(arguments)
        try:
            got = self.function(*handed)
        except NotImplementedError:
            raise NotYet from None
        except BaseException as error:  # SystemExit, KeyboardInterrupt: whatever it is
            told = described(error, self.file)
            raise Wrong(self.given, wanted, told, None) from error
        if not self.exercise.gives.fits(got):
            # The first answer of all: something is wrong with the function as a whole.
            general = None if self.answered else kind(self.exercise.gives)
            told = typed(got)
            if wanted.startswith(told):  # they look alike
                told += f", of the type {types(got)}"
            raise Wrong(self.given, wanted, told, general)
        self.answered = True
        if handed != arguments:
            expected = f"the arguments as they were: {shown(list(arguments))}"
            raise Wrong(self.given, expected, shown(list(handed)), UNCHANGED)
        return got


def kind(gives: Kind) -> General:
    """The property of giving what the docstring says."""
    return General({"en": f"give {gives.name}", "zh": f"给出{gives.zh}"}, KIND_HINT)


KIND_HINT = {
    "en": "Compare what came back with the docstring. A function that ends without a "
    "return gives None.",
    "zh": "把返回值跟 docstring 对照一下。函数没有走到 return 就结束，返回的是 None。",
}
UNCHANGED = General(
    {"en": "leave its arguments as they were", "zh": "让传进来的参数保持原样"},
    {
        "en": "The caller goes on using its lists. Build a new one instead of writing "
        "into the one you were given.",
        "zh": "调用方还要接着用这些列表。另建一个新的，不要改动传进来的。",
    },
)


def _unwatched(call: str) -> None:
    pass


def judge(
    exercise: Exercise, function: Callable[..., Any], watch: Watch = _unwatched
) -> Result:
    """Grade one function; ``watch`` is told of each call before it is made."""
    probe = Probe(exercise, function, watch)
    for one in exercise.properties:
        try:
            one.check(probe)
        except NotYet:
            return Result(exercise.name, NOT_YET)
        except Wrong as wrong:
            name, hint = wrong.problem or (one.name, one.hint)
            problem = Problem(name, wrong.given, wrong.expected, wrong.got, hint)
            return Result(exercise.name, FAILED, problem)
        except BaseException as error:  # an answer that the check could not use
            told = f"what can't be used: {described(error, probe.file)}"
            expected = exercise.gives.name
            problem = Problem(one.name, probe.given, expected, told, one.hint)
            return Result(exercise.name, FAILED, problem)
    return Result(exercise.name, DONE)


# ------------------------------------------------------------------ comparing, telling


def close(got: Any, expected: Any, within: float = 1e-9) -> bool:
    """Whether two values are the same: numbers up to a tolerance, lists item by item."""
    if isinstance(expected, (list, tuple)):
        return (
            isinstance(got, (list, tuple))
            and len(got) == len(expected)
            and all(close(a, b, within) for a, b in zip(got, expected))
        )
    if isinstance(expected, dict):
        return (
            isinstance(got, dict)
            and got.keys() == expected.keys()
            and all(close(got[key], expected[key], within) for key in expected)
        )
    if is_finite(expected) and is_finite(got):
        return math.isclose(got, expected, rel_tol=within, abs_tol=within)
    return type(got) is type(expected) and bool(got == expected)


def apart(expected: Any, got: Any) -> tuple[str, str]:
    """Both as they are told: with all digits where six of them look the same."""
    wanted, told = shown(expected), shown(got)
    if wanted != told:
        return wanted, told
    return _text(expected, _in_full), _text(got, _in_full)


def shown(value: Any) -> str:
    """A value as it is told: floats with six digits, and never endless."""
    return _text(value, _shown)


def typed(value: Any) -> str:
    """A value as it would be typed."""
    return _text(value, repr)


def types(value: Any) -> str:
    """The name of a value's type, and, of a list, those of its items."""
    name = type(value).__name__
    if isinstance(value, (list, tuple)):
        name += f" of {', '.join(sorted({type(item).__name__ for item in value}))}"
    return name


def _text(value: Any, write: Callable[[Any], str]) -> str:
    try:
        text = write(value)
    except BaseException:  # a value of the learner's own that can't be printed
        text = f"<{type(value).__name__}>"
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def _shown(value: Any, digits: str = ".6g") -> str:
    def inside(values: Iterable[Any]) -> str:
        return ", ".join(_shown(one, digits) for one in values)

    if type(value) is float:
        return format(value + 0.0, digits)  # adding 0.0 turns -0.0 into 0.0
    if type(value) is list:
        return f"[{inside(value)}]"
    if type(value) is tuple:
        return f"({inside(value)}{',' * (len(value) == 1)})"
    if type(value) is dict:
        pairs = (f"{inside([key])}: {inside([item])}" for key, item in value.items())
        return f"{{{', '.join(pairs)}}}"
    return excerpt(value)


def _in_full(value: Any) -> str:
    return _shown(value, "")


def described(error: BaseException, file: str) -> str:
    """An exception: its type, the last line of this file that it came through, its text."""
    frames = traceback.walk_tb(error.__traceback__)
    lines = [line for frame, line in frames if frame.f_code.co_filename == file]
    where = f" in line {lines[-1]}" if lines else ""
    try:
        text = " ".join(str(error).split())
    except BaseException:  # an exception of the learner's own
        text = ""
    return f"{type(error).__name__}{where}" + (f": {text:.200}" if text else "")


def slope(value: Callable[[float], float], at: float, step: float = 1e-5) -> float:
    """The derivative of a function of one number, by central difference."""
    return (value(at + step) - value(at - step)) / (2 * step)
