"""What an estimator does on the mean, exactly: every group there is, weighted by its
probability, through the shipped code.

A group-relative update is a random vector: groups of G episodes are drawn, compared,
and turned into a step. Here all groups are drawn, so the mean is a number and is held
against the exact gradient of the oracle: the oracle knows no groups.

    hard, 2 turns      26 episodes     26^2 and 26^3 groups
    lookup, 3 turns   106 episodes    106^2 groups

Order within a group means nothing (one test checks that), so one order of each group is
played and counted as often as it has orders: G! / (m1! m2! ...).

The policy is seeded and not uniform; one step a batch, so every ratio is 1. There are
two rewards: "gated" is the course's, and in trees this small it has two values (right
or 0); "charged" takes a small price for every call, so it has many.
"""

from __future__ import annotations

import functools
import itertools
import math
import random
import unittest
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from agentic_rl.advantage import group_advantages, spread
from agentic_rl.agent_loop import Episode, Limits
from agentic_rl.conventions import COURSE, Convention
from agentic_rl.golden import GOLDEN_TASK
from agentic_rl.grpo import (
    Batch,
    batch_rewards,
    logit_gradient,
    logprob_rows,
    unit_choices,
)
from agentic_rl.objective import kl_estimate, policy_loss
from agentic_rl.oracle import every_episode, exact_gradient, outcomes
from agentic_rl.policy import Gradient, SoftmaxPolicy
from agentic_rl.reward import COURSE_REWARD, SMALL_COSTS
from agentic_rl.tasks import Task
from agentic_rl.tool_math import ACTIONS, STATES
from agentic_rl.trajectory import Trajectory

LOOKUP_TASK = Task(
    "lookup",
    "How much do 12 kettles cost?",
    "12 * price",
    "408",
    "kettles",
    {"kettles": "34", "lamps": "19"},
)
TREES = {"hard": (GOLDEN_TASK, 2, 26), "lookup": (LOOKUP_TASK, 3, 106)}
REWARDS = {"gated": COURSE_REWARD, "charged": SMALL_COSTS}
SIZES = (("hard", 2), ("hard", 3), ("lookup", 2))

MEAN = COURSE.but(std="none")
LEAVE_ONE_OUT = MEAN.but(baseline="leave_one_out")
NO_BASELINE = MEAN.but(baseline="none")


def random_policy(seed: int) -> SoftmaxPolicy:
    rng = random.Random(seed)
    rows = {state: [rng.uniform(-1, 1) for _ in ACTIONS] for state in STATES}
    return SoftmaxPolicy(STATES, ACTIONS, rows)


POLICY, OLDER, REFERENCE = random_policy(1), random_policy(2), random_policy(3)


class Played(NamedTuple):
    """One episode of a tree, and what depends on it alone."""

    trajectory: Trajectory  # with POLICY's log-probs
    chance: float  # under POLICY
    choices: list  # (state, action) a decision
    logprobs: list[float]
    reward: float


@functools.cache
def tree(kind: str, reward: str = "gated") -> tuple[Played, ...]:
    """Every episode of the kind, played under POLICY."""
    task, turns, _ = TREES[kind]
    limits = Limits(max_turns=turns)
    played = []
    for known in every_episode(task, limits):
        episode = Episode(task, limits)
        for state, action in known.choices():
            episode.act(action, POLICY.log_prob(state, action))
        record = episode.trajectory
        total = REWARDS[reward](record, task).total
        choices = unit_choices(record, "decision")
        (logprobs,) = logprob_rows(POLICY, [choices])
        chance = math.exp(math.fsum(logprobs))
        played.append(Played(record, chance, choices, logprobs, total))
    return tuple(played)


def groups(
    kind: str, size: int, reward: str = "gated"
) -> Iterator[tuple[float, tuple[Played, ...]]]:
    """(probability of all its orders, the group), each multiset of episodes once."""
    episodes = tree(kind, reward)
    for places in itertools.combinations_with_replacement(range(len(episodes)), size):
        orders = math.factorial(size)
        for count in Counter(places).values():
            orders //= math.factorial(count)
        group = tuple(episodes[place] for place in places)
        yield orders * math.prod(one.chance for one in group), group


