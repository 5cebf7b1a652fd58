"""Chapter 00. Two states, two actions: how sampling turns into better probabilities.

    python3 examples/00_toy_mdp/toy_policy_update.py

Softmax, sampling, returns, the score, one update by hand, the estimator beside the exact
gradient, a baseline, many updates, and why a loss of 0 can still teach.
"""

import math
import random
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from agentic_rl.advantage import returns_to_go
from agentic_rl.cli import render
from agentic_rl.cli.terminal import run
from agentic_rl.objective import policy_loss
from agentic_rl.policy import Gradient, SoftmaxPolicy, weighted_score
from agentic_rl.toy_mdp import ACTIONS, STATES, Step, exact_return, play, transition

SEED = 0
BATCH = 32  # episodes an update
RATE = 0.5
UPDATES = 60
SPREAD_BATCHES = 400  # batches drawn to see how an estimate scatters

Episode = list[Step]
Estimate = Callable[[SoftmaxPolicy, list[Episode]], Gradient]


def sample_episodes(
    policy: SoftmaxPolicy, count: int, rng: random.Random
) -> list[Episode]:
    """``count`` episodes under the policy."""
    return [play(lambda state: policy.sample(state, rng)[0]) for _ in range(count)]


def returns_of(episode: Episode) -> list[float]:
    """The return of each step: its own reward and all that came later."""
    return returns_to_go([step.reward for step in episode], [1] * len(episode))


def mean_return(episodes: list[Episode]) -> float:
    """The mean return of the first step."""
    return math.fsum(returns_of(episode)[0] for episode in episodes) / len(episodes)


def reinforce(
    policy: SoftmaxPolicy, episodes: list[Episode], baseline: float = 0.0
) -> Gradient:
    """The REINFORCE estimate of dJ/dlogits: mean of (return - baseline) * score.

    The baseline must not depend on the actions it is compared with.
    """
    decisions = [
        (step.state, step.action, (value - baseline) / len(episodes))
        for episode in episodes
        for step, value in zip(episode, returns_of(episode))
    ]
    return weighted_score(policy, decisions)


def centred(policy: SoftmaxPolicy, episodes: list[Episode]) -> Gradient:
    """REINFORCE with the batch's own mean return as the baseline."""
    return reinforce(policy, episodes, mean_return(episodes))


def learn(
    estimate: Estimate, updates: int = UPDATES, seed: int = SEED, batch: int = BATCH
) -> list[SoftmaxPolicy]:
    """The uniform policy, and the policy after each update.

    ``estimate(policy, episodes)`` is the gradient that an update follows.
    """
    policy, rng = SoftmaxPolicy(STATES, ACTIONS), random.Random(seed)
    policies = [policy.copy()]
    for _ in range(updates):
        episodes = sample_episodes(policy, batch, rng)
        policy.move(estimate(policy, episodes), RATE)
        policies.append(policy.copy())
    return policies


def exact_gradient(policy: SoftmaxPolicy) -> Gradient:
    """dJ/dlogits in closed form: p(s visited) * pi(a|s) * (Q(s, a) - V(s))."""
    values = {"ready": {"take": 3.0, "work": 0.0}}
    later = policy.probability("ready", "take") * 3.0
    values["start"] = {"take": 1.0, "work": later}
    visits = {"start": 1.0, "ready": policy.probability("start", "work")}
    gradient = {}
    for state in STATES:
        chances = policy.probabilities(state)
        value = math.fsum(p * values[state][a] for p, a in zip(chances, ACTIONS))
        gradient[state] = [
            visits[state] * p * (values[state][a] - value)
            for p, a in zip(chances, ACTIONS)
        ]
    return gradient


def show_world() -> None:
    print(render.heading("The world: a reward that comes late", "00.1"))
    rows = [(s, a, *transition(s, a)) for s in STATES for a in ACTIONS]
    print(render.table(["state", "action", "reward", "next"], rows))
    print()
    print(
        render.paragraph(
            "Reward: what one action pays. Return: what it pays and all that follows. "
            "'work' in start has reward 0, and a return of up to 3."
        )
    )


