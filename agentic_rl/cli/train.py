"""``train``: the closed loop on a reader's own tasks, into a folder that can go on."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentic_rl.agent_loop import Limits
from agentic_rl.cli import render, runs
from agentic_rl.cli.arguments import (
    Command,
    Operand,
    Option,
    UsageError,
    Values,
    number,
    one_of,
    positive,
    text,
    whole,
)
from agentic_rl.cli.storage import TRAINING, FileError, load_tasks
from agentic_rl.cli.terminal import Progress, bar, complain, program
from agentic_rl.conventions import (
    CHOICES,
    COURSE,
    PRESETS,
    SWITCHES,
    Convention,
    ConventionError,
)
from agentic_rl.grpo import Batch, Config, State, train
from agentic_rl.reward import MEASURES, REWARDS, Reward, RewardError, Term

DEFAULT = Config()
KL = ("kl_weight", "kl_place", "kl_estimator")


def main(values: Values) -> int:
    """Train, or go on training; the exit status."""
    run = _resumed(values) if values["resume"] else _created(values)
    state = runs.load_state(run)
    try:
        finished = _learn(run, state)
    except (FileError, UsageError):
        raise
    except (ArithmeticError, ValueError) as error:
        if not runs.has_state(run):
            runs.discard(run)
        raise UsageError(f"step {state.update + 1}: {error}") from None
    if not finished:
        state = runs.load_state(run)  # without what the last step had begun
        with runs.Recorder(run):
            pass  # cuts it off
    runs.save_policy(run, state)
    (_print_json if values["json"] else _print_text)(run, state)
    return 0 if finished else 130


def _learn(run: runs.Run, state: State) -> bool:
    """Train to the end, each step on record; False if Ctrl-C came first."""
    config = run.settings.config
    progress = TrainingProgress(state.update, config.updates)
    with runs.Recorder(run) as recorder:

        def on_update(state: State, batch: Batch) -> None:
            recorder.on_update(state, batch)
            progress.show(state)

        try:
            train(
                run.tasks,
                config,
                reward=run.settings.reward,
                state=state,
                on_update=on_update,
            )
        except KeyboardInterrupt:
            return False
        finally:
            progress.clear()
    return True


# ------------------------------------------------------------------ what was asked for


def _created(values: Values) -> runs.Run:
    path = Path(*values["operands"]) if values["operands"] else TRAINING
    tasks = load_tasks(path)
    convention = convention_of(values)
    config = Config(
        updates=values["steps"] or DEFAULT.updates,
        tasks_per_update=values["tasks_per_step"],
        group_size=values["group_size"],
        epochs=values["epochs"],
        learning_rate=values["learning_rate"],
        seed=values["seed"],
        limits=Limits(max_turns=values["max_turns"]),
        convention=convention,
    )
    folder = values["out"] or f"runs/{convention.name}-seed{config.seed}"
    settings = runs.Settings(config, reward_of(values), values["keep_every"])
    return runs.create(Path(folder), settings, tasks)


def _resumed(values: Values) -> runs.Run:
    """The run of a folder; only how long it goes on may be said anew."""
    for option in OPTIONS:
        if option.key in values["given"] - {"resume", "steps", "json"}:
            raise UsageError(f"{option.name}: is settled when a run is resumed")
    if values["operands"]:
        raise UsageError("TASKS: are settled when a run is resumed")
    run = runs.open_run(Path(values["resume"]))
    config = run.settings.config
    if values["steps"] is None or values["steps"] == config.updates:
        return run
    done = runs.load_state(run).update
    if values["steps"] < done:
        raise UsageError(f"--steps: {values['steps']}, but {done} are done already")
    settings = replace(run.settings, config=replace(config, updates=values["steps"]))
    with runs.Recorder(run):  # refuses a folder that can't be gone on with
        runs.save_settings(run.folder, settings)
    return run._replace(settings=settings)


def convention_of(values: Values) -> Convention:
    """The preset with the switches that were turned. Raises UsageError."""
    turned = [*values["set"], *(values["clip"] or {}).items()]
    turned += [(key, values[key]) for key in KL if values[key] is not None]
    names = [name for name, _ in turned]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UsageError(f"--set: {twice[0]}: is set twice")
    switches = dict(turned)
    preset = PRESETS[values["convention"]]
    place = switches.get("kl_place", preset.kl_place)
    weight = switches.get("kl_weight", preset.kl_weight)
    without_place = weight != 0 and place == "none"
    without_weight = weight == 0 and switches.get("kl_place", "none") != "none"
    if without_place or without_weight:
        raise UsageError("--kl-weight: above 0 and a --kl-place go together")
    try:
        return preset.but(**switches)
    except ConventionError as error:
        raise UsageError(f"convention: {error}") from None


def reward_of(values: Values) -> Reward:
    """The named reward, or the sum of the terms that were given. Raises UsageError."""
    if not values["term"]:
        return REWARDS[values["reward"] or "course"]
    if values["reward"]:
        raise UsageError("--reward: its terms are settled; leave it out, or --term")
    try:
        return Reward(tuple(values["term"]))
    except RewardError as error:
        raise UsageError(f"--term: {error}") from None


def read_clip(given: str) -> dict[str, Any]:
    """off, one range for both sides, or LOW,HIGH -> the convention's switches."""
    if given == "off":
        return {"clip": "off"}
    low, _, high = given.partition(",")
    lowest, highest = number(low), number(high or low)
    if lowest < 0 or highest < 0:
        raise ValueError(f"expected off, a range of at least 0, or two, got {given!r}")
    return {"clip": "ppo", "clip_low": lowest, "clip_high": highest}


