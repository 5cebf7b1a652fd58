"""What several tests need: the command line, run in this process."""

from __future__ import annotations

import contextlib
import io
import tempfile
import unittest
from pathlib import Path
from typing import NamedTuple

from agentic_rl import cli


class InFolder(unittest.TestCase):
    """Each test has a folder of its own, which is gone afterwards."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)


class Done(NamedTuple):
    """What a command left behind."""

    status: int
    out: str
    err: str


def command(*arguments: object) -> Done:
    """``python3 -m agentic_rl`` with these arguments, neither end a terminal."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = cli.main([str(argument) for argument in arguments])
    return Done(status, out.getvalue(), err.getvalue())
