"""Chapter 06. What Agent Lightning's verl adapter makes of our turns.

    python3 examples/06_agent_lightning/adapter.py

Runs in the environment of verl, and starts no server: the golden set as finished rollouts
goes through the real RolloutAdapter, the real rollout-level advantage and the real
per_rollout_mean loss, and each number stands beside ours.

Exit status 1 unless rows, masks, advantages and losses are ours.
"""

from __future__ import annotations

import logging
import math
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from verl_side import (
    OURS,
    Calls,
    adapted,
    calls_of,
    completed,
    cut_otherwise,
    group_data,
    our_loss,
    row_values,
    rows_of,
    their_loss,
    without_thoughts,
)

from agentic_rl.advantage import group_advantages, row_advantages
from agentic_rl.bridges import agent_lightning as bridge
from agentic_rl.bridges import frameworks
from agentic_rl.cli import render
from agentic_rl.cli.terminal import Progress, run
from agentic_rl.golden import GOLDEN_NAMES, golden_group, golden_set

PROGRESS = Progress()


def promise(holds: bool, what: str) -> None:
    """End with an error unless its numbers are ours."""
    if not holds:
        raise SystemExit(f"not as it was promised: {what}")


# ------------------------------------------------------------------ rows and their masks


def same_row(theirs: bridge.Row, ours: bridge.Row) -> bool:
    """Ids and mask exactly, log-probs to float32."""
    close = all(
        math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9)
        for a, b in zip(theirs.logprobs or (), ours.logprobs or ())
    )
    return theirs[:3] == ours[:3] and close


def show_rows(tokenizer: Any) -> None:
    print(render.heading("The golden set as rows", "06.8"))
    rows = []
    for name, (_, episode) in golden_set().items():
        calls = calls_of(episode, tokenizer)
        data, _ = adapted([completed(name, calls, episode.reward)])
        found, ours = rows_of(data), bridge.merge(calls)
        same = len(found) == len(ours) and all(map(same_row, found, ours))
        promise(same, f"the rows of {name!r} are ours")
        mine = bridge.merged(episode, tokenizer)
        promise(
            same_row(found[0], mine), f"the mask of {name!r} is that of our episode"
        )
        counts = (
            len(calls),
            len(found),
            len(mine.response_ids),
            sum(mine.response_mask),
        )
        rows.append((name, *map(str, counts), "equal"))
    print(render.table(("episode", "turns", "rows", "ids", "mask 1", "ours"), rows))


def show_splits(tokenizer: Any) -> None:
    print(render.heading("When turns do not merge", "06.9"))
    episodes = {name: episode for name, (_, episode) in golden_set().items()}
    thinking, one_call = episodes["thinking"], episodes["one call"]
    cases: Mapping[str, Calls] = {
        "the template only appends": calls_of(thinking, tokenizer),
        "it drops earlier thoughts": without_thoughts(thinking, tokenizer),
        "a turn cut as the tokenizer would": calls_of(one_call, tokenizer),
        "a turn cut otherwise": cut_otherwise(calls_of(one_call, tokenizer), tokenizer),
    }
    rows = []
    for name, calls in cases.items():
        data, metrics = adapted([completed(name, calls, 0.9)])
        found, ours = rows_of(data), bridge.merge(calls)
        same = len(found) == len(ours) and all(map(same_row, found, ours))
        promise(same, f"{name}: the rows are ours")
        for place, row in enumerate(found):
            counts = (
                len(row.prompt_ids),
                len(row.response_ids),
                sum(row.response_mask),
            )
            rows.append((name if not place else "", *map(str, (place, *counts))))
        promise(
            metrics["training/n_unmerged_rollouts"] == (len(found) > 1),
            f"{name}: it counts unmerged rollouts",
        )
    print(render.table(("turns", "row", "prompt", "response", "mask 1"), rows))


# ------------------------------------------------------- statistics of rows and rollouts


