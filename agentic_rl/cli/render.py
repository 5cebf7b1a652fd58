"""The objects of the course as plain text, at most 80 columns wide.

What is not ASCII is escaped, so that a page is the same everywhere. A reader's own text
may be in any language: ``readable`` leaves it as it is, where the output can hold it.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from agentic_rl.evaluation import ByKind, mean_report
from agentic_rl.messages import Message
from agentic_rl.policy import Gradient, SoftmaxPolicy
from agentic_rl.tasks import KINDS
from agentic_rl.tokens import IM_START
from agentic_rl.trajectory import Trajectory

WIDTH = 80

# A Chinese, Japanese or Korean character takes two columns: while lines are folded, a
# character of private use stands for the second.
_SECOND_COLUMN = "\ue000"
_WIDE = re.compile(
    "[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60"
    "\uffe0-\uffe6\U0001f300-\U0001faff\U00020000-\U0003fffd]"
)

_SPACES = "\u00a0\u3000"  # Python calls these unprintable

Printable = Callable[[str], str]  # a character -> what is shown for it


class TokenRow(Protocol):
    """What has tokens with their mask: a trajectory, or a line of a reader's file."""

    @property
    def tokens(self) -> list[str]: ...
    @property
    def loss_mask(self) -> list[int]: ...
    @property
    def decision(self) -> list[int]: ...
    @property
    def logprobs(self) -> list[float | None]: ...


def _ascii(character: str) -> str:
    if character.isascii() and character.isprintable():
        return character
    return character.encode("unicode_escape").decode()


def readable(encoding: str) -> Printable:
    """Characters as they are, save for those that are no text or not in the encoding."""

    def printable(character: str) -> str:
        try:
            character.encode(encoding)
        except UnicodeEncodeError:
            return _ascii(character)
        is_text = character.isprintable() or character in _SPACES
        return character if is_text else _ascii(character)

    return printable


def heading(title: str, right: str = "") -> str:
    """A title over a rule, with something at the right end of the line."""
    gap = " " if len(title) + len(right) < WIDTH else "\n"
    line = title + gap + right.rjust(WIDTH - 1 - (len(title) if gap == " " else 0))
    return f"\n{line.rstrip()}\n{'=' * WIDTH}"


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


def setting(value: object) -> str:
    """A setting's value in lower case: 0.5, group, true, none."""
    return f"{value:g}" if type(value) is float else str(value).lower()


def paragraph(text: str) -> str:
    """Text filled to the width."""
    return textwrap.fill(" ".join(text.split()), WIDTH)


def messages(conversation: Sequence[Message], printable: Printable = _ascii) -> str:
    """Every message and call of a conversation, thinking apart."""
    return "\n".join(text for _, text in message_blocks(conversation, printable))


def message_blocks(
    conversation: Sequence[Message], printable: Printable = _ascii
) -> Iterator[tuple[Message, str]]:
    """(message, its lines), one pair a message or call, in the order of the text."""
    width = max([6, *(len(_short(name)) for name in _call_ids(conversation))])
    for message in conversation:
        role, calls = message["role"], message.get("tool_calls") or ()
        said = [("thinks", message.get("reasoning_content"))]
        answered = _short(str(message.get("tool_call_id") or ""))
        content = message.get("content") or ""
        said.append((answered, content or (None if calls else "")))
        for call in calls:
            said.append((_short(call["id"]), _call_text(call["function"])))
        for mark, text in said:
            if text or (text is not None and mark != "thinks"):
                label = f"{role:<9}  {_plain(mark):<{width}}  "
                yield message, _folded(label, text, printable)


def _call_ids(conversation: Sequence[Message]) -> Iterator[str]:
    for message in conversation:
        yield from (call["id"] for call in message.get("tool_calls") or ())


def _call_text(function: dict[str, Any]) -> str:
    arguments = function["arguments"]
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return f"{function['name']}({arguments})"


def _short(name: str) -> str:
    """A long id by its ends: it must leave room for the text."""
    return name if len(name) <= 12 else f"{name[:5]}..{name[-5:]}"


