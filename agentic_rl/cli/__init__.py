"""The command line. Each command is one file; without one, the tour is shown."""

from __future__ import annotations

import sys

from agentic_rl import __version__
from agentic_rl.cli import tour

COMMANDS = {"tour": tour.main}
USAGE = """\
usage: python3 -m agentic_rl [tour]

  tour        the whole line once: agent loop -> trajectory -> reward ->
              advantage -> policy update, then the closed loop (the default)
  --version   print the version
  --help      print this text
"""


def main() -> int:
    """Run the command that the arguments name; the exit status."""
    arguments = sys.argv[1:]
    if arguments in (["--help"], ["-h"]):
        print(USAGE, end="")
        return 0
    if arguments == ["--version"]:
        print(f"agentic_rl {__version__}")
        return 0
    name = arguments[0] if arguments else "tour"
    if name not in COMMANDS or len(arguments) > 1:
        unknown = arguments[1] if name in COMMANDS else name
        print(f"unknown argument {unknown!r}\n{USAGE}", end="", file=sys.stderr)
        return 2
    return COMMANDS[name]()
