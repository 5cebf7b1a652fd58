"""Pyodide: CPython as WebAssembly, installed from npm into a cache folder.

The folder is named after the lock file's hash and lies outside the checkout.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent / "wasm"
sys.path.insert(0, str(HERE.parents[1] / "scripts"))

from environments import DONE, cache_folder

FILES = ("package.json", "package-lock.json")


def command() -> tuple[str, ...]:
    """The command that runs a program; installs what it needs. Raises RuntimeError."""
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        raise RuntimeError("node and npm are needed to run Pyodide")
    return node, str(HERE / "run.mjs"), str(installed() / "node_modules" / "pyodide")


def installed() -> Path:
    """The cache folder, filled once for each lock file."""
    folder = cache_folder("pyodide", HERE / "package-lock.json")
    done = folder / DONE
    if not done.exists():
        folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            shutil.copy(HERE / name, folder / name)
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=folder, check=True)
        done.touch()
    return folder
