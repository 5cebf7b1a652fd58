"""The objects of the course as plain text, at most 80 columns wide, ASCII only."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from agentic_rl.evaluation import ByKind, mean_report
from agentic_rl.messages import Message
from agentic_rl.policy import Gradient, SoftmaxPolicy
from agentic_rl.tokens import IM_START
from agentic_rl.trajectory import Trajectory

WIDTH = 80


def heading(title: str, right: str = "") -> str:
    """A title over a rule, with something at the right end of the line."""
    return f"\n{title}{right.rjust(WIDTH - len(title))}\n{'=' * WIDTH}"


def number(value: float | None, digits: int = 4) -> str:
    """A fixed number of decimals, null for None, and never -0.0000."""
    if value is None:
        return "null"
    text = f"{value:.{digits}f}"
    return text.lstrip("-") if float(text) == 0 else text


def table(head: Sequence[str], rows: Sequence[Sequence[Any]], gap: int = 2) -> str:
    """Columns as wide as they need be; text to the left, numbers to the right.

    Floats get 4 decimals; write a number as text to choose its form.
    """
    cells = [[_cell(value) for value in row] for row in rows]
    columns = list(zip(head, *cells)) if cells else [(name,) for name in head]
    widths = [max(len(text) for text in column) for column in columns]
    is_number = [_is_numeric(column[1:]) for column in columns]
    lines = [head, *cells]
    return "\n".join(
        (" " * gap)
        .join(
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, is_number)
        )
        .rstrip()
        for line in lines
    )


def _cell(value: Any) -> str:
    return number(value) if isinstance(value, float) or value is None else str(value)


def _is_numeric(column: Sequence[str]) -> bool:
    shown = [text for text in column if text]
    return bool(shown) and all(
        text[-1].isdigit() or text in ("null", "-") for text in shown
    )


def paragraph(text: str) -> str:
    """Text filled to the width."""
    return textwrap.fill(" ".join(text.split()), WIDTH)


def messages(conversation: Sequence[Message]) -> str:
    """One line a message or call, thinking apart."""
    rows = []
    for message in conversation:
        role = message["role"]
        if thought := message.get("reasoning_content"):
            rows.append((role, "thinks", thought))
        for call in message.get("tool_calls", ()):
            function = call["function"]
            arguments = function["arguments"]
            if not isinstance(arguments, str):
                arguments = json.dumps(arguments)
            rows.append((role, call["id"], f"{function['name']}({arguments})"))
        if message["content"] or not message.get("tool_calls"):
            rows.append((role, message.get("tool_call_id", ""), message["content"]))
    return "\n".join(
        wrapped(f"{role:<9}  {mark:<6}  ", text) for role, mark, text in rows
    )


def tokens(trajectory: Trajectory) -> str:
    """The token row with its mask: one line a run of tokens that share an author.

    A token's leading space is shown as _, a newline as \\n.
    """
    lines = [f"{'tokens':<9}  mask  {'log pi':<7}  what they are"]
    for first, last in _runs(trajectory):
        mask, logprob = trajectory.loss_mask[first], trajectory.logprobs[first]
        choice = number(logprob) if trajectory.decision[first] else ""
        label = f"{first:>3} - {last - 1:<3}  {mask:>4}  {choice:>7}  "
        shown = " ".join(_visible(token) for token in trajectory.tokens[first:last])
        lines.append(wrapped(label, shown))
    return "\n".join(lines)


def _runs(trajectory: Trajectory) -> list[tuple[int, int]]:
    """(first, one past the last) of each run: the mask changes, or a new turn opens."""
    opens = [0]
    for place in range(1, len(trajectory.tokens)):
        new_mask = trajectory.loss_mask[place] != trajectory.loss_mask[place - 1]
        if new_mask or trajectory.tokens[place] == IM_START:
            opens.append(place)
    return list(zip(opens, [*opens[1:], len(trajectory.tokens)]))


def _visible(token: str) -> str:
    return token.replace("\n", "\\n").replace(" ", "_")


def wrapped(label: str, text: str) -> str:
    """The text filled to the width beside its label; what can't be shown is escaped."""
    indent = " " * len(label)
    shown = "".join(_printable(character) for character in text)
    return textwrap.fill(
        label + shown,
        WIDTH,
        subsequent_indent=indent,
        break_on_hyphens=False,
        drop_whitespace=True,
    ).rstrip()


def _printable(character: str) -> str:
    if character.isascii() and character.isprintable():
        return character
    return character.encode("unicode_escape").decode()


def choices(trajectory: Trajectory) -> str:
    """The decisions of an episode on one line."""
    return ", ".join(action["choice"] for action in trajectory.actions)


def logit_step(
    policy: SoftmaxPolicy,
    gradient: Gradient,
    after: SoftmaxPolicy,
    states: Sequence[str],
    slope: str,
) -> str:
    """One step on the logits of some states: before and after, with pi.

    ``slope`` heads the gradient's column: of what it is the gradient.
    """
    rows = []
    for state in states:
        chances = policy.probabilities(state), after.probabilities(state)
        for index, action in enumerate(policy.actions):
            rows.append(
                (
                    state if index == 0 else "",
                    action,
                    policy.logits[state][index],
                    gradient[state][index],
                    after.logits[state][index],
                    chances[0][index],
                    chances[1][index],
                )
            )
    head = ["state", "action", "logit", slope, "new", "pi", "new pi"]
    return table(head, rows)


def training_log(
    metrics: Sequence[Mapping[str, float]],
    columns: Mapping[str, str],
    updates: Sequence[int],
    first: str = "update",
    gap: int = 2,
) -> str:
    """Some updates of a run, counted from 1; ``columns``: metric -> its heading."""
    rows = [
        (str(update), *(number(metrics[update - 1][key], 2) for key in columns))
        for update in updates
    ]
    return table([first, *columns.values()], rows, gap)


def honest_row(name: str, exact: ByKind, sampled: ByKind | None = None) -> list[str]:
    """One row of the honest table; see ``honest_table``."""
    reports = list(exact.values())
    everywhere = mean_report(reports)
    return [
        name,
        *(number(line.success, 3) for line in reports),
        *(number(line.success, 3) for line in (sampled or {}).values()),
        *([] if sampled else ["-"] * len(reports)),
        *(number(line.calls, 2) for line in reports),
        number(100 * everywhere.invalid, 2),
        number(everywhere.reward, 3),
    ]


def honest_table(rows: Sequence[Sequence[str]]) -> str:
    """Success by kind (exact, then sampled on held-out tasks), calls, invalid, return."""
    kinds = ["easy", "hard", "look"]
    head = ["policy", *kinds, *kinds, *kinds, "bad%", "return"]
    width = max(len(row[0]) for row in rows)
    above = f"{'':<{width}} {'success, exact':<17} {'success, sampled':<17} calls an episode"
    return above + "\n" + table(head, rows, gap=1)
