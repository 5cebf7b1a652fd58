"""Chapter 06. The real server, the real controller, a process for each episode.

    python3 examples/06_agent_lightning/train_processes.py
    python3 examples/06_agent_lightning/train_processes.py --long --log FILE
    python3 examples/06_agent_lightning/train_processes.py --read FILE

`agl-server` and `agl-controller` run as processes of their own, and the controller's local
runner starts a new one for each episode. The training side is the same as in train_grpo.py
and lives here, with the model server in a thread. All of it is on 127.0.0.1. No process is
left behind on an error, Ctrl-C, SIGTERM or a terminal that is closed (SIGHUP), however
often it is told; SIGKILL leaves server and controller running.

The default takes five updates in about a minute, and the reward has to rise; --long goes
on until it is over 0.9. --log keeps the run as JSON lines, --read shows such a file.
Samples are seeded, so the rewards are those of train_grpo.py to the last digit.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

from gateway import KEY, without_proxy
from model_server import MODEL, ModelServer, Table
from train_grpo import (
    COLUMNS,
    CONFIG,
    GOAL,
    LAST,
    Collect,
    Job,
    last_reward,
    learn,
    read_back,
    tasks,
)

from agentic_rl.bridges import frameworks
from agentic_rl.bridges.vocabulary import Vocabulary
from agentic_rl.cli import render
from agentic_rl.cli.terminal import Progress, complain, run
from agentic_rl.grpo import State, start
from agentic_rl.trajectory import Trajectory

PROGRESS = Progress()
SHORT = 5  # updates
AT_A_TIME = 4  # agents
STARTING = 60  # seconds for the server to come up
WAITING = 180  # seconds for one batch

# ------------------------------------------------------------------ processes of our own


class Services:
    """The server and the controller, and what they wrote; ended when this is left."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Services:
        try:
            self.start("server", "host=127.0.0.1", "port=0", f"key={KEY}")
            self.address = self.address_of_the_server()
            self.start(
                "controller",
                "runner_type=local",
                f"agl_server.url={self.address}",
                f"agl_server.key={KEY}",
                f"local_runner.maximum_size={AT_A_TIME}",
                "local_runner.poll_interval=0.1",
            )
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self, name: str, *settings: str) -> None:
        """`agl-server` or `agl-controller`, with Hydra's own files in the folder."""
        if name == "server":
            settings += (f"default_proxy.model_name={MODEL}",)
        command = [sys.executable, "-m", f"agentlightning.{name}", *settings]
        command += [f"hydra.run.dir={self.folder}", "hydra.output_subdir=null"]
        told = {
            **without_proxy(os.environ),
            **frameworks.OFFLINE,
            "PYTHONPATH": os.pathsep.join(
                filter(None, [str(HERE), os.environ.get("PYTHONPATH")])
            ),
        }
        with open(self.folder / f"{name}.log", "wb") as page:
            self.running.append(
                subprocess.Popen(
                    command,
                    env=told,
                    stdin=subprocess.DEVNULL,
                    stdout=page,
                    stderr=page,
                    start_new_session=True,  # Ctrl-C is for this program to pass on
                )
            )

    def address_of_the_server(self) -> str:
        """Where it listens: it was told to take a port that is free, and says which."""
        for _ in range(10 * STARTING):
            text = (self.folder / "server.log").read_text(errors="replace")
            if found := re.search(r"running on (http://127\.0\.0\.1:\d+)", text):
                return found[1]
            self.check()
            time.sleep(0.1)
        raise SystemExit(f"no server after {STARTING} s")

    def check(self) -> None:
        """End with an error, and with what it wrote, if one of them has ended."""
        for name, program in zip(("server", "controller"), self.running):
            if program.poll() is not None:
                text = (self.folder / f"{name}.log").read_text(errors="replace")
                raise SystemExit(
                    f"the {name} ended with {program.returncode}:\n{text[-2000:]}"
                )

    def __exit__(self, *_: object) -> None:
        """Both are told to end, the controller first, which ends its agents."""
        for program in reversed(self.running):
            program.terminate()
        for program in self.running:
            try:
                program.wait(15)
            except subprocess.TimeoutExpired:
                program.kill()
                program.wait()


@contextlib.contextmanager
def services() -> Iterator[Services]:
    """They run while this lasts, also if this program is told to end."""
    stops = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    heard = [x for x in stops if signal.getsignal(x) is not signal.SIG_IGN]  # nohup

    def deaf() -> None:
        for number in heard:
            signal.signal(number, signal.SIG_IGN)

    def stop(*_: object) -> None:
        deaf()
        raise KeyboardInterrupt

    before = [signal.signal(number, stop) for number in heard]
    try:
        with tempfile.TemporaryDirectory() as name, Services(Path(name)) as running:
            try:
                yield running
            finally:
                deaf()  # or a second Ctrl-C would end the ending
    finally:
        for number, handler in zip(heard, before):
            signal.signal(number, handler)


# --------------------------------------------------------------------- the training side


