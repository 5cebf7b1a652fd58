"""Chapter 02. GRPO on Tool-Math: from the uniform policy to the right one, and back.

    python3 examples/02_grpo_tool_agent/grpo_tool_agent.py

One default run with everything it logs, what ratio and clip do on a batch, an advantage
of your own, and the experiments: one thing changed at a time. Each experiment trains seed
0 live; beside it stand the lowest and the highest of five seeds, computed before.
"""

import functools
import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from agentic_rl import variants
from agentic_rl.agent_loop import Limits
from agentic_rl.cli import render
from agentic_rl.cli.storage import load
from agentic_rl.cli.terminal import Progress, run
from agentic_rl.conventions import COURSE, Convention
from agentic_rl.evaluation import (
    ByKind,
    Sheets,
    answer_sheets,
    as_reports,
    exact,
    training_tasks,
)
from agentic_rl.golden import GOLDEN_TASK, golden_policy
from agentic_rl.grpo import Config, State, train
from agentic_rl.objective import Loss, clipped_loss, policy_loss
from agentic_rl.oracle import compare, exact_gradient, expected_estimate, outcomes
from agentic_rl.reward import COURSE_REWARD, SMALL_COSTS, Reward
from agentic_rl.tasks import KINDS
from agentic_rl.variants import Variant

SEED = 0
TASKS = training_tasks()
PROGRESS = Progress()
DONE: dict[tuple[Reward, Config], ByKind] = {}


@functools.cache
def sheets() -> Sheets:
    """The answer sheets of the three kinds, computed once."""
    return answer_sheets(TASKS)


def default_run() -> tuple[State, list[Loss]]:
    """The default run, and the loss of each step that it took."""
    losses: list[Loss] = []

    def watched(*arguments, **named) -> Loss:
        """The course's objective, which also keeps what it returns."""
        losses.append(policy_loss(*arguments, **named))
        return losses[-1]

    config = Config(seed=SEED)
    state = train(TASKS, config, objective=watched)
    DONE[COURSE_REWARD, config] = exact(state.policy, sheets())
    return state, losses


def show_default(state: State) -> None:
    print(render.heading("The default run", "02.1"))
    config = Config(seed=SEED)
    print(
        f"{config.updates} updates of {config.tasks_per_update} tasks x "
        f"{config.group_size} episodes, {config.epochs} steps a batch, "
        f"rate {config.learning_rate:g}, seed {config.seed}\n"
    )
    columns = {
        "reward": "reward",
        "success": "succ.",
        "calls": "calls",
        "invalid": "bad",
        "informative": "inf.",
        "entropy": "entr.",
        "kl_reference": "KL(ref)",
        "kl_old": "KL(old)",
        "clip_fraction_positive": "clip+",
        "clip_fraction_negative": "clip-",
        "smallest_ratio": "min r",
        "largest_ratio": "max r",
    }
    shown = (1, 2, 3, 5, 10, 20, 30, 40, 50, 60)
    print(render.training_log(state.metrics, columns, shown, "upd.", gap=1))
    print()
    print(
        render.paragraph(
            "inf.: share of groups whose rewards differ. KL(ref): from the uniform "
            "reference. KL(old): from the policy that sampled the batch. clip+, clip-: share "
            "of positive and negative advantages whose gradient the clip cut at the second "
            "step. min r, max r: the ratios there. bad: invalid calls an episode."
        )
    )


def show_two_steps(losses: list[Loss]) -> None:
    print(
        render.heading(
            "Two steps on one batch: why ratio and clip need the second", "02.2"
        )
    )
    rows = [
        (
            f"{update}",
            f"{number}",
            loss.value,
            loss.metrics["smallest_ratio"],
            loss.metrics["largest_ratio"],
            loss.metrics["clip_fraction_positive"],
            loss.metrics["clip_fraction_negative"],
        )
        for update in (1, 2, 3)
        for number, loss in enumerate(losses[2 * update - 2 : 2 * update], 1)
    ]
    head = ["update", "step", "loss", "min ratio", "max ratio", "clip A>0", "clip A<0"]
    print(render.table(head, rows))
    print()
    print(
        render.paragraph(
            "ratio = pi now / pi that sampled. The loss of a decision is -min(ratio * A, "
            f"clip(ratio, {1 - COURSE.clip_low:g}, {1 + COURSE.clip_high:g}) * A): at A = 1 "
            f"and ratio 1.5 it is {clipped_loss(1.5, 1.0)[0]:g}, and its gradient is 0. "
            "At the first step the policy is the one that sampled: every ratio is exactly "
            "1 and nothing can be clipped. The clip acts from the second step on."
        )
    )