def estimate(
    group: tuple[Played, ...], convention: Convention, bonus: float = 0.0
) -> Gradient:
    """The logits' ascent direction that one group gives: what grpo.improve does."""
    rewards = [one.reward + bonus for one in group]
    choices = [one.choices for one in group]
    logprobs = [one.logprobs for one in group]
    advantages = group_advantages(rewards, ["g"] * len(group), convention)
    rows = spread(advantages, [len(row) for row in choices], convention)
    loss = policy_loss(logprobs, logprobs, rows, convention)
    gradient = logit_gradient(POLICY, choices, loss.gradient)
    return {state: [-slope for slope in row] for state, row in gradient.items()}


def flat(gradient: Gradient) -> list[float]:
    return [slope for state in STATES for slope in gradient[state]]


def mean_estimate(
    kind: str,
    size: int,
    convention: Convention,
    bonus: float = 0.0,
    reward: str = "gated",
) -> list[float]:
    """The exact mean of ``estimate`` over all groups of this size."""
    total = [0.0] * (len(STATES) * len(ACTIONS))
    for chance, group in groups(kind, size, reward):
        for place, slope in enumerate(flat(estimate(group, convention, bonus))):
            if slope:
                total[place] += chance * slope
    return total


@functools.cache
def exact(kind: str, reward: str = "gated") -> tuple[float, ...]:
    """The gradient of J, from the oracle."""
    task, turns, _ = TREES[kind]
    score = REWARDS[reward]
    lines = outcomes(task, lambda e, t: score(e, t).total, Limits(max_turns=turns))
    return tuple(flat(exact_gradient(POLICY, lines)))


def length(vector) -> float:
    return math.sqrt(math.fsum(x * x for x in vector))


def cosine(one, other) -> float:
    product = math.fsum(x * y for x, y in zip(one, other))
    return product / (length(one) * length(other))


def slopes(
    function: Callable[[SoftmaxPolicy], float], step: float = 1e-5
) -> list[float]:
    """Central finite differences at POLICY of a function of the policy, by logit."""
    found = []
    for state in STATES:
        for index in range(len(ACTIONS)):
            values = []
            for sign in (1, -1):
                moved = POLICY.copy()
                moved.logits[state][index] += sign * step
                values.append(function(moved))
            found.append((values[0] - values[1]) / (2 * step))
    return found


class EstimatorCase(unittest.TestCase):
    def assert_close(self, found, expected, tolerance) -> None:
        self.assertEqual(len(found), len(expected))
        for place, (x, y) in enumerate(zip(found, expected)):
            self.assertLessEqual(abs(x - y), tolerance, f"place {place}: {x} != {y}")


class Trees(EstimatorCase):
    def test_all_episodes_all_groups(self):
        for kind, (_, _, count) in TREES.items():
            episodes = tree(kind)
            self.assertEqual(len(episodes), count)
            total = math.fsum(one.chance for one in episodes)
            self.assertAlmostEqual(total, 1.0, delta=1e-12)
        for kind, size in SIZES:
            total = math.fsum(chance for chance, _ in groups(kind, size))
            self.assertAlmostEqual(total, 1.0, delta=1e-12)

    def test_the_policy_is_not_uniform_and_the_gradient_not_zero(self):
        for kind in TREES:
            chances = [one.chance for one in tree(kind)]
            self.assertGreater(max(chances) / min(chances), 10)
            for reward in REWARDS:
                self.assertGreater(length(exact(kind, reward)), 1e-3)

    def test_one_reward_has_two_values_and_one_has_many(self):
        for kind, right in (("hard", 0.9), ("lookup", 0.8)):
            gated = {round(one.reward, 9) for one in tree(kind)}
            self.assertEqual(gated, {0.0, right})
            charged = {round(one.reward, 9) for one in tree(kind, "charged")}
            self.assertGreater(len(charged), 4)

    def test_the_order_in_a_group_means_nothing(self):
        """What lets one order stand for all, on 40 seeded groups of three."""
        rng = random.Random(0)
        for _ in range(40):
            group = tuple(rng.choice(tree("hard")) for _ in range(3))
            for convention in (COURSE, MEAN, LEAVE_ONE_OUT):
                known = flat(estimate(group, convention))
                for order in itertools.permutations(group):
                    self.assert_close(flat(estimate(order, convention)), known, 1e-12)

    def test_ordered_groups_of_two_give_the_same_mean(self):
        """The weights of the orders, checked by playing all 26^2 ordered groups."""
        total = [0.0] * len(exact("hard"))
        for group in itertools.product(tree("hard"), repeat=2):
            chance = math.prod(one.chance for one in group)
            for place, slope in enumerate(flat(estimate(group, COURSE))):
                total[place] += chance * slope
        self.assert_close(total, mean_estimate("hard", 2, COURSE), 1e-12)


