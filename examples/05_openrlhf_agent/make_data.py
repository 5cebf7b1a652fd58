"""The course's tasks as JSON lines that OpenRLHF's PromptDataset reads.

    python3 examples/05_openrlhf_agent/make_data.py FOLDER [--system]

Writes FOLDER/train.jsonl and FOLDER/held_out.jsonl. ``--system`` puts a first message in
front that tells a model of its tools, which OpenRLHF does not do.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from agentic_rl.bridges.openrlhf import rows
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


def main() -> int:
    words = [word for word in sys.argv[1:] if word != "--system"]
    if len(words) != 1:
        print("expected one folder, and perhaps --system", file=sys.stderr)
        return 2
    folder, told = Path(words[0]), system() if "--system" in sys.argv else None
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "train.jsonl", TRAIN, told)
    write(folder / "held_out.jsonl", HELD_OUT, told)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
