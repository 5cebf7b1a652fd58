"""The Pythons at hand: this one, those on PATH, those of pyenv."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

MINORS = range(6, 15)  # of Python 3, which are looked for
SECONDS = 60  # after which a command is no Python
ASK = "import sys; print(sys.implementation.name, *sys.version_info[:2])"
Version = tuple[int, int]


def cpythons() -> dict[Version, str]:
    """A command for each minor version, this Python first."""
    found: dict[Version, str] = {}
    for command in candidates():
        version = version_of(command)
        if version and version[0] == 3 and version[1] in MINORS:
            found.setdefault(version, command)
    return found


def candidates() -> Iterator[str]:
    """Commands that may be a Python."""
    yield sys.executable
    for folder in os.get_exec_path():
        for minor in MINORS:
            command = Path(folder) / f"python3.{minor}"
            if command.is_file():
                yield str(command)
    roots = (os.environ.get("PYENV_ROOT"), "~/.pyenv")
    for root in filter(None, roots):
        home = Path(os.path.expanduser(root))
        for command in sorted(home.glob("versions/*/bin/python")):
            yield str(command)


def version_of(command: str) -> Version | None:
    """(major, minor) of a CPython that really starts; a shim may not, then None."""
    try:
        done = subprocess.run(
            [command, "-c", ASK], capture_output=True, text=True, timeout=SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    words = done.stdout.split()
    if done.returncode or len(words) != 3 or words[0] != "cpython":
        return None
    return int(words[1]), int(words[2])
