"""What a program owes the terminal: a progress line, quiet pipes, a clean Ctrl-C."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress


def run(main: Callable[[], int | None], alone: str | None = None) -> None:
    """Run a program's ``main`` and exit with its status.

    ``alone`` is the docstring of a program that takes no arguments: --help prints it, and
    anything else is refused before the program does something else than was asked for.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # what can't be encoded is escaped
            stream.reconfigure(errors="backslashreplace")
    try:
        told = None if alone is None else told_apart(sys.argv[1:], alone)
        status = (main() or 0) if told is None else told
        flush()
    except BrokenPipeError:  # the reader, head for example, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    except OSError as error:  # a full disk
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"can't write: {error.strerror}", file=sys.stderr)
        status = 1
    except KeyboardInterrupt:
        status = 130
    raise SystemExit(status)


def told_apart(arguments: list[str], docstring: str) -> int | None:
    """The exit status of a program that was given arguments and takes none, or None."""
    if not arguments:
        return None
    if set(arguments) <= {"-h", "--help"}:
        print(docstring.strip())
        return 0
    complain(f"{arguments[0]!r}: this program takes no arguments")
    return 2


def program() -> str:
    """How this program was started, for the commands that it names."""
    installed = os.path.basename(sys.argv[0]).startswith("agentic-rl")
    return "agentic-rl" if installed else "python3 -m agentic_rl"


COLOURS = {"bold": "1", "green": "32", "red": "31", "yellow": "33"}


def has_colour() -> bool:
    """Whether standard output is a terminal that wants colour; see no-color.org."""
    unwanted = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    old_console = os.name == "nt" and "WT_SESSION" not in os.environ
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    return is_terminal and not (unwanted or old_console)


def paint(text: str, colour: str) -> str:
    """The text in one of COLOURS, where there is colour."""
    return f"\x1b[{COLOURS[colour]}m{text}\x1b[0m" if has_colour() else text


def flush() -> None:
    """Let standard output catch up; there is none where the caller has closed it."""
    if sys.stdout is not None:
        sys.stdout.flush()


def complain(text: str) -> None:
    """Say something on standard error, if anybody listens there."""
    if sys.stderr is not None:
        with suppress(OSError):
            print(text, file=sys.stderr, flush=True)


def encoding() -> str:
    """What standard output can hold."""
    return getattr(sys.stdout, "encoding", None) or "ascii"


class Progress:
    """One line on a terminal that is written over; nothing anywhere else.

    It goes to standard error, so what a program prints is the same with and without it.
    """

    def __init__(self) -> None:
        self.shown = sys.stderr is not None and sys.stderr.isatty()

    def show(self, text: str) -> None:
        """Replace the line."""
        if self.shown:
            with suppress(OSError):
                sys.stderr.write(f"\r\x1b[K{text}")
                sys.stderr.flush()

    def clear(self) -> None:
        """Take the line away."""
        self.show("")


def bar(done: int, total: int, width: int = 30) -> str:
    """A text bar: done and to come."""
    filled = width * done // total
    return "#" * filled + "." * (width - filled)
