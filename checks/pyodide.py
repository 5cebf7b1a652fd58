"""Pyodide: CPython as WebAssembly, installed from npm into a cache folder."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent / "wasm"
sys.path.insert(0, str(HERE.parents[1] / "scripts"))

from environments import node_modules


def command() -> tuple[str, ...]:
    """The command that runs a program; installs what it needs. Raises RuntimeError."""
    packages = node_modules("pyodide", HERE) / "node_modules" / "pyodide"
    return str(shutil.which("node")), str(HERE / "run.mjs"), str(packages)
