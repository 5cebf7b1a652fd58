"""Chapter 03. The same objects in TRL: a row, a reward function, a config; and a run.

    python3 examples/03_grpo_single_turn/train_grpo_single_turn.py

Without TRL it shows what the course's objects look like in TRL's terms, and says what to
install. With TRL it also trains: a transformer with random weights learns sums of two
digits, in one turn, with the real GRPOTrainer. About half a minute on one core.
"""

import contextlib
import io
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from agentic_rl.advantage import group_advantages
from agentic_rl.bridges import sums, tiny_model
from agentic_rl.bridges import trl as bridge
from agentic_rl.bridges.frameworks import missing, require
from agentic_rl.cli import render
from agentic_rl.cli.terminal import Progress, run
from agentic_rl.conventions import COURSE, PRESETS, TRL
from agentic_rl.evaluation import training_tasks
from agentic_rl.golden import GOLDEN_NAMES, GOLDEN_TASK, LOOKUP_TASK, golden_group
from agentic_rl.grpo import Config, train
from agentic_rl.reward import COURSE_REWARD

SEED = 0
UPDATES = 120
GROUP = 16  # rollouts of one task
LEARNING_RATE = 1.5e-3
PROMISE = 0.9  # mean reward of the last five updates
PROCESSES = int(os.environ.get("WORLD_SIZE", "1"))  # as torchrun and accelerate say it
PROGRESS = Progress()


# ------------------------------------------------------------------ the interface


def show_row() -> None:
    print(render.heading("A task as a row of TRL's dataset", "03.1"))
    (row,) = bridge.rows([LOOKUP_TASK])
    print(render.wrapped("prompt  ", str(row["prompt"])))
    print(render.wrapped("task    ", row["task"]))
    same = bridge.task_of(row) == LOOKUP_TASK
    print(f"\nThe row gives the task back: {same}.")


def golden_rewards() -> list[float | None]:
    """The golden group, scored by our reward in the form that TRL calls."""
    print(render.heading("Our reward as TRL's reward function", "03.2"))
    group = golden_group()
    completions = [bridge.completion(episode) for episode in group]
    # TRL hands over two functions that log; here they only write into a dict each.
    extra: dict[str, list[float | None]] = {}
    metrics: dict[str, float] = {}
    reward = bridge.reward_function(COURSE_REWARD, end_id=None)
    rewards = reward(
        prompts=[bridge.rows([GOLDEN_TASK])[0]["prompt"]] * len(group),
        completions=completions,
        completion_ids=[[]] * len(group),
        task=[bridge.rows([GOLDEN_TASK])[0]["task"]] * len(group),
        log_extra=extra.__setitem__,
        log_metric=metrics.__setitem__,
    )
    rows = [
        (name, f"{len(messages)}", *(render.number(part, 1) for part in parts))
        for name, messages, *parts in zip(
            GOLDEN_NAMES, completions, rewards, *extra.values()
        )
    ]
    print(render.table(["episode", "messages", "reward", *extra], rows))
    print()
    print(
        render.paragraph(
            "TRL's completions hold messages and no tokens. The function plays our "
            "episode again with what the assistant wrote there, and scores that. The "
            "breakdown goes to log_extra, its means to log_metric. The broken call is one "
            "message: TRL takes it for plain text, and the rollout ends with it."
        )
    )
    return rewards


def show_advantages(rewards: list[float | None]) -> None:
    print(render.heading("The advantages of that group", "03.3"))
    group = [0] * len(rewards)
    ours = group_advantages(rewards, group, COURSE)
    theirs = group_advantages(rewards, group, TRL)
    rows = list(zip(GOLDEN_NAMES, rewards, ours, theirs))
    print(render.table(["episode", "reward", "course", "preset trl"], rows))
    print()
    print(
        render.paragraph(
            f"TRL divides by std + {TRL.std_epsilon:g}: its advantages are a little "
            "smaller in size than the course's."
        )
    )


