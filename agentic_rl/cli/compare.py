"""``compare``: two runs, the difference first."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from agentic_rl.cli import render, runs
from agentic_rl.cli.arguments import Command, Operand, Option, Values, text
from agentic_rl.cli.evaluate import known_policy
from agentic_rl.cli.storage import HELD_OUT, load_tasks
from agentic_rl.cli.terminal import paint
from agentic_rl.cli.train import milestones
from agentic_rl.evaluation import ByKind, answer_sheets, exact, mean_report
from agentic_rl.grpo import State

CURVES = ("reward", "success", "entropy")


class Side(NamedTuple):
    """One of the two runs."""

    run: runs.Run
    state: State
    exact: ByKind


def main(values: Values) -> int:
    """Print what differs; the exit status."""
    tasks = load_tasks(Path(values["tasks"] or HELD_OUT))
    sheets = answer_sheets(tasks)
    sides = []
    for name in values["operands"]:
        folder = Path(name)
        run, policy = runs.open_run(folder), known_policy(folder)
        sides.append(Side(run, runs.load_state(run), exact(policy, sheets)))
    settings = list(different_settings(*sides))
    results = list(different_results(*sides))
    if values["json"]:
        print(json.dumps(_as_json(sides, settings, results)))
        return 0
    names = [str(side.run.folder) for side in sides]
    print(f"A = {names[0]}\nB = {names[1]}")
    print(render.heading("Settings that differ"))
    rows = [(name, render.setting(a), render.setting(b)) for name, a, b in settings]
    print(render.table(["setting", "A", "B"], rows) if rows else "none")
    print(render.heading("Where they ended, exact, on the same tasks", "B - A, A, B"))
    print(_differences(["what"], [([name], a, b) for name, a, b in results]))
    print_curves(*(side.state.metrics for side in sides))
    if any(name.startswith("reward ") for name, _, _ in settings):
        print(
            "\nThe two rewards are not the same, so their curves measure different things."
        )
    return 0


# ------------------------------------------------------------------ what differs


def different_settings(a: Side, b: Side) -> Iterator[tuple[str, Any, Any]]:
    """(setting, its value in A, in B) wherever the two differ."""
    left, right = (_flat(side.run.settings.to_dict()) for side in (a, b))
    if a.state.update != b.state.update:
        yield "steps done", a.state.update, b.state.update
    for name in dict.fromkeys([*left, *right]):
        if left.get(name) != right.get(name):
            yield name, left.get(name), right.get(name)
    tasks = a.run.tasks, b.run.tasks
    if tasks[0] != tasks[1]:
        both = sum(task in tasks[1] for task in tasks[0])
        yield "tasks that only it has", len(tasks[0]) - both, len(tasks[1]) - both


def _flat(record: dict[str, Any]) -> dict[str, Any]:
    """Every setting by one name; the convention's story is left out, its name is not."""
    terms = {f"reward {term['name']}": _term_text(term) for term in record["reward"]}
    config = dict(record["config"])
    limits = config.pop("limits")
    for name in ("updates", "tasks_per_update"):  # as the command line calls them
        config[name.replace("update", "step")] = config.pop(name)
    convention = {
        name: value
        for name, value in record["convention"].items()
        if name not in ("source", "notes")
    }
    convention["convention"] = convention.pop("name")
    return {**config, **limits, **convention, **terms}


def _term_text(term: dict[str, Any]) -> str:
    gate = ", if right" if term["only_if_right"] else ""
    cap = "" if term["cap"] is None else f", at most {term['cap']:g}"
    return f"{term['weight']:g} x {term['measure']}{gate}{cap}"


def different_results(a: Side, b: Side) -> Iterator[tuple[str, float, float]]:
    """(what, its value in A, in B) of the policies at the end; what is equal too."""
    for kind in a.exact:
        for column in ("success", "calls"):
            values = (getattr(side.exact[kind], column) for side in (a, b))
            yield f"{kind}: {column}", *values
    reports = [mean_report(side.exact.values()) for side in (a, b)]
    yield "return, mean of kinds", reports[0].reward, reports[1].reward
    yield "bad episodes", reports[0].invalid, reports[1].invalid


def print_curves(a: Sequence[dict[str, float]], b: Sequence[dict[str, float]]) -> None:
    """The training logs side by side, as far as both go."""
    steps = milestones(min(len(a), len(b)))
    for curve in CURVES if steps else ():
        rows = [([str(n)], a[n - 1][curve], b[n - 1][curve]) for n in steps]
        print(render.heading(f"{curve} while training", "B - A, A, B"))
        print(_differences(["step"], rows))


def _differences(
    head: list[str], rows: Sequence[tuple[list[str], float, float]]
) -> str:
    cells = [
        [*label, _signed(b - a), render.number(a, 4), render.number(b, 4)]
        for label, a, b in rows
    ]
    lines = render.table([*head, "B - A", "A", "B"], cells).splitlines()
    shown = [
        paint(line, "yellow") if round(b - a, 4) else line
        for line, (_, a, b) in zip(lines[1:], rows)
    ]
    return "\n".join([lines[0], *shown])


def _signed(value: float) -> str:
    text = render.number(value, 4)
    return text if text.startswith("-") or float(text) == 0 else f"+{text}"


def _as_json(
    sides: Sequence[Side],
    settings: Sequence[tuple[str, Any, Any]],
    results: Sequence[tuple[str, float, float]],
) -> dict[str, Any]:
    return {
        "runs": [str(side.run.folder) for side in sides],
        "settings": {name: [a, b] for name, a, b in settings},
        "results": {
            name: {"difference": b - a, "values": [a, b]} for name, a, b in results
        },
        "metrics": [side.state.metrics for side in sides],
    }


COMMAND = Command(
    "compare",
    "two runs, the difference first",
    "Compare two runs: the settings that differ, where their policies ended (exact, on "
    "the same tasks), and their training logs, the difference B - A first.",
    main,
    Operand("RUN", "two folders of runs, A and B", 2, 2),
    (
        Option("--tasks", "judge with these; otherwise held-out ones", text, "FILE"),
        Option("--json", "print it as JSON, the whole logs too"),
    ),
    (("compare runs/first runs/paid", "what another reward has changed"),),
)
