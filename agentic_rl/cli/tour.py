"""The tour: the whole line once, one screen a step, each number of it checkable by hand."""

from __future__ import annotations

import math
import random
from typing import Any

from agentic_rl.advantage import group_advantages, spread
from agentic_rl.agent_loop import run_episode
from agentic_rl.cli import render
from agentic_rl.cli.arguments import Command
from agentic_rl.cli.storage import load
from agentic_rl.cli.terminal import Progress, bar
from agentic_rl.conventions import COURSE
from agentic_rl.evaluation import (
    answer_sheets,
    as_reports,
    exact,
    held_out_tasks,
    mean_report,
    sampled_policy,
    training_tasks,
)
from agentic_rl.golden import GOLDEN_NAMES, GOLDEN_TASK, golden_group, golden_policy
from agentic_rl.grpo import (
    Batch,
    Config,
    State,
    logit_gradient,
    logprob_rows,
    start,
    train,
    unit_choices,
)
from agentic_rl.objective import policy_loss
from agentic_rl.reward import COURSE_REWARD, attach
from agentic_rl.tasks import KINDS, kind_of
from agentic_rl.trajectory import Trajectory

STEPS = 8
RATE = 1.0  # of the one update that is done by hand
SHOWN_SEED = 7
NEXT = """
Next, in the project's folder, the same slowly, from two states and actions up:
  python3 examples/00_toy_mdp/toy_policy_update.py
The map of the whole course is README.en.md (README.md in Chinese).
"""


def main() -> int:
    """Print the tour; the exit status."""
    group = golden_group()
    print("Agentic RL from scratch: one agent, one group, one update; then the loop.")
    agent_loop(group[0])
    trajectory(group[0])
    reward(group)
    advantages = advantage(group)
    update(group, advantages)
    state = closed_loop()
    before_and_after(state)
    table(state)
    print(NEXT, end="")
    return 0


def step(number: int, title: str) -> None:
    """The heading of a step."""
    print(render.heading(title, f"step {number} of {STEPS}"))


def agent_loop(episode: Trajectory) -> None:
    """Step 1: the conversation and the decisions behind it."""
    step(1, "Agent loop: policy x environment -> messages")
    print(
        render.paragraph(
            "The policy sees a state, kind/event, and picks one of six actions. The rest "
            "is real: text, tool calls with ids, tool messages. Here it is uniform: each "
            "action has probability 1/6, and log(1/6) = -1.7918."
        )
    )
    print()
    print(render.messages(episode.messages))
    print()
    positions = episode.positions("decision")
    rows = [
        (turn, state, choice, episode.logprob(position))
        for turn, ((state, choice), position) in enumerate(
            zip(episode.choices(), positions), 1
        )
    ]
    print(render.table(["turn", "state", "choice", "log pi"], rows))
    print()
    print(
        "observations:",
        ", ".join(f"{o.kind} {o.content}" for o in episode.observations),
    )


def trajectory(episode: Trajectory) -> None:
    """Step 2: the same episode as tokens."""
    step(2, "Trajectory: who wrote each token")
    print(
        render.paragraph(
            "Mask 1: the assistant wrote it, its end of turn included. Mask 0: somebody "
            "else did, and log pi there is null. The choice stands on a turn's first token; "
            "the rest of the turn is certain given the choice, with log 1 = 0."
        )
    )
    print()
    print(render.tokens(episode))
    print()
    print(
        f"{len(episode.tokens)} tokens, {sum(episode.loss_mask)} with mask 1, "
        f"{sum(episode.decision)} decisions; finish_reason: {episode.finish_reason}"
    )


def reward(group: list[Trajectory]) -> None:
    """Step 3: the breakdown of each reward of the golden group."""
    step(3, "Reward: named terms -> one number")
    print(
        render.paragraph(
            f"Four episodes of one task ({GOLDEN_TASK.question} {GOLDEN_TASK.answer} is "
            "right) are a group. Right pays 1; a right answer is charged 0.1 for each call "
            "that ran and 0.2 for each that could not be run. Only what the policy said "
            "is scored."
        )
    )
    print()
    for name, episode in zip(GOLDEN_NAMES, group):
        print(render.paragraph(f"{name}: {render.choices(episode)}"))
    print()
    terms = list(group[0].breakdown)
    rows = [
        (name, *(episode.breakdown[term] for term in terms), episode.reward)
        for name, episode in zip(GOLDEN_NAMES, group)
    ]
    print(render.table(["episode", *terms, "reward"], rows))


def advantage(group: list[Trajectory]) -> list[float]:
    """Step 4: compared with its peers, with every intermediate number."""
    step(4, "Advantage: better or worse than the group")
    rewards = [episode.reward or 0.0 for episode in group]
    mean = math.fsum(rewards) / len(rewards)
    squares = [(value - mean) ** 2 for value in rewards]
    std = math.sqrt(math.fsum(squares) / (len(rewards) - 1))
    advantages = group_advantages(rewards, ["golden"] * len(group))
    shown = " + ".join(f"{value:g}" for value in rewards)
    print(f"mean = ({shown}) / {len(rewards)} = {mean:.4f}")
    print(f"std  = sqrt({math.fsum(squares):.4f} / ({len(rewards)} - 1)) = {std:.4f}")
    print()
    rows = [
        (name, value, value - mean, square, result)
        for name, value, square, result in zip(
            GOLDEN_NAMES, rewards, squares, advantages
        )
    ]
    head = ["episode", "reward", "reward - mean", "squared", "advantage"]
    print(render.table(head, rows))
    print()
    print(
        render.paragraph(
            "The advantage is (reward - mean) / std. The spammer was right, and still is "
            "worth less than the episode with one call; both failures get the same."
        )
    )
    return advantages


