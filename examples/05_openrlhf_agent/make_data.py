"""The course's tasks as JSON lines that OpenRLHF's PromptDataset reads.

    python3 examples/05_openrlhf_agent/make_data.py FOLDER [--system]

Writes FOLDER/train.jsonl and FOLDER/held_out.jsonl. ``--system`` puts a first message in
front that tells a model of its tools, which OpenRLHF does not do.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from agentic_rl.bridges.openrlhf import rows
from agentic_rl.cli.terminal import run
from agentic_rl.tasks import Task, generate
from agentic_rl.tool_math import CALCULATOR, lookup_tool

TRAIN = generate(20, seed=5)
HELD_OUT = generate(10, seed=6, avoid=TRAIN, prefix="held-out-")


def system() -> str:
    """What a model is told of the tools: their schemas, and the form of a call."""
    schemas = [tool.schema() for tool in (CALCULATOR, lookup_tool({}))]
    listed = "\n".join(json.dumps(schema) for schema in schemas)
    return (
        f"You may call these tools:\n{listed}\n"
        'Write a call as <tool_call>{"name": ..., "arguments": {...}}</tool_call> and '
        'wait for its result. End with "Answer: " and the number.'
    )


def write(path: Path, tasks: Iterable[Task], told: str | None) -> None:
    """One row a line."""
    lines = [json.dumps(row) + "\n" for row in rows(tasks, told)]
    path.write_text("".join(lines), encoding="utf-8")
    print(f"wrote {path.name}: {len(lines)} rows")


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path, help="where the two files go")
    parser.add_argument("--system", action="store_true", help="tell of the tools first")
    return parser.parse_args()


def main() -> None:
    chosen = options()
    told = system() if chosen.system else None
    chosen.folder.mkdir(parents=True, exist_ok=True)
    write(chosen.folder / "train.jsonl", TRAIN, told)
    write(chosen.folder / "held_out.jsonl", HELD_OUT, told)


if __name__ == "__main__":
    run(main)