def show_softmax() -> None:
    print(render.heading("Softmax: logits -> probabilities", "00.2"))
    rows = []
    for logits in ([0.0, 0.0], [1.0, 0.0], [11.0, 10.0], [2.0, 0.0]):
        policy = SoftmaxPolicy(["start"], ACTIONS, {"start": logits})
        rows.append((*logits, *policy.probabilities("start"), policy.entropy("start")))
    head = [f"logit {a}" for a in ACTIONS] + [f"pi({a})" for a in ACTIONS] + ["entropy"]
    print(render.table(head, rows))
    print()
    print("Only differences of logits count: rows 2 and 3 are the same policy.")


def show_score() -> None:
    print(render.heading("Score: the gradient of the log-prob, beside it", "00.3"))
    policy = SoftmaxPolicy(["start"], ACTIONS, {"start": [1.0, 0.0]})
    rows = [
        (
            action,
            policy.probability("start", action),
            policy.log_prob("start", action),
            *policy.score("start", action),
        )
        for action in ACTIONS
    ]
    print(render.table(["chosen", "pi", "log pi", "d/d take", "d/d work"], rows))
    print()
    print(
        render.paragraph(
            "d log pi(a) / d logit(b) = 1[a = b] - pi(b). The chosen action goes up by "
            "what it lacks, the other goes down, and each row adds up to 0."
        )
    )


def show_sampling(policy: SoftmaxPolicy) -> list[Episode]:
    print(render.heading("Sampling: four episodes of the uniform policy", "00.4"))
    episodes = sample_episodes(policy, 4, random.Random(SEED))
    rows = [
        (number, step.state, step.action, step.reward, value)
        for number, episode in enumerate(episodes, 1)
        for step, value in zip(episode, returns_of(episode))
    ]
    print(render.table(["episode", "state", "action", "reward", "return"], rows))
    print()
    exact = exact_return(policy.probability)
    print(f"mean return of these four: {mean_return(episodes):.4f}")
    print(f"exact: 1/2 * 1 + 1/2 * 1/2 * 3 = {exact:.4f}")
    return episodes


def show_one_update(policy: SoftmaxPolicy, episodes: list[Episode]) -> None:
    print(render.heading(f"One update by hand, from these four, rate {RATE:g}", "00.5"))
    gradient = reinforce(policy, episodes)
    after = policy.copy()
    after.move(gradient, RATE)
    print(render.logit_step(policy, gradient, after, STATES, "d return"))
    print()
    print(
        "d return = mean of return * score; it goes up: new = logit + rate * d return"
    )
    before, now = exact_return(policy.probability), exact_return(after.probability)
    print(f"exact return: {before:.4f} -> {now:.4f}")


def many_estimates(
    policy: SoftmaxPolicy, baseline: float, rng: random.Random
) -> list[Gradient]:
    """What ``reinforce`` makes of many batches of one policy."""
    return [
        reinforce(policy, sample_episodes(policy, BATCH, rng), baseline)
        for _ in range(SPREAD_BATCHES)
    ]


def show_estimator(policy: SoftmaxPolicy) -> None:
    print(
        render.heading(
            "The estimator and the exact gradient; what a baseline does", "00.6"
        )
    )
    rng = random.Random(SEED)
    baseline = exact_return(policy.probability)
    exact = exact_gradient(policy)
    rows = [("exact", exact["start"][1], exact["ready"][0], "")]
    for name, value in (("no baseline", 0.0), (f"baseline {baseline:g}", baseline)):
        estimates = many_estimates(policy, value, rng)
        work = [estimate["start"][1] for estimate in estimates]
        take = [estimate["ready"][0] for estimate in estimates]
        rows.append((name, mean(work), mean(take), render.number(deviation(work))))
    head = ["estimate", "start: work", "ready: take", "scatter of start: work"]
    print(render.table(head, rows))
    print()
    print(
        render.paragraph(
            f"Each estimate: the mean of {SPREAD_BATCHES} batches of {BATCH} episodes, so "
            f"its standard error is the scatter / {math.isqrt(SPREAD_BATCHES)}. "
            "Subtracting a baseline leaves the mean where it is, because the score has "
            "mean 0, and makes one batch scatter less."
        )
    )


