"""``evaluate``: policies in the honest table, or recorded episodes counted by kind."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from agentic_rl.agent_loop import Limits
from agentic_rl.cli import render, runs
from agentic_rl.cli.arguments import (
    Command,
    Operand,
    Option,
    UsageError,
    Values,
    text,
    whole,
)
from agentic_rl.cli.records import Record, read_record
from agentic_rl.cli.storage import (
    HELD_OUT,
    TRAINING,
    BadLines,
    FileError,
    load_tasks,
    stream,
)
from agentic_rl.cli.terminal import Progress, complain, flush
from agentic_rl.evaluation import (
    SAMPLES,
    ByKind,
    answer_sheets,
    as_dicts,
    exact,
    optimum,
    sampled,
    sampled_policy,
)
from agentic_rl.grpo import Config, start
from agentic_rl.policy import SoftmaxPolicy
from agentic_rl.reward import right
from agentic_rl.scripted import ACTS_WELL
from agentic_rl.tasks import Task, kind_of
from agentic_rl.tool_math import ACTIONS, STATES


def main(values: Values) -> int:
    """Print the table; the exit status is 1 if lines of a trajectory file were bad."""
    paths = [Path(name) for name in values["operands"]]
    recorded = [path for path in paths if path.suffix == ".jsonl"]
    if recorded and len(paths) > 1:
        raise UsageError("a file of trajectories is evaluated by itself")
    if recorded:
        return count_episodes(recorded[0], values)
    return honest(paths, values)


# ------------------------------------------------------------------ policies


class Row(NamedTuple):
    """One line of the honest table."""

    name: str
    exact: ByKind
    sampled: ByKind | None = None


def honest(paths: Sequence[Path], values: Values) -> int:
    """The honest table of some policies, on tasks that they were not trained on."""
    source = Path(values["tasks"] or HELD_OUT)
    tasks, episodes = load_tasks(source), values["episodes"]
    limits = Limits(max_turns=values["max_turns"])
    policies = [(str(path), known_policy(path)) for path in paths]
    rows = honest_rows(policies, tasks, limits, episodes, values["seed"])
    if values["json"]:
        print(json.dumps([_as_json(row) for row in rows]))
        return 0
    print(render.heading("The honest table", f"{len(tasks)} tasks of {source.name}"))
    cells = [render.honest_row(_short(r.name), r.exact, r.sampled) for r in rows]
    print(render.honest_table(cells))
    print()
    print(
        render.paragraph(
            f"Exact: every episode of at most {limits.max_turns} turns enumerated. "
            f"Sampled: {episodes} episodes a kind. bad%: episodes with an invalid call. "
            "Return: the reward of the course, whatever "
            "was trained on. Policies sample their actions; the script is played as it "
            "is. A policy sees only a task's kind, so other tasks test the plumbing, not "
            "generalisation."
        )
    )
    return 0


def honest_rows(
    policies: Sequence[tuple[str, SoftmaxPolicy]],
    tasks: list[Task],
    limits: Limits,
    episodes: int,
    seed: int,
) -> list[Row]:
    """Untrained, best scripted, each of the policies, and the optimum."""
    sheets = answer_sheets(tasks, limits)

    def row(name: str, policy: SoftmaxPolicy) -> Row:
        drawn = sampled_policy(policy, tasks, seed, episodes, limits)
        return Row(name, exact(policy, sheets), drawn)

    scripted = sampled(lambda task: ACTS_WELL.run(task, limits), tasks, len(tasks))
    return [
        row("untrained", start(Config()).policy),
        Row("best scripted", scripted, scripted),
        *(row(name, policy) for name, policy in policies),
        Row("optimum", optimum(sheets)),
    ]


def _as_json(row: Row) -> dict[str, Any]:
    return {
        "policy": row.name,
        "exact": as_dicts(row.exact),
        "sampled": None if row.sampled is None else as_dicts(row.sampled),
    }


def _short(name: str) -> str:
    """The end of a path, in 16 columns."""
    name = name.removesuffix("/policy.json")
    if len(name) > 16:
        name = name.rpartition("/")[2]
    return name if len(name) <= 16 else ".." + name[-14:]


def known_policy(path: Path) -> SoftmaxPolicy:
    """A policy that acts in Tool-Math. Raises FileError."""
    policy = runs.load_policy(path)
    if set(policy.logits) != set(STATES) or set(policy.actions) != set(ACTIONS):
        raise FileError(f"{path}: its states and actions are not those of Tool-Math")
    return policy


# ------------------------------------------------------------------ recorded episodes


@dataclass
class Tally:
    """Sums over recorded episodes. ``judged`` counts those whose task is known."""

    episodes: int = 0
    judged: int = 0
    right: int = 0
    scored: int = 0
    reward: float = 0.0
    turns: int = 0
    calls: int = 0
    invalid: int = 0
    unfinished: int = 0

    def add(self, record: Record, task: Task | None) -> None:
        """One more episode."""
        made, invalid = calls_of(record)
        self.episodes += 1
        self.turns += sum(message["role"] == "assistant" for message in record.messages)
        self.calls += made - invalid
        self.invalid += invalid
        self.unfinished += _is_unfinished(record)
        if record.reward is not None:
            self.scored += 1
            self.reward += record.reward
        if task is not None and record.trajectory is not None:
            self.judged += 1
            self.right += right(record.trajectory, task) == 1.0

    def means(self) -> dict[str, float | None]:
        """What the table shows; None where there was nothing to take a mean of."""
        count = self.episodes
        return {
            "success": _mean(self.right, self.judged),
            "reward": _mean(self.reward, self.scored),
            "turns": _mean(self.turns, count),
            "calls": _mean(self.calls, count),
            "invalid": _mean(self.invalid, count),
            "unfinished": _mean(self.unfinished, count),
        }


def calls_of(record: Record) -> tuple[int, int]:
    """(calls that were made, those of them that could not be run).

    A chat log does not say which could: those that can't be read are counted.
    """
    calls = [call for m in record.messages for call in m.get("tool_calls") or ()]
    if record.trajectory is not None:
        return len(calls), record.trajectory.invalid_calls
    arguments = [call["function"]["arguments"] for call in calls]
    return len(calls), sum(isinstance(given, str) for given in arguments)


def _is_unfinished(record: Record) -> bool:
    if record.trajectory is not None:
        return record.trajectory.truncated
    last = record.messages[-1] if record.messages else {"role": "nobody"}
    return last["role"] != "assistant" or bool(last.get("tool_calls"))


def _mean(total: float, count: int) -> float | None:
    return total / count if count and math.isfinite(total) else None


def count_episodes(path: Path, values: Values) -> int:
    """A table of recorded episodes by kind; one line of the file is in memory at a time."""
    tasks = {task.id: task for task in _tasks_of(path, values["tasks"])}
    tallies: dict[str, Tally] = {}
    bad, last, progress = BadLines(path), 0, Progress()
    for last, record in stream(path, read_record, bad):
        if record is not None:
            task = tasks.get(record.task_id or "")
            tallies.setdefault(_kind(record), Tally()).add(record, task)
        if last % 1000 == 0:
            progress.show(f"{last} lines")
    progress.clear()
    if not tallies:
        raise FileError(
            f"{bad.summary()}\n{path}: no episode in it"
            if bad.count
            else f"{path}: no episode in it"
        )
    if values["json"]:
        print(json.dumps(_counted(path, last, bad, tallies)))
    else:
        _print_counted(path, tallies)
    if bad.count:
        flush()
        complain(bad.summary())
    return 1 if bad.count else 0


def _tasks_of(path: Path, given: str | None) -> list[Task]:
    """The tasks that say what is right: those given, the run's own, or the shipped ones."""
    if given is not None:
        return load_tasks(Path(given))
    beside = path.with_name(runs.TASKS)
    if beside.exists() and (path.parent / runs.CONFIG).exists():
        return load_tasks(beside)
    return [*load_tasks(TRAINING), *load_tasks(HELD_OUT)]


