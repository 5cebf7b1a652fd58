"""Valid inputs, broken in many ways: nothing may crash, hang or be changed silently.

    python3 checks/fuzz.py                  the same inputs every time
    python3 checks/fuzz.py --seed 7         other inputs
    python3 checks/fuzz.py --examples 5000  fewer, or more

Each property holds one part of the core against a second reading of the same input; see
fuzzing/__init__.py. One line a property: how many different mutated inputs it met, and
what became of all its inputs. A failure shows the smallest input that was found. Without
``--examples``, fewer than 100,000 mutated inputs in all are a failure too, and so is a
property that never met one of the outcomes it names.

Needs hypothesis, and runs itself again in the environment that has it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

import environments
from verdicts import Verdicts

from agentic_rl.cli.terminal import run

EXAMPLES = 200_000
LEAST = 100_000  # different mutated inputs
SHOWN = 2000  # characters of an input that is printed


def options(words: list[str]) -> dict[str, int]:
    """{"--seed": ..., "--examples": ...} from the command line. Raises ValueError."""
    chosen = {"--seed": 0, "--examples": EXAMPLES}
    for name, value in zip(words[::2], [*words[1::2], ""]):
        if name not in chosen:
            raise ValueError(f"{name!r}: expected --seed N or --examples N")
        if not (value.isascii() and value.isdecimal() and 1 <= len(value) <= 18):
            raise ValueError(f"{name}: expected a whole number, got {value!r}")
        chosen[name] = int(value)
    return chosen


def in_environment() -> bool:
    """Whether this Python has hypothesis, and the same hashes every time."""
    folder = Path(environments.python("checks")).parents[1]
    return Path(sys.prefix) == folder and os.environ.get("PYTHONHASHSEED") == "0"


def main() -> int:
    try:
        chosen = options(sys.argv[1:])
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if not in_environment():
        program = environments.python("checks")
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(program, [program, str(Path(__file__).resolve()), *sys.argv[1:]])
    cache = environments.cache_folder("hypothesis", environments.LOCKS["checks"])
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(cache)
    return fuzz(chosen["--examples"], chosen["--seed"])


def fuzz(examples: int, number: int) -> int:
    """Run every property and print what it found."""
    from fuzzing import engine, records, texts  # noqa: F401  (they register properties)

    full, total, verdicts = examples == EXAMPLES, 0, Verdicts()
    for found in engine.run(examples, number):
        total += found.mutated
        counts = ", ".join(f"{count:,} {outcome}" for outcome, count in found.outcomes)
        problems = [f"no input came out as {name!r}" for name in found.missing if full]
        if found.problem:
            problems = [
                cut(" ".join(found.problem.split())),
                f"seed {number}, input {cut(str(found.input))}",
            ]
        verdicts.add(f"{found.name}: {found.mutated:,} mutated; {counts}", problems)
    few = full and total < LEAST
    verdicts.add(
        f"{total:,} different mutated inputs in all",
        [f"expected at least {LEAST:,}"] if few else [],
    )
    return verdicts.close()


def cut(text: str) -> str:
    """The text, and only its beginning and end if it is long."""
    if len(text) <= SHOWN:
        return text
    half = SHOWN // 2
    return f"{text[:half]} ... {len(text) - 2 * half} more ... {text[-half:]}"


if __name__ == "__main__":
    run(main)
