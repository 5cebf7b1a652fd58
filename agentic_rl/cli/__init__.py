"""The command line. Each command is one file; without one, the tour is shown."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from agentic_rl import __version__
from agentic_rl.cli import check, compare, conventions, evaluate, lab, show, tour, train
from agentic_rl.cli.arguments import (
    Command,
    UsageError,
    help_text,
    read_arguments,
    unknown,
)
from agentic_rl.cli.storage import FileError
from agentic_rl.cli.terminal import complain, program, run

COMMANDS: dict[str, Command] = {
    module.COMMAND.name: module.COMMAND
    for module in (tour, train, evaluate, show, compare, conventions, check, lab)
}


def usage() -> str:
    """What ``--help`` without a command prints."""
    lines = [f"usage: {program()} [command] [arguments]", ""]
    lines += [f"  {c.name:<14}{c.about}" for c in COMMANDS.values()]
    lines += [
        "",
        "  --version     print the version",
        "  --help        print this text",
    ]
    return "\n".join([*lines, "", f"{program()} COMMAND --help explains one."]) + "\n"


def main(given: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name; the exit status."""
    name, *arguments = (sys.argv[1:] if given is None else given) or ["tour"]
    if name in ("--help", "-h", "help") and not arguments:
        print(usage(), end="")
        return 0
    if name == "--version" and not arguments:
        print(f"agentic_rl {__version__}")
        return 0
    if name not in COMMANDS:
        return refused(unknown(name, COMMANDS, "argument", program()))
    command = COMMANDS[name]
    if {"--help", "-h"} & set(arguments):
        print(help_text(program(), command), end="")
        return 0
    try:
        return command.run(read_arguments(command, arguments))
    except UsageError as error:
        return refused(f"{name}: {error}")
    except FileError as error:
        return refused(str(error))


def refused(problem: str) -> int:
    """Say on standard error what could not be used; the exit status for that."""
    complain(f"error: {problem}")
    return 2


def entry() -> None:
    """The installed command, ``agentic-rl``."""
    run(main)