def update(group: list[Trajectory], advantages: list[float]) -> None:
    """Step 5: one step on the logits."""
    step(5, f"Policy update: logits before and after one step of rate {RATE:g}")
    policy = golden_policy()
    choices = [unit_choices(episode, COURSE.unit) for episode in group]
    old = logprob_rows(policy, choices)
    rows = spread(advantages, [len(row) for row in choices])
    loss = policy_loss(old, old, rows)
    gradient = logit_gradient(policy, choices, loss.gradient)
    after = policy.copy()
    after.move(gradient, -RATE)
    print(
        render.paragraph(
            "Every ratio (a choice's probability now, by that when it was sampled) is 1, so "
            "the loss is -(sum over decisions of the advantage) / 4 = "
            f"{loss_sum(advantages, choices)} = {loss.value:.4f}. The advantages at "
            "hard/start add up to 0, so only what was chosen counts there (docs/en/06 has the "
            "rule), and d loss of call_calculator, chosen by the first and the third, is "
            f"-({advantages[0]:.4f} + {advantages[2]:.4f}) / 4. A loss goes down: "
            "new = logit - rate * d loss. (hard/error moves too and is left out.)"
        )
    )
    print()
    states = ("hard/start", "hard/result")
    print(render.logit_step(policy, gradient, after, states, "d loss"))


def loss_sum(advantages: list[float], choices: list[list[Any]]) -> str:
    """The sum behind the loss: each advantage, once a decision of its episode."""
    pairs = list(zip(advantages, choices))
    parts = [f"{'-' if a < 0 else '+'} {len(row)} * {abs(a):.4f}" for a, row in pairs]
    return f"-({' '.join(parts).removeprefix('+ ')}) / {len(pairs)}"


def closed_loop() -> State:
    """Step 6: the same five steps again and again."""
    config = Config()
    step(6, f"Closed loop: {config.updates} updates, seed {config.seed}, live")
    print(
        render.paragraph(
            f"Each update: {config.tasks_per_update} tasks x {config.group_size} episodes, "
            f"then {config.epochs} steps on the batch, so ratios leave 1 and the clip acts."
        )
    )
    print()
    progress = Progress()

    def show(state: State, batch: Batch) -> None:
        success = state.metrics[-1]["success"]
        done = bar(state.update, config.updates)
        progress.show(f"[{done}] {state.update}/{config.updates} success {success:.2f}")

    state = train(training_tasks(), config, on_update=show)
    progress.clear()
    shown = (1, 5, 10, 20, 30, 40, 50, config.updates)
    print(render.training_log(state.metrics, render.LOG, shown))
    print()
    print(
        render.paragraph(
            "invalid: calls that could not be run, an episode. inform.: share of groups "
            "whose rewards differ; the others teach nothing. entropy: how undecided the "
            "policy is, 0 if certain. KL(ref): distance from the "
            "uniform policy. The reward of a batch depends on its tasks too: a solved "
            "easy task pays 1, a lookup 0.8."
        )
    )
    return state


def before_and_after(state: State) -> None:
    """Step 7: the same task, the same random numbers, two policies."""
    step(7, "Before and after: the same task, the same random numbers")
    print(
        render.paragraph(
            f"Random seed {SHOWN_SEED}, chosen because the untrained agent misuses its "
            "tools in two ways. What happens on average is in the next step."
        )
    )
    task = next(task for task in held_out_tasks() if kind_of(task.question) == "lookup")
    for name, policy in (
        ("untrained", start(Config()).policy),
        ("trained", state.policy),
    ):
        episode = run_episode(policy, task, random.Random(SHOWN_SEED))
        attach([episode], [COURSE_REWARD(episode, task)])
        print(f"\n{name}, reward {render.number(episode.reward)}")
        print(render.messages(episode.messages))


def table(state: State) -> None:
    """Step 8: the honest table."""
    step(8, "The honest table")
    stored = load("results.json")
    seeds = [as_reports(row["exact"]) for row in stored["trained"]]
    drawn = [as_reports(row["sampled"]) for row in stored["trained"]]
    rows = [
        render.honest_row(name, as_reports(row["exact"]), as_reports(row["sampled"]))
        for name, row in (
            ("untrained", stored["untrained"]),
            ("best scripted", stored["scripted"]),
        )
    ]
    live = exact(state.policy, answer_sheets(training_tasks()))
    sample = sampled_policy(state.policy, held_out_tasks(), Config().seed)
    mean_exact = {kind: mean_report([seed[kind] for seed in seeds]) for kind in KINDS}
    mean_drawn = {kind: mean_report([seed[kind] for seed in drawn]) for kind in KINDS}
    ranked = sorted(seeds, key=lambda seed: mean_report(seed.values()).reward)
    rows += [
        render.honest_row("seed 0, live", live, sample),
        render.honest_row("5 seeds, mean", mean_exact, mean_drawn),
        render.honest_row("  worst seed", ranked[0]),
        render.honest_row("  best seed", ranked[-1]),
        render.honest_row("optimum", as_reports(stored["optimum"]["exact"])),
    ]
    print(render.honest_table(rows))
    print()
    print(
        render.paragraph(
            "Exact: every episode enumerated. Sampled: 300 episodes a kind on held-out "
            "tasks. bad%: episodes with an invalid call. Policies, untrained or trained, "
            "sample their actions; the script is played as it is. Worst and best are "
            "ranked by return. The policy sees only a task's kind, so held-out tasks test "
            "the plumbing, not generalisation."
        )
    )


COMMAND = Command(
    "tour",
    "the whole line once, in about a second (the default)",
    "Print agent loop -> trajectory -> reward -> advantage -> policy update once, one "
    "screen a step, each number of it checkable by hand; then the closed loop, live.",
    lambda values: main(),
    examples=(("tour", "eight screens"),),
)