def show_learning() -> None:
    print(render.heading("Many updates", "00.7"))
    rows = []
    for name, estimate in (("no baseline", reinforce), ("with baseline", centred)):
        policies = learn(estimate, UPDATES)
        curve = [exact_return(p.probability) for p in policies[::15]]
        last = policies[-1]
        work, take = (
            last.probability("start", "work"),
            last.probability("ready", "take"),
        )
        rows.append((name, *curve, work, take))
    head = ["J after updates:", *(str(u) for u in range(0, UPDATES + 1, 15))]
    print(render.table([*head, "work|start", "take|ready"], rows))
    print()
    print(
        render.paragraph(
            f"{BATCH} episodes an update, rate {RATE:g}. J is exact; the optimum is 3. With "
            "so many episodes an update the baseline makes little difference. It is the "
            f"batch's own mean return: an episode is 1/{BATCH} of it, so the estimate "
            "shrinks by that share."
        )
    )


def show_zero_loss(policy: SoftmaxPolicy) -> None:
    print(render.heading("The loss is 0 and the gradient is not", "00.8"))
    returns, actions = [3.0, 1.0], ["work", "take"]
    advantages = [value - mean(returns) for value in returns]
    logprobs = [[policy.log_prob("start", action)] for action in actions]
    loss = policy_loss(logprobs, logprobs, [[a] for a in advantages])
    rows = [
        (action, value, advantage, 1.0, -advantage, slope[0])
        for action, value, advantage, slope in zip(
            actions, returns, advantages, loss.gradient
        )
    ]
    head = ["sampled", "return", "advantage", "ratio", "-ratio * A", "d loss/d log pi"]
    print(render.table(head, rows))
    print()
    print(f"loss = mean of -ratio * A = {render.number(loss.value)}")
    slopes = [slope[0] for slope in loss.gradient]
    gradient = weighted_score(
        policy, [("start", a, slope) for a, slope in zip(actions, slopes)]
    )
    after = policy.copy()
    after.move(gradient, -RATE)
    chance = policy.probability("start", "work"), after.probability("start", "work")
    print(f"and yet one step moves pi(work|start): {chance[0]:.4f} -> {chance[1]:.4f}")
    print()
    print(
        render.paragraph(
            f"(rate {RATE:g}.) Advantages are centred and every ratio is 1 on fresh samples, "
            "so the value is 0 where each episode has one decision. In the tour an episode "
            "counts once for each of its decisions, so that longer ones weigh more, and the "
            "value can be any number. It says nothing about learning: watch the return and "
            "the size of the gradient."
        )
    )


def mean(values: list[float]) -> float:
    """The arithmetic mean."""
    return math.fsum(values) / len(values)


def deviation(values: list[float]) -> float:
    """The sample standard deviation."""
    centre = mean(values)
    squares = math.fsum((value - centre) ** 2 for value in values)
    return math.sqrt(squares / (len(values) - 1))


def main() -> None:
    print("Chapter 00: a toy MDP. From sampling to better probabilities.")
    policy = SoftmaxPolicy(STATES, ACTIONS)
    show_world()
    show_softmax()
    show_score()
    episodes = show_sampling(policy)
    show_one_update(policy, episodes)
    show_estimator(policy)
    show_learning()
    show_zero_loss(policy)
    print("\nNext: python3 examples/01_tool_math_agent/tool_math_agent.py")


if __name__ == "__main__":
    run(main, __doc__)