def sign_advantage(
    rewards: list[float | None], groups: list[int], convention: Convention
) -> list[float]:
    """An advantage of your own: +1 above the group's mean, -1 below it."""
    totals: dict[int, list[float]] = {}
    for reward, group in zip(rewards, groups):
        totals.setdefault(group, []).append(reward or 0.0)
    means = {group: math.fsum(seen) / len(seen) for group, seen in totals.items()}
    gaps = [(reward or 0.0) - means[group] for reward, group in zip(rewards, groups)]
    return [0.0 if abs(gap) < 1e-9 else math.copysign(1.0, gap) for gap in gaps]


def show_own_advantage(default: State) -> None:
    print(render.heading("Pass your own advantage in, and the curve changes", "02.3"))
    own = train(TASKS, Config(seed=SEED), advantage=sign_advantage)
    updates = (1, 3, 5, 10, 20, 40, 60)
    rows = [
        (
            name,
            *(
                render.number(state.metrics[update - 1]["reward"], 2)
                for update in updates
            ),
        )
        for name, state in (("group_advantages", default), ("sign_advantage", own))
    ]
    print(render.table(["mean reward at update", *map(str, updates)], rows))
    print()
    print(
        "train(tasks, config, advantage=sign_advantage): +1 above the group's mean, -1"
    )
    print(
        "below, 0 on it. It learns as well; reward= and objective= work the same way."
    )


def show_estimators() -> None:
    print(render.heading("What each estimator does on the mean", "02.4"))
    limits = Limits(max_turns=2)
    conventions = {
        "leave-one-out": COURSE.but(baseline="leave_one_out", std="none"),
        "group mean": COURSE.but(std="none"),
        "group mean / std": COURSE,
    }
    policy = golden_policy()
    rows = []
    for name, reward in (("course", COURSE_REWARD), ("small costs", SMALL_COSTS)):
        sheet = outcomes(GOLDEN_TASK, reward.total, limits)
        exact_slope = exact_gradient(policy, sheet)
        for estimator, convention in conventions.items():
            for group_size in (2, 3):
                mean = expected_estimate(
                    policy, GOLDEN_TASK, reward.total, convention, group_size, limits
                )
                ratio, cosine = compare(mean, exact_slope)
                rows.append((name, estimator, str(group_size), ratio, cosine))
    print(render.table(["reward", "estimator", "G", "length ratio", "cosine"], rows))
    print()
    print(
        render.paragraph(
            "The golden task at two turns has 26 episodes; here every group of them is "
            "compared, weighted by its probability under the uniform policy, and held "
            "against the exact gradient: the length of the mean estimate divided by that of "
            "the gradient, and the cosine between them. (Small costs: see 02.11. An invalid "
            "call leads to the state hard/error.) Leave-one-out is that gradient. The group's "
            "mean gives (G - 1) / G of it: the same direction. Dividing by the std keeps the "
            "direction while a reward has two values, and turns it once costs differ."
        )
    )


def show_experiment(section: str, title: str, name: str, text: str) -> None:
    """One experiment: each variant live on seed 0, with the five stored seeds beside it."""
    print(render.heading(title, section))
    stored = load("variants.json")[name]
    rows = []
    for variant in variants.EXPERIMENTS[name]:
        PROGRESS.show(f"{section} {variant.name}")
        rows.append(variant_row(variant, stored[variant.name]))
    PROGRESS.clear()
    width = max(len(row[0]) for row in rows)
    print(
        f"{'':<{width}} success, seed {SEED}  calls an episode lookup success, 5 seeds"
    )
    head = ["variant", *KINDS, *KINDS, "lowest", "highest", "0.9+"]
    print(render.table(head, rows, gap=1))
    if any(variant.slow for variant in variants.EXPERIMENTS[name]):
        print("* slow, so not run live: its row is the stored one")
    print()
    print(render.paragraph(text))


def reports_of(variant: Variant) -> ByKind:
    """The exact reports of a variant; one that stands in two experiments runs once."""
    run_of = (variant.reward, variant.config(SEED))
    if run_of not in DONE:
        DONE[run_of] = variants.run(variant, TASKS, sheets(), SEED)
    return DONE[run_of]


def variant_row(variant: Variant, stored: list[dict]) -> list[str]:
    """One line of an experiment's table."""
    reports = as_reports(stored[SEED]) if variant.slow else reports_of(variant)
    lookup = [seed["lookup"]["success"] for seed in stored]
    return [
        variant.name + " *" * variant.slow,
        *(render.number(reports[kind].success, 2) for kind in KINDS),
        *(render.number(reports[kind].calls, 2) for kind in KINDS),
        render.number(min(lookup), 2),
        render.number(max(lookup), 2),
        f"{sum(success >= 0.9 for success in lookup)}/{len(lookup)}",
    ]