def read_switch(given: str) -> tuple[str, Any]:
    """SWITCH=VALUE -> (switch, value), the value of the type that the switch has."""
    name, equals, value = given.partition("=")
    if not equals:
        raise ValueError(f"expected SWITCH=VALUE, got {given!r}")
    if name not in SWITCHES:
        raise ValueError(
            f"{name!r} is no switch; see {program()} conventions --switches"
        )
    if name in CHOICES:
        return name, {str(choice): choice for choice in CHOICES[name]}.get(value, value)
    default = getattr(COURSE, name)
    if isinstance(default, bool):
        return name, {"true": True, "false": False}.get(value, value)
    if value == "none":
        return name, None
    return name, number(value)


def read_term(given: str) -> Term:
    """MEASURE=WEIGHT[,if-right][,cap=N] -> a term of that name."""
    name, equals, rest = given.partition("=")
    if not equals:
        raise ValueError(f"expected MEASURE=WEIGHT, got {given!r}")
    weight, *marks = rest.split(",")
    if name not in MEASURES:
        raise ValueError(f"expected one of {', '.join(MEASURES)}, got {name!r}")
    cap = None
    for mark in marks:
        if mark.startswith("cap="):
            cap = positive(mark.removeprefix("cap="))
        elif mark != "if-right":
            raise ValueError(f"expected if-right or cap=N, got {mark!r}")
    return Term(name, number(weight), MEASURES[name], "if-right" in marks, cap)


# ------------------------------------------------------------------ what is shown


class TrainingProgress:
    """A line with rate and remaining time on a terminal; elsewhere a line now and then."""

    def __init__(self, done: int, steps: int) -> None:
        self.line = Progress()
        self.first, self.steps = done, steps
        self.began = time.monotonic()

    def show(self, state: State) -> None:
        """One more step is done."""
        done, metrics = state.update, state.metrics[-1]
        means = f"reward {metrics['reward']:.3f}  success {metrics['success']:.3f}"
        if self.line.shown:
            rate = (done - self.first) / max(time.monotonic() - self.began, 1e-9)
            left = clock((self.steps - done) / rate)
            self.line.show(
                f"[{bar(done, self.steps, 20)}] {done}/{self.steps}  {means}  "
                f"{rate:.0f}/s  {left} left"
            )
        elif done in milestones(self.steps):
            complain(f"step {done}/{self.steps}  {means}")

    def clear(self) -> None:
        """Take the line away."""
        self.line.clear()


def clock(seconds: float) -> str:
    """Seconds as m:ss or h:mm:ss."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def milestones(steps: int, count: int = 10) -> list[int]:
    """About ``count`` steps on the way, the first and the last among them."""
    on_the_way = {steps * part // count for part in range(1, count + 1)}
    return sorted({1, *on_the_way} - {0}) if steps else []


def notes(config: Config) -> Iterator[str]:
    """What a reader of this run's log should know."""
    convention = config.convention
    if convention.aggregation != COURSE.aggregation:
        yield (
            f"The loss is a mean ({convention.aggregation}), not the course's sum over an "
            "episode: steps are shorter, so another --learning-rate fits."
        )
    has_peers = convention.baseline in ("group_mean", "leave_one_out")
    if config.group_size == 1 and has_peers and convention.group_of_one == "zero":
        yield "A group of one has nothing to compare with: every advantage is 0."


def _print_text(run: runs.Run, state: State) -> None:
    config, folder = run.settings.config, shlex.quote(str(run.folder))
    done = f"{state.update} of {config.updates} steps"
    title = f"{run.folder}: {done}"
    print(render.heading(title, f"convention {config.convention.name}"))
    if steps := milestones(state.update):
        print(render.training_log(state.metrics, render.LOG, steps, "step"))
    for note in notes(config):
        print("\n" + render.paragraph(note))
    written = sorted(path.name for path in run.folder.iterdir())
    print("\n" + render.paragraph(f"wrote {', '.join(written)}"))
    if state.update < config.updates:
        print(f"\nStopped; go on with:\n  {program()} train --resume {folder}")
        return
    own = (run.folder / runs.TASKS).read_bytes() != TRAINING.read_bytes()
    judges = f" --tasks {shlex.quote(str(run.folder / runs.TASKS))}" if own else ""
    print(f"\nNext:\n  {program()} evaluate {folder}{judges}")
    if (run.folder / runs.TRAJECTORIES).stat().st_size:
        print(f"  {program()} show {folder}")


