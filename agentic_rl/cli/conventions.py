"""``conventions``: one group of rewards under every preset, side by side."""

from __future__ import annotations

import json
from typing import Any

from agentic_rl.advantage import AdvantageError, group_advantages, spread
from agentic_rl.cli import render
from agentic_rl.cli.arguments import (
    Command,
    Operand,
    Option,
    UsageError,
    Values,
    number,
)
from agentic_rl.conventions import COURSE, PRESETS, SWITCHES, Convention
from agentic_rl.golden import golden_group

A_ROW = 4  # rewards side by side


def main(values: Values) -> int:
    """Print the table; the exit status."""
    rewards = [_reward(text) for text in values["operands"]]
    if not rewards:
        rewards = [episode.reward for episode in golden_group()]
    found = {name: advantages(rewards, rule) for name, rule in PRESETS.items()}
    if values["json"]:
        print(json.dumps({"rewards": rewards, "presets": _as_json(found)}))
        return 0
    print(render.heading("One group of rewards under every preset", "advantages"))
    firsts = range(0, len(rewards), A_ROW)
    print("\n\n".join(_table(rewards, found, first) for first in firsts))
    print()
    for name, refusal in found.items():
        if isinstance(refusal, str):
            print(render.paragraph(f"{name} refuses: {refusal}"))
    print(
        render.paragraph(
            "Each episode has one decision, and all of the group are in one batch; - is "
            "an unscored episode that is left out. What else the presets disagree on, "
            "unit, aggregation, clip and KL, acts in the loss: --switches lists it."
        )
    )
    if values["switches"]:
        print_switches()
    return 0


def _reward(text: str) -> float | None:
    if text == "none":
        return None
    try:
        return number(text)
    except ValueError:
        raise UsageError(f"REWARD: expected a number or none, got {text!r}") from None


def advantages(
    rewards: list[float | None], convention: Convention
) -> list[float] | str:
    """The group's advantages, or why the convention refuses it."""
    try:
        values = group_advantages(rewards, [0] * len(rewards), convention)
        rows = spread(values, [1] * len(values), convention)
    except AdvantageError as error:
        return str(error)
    return [row[0] for row in rows]


def _table(
    rewards: list[float | None], found: dict[str, list[float] | str], first: int
) -> str:
    shown = range(first, min(first + A_ROW, len(rewards)))
    names = ("none" if rewards[i] is None else f"{rewards[i]:g}" for i in shown)
    rows = [
        [name, *(_cell(name, row, rewards[i], i) for i in shown)]
        for name, row in found.items()
    ]
    return render.table(["preset", *names], rows)


def _cell(name: str, row: list[float] | str, reward: float | None, place: int) -> str:
    if isinstance(row, str):
        return "refused"
    if reward is None and PRESETS[name].unscored == "left_out":
        return "-"
    value = row[place]
    return render.number(value) if abs(value) < 1000 else f"{value:.4g}"


def _as_json(found: dict[str, list[float] | str]) -> dict[str, Any]:
    return {
        name: {
            "advantages": None if isinstance(row, str) else row,
            "refused": row if isinstance(row, str) else None,
            "switches": vars(PRESETS[name]),
        }
        for name, row in found.items()
    }


# ------------------------------------------------------------------ the switches


def print_switches() -> None:
    """Each switch: what the course has, who has something else, what sources leave open."""
    print(render.heading("Every switch", "course; then who has something else"))
    for switch in SWITCHES:
        label = f"{switch:<20}{render.setting(getattr(COURSE, switch)):<14}"
        print(render.wrapped(label, "; ".join(_others(switch)) or "-"))
    print(render.heading("Sources, and what they leave open"))
    for name, rule in PRESETS.items():
        print(render.paragraph(f"{name}: {rule.source}"))
        for switch, note in rule.notes:
            print(render.wrapped(f"  {switch}: ", note))


def _others(switch: str) -> list[str]:
    """value: the presets that have it, for each value that is not the course's."""
    by_value: dict[str, list[str]] = {}
    for name, rule in PRESETS.items():
        if getattr(rule, switch) != getattr(COURSE, switch):
            by_value.setdefault(render.setting(getattr(rule, switch)), []).append(name)
    return [f"{value}: {', '.join(names)}" for value, names in by_value.items()]


COMMAND = Command(
    "conventions",
    "one group of rewards under every preset",
    "Print the advantages that each paper's or framework's convention gives the same "
    "group of rewards, side by side.",
    main,
    Operand(
        "REWARD", "of each episode, or none; the golden group's by default", 0, 512
    ),
    (
        Option("--switches", "print every switch of every preset too"),
        Option("--json", "print it as JSON"),
    ),
    (
        ("conventions", "the golden group: 0.9, 0, 0.7, 0"),
        ("conventions 1 1 1 1", "rewards without a spread"),
        ("conventions 1", "a group of one"),
        ("conventions 1 0 none 0.5 --switches", "an unscored episode"),
    ),
)