def by_processes(running: Services, server: ModelServer) -> Collect:
    """Episodes that the controller plays, asked for over HTTP by its own client."""
    import httpx
    from agentlightning.client import AgentLightningSyncClient

    api = AgentLightningSyncClient(
        base_url=running.address, key=KEY, timeout=30, trust_env=False
    )
    seen = 0  # of its list of finished rollouts

    def collect(wanted: list[Job], version: int) -> list[Trajectory | None]:
        try:
            return played(wanted, version)
        except httpx.TransportError as error:
            running.check()
            raise SystemExit(f"the server does not answer: {error}") from None

    def played(wanted: list[Job], version: int) -> list[Trajectory | None]:
        nonlocal seen
        known = {"model": MODEL, "endpoint": server.endpoint, "version": version}
        api.post("/api/models", json=[known]).raise_for_status()
        fields = [job.fields for job in wanted]
        api.post("/api/rollouts", json=fields).raise_for_status()
        done: dict[str, str] = {}
        began = time.monotonic()
        while len(done) < len(wanted):
            page = api.get("/api/rollouts/terminal", params={"after": seen}).json()
            seen = page["next_after"]
            done |= {item["rollout_id"]: item["state"] for item in page["items"]}
            PROGRESS.show(f"update {version + 1}: {len(done)} of {len(wanted)} played")
            running.check()
            if time.monotonic() - began > WAITING:
                raise SystemExit(f"{len(done)} of {len(wanted)} after {WAITING} s")
            time.sleep(0.05)
        if failed := sorted(name for name, state in done.items() if state == "failed"):
            text = (running.folder / "controller.log").read_text(errors="replace")
            raise SystemExit(f"rollout {failed[0]} failed:\n{text[-2000:]}")
        return [read(api, job.fields["rollout_id"], server) for job in wanted]

    return collect


def read(api: Any, name: str, server: ModelServer) -> Trajectory | None:
    """The trajectory of a finished rollout, by its triplets; it is deleted then."""
    where = f"/api/rollouts/{name}"
    told = api.get(f"{where}/events", params={"format": "triplet"}).json()
    api.delete(where).raise_for_status()
    return read_back(name, told, server)


def show(
    metrics: Sequence[dict[str, float]], seconds: Sequence[float] | None = None
) -> str:
    """The run as a table, an update a line; seconds where they are to be shown."""
    if seconds is None:
        return render.training_log(metrics, COLUMNS, range(1, len(metrics) + 1))
    timed = [{**m, "seconds": s} for m, s in zip(metrics, seconds)]
    columns = {**COLUMNS, "seconds": "seconds"}
    return render.training_log(timed, columns, range(1, len(timed) + 1))


# ------------------------------------------------------------------------- a kept run


def about(command: str) -> dict[str, Any]:
    """The first line of a log: what ran, when and on what."""
    return {
        "date": datetime.date.today().isoformat(),
        "command": command,
        "agentlightning": frameworks.installed("agent_lightning"),
        "python": platform.python_version(),
        "machine": f"{os.cpu_count()} cores",
    }


def read_log(path: Path) -> tuple[dict[str, Any], list[dict[str, float]]]:
    """(what ran, its metrics): the first line of a log, and one line an update."""
    first, *rest = path.read_text(encoding="utf-8").splitlines()
    return json.loads(first), [json.loads(line) for line in rest]


def show_log(path: Path) -> None:
    said, lines = read_log(path)
    print(render.heading("A run that was kept", "06.7"))
    print(", ".join(f"{name} {said[name]}" for name in ("date", "python", "machine")))
    print(f"Agent Lightning {said['agentlightning']}: {said['command']}\n")
    print(show(lines, [line["seconds"] for line in lines]))


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--long", action="store_true", help="train until over 0.9")
    parser.add_argument("--log", type=Path, help="keep the run in this file")
    parser.add_argument("--read", type=Path, help="show a run that was kept")
    return parser.parse_args()


def main() -> int:
    chosen = options()
    print("Chapter 06: the real server and controller, a process for each episode.")
    if chosen.read:
        try:
            show_log(chosen.read)
        except (OSError, ValueError, LookupError, TypeError) as error:
            complain(f"{chosen.read}: no log of this program: {error}")
            return 2
        return 0
    if problem := frameworks.missing("agent_lightning"):
        print("\n" + render.wrapped("", f"Not run: {problem}."))
        return 0
    if chosen.log:
        try:
            chosen.log.open("a").close()  # not to hear of it after the run
        except OSError as error:
            complain(f"{chosen.log}: can't be written: {error.strerror}")
            return 2
    config = CONFIG if chosen.long else replace(CONFIG, updates=SHORT)
    state, seconds = start(config), [time.monotonic()]
    server = ModelServer(Table(state.policy, tasks()), Vocabulary())
    with server, services() as running:
        learn(
            state,
            config,
            by_processes(running, server),
            on_update=lambda _: seconds.append(time.monotonic()),
        )
    PROGRESS.clear()
    print(render.heading("Training, a process for each episode", "06.6"))
    print(show(state.metrics))
    if chosen.log:
        took = [round(b - a, 1) for a, b in pairwise(seconds)]
        command = "train_processes.py" + (" --long" if chosen.long else "")
        lines = [about(command)]
        lines += [{**m, "seconds": s} for m, s in zip(state.metrics, took)]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        chosen.log.write_text(text, encoding="utf-8", newline="\n")
    judge(state, chosen.long)
    return 0


def judge(state: State, long: bool) -> None:
    """End with an error unless the run did what it promised."""
    rewards = [update["reward"] for update in state.metrics]
    if long:
        print(f"\nMean reward of the last {LAST} updates: {last_reward(state):.3f}")
        if last_reward(state) <= GOAL:
            raise SystemExit(f"not as it was promised: expected over {GOAL}")
    elif not all(a < b for a, b in pairwise(rewards)):
        raise SystemExit("not as it was promised: the reward did not rise")


if __name__ == "__main__":
    run(main)
