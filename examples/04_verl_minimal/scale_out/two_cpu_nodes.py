"""The commands for several nodes, tried on one machine: two nodes of Ray, a CPU each.

    python3 examples/04_verl_minimal/scale_out/two_cpu_nodes.py

node.sh makes a head and a second node, launch.sh starts verl's trainer on both, with the
config for a CPU: two training workers that share the model (FSDP2 over gloo), two servers
that sample, one token that opens the cluster. What needs GPUs is not tried: vLLM, NCCL.

Exit status 1 unless verl ends well and logs both steps.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import cpu_setup
from train_main_ppo import end, read, show

from agentic_rl.bridges.frameworks import BridgeError
from agentic_rl.cli import render
from agentic_rl.cli.terminal import complain, run

STEPS = 2
SECONDS = 600  # at most
NODE = ["--block", "--num-cpus=16", "--num-gpus=1", "--node-ip-address=127.0.0.1"]
# Half the rows a worker, and room for an agent loop on each node.
OVERRIDES = [
    "trainer.nnodes=2",
    f"trainer.total_training_steps={STEPS}",
    f"trainer.test_freq={STEPS}",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=32",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=32",
    "actor_rollout_ref.rollout.agent.num_workers=2",
    "ray_kwargs.ray_init.num_cpus=null",
    "ray_kwargs.ray_init.num_gpus=null",
]


def start(script: str, *arguments: str) -> subprocess.Popen[bytes]:
    """One of the two shell scripts; what it prints goes to a file in TOOL_MATH_RUNS."""
    with open(Path(os.environ["TOOL_MATH_RUNS"], "printed.txt"), "ab") as page:
        return subprocess.Popen(
            ["bash", str(cpu_setup.SCALE_OUT / script), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=page,
            stderr=subprocess.STDOUT,
        )


def train(port: int) -> int:
    """A cluster, a run, and nothing left of either; verl's exit status."""
    address, begun = f"127.0.0.1:{port}", []
    try:
        begun.append(start("node.sh", "head", f"--port={port}", *NODE))
        time.sleep(15)
        begun.append(start("node.sh", address, *NODE))
        time.sleep(10)
        where = f"ray_kwargs.ray_init.address={address}"
        begun.append(start("launch.sh", "cpu", where, *OVERRIDES))
        return begun[-1].wait(SECONDS)
    finally:
        for program in reversed(begun):
            end(program)


def surround(runs: str) -> None:
    """The surroundings of the other programs, for a cluster that others can join."""
    cpu_setup.surround()
    cpu_setup.provide()
    del os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"]
    programs = Path(sys.executable).parent
    os.environ["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
    os.environ["TOOL_MATH_RUNS"] = runs


def main() -> int:
    began = time.monotonic()
    with TemporaryDirectory() as runs:
        try:
            surround(runs)
        except BridgeError as error:
            complain(render.wrapped("", str(error)))
            return 1
        print(render.heading("Two nodes of Ray on one machine", "04.10"))
        status = train(cpu_setup.free_port())
        log = Path(runs, "tool-math", "cpu.jsonl")
        records = read(log)[1] if log.exists() else []
        if status or [x["step"] for x in records] != list(range(STEPS + 1)):
            printed = Path(runs, "printed.txt").read_text("utf-8", errors="replace")
            print(*printed.splitlines()[-30:], sep="\n")
            print(f"verl ended with status {status}")
            return 1
    show(records)
    print(f"\n{STEPS} steps, {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    run(main, __doc__)