class Baselines(EstimatorCase):
    def test_leave_one_out_is_the_gradient(self):
        for (kind, size), reward in itertools.product(SIZES, REWARDS):
            with self.subTest(kind=kind, size=size, reward=reward):
                found = mean_estimate(kind, size, LEAVE_ONE_OUT, reward=reward)
                self.assert_close(found, exact(kind, reward), 1e-9)

    def test_the_group_mean_is_a_little_short_of_it(self):
        """Each episode is in its own baseline, which takes 1/G of the gradient away."""
        for (kind, size), reward in itertools.product(SIZES, REWARDS):
            with self.subTest(kind=kind, size=size, reward=reward):
                found = mean_estimate(kind, size, MEAN, reward=reward)
                share = (size - 1) / size
                expected = [share * x for x in exact(kind, reward)]
                self.assert_close(found, expected, 1e-9)

    def test_no_baseline_is_the_gradient_too(self):
        """On the mean a baseline changes nothing; G = 1 is plain REINFORCE."""
        for kind in TREES:
            self.assert_close(mean_estimate(kind, 1, NO_BASELINE), exact(kind), 1e-9)

    def test_dividing_by_the_std_turns_the_direction(self):
        """Biased where rewards have many values: another direction than the gradient's,
        not just another length.

        A group whose rewards differ by the 0.02 of one call counts as much as one in
        which right meets wrong. The direction is off by more than rounding ever is
        (cosine below 0.999) and still uphill by more than half (above 0.5).
        """
        for kind, size in SIZES:
            with self.subTest(kind=kind, size=size):
                found = mean_estimate(kind, size, COURSE, reward="charged")
                turned = cosine(found, exact(kind, "charged"))
                self.assertLess(turned, 0.999)
                self.assertGreater(turned, 0.5)

    def test_with_two_values_of_reward_it_does_not(self):
        """A right episode gets some a, a wrong one some b, on the mean over its peers:
        b * E[score] + (a - b) * E[right * score], and the first of them is 0. So std
        scaling changes the length alone; from groups of 4 on, by a factor that depends on
        how often the task is solved.
        """
        for kind, size in SIZES:
            found = mean_estimate(kind, size, COURSE)
            self.assertAlmostEqual(cosine(found, exact(kind)), 1.0, delta=1e-12)
        # G = 2: a right episode meets a wrong one with probability 1 - p and then has
        # 1/sqrt(2), a wrong one -1/sqrt(2) with probability p: a - b = 1/sqrt(2).
        # J = right * p.
        for kind, right in (("hard", 0.9), ("lookup", 0.8)):
            found = mean_estimate(kind, 2, COURSE)
            expected = [x / right / math.sqrt(2) for x in exact(kind)]
            self.assert_close(found, expected, 1e-12)

    def test_scaled_groups_of_two_climb_the_chance_to_win(self):
        """Two rewards, scaled, are +-1/sqrt(2) however far apart. So the mean is that
        of score * (chance to beat a peer - chance to lose to one) / sqrt(2): rank, not
        reward. Written here without groups."""
        for kind in TREES:
            episodes = tree(kind, "charged")
            expected = [0.0] * len(exact(kind))
            for one in episodes:
                wins = math.fsum(x.chance for x in episodes if above(one, x))
                losses = math.fsum(x.chance for x in episodes if above(x, one))
                weight = one.chance * (wins - losses) / math.sqrt(2)
                score = logit_gradient(
                    POLICY, [one.choices], [[weight] * len(one.choices)]
                )
                for place, slope in enumerate(flat(score)):
                    expected[place] += slope
            found = mean_estimate(kind, 2, COURSE, reward="charged")
            self.assert_close(found, expected, 1e-12)

    def test_a_constant_for_all_changes_no_comparison(self):
        """+5 for every episode: the estimates of each group stay what they were."""
        rng = random.Random(0)
        for _ in range(60):
            group = tuple(rng.choice(tree("lookup")) for _ in range(4))
            for convention in (MEAN, LEAVE_ONE_OUT, COURSE):
                plain = flat(estimate(group, convention))
                moved = flat(estimate(group, convention, bonus=5.0))
                self.assert_close(moved, plain, 1e-12)

    def test_without_a_baseline_it_changes_each_estimate_but_not_the_mean(self):
        """E[score] = 0, so 5 * E[score] = 0: more noise, the same direction."""
        for kind in TREES:
            for one in tree(kind):
                plain = flat(estimate((one,), NO_BASELINE))
                moved = flat(estimate((one,), NO_BASELINE, bonus=5.0))
                self.assertGreater(length(x - y for x, y in zip(moved, plain)), 1.0)
            found = mean_estimate(kind, 1, NO_BASELINE, bonus=5.0)
            self.assert_close(found, exact(kind), 1e-9)

    def test_the_mean_of_the_score_is_zero(self):
        for kind in TREES:
            found = [0.0] * len(exact(kind))
            for one in tree(kind):
                score = logit_gradient(
                    POLICY, [one.choices], [[1.0] * len(one.choices)]
                )
                for place, slope in enumerate(flat(score)):
                    found[place] += one.chance * slope
            self.assert_close(found, [0.0] * len(found), 1e-12)

    def test_a_baseline_makes_the_same_mean_less_noisy_under_a_bonus(self):
        """The trace of the covariance, exactly: with +5 it is many times as large
        without a baseline as with leave-one-out."""
        spreads = {}
        for convention in (NO_BASELINE, LEAVE_ONE_OUT):
            squares = []
            for chance, group in groups("hard", 2):
                vector = flat(estimate(group, convention, bonus=5.0))
                squares.append(chance * length(vector) ** 2)
            spreads[convention.baseline] = (
                math.fsum(squares) - length(exact("hard")) ** 2
            )
        self.assertGreater(spreads["none"], 10 * spreads["leave_one_out"])