def _print_json(run: runs.Run, state: State) -> None:
    last = state.metrics[-1] if state.metrics else {}
    summary = {
        "folder": str(run.folder),
        "steps": state.update,
        "of_steps": run.settings.config.updates,
        "metrics": last,
    }
    print(json.dumps(summary))


# ------------------------------------------------------------------ the command

OPTIONS = (
    Option(
        "--steps",
        f"how many batches to sample and learn from ({DEFAULT.updates})",
        whole(1),
        "N",
    ),
    Option(
        "--tasks-per-step", "tasks in a batch", whole(1), "N", DEFAULT.tasks_per_update
    ),
    Option("--group-size", "episodes a task", whole(1), "N", DEFAULT.group_size),
    Option("--epochs", "steps taken on each batch", whole(1), "N", DEFAULT.epochs),
    Option(
        "--learning-rate",
        "step size on the logits",
        positive,
        "X",
        DEFAULT.learning_rate,
    ),
    Option("--max-turns", "assistant turns an episode", whole(1), "N", 5),
    Option("--seed", "of all that is random", whole(0), "N", 0),
    Option(
        "--convention",
        f"a preset: {', '.join(PRESETS)}",
        one_of(*PRESETS),
        "NAME",
        "course",
    ),
    Option("--clip", "range of the ratio: 0.2, or 0.2,0.28, or off", read_clip, "X"),
    Option("--kl-weight", "of the KL to the first policy", number, "X"),
    Option(
        "--kl-place",
        "where the KL is charged: none, loss, reward",
        one_of(*map(str, CHOICES["kl_place"])),
        "WHERE",
    ),
    Option(
        "--kl-estimator",
        "k1, k2 or k3",
        one_of(*map(str, CHOICES["kl_estimator"])),
        "NAME",
    ),
    Option(
        "--set",
        "any other switch of the convention; may be repeated",
        read_switch,
        "SWITCH=VALUE",
        repeated=True,
    ),
    Option("--reward", f"by name: {', '.join(REWARDS)}", one_of(*REWARDS), "NAME"),
    Option(
        "--term",
        "a reward of your own, term by term: MEASURE=WEIGHT, then ,if-right and ,cap=N "
        f"where wanted; measures: {', '.join(MEASURES)}; may be repeated",
        read_term,
        "TERM",
        repeated=True,
    ),
    Option("--out", "folder of the run (runs/CONVENTION-seedN)", text, "FOLDER"),
    Option(
        "--keep-every",
        "write the episodes of every Nth step, 0 for none",
        whole(0),
        "N",
        1,
    ),
    Option("--resume", "go on with the run in this folder", text, "FOLDER"),
    Option("--json", "print the summary as JSON"),
)

COMMAND = Command(
    "train",
    "train a policy on tasks, into a folder",
    "Train a softmax policy on Tool-Math tasks: sample groups of episodes, score them, "
    "compare each with its group, take a step; again. The folder gets the metrics, the "
    "trajectories, the policy, and what it takes to go on: Ctrl-C leaves a folder that "
    "can be resumed, and what comes out is the same as without the break.\n\n"
    'A task is {"id", "question", "expression", "answer"}, all text, the answer exactly '
    "what the calculator gives. Its kind is read from the question: a sum of single "
    "digits (What is 3 + 4?) is easy, any other arithmetic written out with + - * / is "
    'hard, and a question without arithmetic is a lookup: it needs "item" and "prices" '
    'too, and "price" in its expression. A question must not give its answer away.',
    main,
    Operand("TASKS", "JSON lines; without it, the tasks that ship", 0),
    OPTIONS,
    (
        ("train --out runs/first", "60 steps on the tasks that ship"),
        (
            "train my_tasks.jsonl --convention dr_grpo --group-size 16 --seed 3",
            "your own tasks, Dr.GRPO, 16 episodes a task",
        ),
        (
            "train --term right=1 --term calls=0.5 --out runs/paid",
            "a reward that pays for calls: see what the agent makes of it",
        ),
        (
            "train --clip 0.2,0.28 --kl-weight 0.05 --kl-place loss --set std=none "
            "--out runs/kl",
            "switches one by one",
        ),
        ("train --resume runs/first --steps 120", "60 steps more"),
    ),
)