def _kind(record: Record) -> str:
    if record.trajectory is None or not record.messages:
        return "chat logs"
    return kind_of(record.messages[0]["content"] or "")


def _print_counted(path: Path, tallies: dict[str, Tally]) -> None:
    rows = []
    for kind in sorted(tallies):
        means = tallies[kind].means()
        shown = ["-" if x is None else render.number(x, 3) for x in means.values()]
        rows.append([kind, str(tallies[kind].episodes), *shown])
    print(render.heading(f"Recorded episodes: {path.name}", "means"))
    print(render.table(["kind", "episodes", *Tally().means()], rows))
    judged = sum(tally.judged for tally in tallies.values())
    total = sum(tally.episodes for tally in tallies.values())
    print()
    print(
        render.paragraph(
            f"{total} episodes; success is that of the {judged} whose task is known. "
            "calls that ran, and invalid ones: an episode. unfinished: share that ended "
            "without an answer."
        )
    )


def _counted(
    path: Path, lines: int, bad: BadLines, tallies: dict[str, Tally]
) -> dict[str, Any]:
    kinds = {
        kind: {**vars(tally), "reward": _mean(tally.reward, 1), "means": tally.means()}
        for kind, tally in sorted(tallies.items())
    }
    return {
        "file": str(path),
        "lines": lines,
        "bad_lines": {"count": bad.count, "ranges": bad.ranges, "reasons": bad.reasons},
        "kinds": kinds,
    }


COMMAND = Command(
    "evaluate",
    "the honest table of policies; counts of recorded episodes",
    "For policies (runs' folders, or policy files): success, calls and return by kind of "
    "task, exact by enumeration, with a sampled figure beside it, and the rows untrained, "
    "best scripted and optimum. For one file of trajectories or chat logs (.jsonl, of any "
    "size): counts and means; bad lines are named, and make the exit status 1.",
    main,
    Operand("RUN", "folders of runs, policy files, or one .jsonl", 1, 32),
    (
        Option("--tasks", "judge with these; otherwise held-out ones", text, "FILE"),
        Option("--episodes", "sampled, a kind", whole(1), "N", SAMPLES),
        Option("--max-turns", "assistant turns an episode", whole(1), "N", 5),
        Option("--seed", "of the sampled figure", whole(0), "N", 0),
        Option("--json", "print it as JSON"),
    ),
    (
        ("evaluate runs/first", "a policy, on the held-out tasks that ship"),
        ("evaluate runs/first runs/paid --tasks my_tasks.jsonl", "two, on your tasks"),
        ("evaluate runs/first/trajectories.jsonl", "what happened while it trained"),
    ),
)
