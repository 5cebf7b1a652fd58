"""Environments for what needs more than the standard library, each made once.

    python3 scripts/environments.py            make them all
    python3 scripts/environments.py checks     make the named ones

A virtual environment lives in a cache folder outside the checkout, named after its lock
file's hash and this Python's version. It counts only once it is complete: one that was
interrupted is gone on with at the next call.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

from pythons import cpythons

LOCKS = {
    "checks": ROOT / "checks" / "requirements.txt",
    "notebooks": ROOT / "requirements.txt",
    "peers": ROOT / "benchmarks" / "requirements.txt",
    "trl": ROOT / "requirements-optional.txt",
    "verl": ROOT / "requirements-verl.txt",
    "openrlhf": ROOT / "requirements-openrlhf.txt",
    "agent_lightning": ROOT / "requirements-agent-lightning.txt",
}
OLDEST = {  # the Python that a framework needs
    "trl": (3, 11),
    "verl": (3, 11),
    "openrlhf": (3, 11),
    "agent_lightning": (3, 12),
}
# What a framework asks for and a CPU can't have: another kind of pip's own checks.
FLAGS = {
    "verl": ("--no-deps", "--ignore-requires-python"),
    "openrlhf": ("--no-deps",),
}
DONE = "installed"  # the file that says that a folder is complete


def cache_folder(name: str, lock: Path) -> Path:
    """Where what a lock file pins is kept: outside the checkout, keyed by its contents."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    key = hashlib.sha256(lock.read_bytes()).hexdigest()[:16]
    return caches / f"agentic-rl-{name}-{key}"


def python(name: str) -> str:
    """The interpreter of an environment in LOCKS; makes it if it is not there.

    Raises subprocess.CalledProcessError if pip fails, RuntimeError if no Python at hand
    is new enough.
    """
    lock = LOCKS[name]
    version, base = base_of(name)
    folder = cache_folder(f"{name}-{version}", lock)
    program = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not ((folder / DONE).exists() and program.exists()):
        size = "; 2 GB, some minutes" if torch_pins(lock) else ""
        say(f"making the environment {name!r} in a cache folder{size}")
        if not works(program):
            shutil.rmtree(folder, ignore_errors=True)
            kind = "--copies" if os.name == "nt" else "--symlinks"
            subprocess.run([base, "-m", "venv", kind, str(folder)], check=True)
        if pins := torch_pins(lock):  # first: what needs torch would choose its build
            install(program, *torch_index(), *pins)
        install(program, *FLAGS.get(name, ()), "-r", str(lock))
        (folder / DONE).touch()
    return str(program)


def base_of(name: str) -> tuple[str, str]:
    """(version, command) of the Python that an environment is made of: this one, or the
    oldest one at hand that is new enough. Raises RuntimeError if there is none."""
    needed = OLDEST.get(name, (3, 0))
    if sys.version_info[:2] >= needed:
        return "{}.{}".format(*sys.version_info), sys.executable
    fit = sorted(item for item in cpythons().items() if item[0] >= needed)
    if not fit:
        wanted = "{}.{}".format(*needed)
        raise RuntimeError(
            f"{name} needs Python {wanted} or newer, and none is at hand: not this one, "
            "not on PATH, not in pyenv"
        )
    version, command = fit[0]
    return "{}.{}".format(*version), command


def works(program: Path) -> bool:
    """Whether an interpreter is there and has pip: what an interrupted run left behind."""
    ask = [str(program), "-m", "pip", "--version"]
    return program.exists() and not subprocess.run(ask, capture_output=True).returncode


def torch_pins(lock: Path) -> list[str]:
    """The line of a lock file that pins torch, if it has one."""
    return re.findall(r"(?m)^torch==\S+", lock.read_text(encoding="utf-8"))


def torch_index() -> tuple[str, ...]:
    """pip's arguments for another index of torch's builds, if the caller names one."""
    index = os.environ.get("AGENTIC_RL_TORCH_INDEX")
    return ("--index-url", index) if index else ()


def install(program: Path, *wanted: str) -> None:
    """One call of pip, which shows its progress to whoever looks on."""
    quiet = [] if sys.stderr.isatty() else ["-qq"]
    say(f"installing {Path(wanted[-1]).name}")
    pip = [str(program), "-m", "pip", "--disable-pip-version-check", "install"]
    subprocess.run([*pip, *quiet, *wanted], check=True, stdout=2)


def say(text: str) -> None:
    """Tell what is being done; standard output is for results."""
    print(text, file=sys.stderr, flush=True)


def enter(name: str) -> None:
    """Start this program again in the environment, unless it runs there already."""
    interpreter = python(name)
    if Path(sys.executable) == Path(interpreter):
        return
    if os.name != "nt":  # the same process, so that who stops it stops all of it
        os.execv(interpreter, [interpreter, *sys.argv])
    raise SystemExit(subprocess.run([interpreter, *sys.argv]).returncode)


def node_modules(name: str, folder: Path) -> Path:
    """A cache folder with the npm packages that a folder's lock file pins.

    Raises subprocess.CalledProcessError if npm fails, RuntimeError if there is none.
    """
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise RuntimeError("node and npm are needed")
    cache = cache_folder(name, folder / "package-lock.json")
    if not (cache / DONE).exists():
        cache.mkdir(parents=True, exist_ok=True)
        for file in ("package.json", "package-lock.json"):
            shutil.copy(folder / file, cache / file)
        npm = [str(shutil.which("npm")), "ci", "--no-audit", "--no-fund"]
        subprocess.run(npm, cwd=cache, check=True, stdout=2)
        (cache / DONE).touch()
    return cache


def main() -> int:
    names = sys.argv[1:] or list(LOCKS)
    if unknown := [name for name in names if name not in LOCKS]:
        known = ", ".join(LOCKS)
        print(f"{unknown[0]!r}: expected some of {known}", file=sys.stderr)
        return 2
    for name in names:
        try:
            print(f"{name}: {python(name)}")
        except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
