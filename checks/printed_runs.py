"""What the printed runs rest on, checked on the whole of them.

    python3 checks/printed_runs.py

Runs the tour and the chapter scripts in this process and checks that

- every page is ASCII, at most 80 columns wide, and shows no negative zero;
- no draw landed within 1e-9 of a boundary between two actions, so that a last digit of
  exp() that differs on another machine can't flip an action of a printed run.
"""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from verdicts import Verdicts

from agentic_rl import policy
from agentic_rl.cli import tour
from agentic_rl.cli.terminal import run

MARGIN = 1e-9
SCRIPTS = (
    "examples/00_toy_mdp/toy_policy_update.py",
    "examples/01_tool_math_agent/tool_math_agent.py",
    "examples/02_grpo_tool_agent/grpo_tool_agent.py",
)


class Draws:
    """``policy.pick``, which also keeps how near a draw came to a boundary."""

    def __init__(self) -> None:
        self.pick = policy.pick
        self.nearest = 1.0
        self.count = 0

    def __call__(self, probabilities: Sequence[float], draw: float) -> int:
        self.count += 1
        reached = 0.0
        for probability in probabilities[:-1]:
            reached += probability
            self.nearest = min(self.nearest, abs(draw - reached))
        return self.pick(probabilities, draw)


def pages(draws: Draws) -> Iterator[tuple[str, str]]:
    """(name, what it prints) of each printed run."""
    policy.pick = draws
    yield "tour", printed(tour.main)
    for script in SCRIPTS:
        module = runpy.run_path(str(ROOT / script))
        yield script, printed(module["main"])


def printed(main: Callable[[], object]) -> str:
    """What a program's main prints."""
    with contextlib.redirect_stdout(io.StringIO()) as page:
        main()
    return page.getvalue()


def problems(page: str) -> list[str]:
    """What is wrong with a page, in words."""
    found = []
    for number, line in enumerate(page.splitlines(), 1):
        if not line.isascii():
            found.append(f"line {number} is not ASCII")
        if len(line) > 80:
            found.append(f"line {number} has {len(line)} columns")
        if re.search(r"-0\.0+(?!\d)", line):
            found.append(f"line {number} shows a negative zero")
    return found


def main() -> int:
    draws, verdicts = Draws(), Verdicts()
    for name, page in pages(draws):
        verdicts.add(f"{name}: {len(page.splitlines())} lines", problems(page))
    close = draws.nearest <= MARGIN or draws.count == 0
    verdicts.add(
        f"{draws.count} draws, nearest {draws.nearest:.2g}",
        [f"expected some, and none within {MARGIN:g}"] if close else [],
    )
    return verdicts.close()


if __name__ == "__main__":
    run(main)