def above(one: Played, other: Played) -> bool:
    """Whether a reward is the higher one, by more than rounding."""
    return one.reward > other.reward + 1e-9


# ----------------------------------------------------------------------------- the KL


def chances(policy: SoftmaxPolicy, kind: str = "lookup") -> list[float]:
    """The probability of each episode under a policy."""
    return [
        math.exp(math.fsum(policy.log_prob(*choice) for choice in one.choices))
        for one in tree(kind)
    ]


def visits(policy: SoftmaxPolicy) -> dict[str, float]:
    """state -> how often an episode decides there, on the mean."""
    found = dict.fromkeys(STATES, 0.0)
    for chance, one in zip(chances(policy), tree("lookup")):
        for state, _ in one.choices:
            found[state] += chance
    return found


def kl_by_state(policy: SoftmaxPolicy, weights: dict[str, float]) -> float:
    """sum over states of weight * KL(policy || reference) there."""
    return math.fsum(weights[s] * policy.kl(REFERENCE, s) for s in STATES)


def kl_of_trajectories(policy: SoftmaxPolicy) -> float:
    """sum over episodes of p log(p / p_ref): KL between distributions of episodes."""
    ours, theirs = chances(policy), chances(REFERENCE)
    return math.fsum(p * math.log(p / q) for p, q in zip(ours, theirs))


