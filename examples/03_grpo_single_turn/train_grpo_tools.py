"""Chapter 03. An agent with tools in TRL: it learns to call, over several turns.

    python3 examples/03_grpo_single_turn/train_grpo_tools.py
    python3 examples/03_grpo_single_turn/train_grpo_tools.py --with environment
    python3 examples/03_grpo_single_turn/train_grpo_tools.py --with rollout

The Tool-Math tools, a transformer of about 100,000 weights, and the real GRPOTrainer. The
model first imitates demonstrations, half of them guesses: it learns what a call looks like
and how to copy a number. That calling pays is left to the reward. A bit more than a minute
on one core; the imitation is kept, so a second run takes half a minute.
"""

import argparse
import itertools
import math
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from agentic_rl.agent_loop import Limits
from agentic_rl.bridges import tiny_model, token_ids, trl_worlds
from agentic_rl.bridges import trl as bridge
from agentic_rl.bridges.frameworks import VERSIONS, BridgeError, missing, require
from agentic_rl.cli import render
from agentic_rl.cli.terminal import Progress, complain, run
from agentic_rl.conventions import TRL
from agentic_rl.reward import COURSE_REWARD, right
from agentic_rl.tasks import Task, generate, kind_of
from agentic_rl.tools import ToolBox

SEED = 0
KINDS = ("hard", "lookup")  # an easy task needs no call
IMITATION = {  # pools of so many tasks of each kind
    "steps": 1200,
    "right_share": 0.5,
    "pools": 8,
    "tasks": 60,
    "seed": SEED,
}
UPDATES = 60
ROLLOUTS, GROUP = 64, 8  # an update, a task
LEARNING_RATE = 5e-4
LENGTH = 96  # ids of a completion at most, tools' answers among them
LIMITS = Limits()
PROMISE = 0.6  # mean reward of the last ten updates
PROGRESS = Progress()


def tasks_of(count: int, *seeds: int) -> list[Task]:
    """So many tasks of each kind that needs a tool, for each seed."""
    found = [task for seed in seeds for task in generate(count, seed)]
    return [task for task in found if kind_of(task.question) in KINDS]


# ------------------------------------------------------------------ the warm start


