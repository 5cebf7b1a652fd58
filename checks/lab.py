"""``python3 -m agentic_rl lab`` for real: from a fresh copy to a kernel that runs.

In a scratch copy of the project, with a home folder of its own, the command is run
twice. The first run must make the environment and register the kernel; a notebook must
then run on that kernel. The second must find everything made, open Jupyter at the
learning map, and end on Ctrl-C. No browser is opened.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from verdicts import Verdicts

ROOT = Path(__file__).resolve().parents[1]
LAB = (sys.executable, "-m", "agentic_rl", "lab", "--language", "en")
KERNEL = "agentic-rl-from-scratch"
NOTEBOOK = "examples/00_toy_mdp/00_toy_mdp.en.ipynb"
FOLDER = "Scripts" if os.name == "nt" else "bin"
TOKEN = "check"
SECONDS = 120  # after which Jupyter is said to hang
CONFIG = """\
c.ServerApp.open_browser = False
c.ServerApp.allow_root = True
c.ServerApp.port = {port}
c.ServerApp.port_retries = 0
c.IdentityProvider.token = {token!r}
"""


def copy(scratch: Path) -> Path:
    """The project without what was made in it."""
    made = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache")
    return Path(shutil.copytree(ROOT, scratch / "project", ignore=made))


def environment(scratch: Path, port: int) -> dict[str, str]:
    """This environment, at another home, with Jupyter told how to behave."""
    config = scratch / "config"
    config.mkdir()
    told = CONFIG.format(port=port, token=TOKEN)
    (config / "jupyter_server_config.py").write_text(told, encoding="utf-8")
    home = str(scratch / "home")
    return {
        **os.environ,
        "HOME": home,
        "USERPROFILE": home,
        "APPDATA": home,
        "XDG_DATA_HOME": str(scratch / "home" / "data"),
        "JUPYTER_CONFIG_DIR": str(config),
    }


def free_port() -> int:
    """A port of this machine that nobody listens to."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


# ------------------------------------------------------------------ the first run


def made(project: Path, told: dict[str, str]) -> Iterator[str]:
    """Problems with making the environment and the kernel."""
    done = subprocess.run(
        [*LAB, "--no-open"], cwd=project, env=told, capture_output=True, text=True
    )
    if done.returncode:
        yield f"exit status {done.returncode}: {done.stderr}"
    for step in ("making a virtual environment", "installing", "registering", "ready"):
        if f"lab: {step}" not in done.stdout:
            yield f"expected a line on {step}, got {done.stdout}"


def runs(project: Path, told: dict[str, str]) -> Iterator[str]:
    """Problems with a notebook on the kernel that its metadata name."""
    jupyter = str(project / ".venv" / FOLDER / "jupyter")
    specs = subprocess.run(
        [jupyter, "kernelspec", "list", "--json"],
        env=told,
        capture_output=True,
        text=True,
    )
    spec = json.loads(specs.stdout)["kernelspecs"].get(KERNEL, {}).get("spec", {})
    if spec.get("display_name") != f"Python ({KERNEL})":
        yield f"expected the kernel {KERNEL!r}, got {specs.stdout}"
    elif not spec["argv"][0].startswith(str(project / ".venv")):
        yield f"expected a kernel of the environment, got {spec['argv']}"
    done = subprocess.run(
        [jupyter, "execute", NOTEBOOK],
        cwd=project,
        env=told,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        yield f"the notebook does not run: {done.stderr}"


# ------------------------------------------------------------------ the second run


def opens(project: Path, told: dict[str, str], port: int) -> Iterator[str]:
    """Problems with Jupyter, as it answers while it runs and as it ends."""
    address = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryFile("w+") as page:
        running = subprocess.Popen(
            LAB,
            cwd=project,
            env=told,
            stdin=subprocess.PIPE,  # open and silent, like a terminal nobody types into
            stdout=page,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=heed_ctrl_c,
        )
        try:
            landed = opened(f"{address}/?token={TOKEN}", running)
            if not landed.startswith(f"{address}/lab/tree/docs/en/README.md"):
                yield f"expected the learning map, got {landed}"
            kernels = asked(f"{address}/api/kernelspecs?token={TOKEN}")
            if KERNEL not in kernels:
                yield f"expected the kernel {KERNEL!r} in its list, got {kernels}"
            yield from ended(running)
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)
        page.seek(0)
        said = page.read()
    if "the environment .venv is up to date" not in said or "making" in said:
        yield f"expected nothing to be made again, got {said}"


def heed_ctrl_c() -> None:
    """A check that was started in the background would have handed down to ignore it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def opened(url: str, running: subprocess.Popen[bytes]) -> str:
    """Where a browser lands, as soon as the server answers."""
    until = time.monotonic() + SECONDS
    while running.poll() is None and time.monotonic() < until:
        try:
            with urllib.request.urlopen(url, timeout=SECONDS) as answer:
                return str(answer.url)
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.5)
    return f"no answer; exit status {running.poll()}"


def asked(url: str) -> str:
    """What the server answers."""
    try:
        with urllib.request.urlopen(url, timeout=SECONDS) as answer:
            return str(answer.read().decode())
    except (urllib.error.URLError, ConnectionError) as error:
        return str(error)


def ended(running: subprocess.Popen[bytes]) -> Iterator[str]:
    """Problems with Ctrl-C, pressed twice as the command says."""
    for _ in range(2):
        os.killpg(running.pid, signal.SIGINT)
        time.sleep(1)
    try:
        running.wait(SECONDS)
    except subprocess.TimeoutExpired:
        yield "it goes on after Ctrl-C"


def main() -> int:
    verdicts = Verdicts()
    with tempfile.TemporaryDirectory() as name:
        scratch, port = Path(name).resolve(), free_port()
        project, told = copy(scratch), environment(scratch, port)
        verdicts.add("lab makes everything", list(made(project, told)))
        verdicts.add("a notebook runs on its kernel", list(runs(project, told)))
        verdicts.add("lab opens at the map and ends", list(opens(project, told, port)))
    return verdicts.close()


if __name__ == "__main__":
    raise SystemExit(main())
