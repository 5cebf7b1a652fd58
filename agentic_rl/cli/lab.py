"""``lab``: from a fresh checkout to a running notebook, in one command."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from agentic_rl.cli.arguments import Command, Option, UsageError, Values, one_of
from agentic_rl.cli.terminal import program

KERNEL = "agentic-rl-from-scratch"
TITLE = f"Python ({KERNEL})"
MAPS = {"zh": "docs/README.md", "en": "docs/en/README.md"}  # the learning map
LOCK = "requirements.txt"
DONE = "requirements.sha256"  # in the environment: what was installed into it
UNFINISHED = "unfinished"  # in it, while it is being made
FOLDER = "Scripts" if os.name == "nt" else "bin"


class LabError(Exception):
    """A step that failed; the text says which, and what can be done."""


def main(values: Values) -> int:
    """Make the environment, register the kernel, open Jupyter; the exit status."""
    root = project()
    folder = root / ".venv"
    try:
        interpreter = environment(folder, root / LOCK)
        register(interpreter)
    except LabError as error:
        print(f"error: lab: {error}", file=sys.stderr)
        return 1
    if values["no_open"]:
        say(f"ready; open Jupyter with: {program()} lab")
        return 0
    say("opening Jupyter at the learning map; Ctrl-C twice ends it")
    page = f"/lab/tree/{MAPS[language(values)]}?factory=Markdown%20Preview"
    command = [str(interpreter), "-m", "jupyterlab", f"--LabApp.default_url={page}"]
    return wait_for(subprocess.Popen(command, cwd=root))


def wait_for(jupyter: subprocess.Popen[bytes]) -> int:
    """Its exit status. Ctrl-C is left to Jupyter, which asks, and ends at the second."""
    while True:
        try:
            return jupyter.wait()
        except KeyboardInterrupt:
            continue


def language(values: Values) -> str:
    """The one that was asked for, else that of the terminal."""
    spoken = os.environ.get("LC_ALL") or os.environ.get("LANG") or ""
    return str(values["language"] or ("zh" if spoken.startswith("zh") else "en"))


def project() -> Path:
    """The project's folder: this one or one above it, or where the package stands."""
    package = Path(__file__).resolve().parents[2]
    for folder in (Path.cwd(), *Path.cwd().parents, package):
        if all((folder / name).exists() for name in (*MAPS.values(), LOCK)):
            return folder
    raise UsageError(
        "expected to be started in the project's folder: no notebooks here"
    )


def say(text: str) -> None:
    """Tell what is being done."""
    print(f"lab: {text}", flush=True)


# ------------------------------------------------------------------ the environment


def environment(folder: Path, lock: Path) -> Path:
    """The interpreter of the virtual environment; makes what is missing of it.

    Raises LabError.
    """
    interpreter = folder / FOLDER / ("python.exe" if os.name == "nt" else "python")
    wanted = hashlib.sha256(lock.read_bytes()).hexdigest()
    stamp = folder / DONE
    if not interpreter.exists() or (folder / UNFINISHED).exists():
        say(f"making a virtual environment in {folder.name}")
        make(folder)
    elif stamp.exists() and stamp.read_text() == wanted and ready(interpreter):
        say(f"the environment {folder.name} is up to date")
        return interpreter
    say(f"installing {lock.name} into it; the first time takes a minute or two")
    pip = [str(interpreter), "-m", "pip", "--disable-pip-version-check", "install"]
    done = subprocess.run([*pip, "--quiet", "-r", str(lock)])
    if done.returncode or not ready(interpreter):
        raise LabError(
            f"pip could not install {lock.name}, its reason stands above. If that was the "
            "network, the same command goes on from here; otherwise remove "
            f"{folder.name} and run it again."
        )
    stamp.write_text(wanted)
    return interpreter


def ready(interpreter: Path) -> bool:
    """Whether this Python is new enough and has what ``lab`` starts."""
    needs = "import ipykernel, jupyterlab, sys; sys.exit(sys.version_info < (3, 10))"
    return not subprocess.run(
        [str(interpreter), "-c", needs], capture_output=True
    ).returncode


def make(folder: Path) -> None:
    """A virtual environment with pip, in the place of one that was not finished.

    Raises LabError.
    """
    try:
        import ensurepip  # noqa: F401  (Debian leaves it out, and venv fails without it)
        import venv
    except ImportError:
        version = "{}.{}".format(*sys.version_info)
        raise LabError(
            "this Python has no venv module. On Debian and Ubuntu: "
            f"apt install python{version}-venv"
        ) from None
    try:
        if (folder / UNFINISHED).exists():
            shutil.rmtree(folder)
        folder.mkdir(exist_ok=True)
        (folder / UNFINISHED).touch()
        # Links, as the venv command makes them: a copy would be written through a link.
        venv.create(folder, symlinks=os.name != "nt", with_pip=True)
        (folder / UNFINISHED).unlink()
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        raise LabError(
            f"can't make {folder.name}: {error}; if something of that name is there, "
            "remove it and run this again"
        ) from None


def register(interpreter: Path) -> None:
    """Make the kernel known to Jupyter and to editors, for this user. Raises LabError."""
    say(f"registering the kernel {KERNEL!r}, shown as {TITLE!r}")
    install = [str(interpreter), "-m", "ipykernel", "install", "--user"]
    done = subprocess.run(
        [*install, "--name", KERNEL, "--display-name", TITLE],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise LabError(f"the kernel can't be registered: {reason}")


COMMAND = Command(
    "lab",
    "an environment, a kernel, and Jupyter at the learning map",
    "Make the virtual environment .venv in the project's folder from requirements.txt, "
    "register its kernel, and open Jupyter at the learning map. It can be run again at any "
    "time: what is done is not done twice.",
    main,
    options=(
        Option(
            "--language",
            "of the learning map: zh or en; else the terminal's",
            one_of(*MAPS),
            "NAME",
        ),
        Option("--no-open", "make everything ready, and open nothing"),
    ),
    examples=(
        ("lab", "from a fresh checkout to a running notebook"),
        ("lab --no-open", "for an editor that opens notebooks itself"),
    ),
)
