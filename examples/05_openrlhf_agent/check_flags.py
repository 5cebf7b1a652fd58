"""Chapter 05. The flags of the GPU commands, read by OpenRLHF's own program.

    python3 examples/05_openrlhf_agent/check_flags.py

Each script in scale_out/ prints its flags; ``openrlhf.cli.train_ppo_ray`` runs with them up
to where it would start its engines. Then each of four mistakes is made in one of them.

Exit status 1 unless the scripts' flags are taken and the four mistakes refused.
"""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

import cpu_stubs

from agentic_rl.bridges import frameworks
from agentic_rl.cli import render
from agentic_rl.cli.terminal import Progress, run

SCRIPTS = {
    "one GPU node": HERE / "scale_out" / "one_gpu_node.sh",
    "Ray cluster": HERE / "scale_out" / "ray_cluster.sh",
}
WRONG = {
    "a misspelt flag": ("--algo.advantage.estimater", "group_norm"),
    "a wrong value": ("--algo.advantage.estimator", "grpo"),
    "a group of one": ("--rollout.n_samples_per_prompt", "1"),
    "sizes that don't fit": ("--vllm.num_engines", "3"),
}


def flags_of(script: Path) -> list[str]:
    """The flags that a script would start OpenRLHF with."""
    asked = ["bash", str(script), "--flags"]
    return subprocess.run(
        asked, capture_output=True, text=True, check=True
    ).stdout.split()


def refusal(flags: Sequence[str]) -> str | None:
    """What OpenRLHF's program says against these flags; None if it takes them."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            cpu_stubs.parsed(flags)
    except SystemExit:
        return said.getvalue().strip().rpartition("error: ")[2]
    except AssertionError as error:
        return str(error)
    return None


def shown(args: Any) -> list[tuple[str, str]]:
    """The settings in which the scripts differ, and those that matter most."""
    group = args.rollout.n_samples_per_prompt
    return [
        ("GPUs", f"{args.actor.num_nodes} x {args.actor.num_gpus_per_node}"),
        ("engines", f"{args.vllm.num_engines} of {args.vllm.tensor_parallel_size}"),
        ("rollouts a step", f"{args.rollout.batch_size} x {group}"),
        ("rollouts an update", f"{args.train.batch_size}"),
        ("estimator", args.algo.advantage.estimator),
        ("critic", str(args.critic.model_name_or_path)),
        ("reward comes from", ", ".join(args.reward.remote_url)),
    ]


def show_taken() -> None:
    print(render.heading("The commands for GPUs, by its own program", "05.10"))
    columns = [shown(cpu_stubs.parsed(flags_of(path))) for path in SCRIPTS.values()]
    rows = [(row[0][0], *(value for _, value in row)) for row in zip(*columns)]
    print(render.table(("setting", *SCRIPTS), rows))


def show_refused() -> bool:
    """Whether each wrong flag is refused; what is said, in one line each."""
    print(render.heading("Wrong flags are refused", "05.11"))
    flags = flags_of(SCRIPTS["one GPU node"])
    refused = True
    for name, wrong in WRONG.items():
        problem = refusal([*flags, *wrong])
        refused &= problem is not None
        print(f"{name}: {' '.join(wrong)}")
        print(textwrap.indent(textwrap.fill(problem or "taken", 74), "    "))
    return refused


def main() -> int:
    print("Chapter 05: the flags of the GPU commands, by OpenRLHF's own parser.")
    if problem := frameworks.missing("openrlhf"):
        for name, path in SCRIPTS.items():
            print(f"\n{name}: the flags of {path.name}, not read by anybody")
        print()
        print(render.wrapped("", f"Not run: {problem}."))
        return 0
    Progress().show("importing OpenRLHF takes some seconds ...")
    cpu_stubs.install()
    with cpu_stubs.hushed():
        import openrlhf.cli.train_ppo_ray  # noqa: F401
    Progress().clear()
    show_taken()
    return 0 if show_refused() else 1


if __name__ == "__main__":
    run(main, __doc__)