def _plain(text: str) -> str:
    return "".join(map(_ascii, text))


def _folded(label: str, text: str, printable: Printable) -> str:
    first, *others = text.expandtabs(4).split("\n")
    below = [wrapped(" " * len(label), line, printable) for line in others]
    return "\n".join([wrapped(label, first, printable), *below])


TOKENS_HEAD = f"{'tokens':<9}  mask  {'log pi':<7}  what they are"


def tokens(row: TokenRow, printable: Printable = _ascii) -> str:
    """The token row with its mask: a line, or more, a run of tokens of one author.

    A token's leading space is shown as _, a newline as \\n.
    """
    return "\n".join([TOKENS_HEAD, *token_blocks(row, printable)])


def token_blocks(row: TokenRow, printable: Printable = _ascii) -> Iterator[str]:
    """The lines of each run."""
    for first, last in runs(row):
        mask, logprob = row.loss_mask[first], row.logprobs[first]
        choice = number(logprob) if row.decision[first] else ""
        label = f"{first:>3} - {last - 1:<3}  {mask:>4}  {choice:>7}  "
        shown = " ".join(_visible(token) for token in row.tokens[first:last])
        yield wrapped(label, shown, printable)


def runs(row: TokenRow) -> list[tuple[int, int]]:
    """(first, one past the last) of each run: the mask changes, or a new turn opens."""
    if not row.tokens:
        return []
    opens = [0]
    for place in range(1, len(row.tokens)):
        new_mask = row.loss_mask[place] != row.loss_mask[place - 1]
        if new_mask or row.tokens[place] == IM_START:
            opens.append(place)
    return list(zip(opens, [*opens[1:], len(row.tokens)]))


def _visible(token: str) -> str:
    return token.replace("\n", "\\n").replace(" ", "_")


def wrapped(label: str, text: str, printable: Printable = _ascii) -> str:
    """The text filled to the width beside its label; what can't be shown is escaped."""
    indent = " " * len(label)
    shown = "".join(printable(character) for character in text)
    padded = _WIDE.sub(r"\g<0>" + _SECOND_COLUMN, label + shown)
    return (
        textwrap.fill(
            padded,
            WIDTH - (padded != label + shown),
            subsequent_indent=indent,
            break_on_hyphens=False,
            drop_whitespace=True,
        )
        .rstrip()
        .replace(_SECOND_COLUMN, "")
    )


def choices(trajectory: Trajectory) -> str:
    """The decisions of an episode on one line."""
    return ", ".join(action["choice"] or "-" for action in trajectory.actions)


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


LOG = {  # metric of a run -> its heading
    "reward": "reward",
    "success": "success",
    "calls": "calls",
    "invalid": "invalid",
    "informative": "inform.",
    "entropy": "entropy",
    "kl_reference": "KL(ref)",
    "largest_ratio": "max ratio",
}


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
    everywhere = mean_report(exact.values())
    return [
        name,
        *_by_kind(exact, "success", 3),
        *_by_kind(sampled or {}, "success", 3),
        *_by_kind(exact, "calls", 2),
        number(100 * everywhere.invalid, 2),
        number(everywhere.reward, 3),
    ]


def _by_kind(reports: ByKind, column: str, digits: int) -> list[str]:
    """One cell a kind; a kind that there are no tasks of gets a dash."""
    return [
        number(getattr(reports[kind], column), digits) if kind in reports else "-"
        for kind in KINDS
    ]


def honest_table(rows: Sequence[Sequence[str]]) -> str:
    """Success by kind (exact, then sampled on held-out tasks), calls, invalid, return."""
    kinds = ["easy", "hard", "look"]
    head = ["policy", *kinds, *kinds, *kinds, "bad%", "return"]
    width = max(len(row[0]) for row in rows)
    above = f"{'':<{width}} {'success, exact':<17} {'success, sampled':<17} calls an episode"
    return above + "\n" + table(head, rows, gap=1)
