"""Formatter, linter and type checker, pinned, over the whole project; and the workflow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

from environments import python
from verdicts import Verdicts

TOOLS = {
    "formatter": ("ruff", "format", "--check", "."),
    "linter": ("ruff", "check", "--output-format", "concise", "."),
    "types": ("mypy",),
    "workflow": (
        *("check_jsonschema", "--builtin-schema", "vendor.github-workflows"),
        ".github/workflows/tests.yml",
    ),
}


def main() -> int:
    interpreter, verdicts = python("checks"), Verdicts()
    for name, words in TOOLS.items():
        done = subprocess.run(
            [interpreter, "-m", *words], cwd=ROOT, capture_output=True, text=True
        )
        said = (done.stdout + done.stderr).splitlines()
        ended = f"exit status {done.returncode}"
        verdicts.add(f"{name}: {words[0]}", [*said, ended] if done.returncode else [])
    return verdicts.close()


if __name__ == "__main__":
    raise SystemExit(main())
