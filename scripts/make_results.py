"""Compute the results that ship in agentic_rl/data/, or check that they still hold.

    python3 scripts/make_results.py            write results, variants, ascents
    python3 scripts/make_results.py --check    compute again, compare, exit 1 if they differ

Numbers are compared to 5 decimals: two machines may differ in the last digits of exp().
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from agentic_rl.cli.storage import DATA, load
from agentic_rl.cli.terminal import run
from agentic_rl.evaluation import answer_sheets, compute_results, training_tasks
from agentic_rl.variants import compute_ascents, compute_variants


def compute() -> dict[str, Any]:
    """file name -> its contents."""
    tasks = training_tasks()
    return {
        "results.json": compute_results(),
        "variants.json": compute_variants(tasks, answer_sheets(tasks)),
        "ascents.json": compute_ascents(tasks),
    }


def differences(expected: Any, found: Any, where: str) -> list[str]:
    """Where two results differ, in words."""
    if isinstance(expected, dict) and isinstance(found, dict):
        keys = dict.fromkeys([*expected, *found])
        pairs = [
            (expected.get(key), found.get(key), f"{where} > {key}") for key in keys
        ]
    elif (
        isinstance(expected, list)
        and isinstance(found, list)
        and len(expected) == len(found)
    ):
        pairs = [
            (a, b, f"{where} > {i}") for i, (a, b) in enumerate(zip(expected, found))
        ]
    else:
        numbers = isinstance(expected, (int, float)) and isinstance(found, (int, float))
        same = abs(expected - found) < 1e-5 if numbers else expected == found
        return [] if same else [f"{where}: stored {found}, computed {expected}"]
    return [line for pair in pairs for line in differences(*pair)]


def main() -> int:
    found = []
    for name, computed in compute().items():
        if "--check" in sys.argv:
            found += differences(computed, load(name), name)
        else:
            (DATA / name).write_text(
                json.dumps(computed, indent=1) + "\n", encoding="utf-8"
            )
            print(f"wrote {name}")
    print("\n".join(found) if found else "results are up to date")
    return 1 if found else 0


if __name__ == "__main__":
    run(main)
