"""What the printed runs rest on, checked on the whole of them.

    python3 checks/printed_runs.py

Runs the tour, the chapter scripts, the examples of the pages in docs/ and the cells of
the notebooks in this process and checks that

- every page of a program is ASCII, at most 80 columns wide, and shows no negative zero
  (the tests hold the same of docs and notebooks, as they lie in the repository);
- where there are draws, none landed within 1e-9 of a boundary between two actions, so
  that a last digit of exp() that differs on another machine can't flip an action of a
  printed run.
"""

from __future__ import annotations

import doctest
import json
import os
import re
import runpy
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from build_notebooks import ENVIRONMENTS
from environments import enter
from verdicts import Verdicts

from agentic_rl import policy
from agentic_rl.cli import tour
from tests.pages import code_blocks, printed, read

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

    def __str__(self) -> str:
        return f"{self.count} draws, nearest {self.nearest:.2g}"

    def close(self) -> list[str]:
        """What is wrong with the draws since the last time; starts to count again."""
        near = self.nearest <= MARGIN
        self.count, self.nearest = 0, 1.0
        return [f"expected none within {MARGIN:g}"] if near else []


def programs() -> Iterator[tuple[str, Callable[[], object]]]:
    """(name, main) of each program whose page is printed in a terminal."""
    yield "tour", tour.main
    for script in SCRIPTS:
        yield script, runpy.run_path(str(ROOT / script))["main"]


def readings() -> Iterator[tuple[str, Callable[[], object]]]:
    """(name, what runs it) of each page of docs/ and each notebook.

    Both languages have the same code, which the tests hold; one of them is run.
    """
    for path in sorted((ROOT / "docs" / "en").glob("*.md")):
        yield f"docs/en/{path.name}", partial(run_examples, path)
    for path in sorted((ROOT / "examples").glob("*/*.en.ipynb")):
        if path.parent.name not in ENVIRONMENTS:  # those draw with torch
            yield path.name, partial(run_cells, path)


def run_examples(path: Path) -> None:
    """Carry out a page's examples; the tests compare what they print."""
    session = "\n".join(code_blocks(read(path)))
    examples = doctest.DocTestParser().get_doctest(session, {}, path.name, None, 0)
    doctest.DocTestRunner(verbose=False).run(examples, out=lambda text: None)


def run_cells(path: Path) -> None:
    """Carry out a notebook's code in its folder."""
    os.chdir(path.parent)
    names: dict[str, object] = {}
    for cell in json.loads(read(path))["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)


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
    policy.pick = draws
    for name, program in programs():
        page = printed(program)
        lines = len(page.splitlines())
        verdicts.add(f"{name}: {lines} lines, {draws}", problems(page) + draws.close())
    for name, reading in readings():
        printed(reading)
        if draws.count:
            verdicts.add(f"{name}: {draws}", draws.close())
    return verdicts.close()


if __name__ == "__main__":
    enter("notebooks")
    raise SystemExit(main())