def show_settings() -> None:
    print(render.heading("A convention as arguments of GRPOConfig", "03.4"))
    for name, value in bridge.settings(TRL).items():
        print(f"    {name}={value!r},")
    print("\nThat is the preset trl. What TRL can't say of the others:\n")
    rows = []
    for name, preset in PRESETS.items():
        wrong = bridge.unsayable(preset)
        nearest = bridge.settings(preset.but(**wrong))["loss_type"]
        rows.append(render.wrapped(f"{name:<13}{nearest:<8}", ", ".join(wrong) or "-"))
    print(f"{'preset':<13}{'loss':<8}switches without a counterpart")
    print("\n".join(rows))
    print()
    print(
        render.paragraph(
            "loss: the loss_type of the nearest config that there is. A convention with a "
            "switch in the last column is refused, never rounded off silently."
        )
    )
    print()
    print(
        render.paragraph(
            "dr_grpo -> luspo is no slip. luspo sums over a rollout's tokens and averages "
            "over rollouts, as the equation of Dr. GRPO does. What TRL calls dr_grpo also "
            "divides by max_completion_length: our aggregation 'constant'. TRL warns that "
            "luspo is meant for ratios a sequence; here they are ratios a token."
        )
    )


# ------------------------------------------------------------------ the run


def train_with_trl() -> list[float]:
    """The mean reward of each update of the real trainer."""
    bridge.silent()
    trl = require("trl")
    tokenizer = sums.make_tokenizer()
    model = tiny_model.make_model(tokenizer, SEED)
    tasks = sums.sums()
    rewards: list[float] = []

    def show(step: int, logs: dict[str, float]) -> None:
        rewards.append(logs["reward"])
        PROGRESS.show(f"update {step} of {UPDATES}: reward {logs['reward']:.2f}")

    with tempfile.TemporaryDirectory() as folder:
        config = trl.GRPOConfig(
            output_dir=folder,
            seed=SEED,
            learning_rate=LEARNING_RATE,
            max_steps=UPDATES,
            per_device_train_batch_size=GROUP * len(tasks) // PROCESSES,
            max_completion_length=1,
            **bridge.settings(TRL, GROUP),
            **bridge.LAPTOP,
        )
        trainer = trl.GRPOTrainer(
            model=model,
            reward_funcs=bridge.reward_function(COURSE_REWARD, end_id=None),
            args=config,
            train_dataset=bridge.dataset(tasks),
            processing_class=tokenizer,
        )
        bridge.watch(trainer, show)
        trainer.train()
    PROGRESS.clear()
    size = sum(weights.numel() for weights in model.parameters())
    print(
        f"{len(tasks)} tasks such as {tasks[10].question!r}, each of them {GROUP} times "
        f"in every update;\na Qwen3 of {size} parameters, random at the start; an answer "
        f"is one of {len(tokenizer)} tokens.\n"
    )
    return rewards


def show_run() -> int:
    """The two curves; the exit status."""
    print(render.heading("The real GRPOTrainer, beside chapter 02's trainer", "03.5"))
    theirs = train_with_trl()
    ours = [update["reward"] for update in train(training_tasks(), Config()).metrics]
    rows = []
    for update in (1, 5, 10, 20, 30, 40, 50, 60, 80, 100, UPDATES):
        own = render.number(ours[update - 1], 2) if update <= len(ours) else "-"
        rows.append((f"{update}", render.number(theirs[update - 1], 2), own))
    print(render.table(["update", "TRL, sums", "chapter 02, Tool-Math"], rows))
    print()
    print(
        render.paragraph(
            "Two problems, not a race. On the left every weight of a transformer learns "
            "what 4 + 2 is. On the right a table of logits learns when to call a tool, "
            "and its reward charges for the calls. Both see nothing but rewards compared "
            "within groups."
        )
    )
    last = sum(theirs[-5:]) / 5
    print(f"\nMean reward: {theirs[0]:.2f} at first, {last:.2f} over the last five.")
    if last < PROMISE:
        print(f"Expected at least {PROMISE:g}: this run did not learn.")
        return 1
    return 0


def main() -> int:
    if os.environ.get("RANK", "0") == "0":
        return chapter()
    with contextlib.redirect_stdout(io.StringIO()):  # only rank 0 prints
        return chapter()


def chapter() -> int:
    """All sections; the exit status."""
    print("Chapter 03: the course's objects in TRL.")
    show_row()
    show_advantages(golden_rewards())
    show_settings()
    if problem := missing("trl"):
        print(render.heading("The real GRPOTrainer", "03.5"))
        print(render.wrapped("", f"Not run: {problem}."))
        return 0
    status = show_run()
    print("\nNext: python3 examples/03_grpo_single_turn/train_grpo_tools.py")
    return status


if __name__ == "__main__":
    run(main, __doc__)
