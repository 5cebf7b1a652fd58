"""What a framework's own code makes of the golden set: one line of JSON.

``golden_NAME.py`` runs in the environment of that framework. Its agent loop plays each
episode of the golden set, with an assistant who says what ours said; its reward path
scores what came out; its estimator compares the episodes of each task. What is printed is
what the framework's own record holds. scripts/make_golden_set.py makes a page of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from agentic_rl.golden import golden_set

GOLDEN = golden_set()
PARTS = (  # of a trajectory of ours
    *(
        "messages",
        "ids",
        "mask",
        "log-probs",
        "states and choices",
        "kinds of observations",
    ),
    *("end", "reward", "breakdown"),
)


class Played(NamedTuple):
    """An episode in a framework's record: what follows the prompt, and its reward.

    ids, mask   one length; the mask is 1 on what is trained
    reward      None where the framework has no score for it
    """

    ids: Sequence[int]
    mask: Sequence[int]
    reward: float | None


Compare = Callable[[Sequence[float | None]], Sequence[float]]


def tell(
    theirs: Callable[[str], Played],
    ours: Callable[[str], Played],
    compare: Compare,
    holds: Mapping[str, str | None],
    fields: Collection[str],
) -> None:
    """Print what the framework made of every episode, and where ours differs.

    theirs, ours    the record of an episode by its name
    compare         rewards of one group -> advantages
    holds           which field of the record says what a part of our trajectory says; in
                    brackets one of our own that the framework carries along; None where
                    there is none
    fields          the names of all the record's fields, as they were seen
    """
    assert tuple(holds) == PARTS, set(holds) ^ set(PARTS)
    played = {name: theirs(name) for name in GOLDEN}
    assert {name.strip("()") for name in holds.values() if name} <= set(fields), fields
    advantages = compared(played, compare)
    rows = {
        name: {
            "ids": len(found.ids),
            "trained": sum(found.mask),
            "reward": found.reward,
            "advantage": advantages[name],
            **differences(found, ours(name)),
        }
        for name, found in played.items()
    }
    print(json.dumps({"rows": rows, "holds": dict(holds)}))


def compared(played: Mapping[str, Played], compare: Compare) -> dict[str, float]:
    """The advantage of each episode among those of its task."""
    groups: dict[str, list[str]] = {}
    for name, (task, _) in GOLDEN.items():
        groups.setdefault(task.id, []).append(name)
    found = {}
    for names in groups.values():
        values = compare([played[name].reward for name in names])
        found.update(zip(names, values, strict=True))
    return found


def differences(theirs: Played, ours: Played) -> dict[str, int]:
    """same: how many ids from the first on are ours, with our mask; ours: how many we have."""
    same = 0
    for left, right in zip(
        zip(theirs.ids, theirs.mask, strict=True), zip(ours.ids, ours.mask, strict=True)
    ):
        if left != right:
            break
        same += 1
    return {"same": same, "ours": len(ours.ids)}
