"""The figures of chapter 01: who wrote each token, what a reward is made of, and what
its price of an invalid call does to a group."""

from collections.abc import Callable, Iterator
from typing import Any

from agentic_rl.advantage import group_advantages
from agentic_rl.cli.render import number
from agentic_rl.evaluation import training_tasks
from agentic_rl.golden import GOLDEN_NAMES, GOLDEN_TASK, golden_group
from agentic_rl.reward import COURSE_REWARD, Reward
from agentic_rl.scripted import SCRIPTED
from agentic_rl.tasks import KINDS, one_of_each
from agentic_rl.tokens import IM_END, IM_START
from agentic_rl.trajectory import Trajectory
from figures.plotting import COLOURS, axes, show

BLUE, RED, GREEN, PURPLE, YELLOW, GREY = COLOURS
AUTHORS = {"assistant": BLUE, "user": GREEN, "tool": RED, "template": GREY}
CHARACTER, MARGIN, GAP = 0.0625, 0.07, 0.025  # inches: of a token's box
WIDTH = 7.0  # inches, of a row of tokens


def authors(episode: Trajectory) -> Iterator[str]:
    """Who wrote each token: a role for its own words, the template for the rest."""
    role, place = "", 0
    for token, mask in zip(episode.tokens, episode.loss_mask):
        place = 0 if token == IM_START else place + 1
        role = token if place == 1 else role
        inside = place > 2 and token != IM_END and role != "assistant"
        if token == IM_END:
            place = -100  # what follows an end of turn is the template's
        yield "assistant" if mask else role if inside else "template"


def token_row() -> None:
    """Each token of the golden episode with one call: author, mask, decision."""
    episode = golden_group()[0]
    figure, place = axes()
    place.set_axis_off()
    place.set_xlim(0, WIDTH)
    place.set_ylim(-2.85, 0.12)
    x, y = 0.0, -0.55
    _legend(place, episode)
    rows = zip(episode.tokens, authors(episode), episode.loss_mask, episode.decision)
    for token, author, mask, decision in rows:
        text = token.replace("\n", "\\n").replace(" ", "_")
        width = CHARACTER * len(text) + MARGIN
        if x + width > WIDTH or (token == IM_START and x > 0):
            x, y = 0.0, y - 0.5
        _box(place, x, y, width, text, AUTHORS[author], bool(mask))
        below = "1" if mask else "0"
        weight = "bold" if mask else "normal"
        place.text(
            x + width / 2, y - 0.2, below, ha="center", fontsize=6.5, weight=weight
        )
        if decision:
            _mark_decision(place, x, y, width)
        x += width + GAP
    trained, total = sum(episode.loss_mask), len(episode.tokens)
    show(
        figure,
        f"The {total} tokens of the episode with one call, a row or two a turn. Filled, "
        f"mask 1: the {trained} that the assistant wrote, its end tokens included. The "
        f"other {total - trained}, of the user, the tool and the template, have mask 0. "
        f"A frame marks the {sum(episode.decision)} tokens that carry a choice, each with "
        f"log pi {number(_log_pi(episode))}.",
    )


def _log_pi(episode: Trajectory) -> float:
    """The log-prob of its first choice; the uniform policy gives each the same."""
    return episode.logprob(episode.positions("decision")[0])


def _box(
    place: Any, x: float, y: float, width: float, text: str, colour: str, filled: bool
) -> None:
    from matplotlib.patches import Rectangle

    face = colour if filled else f"{colour}26"
    place.add_patch(
        Rectangle((x, y - 0.1), width, 0.25, facecolor=face, edgecolor=colour, lw=0.6)
    )
    place.text(
        x + width / 2,
        y + 0.02,
        text,
        ha="center",
        va="center",
        fontsize=7,
        family="monospace",
        color="white" if filled else "black",
    )


def _mark_decision(place: Any, x: float, y: float, width: float) -> None:
    from matplotlib.patches import Rectangle

    place.add_patch(
        Rectangle((x, y - 0.1), width, 0.25, fill=False, edgecolor="black", lw=1.8)
    )