def mean_kl(estimator: str, sampler: SoftmaxPolicy, over: str = "sum") -> float:
    """The mean over the sampler's episodes of the estimates summed (or averaged) over
    an episode's decisions, of KL(POLICY || REFERENCE)."""
    parts = []
    for chance, one in zip(chances(sampler), tree("lookup")):
        found = math.fsum(
            kl_estimate(POLICY.log_prob(*c), REFERENCE.log_prob(*c), estimator)[0]
            for c in one.choices
        )
        parts.append(chance * (found / len(one.choices) if over == "mean" else found))
    return math.fsum(parts)


class KL(EstimatorCase):
    def test_three_ways_to_write_the_kl_of_episodes(self):
        """The chain rule: the KL of trajectories is that of the states, weighted by how
        often they are visited."""
        by_state = kl_by_state(POLICY, visits(POLICY))
        self.assertAlmostEqual(kl_of_trajectories(POLICY), by_state, delta=1e-12)
        self.assertGreater(by_state, 0.1)

    def test_k1_and_k3_are_the_kl_summed_over_decisions_on_policy(self):
        kl = kl_of_trajectories(POLICY)
        for estimator in ("k1", "k3"):
            self.assertAlmostEqual(mean_kl(estimator, POLICY), kl, delta=1e-12)
        # k2 is another number: its mean is biased, its gradient is not (below)
        self.assertGreater(abs(mean_kl("k2", POLICY) - kl), 1e-2)

    def test_as_a_mean_over_decisions_they_are_not(self):
        """Dividing by the episode's length correlates with what was chosen."""
        kl = kl_of_trajectories(POLICY)
        one, three = (mean_kl(k, POLICY, "mean") for k in ("k1", "k3"))
        self.assertGreater(abs(one - three), 1e-2)
        self.assertGreater(abs(one - kl), 1e-2)
        self.assertGreater(abs(three - kl), 1e-2)

    def test_with_samples_of_an_older_policy_they_are_not(self):
        kl = kl_of_trajectories(POLICY)
        one, three = (mean_kl(k, OLDER) for k in ("k1", "k3"))
        self.assertGreater(abs(one - kl), 1e-2)
        self.assertGreater(abs(three - kl), 1e-2)
        self.assertGreater(abs(one - three), 1e-2)

    def test_the_ratio_repairs_the_choice_and_not_the_visits(self):
        """kl_ratio=True on samples of an older policy: each state's KL is right again,
        but the states are still weighted by the older policy's visits."""
        convention = COURSE.but(
            kl_place="loss", kl_weight=1.0, kl_ratio=True, log_ratio_clamp=None
        )
        parts = []
        for chance, one in zip(chances(OLDER), tree("lookup")):
            old, ref = (logprob_rows(p, [one.choices]) for p in (OLDER, REFERENCE))
            gains = [[0.0] * len(one.choices)]
            loss = policy_loss([one.logprobs], old, gains, convention, None, ref)
            parts.append(chance * loss.value)
        found = math.fsum(parts)
        self.assertAlmostEqual(found, kl_by_state(POLICY, visits(OLDER)), delta=1e-12)
        self.assertGreater(abs(found - kl_of_trajectories(POLICY)), 1e-2)


