"""The figures of chapter 02: what is learnt, the clip, and two ways to go wrong."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

from agentic_rl.advantage import group_advantages
from agentic_rl.cli.render import number
from agentic_rl.conventions import COURSE
from agentic_rl.evaluation import SEEDS, training_tasks
from agentic_rl.grpo import AdvantageFunction, Config, start, train
from agentic_rl.objective import clipped_loss
from agentic_rl.oracle import Outcome, expectation, expectations, outcomes
from agentic_rl.policy import SoftmaxPolicy
from agentic_rl.reward import LARGE_COSTS, PAID_CALLS, SMALL_COSTS, Reward, right
from agentic_rl.tasks import KINDS, Task, one_of_each
from agentic_rl.trajectory import Trajectory
from agentic_rl.variants import Variant, climb, reward_sheets
from figures.plotting import COLOURS, axes, show

BLUE, RED, *_, GREY = COLOURS
DASHES = (0, (4, 2))
TASKS = training_tasks()
RIGHT_ACTIONS = (  # state, the action that is right in it
    ("easy/start", "answer_from_memory"),
    ("hard/start", "call_calculator"),
    ("hard/result", "answer_from_observation"),
    ("lookup/start", "call_lookup"),
    ("lookup/price", "call_calculator"),
    ("lookup/result", "answer_from_observation"),
)

Curve = list[float]  # one number an update, the first of them before any


# -------------------------------------------------------------------- what is measured


@functools.cache
def right_answers() -> dict[str, list[Outcome]]:
    """kind -> the lines of its answer sheet that end right: all that success needs."""
    first = one_of_each(TASKS)
    return {
        kind: [line for line in outcomes(first[kind], right) if line.value]
        for kind in KINDS
    }


def success(policy: SoftmaxPolicy, kind: str) -> float:
    """The exact probability of a right answer."""
    return expectation(policy, right_answers()[kind])


def policies(config: Config, **arguments: Any) -> list[SoftmaxPolicy]:
    """The policy before the first update of a run, and after each."""
    seen = [start(config).policy]
    train(
        TASKS,
        config,
        on_update=lambda state, _: seen.append(state.policy.copy()),
        **arguments,
    )
    return seen


def five_runs(advantage: AdvantageFunction) -> list[list[SoftmaxPolicy]]:
    """The policies of the default run on each of the five seeds."""
    return [policies(Config(seed=seed), advantage=advantage) for seed in SEEDS]


def ascent(reward: Reward) -> list[SoftmaxPolicy]:
    """The policies of exact ascent, at the rate of the default run and as long."""
    config = Config()
    climbed = climb(reward_sheets(reward, TASKS), config.learning_rate, config.updates)
    return [start(config).policy, *(policy.copy() for _, policy in climbed)]


def mean_of(values: Sequence[float]) -> float:
    """The arithmetic mean."""
    return math.fsum(values) / len(values)


# -------------------------------------------------------------------- what is drawn


def band(
    place: Any, curves: Sequence[Curve], colour: str, updates: Sequence[int] = range(61)
) -> Curve:
    """Mean over the runs as a line, lowest to highest as a band; the mean."""
    columns = list(zip(*curves))
    mean = [mean_of(column) for column in columns]
    lowest, highest = [*map(min, columns)], [*map(max, columns)]
    place.fill_between(updates, lowest, highest, color=colour, alpha=0.18, linewidth=0)
    place.plot(updates, mean, color=colour, linewidth=2)
    return mean


def end_labels(
    place: Any, labels: Sequence[tuple[float, str, str]], x: float, gap: float
) -> None:
    """(height, text, colour): each beside the end of its line, none over another."""
    below = math.inf
    for height, text, colour in sorted(labels, key=lambda label: -label[0]):
        below = min(height, below - gap)
        place.text(x, below, text, color=colour, fontsize=9, va="center")


def updates_axis(place: Any, last: int = 60, room: int = 0) -> None:
    """Updates from 0; ``room`` is left for labels beside the ends of the lines."""
    place.set_xlim(0, last + room)
    place.set_xticks(range(0, last + 1, 20))
    place.set_xlabel("update")


def percent_axis(place: Any, name: str) -> None:
    """A share or a probability, from 0 to 1."""
    place.set_ylim(-0.03, 1.06)
    place.set_yticks([0, 0.25, 0.5, 0.75, 1])
    place.set_ylabel(name)


# -------------------------------------------------------------------- the figures


def learning_curves(advantage: AdvantageFunction = group_advantages) -> None:
    """Success by kind over the updates, exact, on five seeds; with any advantage."""
    figure, place = axes()
    labels, told, runs = [], [], five_runs(advantage)
    for kind, colour in zip(KINDS, COLOURS):
        curves = [[success(policy, kind) for policy in run] for run in runs]
        mean = band(place, curves, colour)
        labels.append((mean[-1], kind, colour))
        ends = [curve[-1] for curve in curves]
        told.append(
            f"{kind} {number(mean[0], 2)}, {number(mean[10], 2)}, {number(mean[20], 2)}, "
            f"{number(mean[-1], 2)} (at the end {number(min(ends), 2)} to "
            f"{number(max(ends), 2)})"
        )
    end_labels(place, labels, 61, 0.08)
    updates_axis(place, room=8)
    percent_axis(place, "success")
    place.set_title(
        f"{getattr(advantage, '__name__', 'advantage')}, five seeds", fontsize=10
    )
    show(
        figure,
        "Success over 60 updates, mean and lowest to highest of five seeds. Before the "
        f"first update, after 10, 20 and 60: {'; '.join(told)}.",
    )


def right_actions() -> None:
    """The probability of the right action in each state of the right path, seed 0."""
    figure, places = axes(3, sharey=True)
    run, told = policies(Config(seed=SEEDS[0])), []
    for place, kind in zip(places, KINDS):
        mine = [pair for pair in RIGHT_ACTIONS if pair[0].startswith(f"{kind}/")]
        for (state, action), colour in zip(mine, COLOURS):
            chances = [policy.probability(state, action) for policy in run]
            label = f"{state.split('/')[1]}:\n{action}"
            place.plot(chances, color=colour, linewidth=2, label=label)
            half = next(update for update, value in enumerate(chances) if value > 0.5)
            told.append(f"{state} {action} {half}")
        place.set_title(kind, fontsize=10)
        place.legend(
            loc="center right",
            frameon=False,
            fontsize=8,
            labelcolor="linecolor",
            handlelength=0,
            handletextpad=0,
        )
        updates_axis(place)
    percent_axis(places[0], "probability")
    show(
        figure,
        "Probability of the right action after each update of the default run. It is "
        f"over one half after: {'; '.join(told)} updates.",
    )


def clipped_objective() -> None:
    """Ratio against what the objective pays, for a good and for a bad decision."""
    figure, places = axes(2)
    ratios = [step / 100 for step in range(201)]
    edges = 1 - COURSE.clip_low, 1 + COURSE.clip_high
    for place, advantage, edge in zip(places, (1.0, -1.0), edges[::-1]):
        clipped = [-clipped_loss(ratio, advantage)[0] for ratio in ratios]
        plain = [ratio * advantage for ratio in ratios]
        place.plot(ratios, plain, color=GREY, linewidth=1.2, linestyle=DASHES)
        place.plot(ratios, clipped, color=BLUE, linewidth=2.4)
        place.axvline(1, color="black", linewidth=0.8, linestyle=":")
        place.plot([edge], [edge * advantage], "o", color=RED, markersize=6)
        place.set_title(f"A = {advantage:+g}", fontsize=10)
        place.set_xlabel("ratio")
        place.set_xticks([0, 0.5, 0.8, 1, 1.2, 1.5, 2])
        place.set_xlim(0, 2)
    good, bad = places
    good.set_ylabel("min(ratio * A, clip(ratio) * A)")
    good.set_ylim(-0.05, 2.05)
    bad.set_ylim(-2.05, 0.05)
    good.text(1.3, 1.08, "gradient 0", color=BLUE, fontsize=9)
    good.text(1.42, 1.66, "no clip", color=GREY, fontsize=9, ha="right")
    good.text(0.97, 1.9, "first step", fontsize=8, ha="right")
    bad.text(0.06, -0.95, "gradient 0", color=BLUE, fontsize=9)
    bad.text(0.33, -0.25, "no clip", color=GREY, fontsize=9)
    bad.text(1.03, -0.14, "first step", fontsize=8)
    bad.text(0.97, -1.6, "always pushed back", color=BLUE, fontsize=9, ha="right")
    show(
        figure,
        "The clipped objective against the ratio. At A = +1 it rises with the ratio up "
        f"to {edges[1]:g} and is flat beyond. At A = -1 it is flat below {edges[0]:g} "
        "and falls from there on, without a bound. Without the clip both are straight "
        "lines. At the first step the ratio is 1.",
    )


def paid_calls() -> None:
    """The reward that pays 0.5 a call, beside the success that nobody pays for."""
    figure, places = axes(2)
    first = one_of_each(TASKS)
    shown = [*range(12), *range(12, 61, 4)]  # where it happens, each update

    def both(trajectory: Trajectory, task: Task) -> tuple[float, float]:
        return PAID_CALLS.total(trajectory, task), right(trajectory, task)

    sheets = [
        [line for line in outcomes(first[kind], both) if any(line.value)]
        for kind in KINDS
    ]

    def means(run: Sequence[SoftmaxPolicy]) -> list[Curve]:
        """Reward and success, means over the kinds, at the updates that are shown."""
        rows = [
            [expectations(run[update], sheet) for sheet in sheets] for update in shown
        ]
        return [[mean_of([kind[i] for kind in row]) for row in rows] for i in (0, 1)]

    runs = [means(policies(Config(seed=seed), reward=PAID_CALLS)) for seed in SEEDS]
    exact = means(ascent(PAID_CALLS))
    told = []
    for column, (place, name, colour) in enumerate(
        zip(places, ("reward: what is paid", "success: what was wanted"), (BLUE, RED))
    ):
        mean = band(place, [run[column] for run in runs], colour, shown)
        judge = exact[column]
        place.plot(shown, judge, color="black", linewidth=1.4, linestyle=DASHES)
        updates_axis(place)
        place.set_title(name, fontsize=10)
        told.append(
            f"{name.split(':')[0]} {number(mean[0], 2)}, {number(mean[shown.index(10)], 2)}, "
            f"{number(mean[-1], 2)}, exact ascent at the end {number(judge[-1], 2)}"
        )
    places[0].set_ylim(0, 2.75)
    percent_axis(places[1], "")
    places[1].text(24, 0.17, "GRPO, five seeds", color=RED, fontsize=9)
    places[0].text(22, 2.2, "exact ascent", fontsize=9)
    places[0].text(22, 2.58, "GRPO, five seeds", color=BLUE, fontsize=9)
    show(
        figure,
        "A reward of 0.5 a call and 1 for a right answer, mean over the kinds; GRPO as "
        f"mean and lowest to highest of five seeds. At update 0, 10 and 60: "
        f"{'; '.join(told)}.",
    )


def giving_up() -> None:
    """Success on lookup tasks: with std scaling, without, and climbed exactly."""
    figure, places = axes(2, sharey=True)
    told = []
    lookup = functools.partial(success, kind="lookup")
    for place, (name, reward) in zip(
        places, (("small costs", SMALL_COSTS), ("large costs", LARGE_COSTS))
    ):
        parts = []
        for variant, colour, width in (
            (Variant("std scaling", reward), RED, 2.4),
            (Variant("no std scaling", reward, {"std": "none"}), BLUE, 1.2),
        ):
            runs = [policies(variant.config(seed), reward=reward) for seed in SEEDS]
            for run in runs:
                place.plot([*map(lookup, run)], color=colour, linewidth=width)
            ends = sorted(lookup(run[-1]) for run in runs)
            parts.append(f"{variant.name} {', '.join(number(end, 2) for end in ends)}")
        exact = [*map(lookup, ascent(reward))]
        place.plot(exact, color="black", linewidth=1.8, linestyle=DASHES)
        parts.append(f"exact ascent {number(exact[-1], 2)}")
        told.append(f"{name}: {'; '.join(parts)}")
        place.set_title(name, fontsize=10)
        updates_axis(place)
    percent_axis(places[0], "lookup success")
    left, right_ = places
    left.text(1, 0.86, "no std scaling,\nfive seeds", color=BLUE, fontsize=9)
    left.text(35, 0.84, "exact ascent", fontsize=9)
    left.text(27, 0.08, "std scaling, five seeds", color=RED, fontsize=9)
    right_.text(25, 0.87, "no std scaling, one seed", color=BLUE, fontsize=9)
    right_.text(17, 0.19, "the other four", color=BLUE, fontsize=9)
    right_.text(17, 0.11, "exact ascent", fontsize=9)
    right_.text(17, 0.03, "std scaling, five seeds", color=RED, fontsize=9)
    show(
        figure,
        "Success on lookup tasks over 60 updates. At the end, GRPO on five seeds and "
        f"exact ascent: {'. '.join(told)}.",
    )
