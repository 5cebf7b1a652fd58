"""Chapter 05. The golden group through a local Ray cluster.

    python3 examples/05_openrlhf_agent/ray_rollout.py

Here Ray is not replaced: RolloutRayActor is an actor in a process of its own, loads our
agent there, and OpenRLHF's SamplesGenerator dispatches a prompt to it and collects what
comes back. Ours is the engine behind the actor, a script.

Exit status 1 unless the four Experiences are those of our records.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT)]

import cpu_stubs
from playing import (
    AGENT,
    ENGINES,
    MAX_LEN,
    PLACES,
    Script,
    prompt_of,
    script_of,
    started,
)

from agentic_rl.bridges import frameworks
from agentic_rl.bridges import openrlhf as bridge
from agentic_rl.cli import render
from agentic_rl.cli.terminal import Progress, run
from agentic_rl.golden import GOLDEN_NAMES, GOLDEN_TASK, golden_group

# Log-probs of the engine are kept only with the correction on.
FLAGS = ("--algo.advantage.is_correction_level", "token", "--rollout.batch_size", "1")
SIZES = ("--actor.num_gpus_per_node", "1", "--algo.advantage.estimator", "group_norm")

# Ray keeps to this machine: no statistics, and a proxy at which nobody listens, for it asks
# in which cloud it runs. Where the odd name is 0, a cluster's address is 127.0.0.1.
NOBODY = "http://127.0.0.1:9"
SURROUNDINGS = {
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), NOBODY),
    **dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost"),
    "RAY_USAGE_STATS_REPORT_URL": NOBODY,
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    **frameworks.OFFLINE,
}


def search_path() -> str:
    """PYTHONPATH of Ray's workers: our folders, then what this process was given."""
    inherited = os.environ.get("PYTHONPATH")
    return os.pathsep.join([str(HERE), str(ROOT), *([inherited] if inherited else [])])


def start_ray() -> Any:
    """A cluster of this machine's own; every worker puts the stubs in place first."""
    import ray

    os.environ.pop("RAY_ADDRESS", None)
    ray.init(
        address="local",  # never one that runs here already
        num_cpus=2,
        include_dashboard=False,
        logging_level="ERROR",
        log_to_driver=False,
        runtime_env={
            "env_vars": {"PYTHONPATH": search_path()},
            "worker_process_setup_hook": "cpu_stubs.install",
        },
    )
    return ray


def collected(tokenizer: Any) -> list[Any]:
    """The Experiences of the golden group, played by an actor of Ray."""
    from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator
    from openrlhf.trainer.ray.vllm_engine import RolloutRayActor

    scripts = [script_of(episode, tokenizer) for episode in golden_group()]
    script = Script([turn for one in scripts for turn in one.turns])
    actor = RolloutRayActor.options(num_cpus=1, num_gpus=0).remote(
        model=script, num_gpus=0, agent_func_path=str(AGENT)
    )
    prompt, label = prompt_of(GOLDEN_TASK, tokenizer)
    args = cpu_stubs.parsed([*PLACES, *ENGINES, *FLAGS, *SIZES])
    rows = [([""], [prompt], [label], [None])]
    generator = SamplesGenerator(
        SimpleNamespace(args=args), rows, None, tokenizer, [actor]
    )
    with cpu_stubs.hushed():
        samples, *_ = generator.generate_samples(max_len=MAX_LEN)
    if script.prompts:
        raise SystemExit("not as it was promised: the script was read in this process")
    return list(samples)


def same(made: Any, ours: dict[str, Any]) -> bool:
    """Whether an Experience is what our record says, in the numbers that it holds."""
    import torch

    pairs = [(getattr(made, name), value) for name, value in ours.items()]
    return all(
        torch.equal(theirs, torch.tensor(value).to(theirs.dtype))
        if isinstance(theirs, torch.Tensor)
        else theirs == value
        for theirs, value in pairs
    )


def show(samples: list[Any], tokenizer: Any) -> bool:
    """The table of the four; whether all are ours."""
    print(render.heading("The golden group through a local Ray cluster", "05.12"))
    rows, equal = [], True
    for name, episode, made in zip(GOLDEN_NAMES, golden_group(), samples):
        fields = bridge.response(episode, GOLDEN_TASK, tokenizer)
        ours = bridge.experience(fields, MAX_LEN)
        fits = same(made, ours)
        equal &= fits
        length = f"{made.sequences.shape[1]}"
        reward = render.number(float(made.rewards), 1)
        rows.append((name, length, reward, "equal" if fits else "not equal"))
    print(render.table(("episode", "ids", "reward", "the Experience"), rows))
    return equal and len(samples) == len(GOLDEN_NAMES)


def main() -> int:
    print("Chapter 05: OpenRLHF's rollout actor in a process of its own, by Ray.")
    if problem := frameworks.missing("openrlhf"):
        print()
        print(render.wrapped("", f"Not run: {problem}."))
        return 0
    os.environ.update(SURROUNDINGS)
    progress = Progress()
    progress.show("importing OpenRLHF and starting Ray: half a minute ...")
    tokenizer = started()
    ray = start_ray()
    try:
        samples = collected(tokenizer)
    finally:
        ray.shutdown()
    progress.clear()
    if not show(samples, tokenizer):
        print("\nnot as it was promised: an Experience is not ours")
        return 1
    print("\nThe actor ran in another process, and Ray carried prompts and records.")
    return 0


if __name__ == "__main__":
    run(main, __doc__)