class KLGradient(EstimatorCase):
    """The multi-turn gap: two ways to charge the KL that agree in one step (case f05,
    trl#4967, in test_objective) and differ over several."""

    def in_the_reward(self) -> list[float]:
        """The mean gradient of the loss with k1 taken off an episode's reward of 0."""
        convention = NO_BASELINE.but(
            kl_place="reward", kl_weight=1.0, kl_estimator="k1"
        )
        total = [0.0] * len(exact("lookup"))
        for one in tree("lookup"):
            bare = one.trajectory.fork()
            bare.reward = 0.0
            batch = Batch([bare], [0], [False])
            charged = batch_rewards(batch, REFERENCE, convention)
            self.add(total, one, group_advantages(charged, [0], convention), convention)
        return total

    def in_the_loss(self, estimator: str) -> list[float]:
        """The mean gradient of the loss with the estimate in it and advantage 0."""
        convention = NO_BASELINE.but(
            kl_place="loss", kl_weight=1.0, kl_estimator=estimator
        )
        total = [0.0] * len(exact("lookup"))
        for one in tree("lookup"):
            self.add(total, one, [0.0], convention)
        return total

    def add(self, total, one: Played, advantages, convention: Convention) -> None:
        rows = spread(advantages, [len(one.choices)], convention)
        new, ref = [one.logprobs], logprob_rows(REFERENCE, [one.choices])
        loss = policy_loss(new, new, rows, convention, None, ref)
        gradient = logit_gradient(POLICY, [one.choices], loss.gradient)
        for place, slope in enumerate(flat(gradient)):
            total[place] += one.chance * slope

    def test_k1_in_the_reward_is_the_gradient_of_the_kl_of_trajectories(self):
        expected = slopes(kl_of_trajectories)
        self.assertGreater(length(expected), 0.1)
        self.assert_close(self.in_the_reward(), expected, 1e-8)

    def test_k2_in_the_loss_holds_the_visited_states_fixed(self):
        fixed = visits(POLICY)
        expected = slopes(lambda policy: kl_by_state(policy, fixed))
        self.assert_close(self.in_the_loss("k2"), expected, 1e-8)

    def test_the_gap_between_the_two(self):
        """What k2 leaves out: a choice also decides which states come next. By the rule
        of the product the gap is what the visits' own change does, the KLs held fixed.
        """
        reward, loss = self.in_the_reward(), self.in_the_loss("k2")
        gaps = [x - y for x, y in zip(reward, loss)]
        self.assertGreater(max(map(abs, gaps)), 1e-3)
        kls = {state: POLICY.kl(REFERENCE, state) for state in STATES}

        def through_visits(policy: SoftmaxPolicy) -> float:
            return math.fsum(x * kls[state] for state, x in visits(policy).items())

        self.assert_close(gaps, slopes(through_visits), 1e-8)

    def test_k1_in_the_loss_does_nothing_on_the_mean(self):
        zeros = [0.0] * len(exact("lookup"))
        self.assert_close(self.in_the_loss("k1"), zeros, 1e-12)

    def test_k3_in_the_loss_is_the_forward_kl_of_each_visited_state(self):
        fixed = visits(POLICY)

        def forward(policy: SoftmaxPolicy) -> float:
            return math.fsum(fixed[s] * REFERENCE.kl(policy, s) for s in STATES)

        self.assert_close(self.in_the_loss("k3"), slopes(forward), 1e-8)

    def test_in_a_single_turn_there_is_no_gap(self):
        """Case f05 (trl#4967) on the environment: with one turn the first choice ends
        the episode, and both charges are the same gradient."""
        state = "lookup/start"
        reward, loss = [0.0] * len(ACTIONS), [0.0] * len(ACTIONS)
        shares = POLICY.probabilities(state)
        for action, share in zip(ACTIONS, shares):
            new, ref = (p.log_prob(state, action) for p in (POLICY, REFERENCE))
            in_loss = COURSE.but(kl_place="loss", kl_weight=1.0, kl_estimator="k2")
            for total, gain, convention in (
                (reward, -(new - ref), COURSE),
                (loss, 0.0, in_loss),
            ):
                found = policy_loss(
                    [[new]], [[new]], [[gain]], convention, None, [[ref]]
                )
                gradient = logit_gradient(POLICY, [[(state, action)]], found.gradient)
                for index, slope in enumerate(gradient[state]):
                    total[index] += share * slope
        self.assert_close(reward, loss, 1e-12)
        self.assertGreater(length(reward), 1e-2)


if __name__ == "__main__":
    unittest.main()