def warm_folder() -> Path:
    """Where the imitated model is kept: outside the checkout, named after its making."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    key = tiny_model.fingerprint(IMITATION, VERSIONS["trl"])
    return caches / f"agentic-rl-warm-{key}"


def warm_start(tokenizer: Any) -> Any:
    """The model after imitation; made the first time, read afterwards."""
    model = tiny_model.make_model(tokenizer, SEED)
    folder, steps = warm_folder(), IMITATION["steps"]
    if folder.exists():
        print(f"Imitation: {steps} steps, kept from an earlier run.")
        return type(model).from_pretrained(folder)
    pools = range(100, 100 + IMITATION["pools"])
    tasks = tasks_of(IMITATION["tasks"], *pools)
    rng = random.Random(IMITATION["seed"])
    episodes = tiny_model.demonstrations(tasks, IMITATION["right_share"], rng)
    losses = tiny_model.imitate(model, tokenizer, list(episodes), steps, SEED)
    for step, loss in enumerate(losses, 1):
        PROGRESS.show(f"imitation: step {step} of {steps}, loss {loss:.2f}")
    PROGRESS.clear()
    folder.parent.mkdir(parents=True, exist_ok=True)
    half = Path(tempfile.mkdtemp(dir=folder.parent, prefix="agentic-rl-half-"))
    model.save_pretrained(half)
    try:
        half.rename(folder)
    except OSError:  # another run was first
        shutil.rmtree(half)
    print(f"Imitation: {steps} steps, made now and kept in a cache folder.")
    return model


# ------------------------------------------------------------------ three ways to the tools


def with_tools(way: str, end_id: int) -> tuple[list[Task], ToolBox | None, dict]:
    """(tasks, the tools that all of them share, the trainer's arguments) of one way."""
    tasks = tasks_of(60, 1)
    if way == "rollout":
        play = trl_worlds.rollout_function(tasks, COURSE_REWARD, LIMITS)
        named = {"rollout_func": play, "reward_funcs": bridge.recorded_reward()}
        return tasks, None, named
    if way == "environment":
        reward = bridge.reward_function(COURSE_REWARD, end_id, LIMITS)
        world = trl_worlds.Environment
        return tasks, None, {"environment_factory": world, "reward_funcs": reward}
    tasks = trl_worlds.on_one_shelf(tasks)
    box = trl_worlds.shared_tools(tasks)
    reward = bridge.reward_function(COURSE_REWARD, end_id, LIMITS, box)
    return tasks, box, {"tools": trl_worlds.as_functions(box), "reward_funcs": reward}


def train(way: str) -> int:
    """Imitate, train, show; the exit status."""
    bridge.silent()
    trl = require("trl")
    print(render.heading("The warm start", "03.6"))
    tokenizer = bridge.readable(tiny_model.make_tokenizer())
    model = warm_start(tokenizer)
    tasks, box, arguments = with_tools(way, tokenizer.eos_token_id)
    logs: list[dict[str, float]] = []

    def show(step: int, log: dict[str, float]) -> None:
        logs.append(log)
        PROGRESS.show(f"update {step} of {UPDATES}: reward {log['reward']:.2f}")

    with tempfile.TemporaryDirectory() as folder:
        config = trl.GRPOConfig(
            output_dir=folder,
            seed=SEED,
            learning_rate=LEARNING_RATE,
            max_steps=UPDATES,
            per_device_train_batch_size=ROLLOUTS,
            max_completion_length=LENGTH,
            max_tool_calling_iterations=LIMITS.max_turns - 1,
            **bridge.settings(TRL, GROUP),
            **bridge.LAPTOP,
        )
        trainer = trl.GRPOTrainer(
            model=model,
            args=config,
            train_dataset=bridge.dataset(tasks),
            processing_class=tokenizer,
            **arguments,
        )
        bridge.watch(trainer, show)
        batch = bridge.keep_batch(trainer)
        trainer.train()
    PROGRESS.clear()
    learnt = show_curve(way, logs)
    equal = show_masks(batch, tokenizer, box)
    memory = math.ceil((bridge.peak_megabytes() or 0) / 1024)
    print(f"\nPeak memory: less than {memory} GB.")
    return 0 if learnt and equal else 1


def mean(logs: list[dict[str, float]], name: str) -> float:
    """Of one metric over some updates."""
    return sum(log[name] for log in logs) / len(logs)


def show_curve(way: str, logs: list[dict[str, float]]) -> bool:
    """The run in steps of five updates; whether it learnt what it promises."""
    argument = {"tools": "tools=", "environment": "environment_factory="}
    name = argument.get(way, "rollout_func=")
    print(render.heading(f"The real GRPOTrainer with {name}", "03.7"))
    names = ("reward", "calls", "breakdown/right", "entropy", "unscored")
    edges = [0, 1, *range(5, UPDATES + 1, 5)]
    rows = []
    for first, last in itertools.pairwise(edges):
        part = logs[first:last]
        updates = f"{last}" if last == first + 1 else f"{first + 1} - {last}"
        shown = (render.number(mean(part, name), 2) for name in names)
        rows.append((updates, *shown))
    head = ["updates", "reward", "calls", "right", "entropy", "unscored"]
    print(render.table(head, rows))
    print()
    print(
        render.paragraph(
            f"Means of {ROLLOUTS} rollouts an update. calls: a rollout's calls that were "
            "answered. right: share of right answers; the course's reward takes 0.1 a "
            "call off them, so hard tasks pay 0.9 at best and lookups 0.8. unscored: share "
            "of rollouts that could not be played again."
        )
    )
    last = logs[-10:]
    rise = {
        name: mean(last, name) - mean(logs[:1], name) for name in ("reward", "calls")
    }
    kept = mean(last, "reward") >= PROMISE and min(rise.values()) >= 0.2
    if not kept:
        print(f"Expected a reward of at least {PROMISE:g}, and more calls than before.")
    return kept


# ------------------------------------------------------------------ whose token is it


def show_masks(batch: dict[str, Any], tokenizer: Any, box: ToolBox | None) -> bool:
    """TRL's mask beside ours, over the last batch; whether all of them are equal."""
    print(render.heading("TRL's tool_mask and our loss_mask", "03.8"))
    same_ids = same_mask = 0
    shown: tuple[list[int], list[int], list[int]] | None = None
    for place, row in enumerate(batch["rows"]):
        task = bridge.task_of(row)
        ids, theirs = bridge.completion_of(batch, place)
        try:
            record = bridge.replay_ids(task, ids, tokenizer, LIMITS, box)
        except BridgeError:
            continue
        if record.response_ids[: len(ids)] != ids:
            continue
        same_ids += 1
        ours = record.response_mask[: len(ids)]
        same_mask += ours == theirs
        is_right = right(token_ids.from_ids(record, tokenizer), task)
        if is_right and (shown is None or len(ids) > len(shown[0])):
            shown = ids, theirs, ours
    if shown:
        print(token_table(*shown, tokenizer))
    print()
    print(
        render.paragraph(
            f"The last batch has {len(batch['rows'])} rollouts. {same_ids} of them are the "
            "ids that our tokenizer bridge writes for the same episode (another cut of the "
            f"same text is no error: ids stay as sampled). In {same_mask} of these "
            f"{same_ids} the two masks are equal, token by token."
        )
    )
    return same_ids == same_mask > 0


def token_table(
    ids: list[int], theirs: list[int], ours: list[int], tokenizer: Any
) -> str:
    """The ids with both masks, read down the first half and then down the second."""
    cells = [
        (f"{token}", visible(tokenizer.decode([token])), f"{trl}", f"{own}")
        for token, trl, own in zip(ids, theirs, ours)
    ]
    half = (len(cells) + 1) // 2
    blank = ("", "", "", "")
    right = [*cells[half:], *[blank] * (2 * half - len(cells))]
    rows = [(*a, "   ", *b) for a, b in zip(cells[:half], right)]
    head = ["id", "token", "TRL", "ours"]
    return render.table([*head, "", *head], rows)


def visible(text: str) -> str:
    """A token's text in ASCII, a space as _, and not too long."""
    plain = text.replace("\n", "\\n").replace(" ", "_")
    shown = plain.encode("ascii", "backslashreplace").decode()
    return shown if len(shown) <= 22 else f"{shown[:20]}.."


def main() -> int:
    reader = argparse.ArgumentParser(description="TRL's GRPOTrainer with our tools.")
    reader.add_argument(
        "--with",
        dest="way",
        choices=("tools", "environment", "rollout"),
        default="tools",
        help="how the trainer gets at the tools (default: tools)",
    )
    way = reader.parse_args().way
    if problem := missing("trl"):
        complain(render.wrapped("", problem))
        return 1
    print("Chapter 03: an agent with tools in TRL.")
    status = train(way)
    print("\nNext: chapter 04, the same agent in verl.")
    return status


if __name__ == "__main__":
    run(main)