def show_statistics(tokenizer: Any) -> None:
    print(render.heading("One group, a row a turn", "06.10"))
    data = group_data(tokenizer, "transition")
    names = data.non_tensor_batch["rollout_id_list"].tolist()
    scores = data.batch["token_level_scores"].sum(dim=-1).tolist()
    by_row, by_rollout = row_values(data, False), row_values(data, True)
    wide = group_data(tokenizer, "transition", exact=True)
    float32 = [row_values(wide, level) for level in (False, True)]
    group = ["task"] * len(names)
    ours = [
        group_advantages(scores, group, OURS),
        row_advantages(names, scores, group, OURS),
    ]
    for theirs, mine in zip(float32, ours):
        promise(_close(theirs, mine), "its advantages in float32 are ours")
    for theirs, mine in zip((by_row, by_rollout), ours):
        promise(_close(theirs, mine, 0.01), "its advantages are about ours")
    rewards = {name: x.reward for name, x in zip(GOLDEN_NAMES, golden_group())}
    course = row_advantages(names, [rewards[name] for name in names], group)
    columns = (by_row, ours[0], by_rollout, ours[1], course)
    rows = []
    for name in GOLDEN_NAMES:
        place = names.index(name)
        shown = [render.number(values[place]) for values in columns]
        rows.append(
            (name, str(names.count(name)), render.number(scores[place]), *shown)
        )
    head = (
        "episode",
        "rows",
        "score",
        "of rows",
        "ours",
        "of rollouts",
        "ours",
        "course",
    )
    print(render.table(head, rows))
    means = [sum(x) / len(x) for x in (scores, list(rewards.values()))]
    print(f"\nMean over the rows {means[0]:.4f}, over the episodes {means[1]:.4f}.")


def _close(a: Sequence[float], b: Sequence[float], relative: float = 1e-5) -> bool:
    """To float32, whose sums are taken in another order; 0.01 is bfloat16."""
    return len(a) == len(b) and all(
        math.isclose(x, y, rel_tol=relative, abs_tol=1e-6) for x, y in zip(a, b)
    )


def show_loss(tokenizer: Any) -> None:
    print(render.heading("per_rollout_mean, and the rows it divides by", "06.11"))
    rows = []
    for level in ("trajectory", "transition"):
        data = group_data(tokenizer, level, exact=True)
        row_values(data, True)
        for shift in (0.3, -0.3, 1.5):
            theirs, ours = their_loss(data, shift), our_loss(data, shift)
            scale = len(data) / len(GOLDEN_NAMES)
            promise(_close([theirs * scale], [ours]), f"the loss at level {level}")
            shown = [render.number(x, 6) for x in (theirs, ours)]
            rows.append((level, str(len(data)), render.number(shift, 1), *shown))
    print(
        render.table(("level", "rows", "new - old", "per_rollout_mean", "ours"), rows)
    )
    print()
    print(
        render.paragraph(
            "Four rollouts. As nine rows their loss is 4/9 of ours: a rollout is weighed "
            "by its own ids, but the sum is divided by rows."
        )
    )


def main() -> None:
    print("Chapter 06: the turns of the golden set in Agent Lightning's verl adapter.")
    problem = frameworks.missing("verl") or frameworks.missing("agent_lightning")
    if problem:
        print("\n" + render.wrapped("", f"Not run: {problem}."))
        return
    warnings.simplefilter("ignore")
    os.environ.setdefault("VERL_LOGGING_LEVEL", "CRITICAL")
    logging.disable(logging.CRITICAL)
    PROGRESS.show("importing verl takes some seconds ...")
    frameworks.require("verl")
    from agentic_rl.bridges.tiny_model import make_tokenizer

    tokenizer = make_tokenizer()
    PROGRESS.clear()
    show_rows(tokenizer)
    show_splits(tokenizer)
    show_statistics(tokenizer)
    show_loss(tokenizer)


if __name__ == "__main__":
    run(main, __doc__)
