"""The figures of chapter 00.

Runs and estimates are handed in: the notebook draws them with the functions of its own
cells, so a reader who changes one of these changes the figure.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from agentic_rl.policy import Gradient, SoftmaxPolicy
from agentic_rl.toy_mdp import ACTIONS, exact_return
from figures.plotting import COLOURS, axes, show

BLUE, RED, GREEN, *_, GREY = COLOURS

# How a label is set: beside a point, or somewhere in its panel.
BESIDE: dict[str, Any] = {"textcoords": "offset points", "fontsize": 9}
INSIDE: dict[str, Any] = {"xycoords": "axes fraction", "va": "top", "fontsize": 9}

Runs = Sequence[Sequence[SoftmaxPolicy]]  # a run: a policy before and after each update
Value = Callable[[SoftmaxPolicy], float]


class Band(NamedTuple):
    """What several runs did: one number an update in each list."""

    lowest: list[float]
    median: list[float]
    highest: list[float]


def softmax() -> None:
    """pi(take) over the difference of the two logits, and how steep it is."""
    gaps = [step / 20 for step in range(-120, 121)]
    figure, place = axes()
    place.plot(gaps, [_take(gap) for gap in gaps], color=BLUE)
    place.plot(gaps, [_slope(gap) for gap in gaps], color=RED)
    for gap, logits in ((0, "(0, 0)"), (1, "(1, 0) and (11, 10)"), (2, "(2, 0)")):
        point = (gap, _take(gap))
        place.plot(*point, "o", color=BLUE, markersize=5)
        label = f"{logits}: {_take(gap):.4f}"
        place.annotate(label, point, (8, -11), color=BLUE, **BESIDE)
    place.annotate("pi(take)", (5, _take(5)), (0, -15), color=BLUE, **BESIDE)
    label = "how fast it grows: pi(take) * pi(work)"
    place.annotate(label, (1.2, _slope(1.2)), (8, 2), color=RED, **BESIDE)
    place.set(xlim=(-6, 6), ylim=(0, 1.03), xlabel="logit of take - logit of work")
    show(
        figure,
        "pi(take) over the logit of take minus that of work: an S from 0 to 1, "
        f"{_take(0):.4f} at 0, {_take(1):.4f} at 1, {_take(2):.4f} at 2. It grows "
        f"fastest at 0, by {_slope(0):.4f} a logit, and at 5 by {_slope(5):.4f}.",
    )


def scatter(estimates: Mapping[str, Sequence[Gradient]], exact: Gradient) -> None:
    """Estimates of the gradient, one panel a name, for the logit of work in start."""
    truth = exact["start"][1]
    figure, places = axes(len(estimates), sharex=True, sharey=True)
    edges = _edges([row["start"][1] for rows in estimates.values() for row in rows])
    said = []
    for place, name, colour in zip(places, estimates, (BLUE, GREEN)):
        drawn = [estimate["start"][1] for estimate in estimates[name]]
        spread = f"{name}: scatter {statistics.stdev(drawn):.4f}"
        below = f"{sum(value < 0 for value in drawn)} of {len(drawn)}"
        place.axvspan(edges[0], 0, color=GREY, alpha=0.12, linewidth=0)
        place.hist(drawn, bins=edges, color=colour, alpha=0.75)
        place.axvline(truth, color=RED, linewidth=1.2)
        place.annotate(f"{below}\nbelow 0", (0.03, 0.96), color=GREY, **INSIDE)
        place.annotate(f"exact {truth:.4f}", (0.49, 0.96), color=RED, **INSIDE)
        place.set_title(spread, fontsize=10)
        place.set_xlabel("estimate for the logit of work in start")
        said.append(f"{spread}, mean {statistics.fmean(drawn):.4f}, {below} below 0")
    places[0].set(xlim=(edges[0], edges[-1]), ylabel="batches")
    show(figure, f"Histograms of estimates of {truth:.4f}. {'; '.join(said)}.")


def learning(runs: Runs) -> None:
    """What the runs learn: two probabilities, and the exact return beside them."""
    figure, (left, right) = axes(2)
    ready = _draw(left, runs, _take_in_ready, GREEN)
    start = _draw(left, runs, _work_in_start, BLUE)
    returns = _draw(right, runs, _exact, RED)
    left.annotate("pi(take|ready)", (9, 1.01), color=GREEN, fontsize=9)
    left.annotate("pi(work|start)", (11, 0.85), color=BLUE, fontsize=9)
    left.set(ylim=(0.4, 1.06), xlabel="update")
    left.set_title("probabilities", fontsize=10)
    _key(left, len(runs))
    _finish(right)
    early, later = _early(runs), len(runs[0]) // 4
    show(
        figure,
        f"Median and full range of {len(runs)} seeds. At update {early} pi(take|ready) "
        f"is {ready.median[early]:.4f} and pi(work|start) {start.median[early]:.4f}, "
        f"in the end {ready.median[-1]:.4f} and {start.median[-1]:.4f}. J goes from "
        f"{returns.median[0]:.4f} to {returns.median[later]:.4f} at update {later} and "
        f"{returns.median[-1]:.4f} in the end; the optimum is 3.",
    )


def compare(runs: Mapping[str, Runs]) -> None:
    """The exact return, and the choice in start, under two estimates of the gradient."""
    figure, (left, right) = axes(2)
    said = []
    for row, (name, colour) in enumerate(zip(runs, (BLUE, RED))):
        returns = _draw(left, runs[name], _exact, colour)
        start = _draw(right, runs[name], _work_in_start, colour)
        for place in (left, right):
            place.annotate(name, (0.55, 0.62 - 0.08 * row), color=colour, **INSIDE)
        early, top = _early(runs[name]), max(returns.median)
        said.append(
            f"{name}: J starts at {returns.median[0]:.4f}, is between "
            f"{returns.lowest[early]:.4f} and {returns.highest[early]:.4f} at update "
            f"{early}, highest at {returns.median.index(top)} with {top:.4f}, and ends "
            f"at {returns.median[-1]:.4f}; pi(work|start) ends at "
            f"{start.median[-1]:.4f}."
        )
    seeds = min(map(len, runs.values()))
    _key(right, seeds)
    _finish(left)
    right.set(ylim=(-0.03, 1.06), xlabel="update")
    right.set_title("pi(work|start)", fontsize=10)
    show(figure, f"Median and full range of {seeds} seeds. {' '.join(said)}")


def _take(gap: float) -> float:
    """pi(take) where its logit is ``gap`` above that of work."""
    policy = SoftmaxPolicy(["start"], ACTIONS, {"start": [gap, 0.0]})
    return policy.probability("start", "take")


def _slope(gap: float) -> float:
    """d pi(take) / d logit of take, there."""
    return _take(gap) * (1 - _take(gap))


def _exact(policy: SoftmaxPolicy) -> float:
    return exact_return(policy.probability)


def _work_in_start(policy: SoftmaxPolicy) -> float:
    return policy.probability("start", "work")


def _take_in_ready(policy: SoftmaxPolicy) -> float:
    return policy.probability("ready", "take")


def _early(runs: Runs) -> int:
    """The update at which the runs are still apart, if there are so many."""
    return min(5, len(runs[0]) - 1)


def _edges(values: Sequence[float]) -> list[float]:
    """Of bins that hold all values and part at 0.

    Without a baseline an estimate is a number of 64ths: none falls on an edge.
    """
    first, last = (math.floor((64 * x + 0.5) / 3) for x in (min(values), max(values)))
    return [(3 * edge - 0.5) / 64 for edge in range(first, last + 2)]


def _draw(place: Any, runs: Runs, value: Value, colour: str) -> Band:
    """Draw the median of a value as a line and its full range as a band."""
    updates = [sorted(map(value, policies)) for policies in zip(*runs)]
    band = Band(
        [values[0] for values in updates],
        [statistics.median(values) for values in updates],
        [values[-1] for values in updates],
    )
    places = range(len(updates))
    place.fill_between(
        places, band.lowest, band.highest, color=colour, alpha=0.25, linewidth=0
    )
    place.plot(places, band.median, color=colour)
    return band


def _key(place: Any, seeds: int) -> None:
    """What line and band are."""
    words = f"line: median\nband: all {seeds} seeds"
    place.annotate(words, (0.55, 0.24), color=GREY, **INSIDE)


def _finish(place: Any) -> None:
    """A panel of exact returns: the best that there is, and its title."""
    place.axhline(3, color=GREY, linewidth=1, linestyle="--")
    place.annotate("optimum 3", (0.97, 0.99), ha="right", color=GREY, **INSIDE)
    place.set(ylim=(0.9, 3.2), xlabel="update")
    place.set_title("exact return J", fontsize=10)
