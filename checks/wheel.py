"""The package, built as a wheel and installed into an environment that has nothing else.

Both are made in a scratch folder. The installed command must do what the checkout does,
from a folder where the checkout is out of sight; and a strict type checker must find the
package's types.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

from environments import python
from verdicts import Verdicts

EXTRAS = ("trl", "verl", "openrlhf", "agent-lightning")
FOLDER = "Scripts" if os.name == "nt" else "bin"
TYPED = """\
from agentic_rl.grpo import Config, State, train
from agentic_rl.tasks import Task, generate

tasks: list[Task] = generate(2, seed=0)
state: State = train(tasks, Config(updates=1))
rate: float = state.metrics[0]["reward"]
"""
UNTYPED = TYPED + 'wrong: int = state.policy.log_prob("easy/start", "call_lookup")\n'


class Failed(Exception):
    """A command that ended with another status than 0; what it said."""


def run(*command: str | Path, cwd: Path, **added: str) -> str:
    """What a command prints. Raises Failed."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**kept, **added},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise Failed(f"{command[0]} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def build(scratch: Path) -> Path:
    """A source distribution, and the wheel that is built from it."""
    builder: list[str | Path] = [python("checks"), "-m", "build", "--no-isolation"]
    run(*builder, "--outdir", scratch / "dist", ROOT, cwd=scratch)
    return next((scratch / "dist").glob("*.whl"))


def install(wheel: Path, scratch: Path) -> Path:
    """The folder of the commands of a new environment with only this wheel in it."""
    venv.create(scratch / "empty", with_pip=True)
    commands = scratch / "empty" / FOLDER
    pip: list[str | Path] = [commands / "python", "-m", "pip"]
    quiet = "--disable-pip-version-check"
    run(*pip, quiet, "install", "--no-index", wheel, cwd=scratch)
    return commands


# ------------------------------------------------------------------ what must hold


def contents(wheel: Path) -> Iterator[str]:
    """Problems with what is in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    package = ROOT / "agentic_rl"
    expected = {
        path.relative_to(ROOT).as_posix()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    for name in sorted(expected - names):
        yield f"{name} is missing"
    for name in sorted(names - expected):
        if ".dist-info/" not in name:
            yield f"{name} does not belong there"


def metadata(commands: Path, scratch: Path) -> Iterator[str]:
    """Problems with what the installed package says of itself."""
    ask = (
        "from importlib.metadata import metadata, version, requires\n"
        "from agentic_rl import __version__\n"
        "name = 'agentic-rl-from-scratch'\n"
        "print(version(name) == __version__, *metadata(name).get_all('Provides-Extra'))\n"
        "print(*(line for line in requires(name) if 'extra ==' not in line))\n"
    )
    first, needs = run(commands / "python", "-c", ask, cwd=scratch).splitlines()
    if first.split() != ["True", *sorted(EXTRAS)]:
        yield f"expected the version and its extras, got {first}"
    if needs:
        yield f"expected no requirement, got {needs}"


def command(commands: Path, scratch: Path) -> Iterator[str]:
    """Problems with the installed command, compared with the checkout."""
    program = commands / "agentic-rl"
    tour = run(sys.executable, "-m", "agentic_rl", cwd=ROOT)
    if run(program, cwd=scratch) != tour:
        yield "the tour differs from the checkout's"
    if "usage: agentic-rl" not in run(program, "--help", cwd=scratch):
        yield "--help does not call itself agentic-rl"
    run(program, "train", "--steps", "5", "--out", "run", cwd=scratch)
    for words in (
        ("train", "--resume", "run", "--steps", "10"),
        ("evaluate", "run"),
        ("show", "run/trajectories.jsonl", "--line", "1"),
        ("compare", "run", "run"),
        ("conventions", "1", "0"),
    ):
        if not run(program, *words, cwd=scratch):
            yield f"{words[0]} printed nothing"


def types(commands: Path, scratch: Path) -> Iterator[str]:
    """Problems with what a type checker sees in the installed package."""
    checker = [python("checks"), "-m", "mypy", "--strict", "--cache-dir", os.devnull]
    checker += ["--python-executable", str(commands / "python")]
    (scratch / "typed.py").write_text(TYPED)
    (scratch / "untyped.py").write_text(UNTYPED)
    run(*checker, "typed.py", cwd=scratch)
    try:
        run(*checker, "untyped.py", cwd=scratch)
    except Failed:
        return
    yield "a wrong type was not seen"


def main() -> int:
    verdicts = Verdicts()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        wheel = build(scratch)
        verdicts.add(f"contents of {wheel.name}", list(contents(wheel)))
        commands = install(wheel, scratch)
        for check in (metadata, command, types):
            try:
                problems = list(check(commands, scratch))
            except Failed as failure:
                problems = str(failure).splitlines()
            verdicts.add(f"installed alone: {check.__name__}", problems)
    return verdicts.close()


if __name__ == "__main__":
    raise SystemExit(main())
