"""The bridges, checked against the frameworks themselves.

    python3 scripts/check_bridges.py trl verl openrlhf agent_lightning

For each framework that is named: its environment is made, if it is not there; its tests
in checks/bridges/ run, and then the chapter's scripts, which end with an error unless
they did what they promise. A test that is skipped has failed. Nothing may contact another
machine: every process runs with a watch on its addresses and, where the system allows it,
in a network of its own that has nothing but this machine in it. One line a check, with
its time, the memory of its largest process and of all of them; then how many passed.

A system that has no network of one's own to give is an error, unless --watched is said:
then the watch stands alone, which sees Python's own connections and nothing else.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts"), str(ROOT / "checks")]

from environments import python
from process_tree import Watch
from verdicts import Verdicts

from agentic_rl.bridges.frameworks import OFFLINE

SCRIPTS = {  # with their arguments
    "trl": (
        "examples/03_grpo_single_turn/train_grpo_single_turn.py",
        "examples/03_grpo_single_turn/train_grpo_tools.py",
        "examples/03_grpo_single_turn/train_grpo_tools.py --with environment",
        "examples/03_grpo_single_turn/train_grpo_tools.py --with rollout",
    ),
    "verl": (
        "examples/04_verl_minimal/rollout.py",
        "examples/04_verl_minimal/train_worker.py",
        "examples/04_verl_minimal/ray_rollout.py",
        "examples/04_verl_minimal/scale_out/two_cpu_nodes.py",
        "examples/06_agent_lightning/adapter.py",
    ),
    "openrlhf": (
        "examples/05_openrlhf_agent/rollout.py",
        "examples/05_openrlhf_agent/ray_rollout.py",
        "examples/05_openrlhf_agent/train_grpo.py",
        "examples/05_openrlhf_agent/check_flags.py",
    ),
    "agent_lightning": (
        "examples/06_agent_lightning/one_group.py",
        "examples/06_agent_lightning/train_grpo.py",
        "examples/06_agent_lightning/train_processes.py",
    ),
}
GUARD = ROOT / "checks" / "bridges" / "guard"
MEGABYTES = 2048  # at most, in any one process
NOT_RUN = "Not run:"  # what a script says that lacks its framework
# A network that holds nothing but this machine, whose loopback device has to be woken; and
# processes of its own, none of which outlives it.
ALONE = (
    *("unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"),
    *("--map-root-user", "sh", "-c", 'ip link set lo up && "$@"', "sh"),
)
WATCHED = "--watched"


class Ran(NamedTuple):
    """What a program left behind.

    megabytes   of its largest process
    together    of all its processes at one time
    outside     the addresses that were asked for
    """

    status: int
    output: str
    seconds: float
    megabytes: float
    together: float
    outside: str

    @property
    def cost(self) -> str:
        memory = f"{self.megabytes:.0f} MB"
        if self.together > self.megabytes:
            memory += f", {self.together:.0f} MB in all"
        return f"{self.seconds:.0f} s, {memory}"

    def problems(self) -> list[str]:
        """What is wrong with the run, whatever it was for."""
        found = []
        if NOT_RUN in self.output:
            found.append(f"it says {NOT_RUN!r}")
        if self.status:
            found += [f"exit status {self.status}", *self.output.splitlines()[-15:]]
        if self.outside:
            found.append(f"outside addresses: {self.outside.split()}")
        if self.megabytes > MEGABYTES:
            found.append(f"expected at most {MEGABYTES} MB")
        return found


def alone() -> tuple[str, ...]:
    """What a command has to stand behind to have no network, if this system can do that."""
    tools = all(map(shutil.which, (ALONE[0], "ip")))
    if tools and not subprocess.run([*ALONE, "true"], capture_output=True).returncode:
        return ALONE
    return ()


def run(command: Sequence[str], prefix: Sequence[str]) -> Ran:
    """Run a program to its end, watched."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryFile("w+") as page:
        outside = Path(name, "outside")
        outside.touch()
        told = {
            **os.environ,
            **OFFLINE,
            "PYTHONPATH": str(GUARD),
            "OUTSIDE": str(outside),
            "OWN_NAMES": own_names(),
        }
        program = subprocess.Popen(
            [*prefix, *command],
            cwd=ROOT,
            env=told,
            stdin=subprocess.DEVNULL,
            stdout=page,
            stderr=subprocess.STDOUT,
        )
        watch = Watch(program.pid)
        watch.start()
        _, status, usage = os.wait4(program.pid, 0)
        watch.stop()
        program.returncode = os.waitstatus_to_exitcode(status)
        page.seek(0)
        return Ran(
            program.returncode,
            page.read(),
            time.monotonic() - began,
            max(usage.ru_maxrss / 1024, watch.largest),
            watch.together,
            outside.read_text(encoding="utf-8"),
        )


def own_names() -> str:
    """The names and addresses by which this machine calls itself."""
    name = socket.gethostname()
    with contextlib.suppress(OSError):  # a name that nobody knows has no address
        return " ".join(
            [name, *{str(info[4][0]) for info in socket.getaddrinfo(name, 0)}]
        )
    return name


def check(framework: str, prefix: Sequence[str], verdicts: Verdicts) -> None:
    """All that is to be checked of one framework."""
    interpreter = python(framework)
    check_tests(framework, interpreter, prefix, verdicts)
    for script in SCRIPTS[framework]:
        ran = run([interpreter, *script.split()], prefix)
        verdicts.add(f"{Path(script).name}: {ran.cost}", ran.problems())


def check_tests(
    framework: str, interpreter: str, prefix: Sequence[str], verdicts: Verdicts
) -> None:
    """The framework's tests; each of them counts once all have passed."""
    discover = ["-m", "unittest", "discover", "-s", "checks/bridges", "-t", "."]
    ran = run([interpreter, *discover, "-p", f"test_{framework}*.py"], prefix)
    count = sum(map(int, re.findall(r"(?m)^Ran (\d+) tests? in ", ran.output)))
    verdict = re.findall(r"(?m)^(?:OK|FAILED)\b.*$", ran.output)
    problems = ran.problems()
    if not count or verdict != ["OK"]:  # not "OK (skipped=1)"
        problems.append(f"{count} tests: {', '.join(verdict) or 'no verdict'}")
    verdicts.passed += 0 if problems else count - 1
    verdicts.add(f"{framework}: {count} tests, {ran.cost}", problems)


def main() -> int:
    names = [name for name in sys.argv[1:] if name != WATCHED] or list(SCRIPTS)
    if unknown := [name for name in names if name not in SCRIPTS]:
        print(f"{unknown[0]!r}: expected some of {', '.join(SCRIPTS)}", file=sys.stderr)
        return 2
    verdicts, prefix = Verdicts(), alone()
    print("network: none" if prefix else "network: watched, but there", flush=True)
    if not prefix and WATCHED not in sys.argv[1:]:
        verdicts.add("network", [f"this system has none to give; see {WATCHED}"])
    for name in names:
        try:
            check(name, prefix, verdicts)
        except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
            verdicts.add(f"{name}: its environment", [str(error)])
    return verdicts.close()


if __name__ == "__main__":
    raise SystemExit(main())
