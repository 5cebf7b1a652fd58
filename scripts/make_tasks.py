"""Make the tasks that ship in agentic_rl/data/, or check that they still are what it makes.

python3 scripts/make_tasks.py            write train.jsonl and held_out.jsonl
python3 scripts/make_tasks.py --check    make them again, compare, exit 1 if they differ
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from agentic_rl.cli.storage import HELD_OUT, TRAINING, write
from agentic_rl.tasks import generate, write_tasks

TRAINING_COUNT, HELD_OUT_COUNT = 50, 30  # of each kind; there are 81 easy questions
SEED = 2026


def make() -> dict[Path, str]:
    """file -> its text. No question is in both."""
    training = generate(TRAINING_COUNT, SEED, prefix="train-")
    held_out = generate(HELD_OUT_COUNT, SEED + 1, avoid=training, prefix="held-out-")
    return {TRAINING: write_tasks(training), HELD_OUT: write_tasks(held_out)}


def main() -> int:
    if unknown := [word for word in sys.argv[1:] if word != "--check"]:
        print(f"{unknown[0]!r}: expected --check", file=sys.stderr)
        return 2
    stale = []
    for path, text in make().items():
        if "--check" not in sys.argv:
            write(path, text)
            print(f"wrote {path.name}")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(path.name)
    print("\n".join(f"{name}: not what this makes" for name in stale) or "up to date")
    return 1 if stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
