"""Arguments of a command: declared once, read, and explained by ``--help``.

Python's own argparse words its help and its errors differently from version to version;
these are the same everywhere.
"""

from __future__ import annotations

import difflib
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from agentic_rl.cli.render import WIDTH
from agentic_rl.values import is_finite

Values = dict[str, Any]  # option or operand -> what was given, or its default

_GLUE = "\0"  # stands between an option and its value while lines are folded
_NEGATIVE_NUMBER = re.compile(r"-\.?[0-9]")


class UsageError(ValueError):
    """Arguments that can't be used; the text names one and says what was expected."""


class Option(NamedTuple):
    """``--name VALUE``; without ``read`` it is a switch, which takes no value.

    read        text -> value; a ValueError of it says what was expected
    repeated    may be given more than once: the value is a list
    """

    name: str
    about: str
    read: Callable[[str], Any] | None = None
    value: str = ""
    default: Any = None
    repeated: bool = False

    @property
    def key(self) -> str:
        """Its name among the values."""
        return self.name.lstrip("-").replace("-", "_")


class Operand(NamedTuple):
    """Arguments without a dash, at least ``least`` and at most ``most`` of them."""

    name: str
    about: str
    least: int = 1
    most: int = 1


@dataclass(frozen=True)
class Command:
    """One command: what it does, what it takes, and examples that can be run."""

    name: str
    about: str
    details: str
    run: Callable[[Values], int]
    operand: Operand | None = None
    options: tuple[Option, ...] = ()
    examples: tuple[tuple[str, str], ...] = ()


# ------------------------------------------------------------------ reading


def read_arguments(command: Command, arguments: Sequence[str]) -> Values:
    """The values of a command line. Raises UsageError."""
    known = {option.name: option for option in command.options}
    given: Values = {}
    operands: list[str] = []
    waiting = list(arguments)
    while waiting:
        argument = waiting.pop(0)
        if argument == "--":
            operands += waiting
            break
        is_operand = argument == "-" or _NEGATIVE_NUMBER.match(argument)
        if is_operand or not argument.startswith("-"):
            operands.append(argument)
            continue
        name, equals, text = argument.partition("=")
        option = known.get(name)
        if option is None:
            names = [*known, "--help"]
            raise UsageError(unknown(name, names, "option", command.name))
        if option.read is None:
            if equals:
                raise UsageError(f"{name}: takes no value, got {text!r}")
            value: Any = True
        else:
            if not equals and not waiting:
                raise UsageError(f"{name}: expected {option.value} after it")
            value = _value(option, text if equals else waiting.pop(0))
        _keep(given, option, value)
    values = {option.key: _default(option) for option in command.options}
    operands = _operands(command, operands)
    return {**values, **given, "operands": operands, "given": set(given)}


def _value(option: Option, text: str) -> Any:
    assert option.read is not None
    try:
        return option.read(text)
    except ValueError as error:
        raise UsageError(f"{option.name}: {error}") from None


def _default(option: Option) -> Any:
    if option.repeated:
        return []
    return False if option.read is None else option.default


def _keep(given: Values, option: Option, value: Any) -> None:
    if option.repeated:
        given.setdefault(option.key, []).append(value)
    elif option.key in given:
        raise UsageError(f"{option.name}: given twice")
    else:
        given[option.key] = value


def _operands(command: Command, operands: list[str]) -> list[str]:
    if "" in operands:
        raise UsageError("expected no empty argument")
    takes = command.operand or Operand("", "", 0, 0)
    if len(operands) < takes.least:
        raise UsageError(f"expected {takes.name}: {takes.about}")
    if len(operands) > takes.most:
        raise UsageError(f"unknown argument {operands[takes.most]!r}")
    return operands


def unknown(name: str, known: Iterable[str], what: str, of: str) -> str:
    """An error text that names the nearest of what is known."""
    near = difflib.get_close_matches(name, list(known), n=1)
    hint = f"; did you mean {near[0]!r}?" if near else f"; see {of} --help"
    return f"unknown {what} {name!r}{hint}"


# ------------------------------------------------------------------ what a value may be


def whole(least: int) -> Callable[[str], int]:
    """A reader of whole numbers."""

    def read(text: str) -> int:
        is_whole = re.fullmatch(r"[0-9]{1,18}", text) is not None
        if not is_whole or int(text) < least:
            raise ValueError(f"expected a whole number, at least {least}, got {text!r}")
        return int(text)

    return read


def number(text: str) -> float:
    """A finite number."""
    is_number = re.fullmatch(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?", text)
    if is_number is None or not is_finite(float(text)):
        raise ValueError(f"expected a number, got {text!r}")
    return float(text)


def positive(text: str) -> float:
    """A number above 0."""
    value = number(text)
    if value <= 0:
        raise ValueError(f"expected a number above 0, got {text!r}")
    return value


def text(given: str) -> str:
    """Anything but nothing."""
    if not given:
        raise ValueError("expected something, got an empty text")
    return given


def one_of(*choices: str) -> Callable[[str], str]:
    """A reader of some words."""

    def read(text: str) -> str:
        if text not in choices:
            raise ValueError(f"expected one of {', '.join(choices)}, got {text!r}")
        return text

    return read


# ------------------------------------------------------------------ explaining


def help_text(program: str, command: Command) -> str:
    """What ``--help`` prints; {program} in the examples is how it was started."""
    operand = f" {_shown(command.operand)}" if command.operand else ""
    lines = [f"usage: {program} {command.name}{operand} [options]", ""]
    for number, paragraph in enumerate(command.details.split("\n\n")):
        lines += [""] * bool(number) + textwrap.wrap(paragraph, WIDTH)
    if command.operand:
        lines += ["", *_entry(command.operand.name, command.operand.about)]
    lines += ["", "options"]
    for option in command.options:
        default = "" if option.default is None else f" ({option.default})"
        name = f"{option.name} {option.value}".rstrip()
        lines += _entry(name, option.about + default)
    lines += _entry("--help", "print this text")
    lines += ["", "examples"]
    for example, about in command.examples:
        lines += [*_folded_command(f"{program} {example}"), f"      {about}"]
    return "\n".join(lines) + "\n"


def _shown(operand: Operand) -> str:
    name = operand.name if operand.least else f"[{operand.name}]"
    return name if operand.most == 1 else f"{name} ..."


def _entry(name: str, about: str) -> list[str]:
    indent = 26
    label = f"  {name:<{indent - 2}}"
    if len(name) > indent - 4:
        return [f"  {name}", *_folded(" " * indent, about)]
    return _folded(label, about)


def _folded_command(command: str) -> list[str]:
    """A command over several lines, as a shell takes it."""
    lines = textwrap.wrap(
        re.sub(r"(--[a-z-]+) (?!-)", rf"\1{_GLUE}", command),
        WIDTH - 2,
        initial_indent="  ",
        subsequent_indent="    ",
        break_on_hyphens=False,
        break_long_words=False,
    )
    whole = [line.replace(_GLUE, " ") for line in lines]
    return [line + " \\" for line in whole[:-1]] + whole[-1:]


def _folded(label: str, about: str) -> list[str]:
    return textwrap.wrap(
        about,
        WIDTH,
        initial_indent=label,
        subsequent_indent=" " * len(label),
        break_on_hyphens=False,
        break_long_words=False,
    )