def show_ascent(name: str, reward: Reward) -> None:
    """The same reward climbed with the exact gradient."""
    config = Config()
    paid = variants.reward_sheets(reward, TASKS)
    optimum = variants.best_mean(paid)
    climb = variants.climb(paid, config.learning_rate, config.updates)
    value, policy = list(climb)[-1]
    lookup = exact(policy, sheets())["lookup"].success
    print()
    print(
        render.paragraph(
            "Exact ascent (the exact gradient of J) on this reward, same rate and number of "
            f"updates: J = {value:.2f} of {optimum:.2f}, lookup success {lookup:.2f}."
        )
    )
    stored = load("ascents.json")[name]
    never = f"not in {variants.MAX_ASCENT}"
    shown = ", ".join(
        f"{count or never} at rate {rate}" for rate, count in stored.items()
    )
    print(render.paragraph(f"Updates of exact ascent to 95 % of the optimum: {shown}."))


def alike(size: int, success: float = 0.2) -> float:
    """The share of groups in which all fail or all succeed."""
    return float(success**size + (1 - success) ** size)


def show_group_size() -> None:
    show_experiment(
        "02.5",
        "Group size",
        "group size",
        "The same number of updates, so a larger group also sees more episodes. A group "
        "of all failures or all successes teaches nothing; where one in five succeeds, "
        f"that is {alike(2):.2f} of the groups of 2 and {alike(8):.2f} of the groups of 8.",
    )


def show_baseline() -> None:
    show_experiment(
        "02.6",
        "Without a baseline, when 5 is added to every reward",
        "baseline",
        "Here wrong pays 0, and success needs no baseline. On average the push is right, "
        "but at this rate a lucky early call can be locked in: on this seed easy tasks keep "
        "one. With 5 added, whatever was sampled is pushed up, right or wrong, and chance "
        "decides. With the group's mean taken off, the 5 is gone.",
    )


def show_scaling() -> None:
    show_experiment(
        "02.7",
        "Without std scaling",
        "scaling",
        "It learns too. What dividing by the spread does to groups that only fail is the "
        "subject of 02.11.",
    )


def show_clip_off() -> None:
    show_experiment(
        "02.8",
        "Clip off",
        "clipping",
        "In this small problem nothing goes wrong without the clip. It bounds how far one "
        "batch can move the policy; see the ratios of 02.2. This is not evidence that "
        "large models can do without it.",
    )


def show_units() -> None:
    show_experiment(
        "02.9",
        "Counting tokens instead of decisions (30 updates at rate 4)",
        "unit",
        "A turn with a call has 20 tokens or so and an answer 4, but only one token of a "
        "turn carries a choice. token, episode_mean divides a choice by the length of its "
        "episode, so episodes with calls fall behind. token, batch_mean divides all choices "
        "alike: a smaller step, too small at this rate. decision, episode_mean divides by "
        "the number of decisions, so lookups fall behind. A sum divides by none of these. "
        "In an LLM every token is a choice; what remains there is the length bias.",
    )


def show_paid_calls() -> None:
    show_experiment(
        "02.10",
        "A reward that pays 0.5 for each tool call",
        "paid calls",
        "The hack is really learnt: five calls pay 2.5, a right answer 1, and the agent all "
        "but stops answering. Paying for one call at most, only on a right answer, with "
        "0.1 charged a call, brings success back. Easy tasks still get a call: it pays. "
        "(On one of the five seeds the hacked agent still answers some lookups.)",
    )


def show_small_costs() -> None:
    give_up = "give up, small costs"
    show_experiment(
        "02.11",
        "Giving up, I: small costs always charged (call 0.02, invalid 0.05)",
        give_up,
        "While all of a group fail, their rewards differ only by costs. Divided by their "
        "tiny spread, that is a full-strength signal to stop trying. The reward is fine: "
        "exact ascent climbs it. The estimator is at fault. Larger groups help on some "
        "seeds. 'costs gated' charges the same costs on a right answer only.",
    )
    show_ascent(give_up, variants.ASCENTS[give_up])


def show_large_costs() -> None:
    give_up = "give up, large costs"
    show_experiment(
        "02.12",
        "Giving up, II: large costs always charged (call 0.1, invalid 0.2)",
        give_up,
        "Now exact ascent gives up as well: from the uniform policy, trying costs more "
        "than it earns. The reward is at fault, and gating it is the cure: that is the "
        "reward of the course. Leaving out the groups that never succeed works too: it "
        "hides the costs of failing. That other runs get away on some seeds is seen here, "
        "and not explained.",
    )
    show_ascent(give_up, variants.ASCENTS[give_up])


def main() -> None:
    print("Chapter 02: GRPO on Tool-Math. Every run starts from the uniform policy.")
    default, losses = default_run()
    show_default(default)
    show_two_steps(losses)
    show_own_advantage(default)
    show_estimators()
    show_group_size()
    show_baseline()
    show_scaling()
    show_clip_off()
    show_units()
    show_paid_calls()
    show_small_costs()
    show_large_costs()
    print("\nNext: the map of the course, README.en.md (README.md in Chinese).")


if __name__ == "__main__":
    run(main, __doc__)