def _legend(place: Any, episode: Trajectory) -> None:
    x, choice = 0.0, f"choice: log pi {number(_log_pi(episode))}"
    for text, author, mask in (
        ("assistant: mask 1", "assistant", True),
        ("user: mask 0", "user", False),
        ("tool: mask 0", "tool", False),
        ("template: mask 0", "template", False),
        (choice, "assistant", True),
    ):
        width = CHARACTER * len(text) + MARGIN
        _box(place, x, -0.05, width, text, AUTHORS[author], mask)
        if text == choice:
            _mark_decision(place, x, -0.05, width)
        x += width + 0.12


def reward_parts() -> None:
    """Ten scripted agents on one task of each kind: what a right answer pays, what the
    calls take off it, and what is left."""
    tasks = one_of_each(training_tasks())
    figure, places = axes(3, sharey=True)
    told = []
    for place, kind in zip(places, KINDS):
        rewards = []
        for row, agent in enumerate(SCRIPTED):
            parts = COURSE_REWARD(agent.run(tasks[kind]), tasks[kind]).breakdown
            total = _bar(place, row, parts)
            rewards.append(f"{agent.name} {number(total, 1)}")
        told.append(f"{kind}: {', '.join(rewards)}")
        place.set_title(kind, fontsize=9)
        place.set_xlim(0, 1.22)
        place.set_xticks([0, 0.5, 1])
        place.tick_params(labelsize=8, length=0)
        place.grid(axis="y", visible=False)
    places[0].set_yticks(
        range(len(SCRIPTED)), [agent.name for agent in SCRIPTED], fontsize=8
    )
    places[0].invert_yaxis()
    handles = [
        places[0].barh(0, 0, color=colour, label=label)
        for label, colour in (
            ("reward that is left", BLUE),
            ("taken off for calls that ran", YELLOW),
            ("for calls that could not be run", RED),
        )
    ]
    figure.legend(
        handles=handles, loc="outside lower center", ncols=3, fontsize=8, frameon=False
    )
    show(figure, f"What is left of 1 for a right answer. {'. '.join(told)}.")


def _bar(place: Any, row: int, parts: dict[str, float]) -> float:
    """One bar, filled up to the reward; the reward."""
    left = sum(parts.values())
    place.barh(row, left, color=BLUE, height=0.62)
    place.text(parts["right"] + 0.03, row, number(left, 1), va="center", fontsize=8)
    for name, colour in (("invalid_calls", RED), ("calls", YELLOW)):
        place.barh(row, -parts[name], left=left, color=colour, height=0.62)
        left -= parts[name]
    return sum(parts.values())


def advantages_by_price(reward: Callable[[float], Reward]) -> None:
    """The golden group's advantages, where ``reward`` makes a reward from a price."""
    group = golden_group()
    prices = [step / 50 for step in range(101)]  # 0 to 2

    def compared(price: float) -> list[float]:
        made = reward(price)
        rewards = [made.total(episode, GOLDEN_TASK) for episode in group]
        return group_advantages(rewards, ["golden"] * len(group))

    lines = list(zip(*map(compared, prices)))
    figure, place = axes()
    labels: dict[float, list[str]] = {}  # height at the right end -> whose lines
    for name, line, style in zip(GOLDEN_NAMES, lines, ("-", "-", "-", (0, (4, 3)))):
        place.plot(prices, line, linestyle=style, linewidth=2)
        labels.setdefault(round(line[-1], 9), []).append(name)
    for height, names in labels.items():
        colour = COLOURS[GOLDEN_NAMES.index(names[0])]
        text = f"{', '.join(names)}  {number(height)}"
        place.text(2.03, height, text, va="center", fontsize=9, color=colour)
    place.axhline(0, color="black", linewidth=0.8)
    place.axvline(0.2, color="black", linewidth=0.8, linestyle=":")
    place.text(0.22, 1.6, "the course: 0.2", fontsize=8, va="top")
    place.set_xlim(0, 2.9)
    place.set_ylim(-1.7, 1.7)
    place.set_xticks([0, 0.5, 1, 1.5, 2])
    place.set_xlabel("price of a call that could not be run")
    place.set_ylabel("advantage")
    told = [
        f"at {price:g} {', '.join(map(number, compared(price)))}"
        for price in (0.0, 0.2, 1.0, 2.0)
    ]
    show(
        figure,
        "Advantages of the golden group against the price of a call that could not be "
        f"run. For {', '.join(GOLDEN_NAMES)}: {'; '.join(told)}.",
    )
