"""The answer sheet: counts, probabilities, values and gradients that can be derived.

A decision ends the episode (the 2 answers) or goes on (the 4 calls), and the last turn
ends it whatever is chosen, so T(1) = 6 and T(n) = 2 + 4 T(n - 1):
6, 26, 106, 426, 1706.
"""

from __future__ import annotations

import functools
import itertools
import math
import random
import unittest
from fractions import Fraction

from agentic_rl import toy_mdp
from agentic_rl.agent_loop import Limits, run_episode
from agentic_rl.conventions import COURSE
from agentic_rl.golden import GOLDEN_TASK
from agentic_rl.oracle import (
    Outcome,
    ascend,
    best,
    compare,
    every_episode,
    exact_gradient,
    expectation,
    expectations,
    expected_estimate,
    outcomes,
    probabilities,
)
from agentic_rl.policy import PolicyError, SoftmaxPolicy
from agentic_rl.reward import COURSE_REWARD, SMALL_COSTS, right
from agentic_rl.tasks import Task
from agentic_rl.tool_math import ACTIONS, STATES

TASKS = {
    "easy": Task("e", "What is 3 + 4?", "3 + 4", "7"),
    "hard": GOLDEN_TASK,
    "lookup": Task(
        "l",
        "How much do 12 kettles cost?",
        "12 * price",
        "408",
        "kettles",
        {"kettles": "34", "lamps": "19"},
    ),
}
TURNS = {1: 6, 2: 26, 3: 106, 4: 426, 5: 1706}


def course_reward(episode, task) -> float:
    return COURSE_REWARD(episode, task).total


@functools.cache
def sheet(kind: str, turns: int) -> tuple[Outcome, ...]:
    """One line an outcome; its value is (right, reward)."""

    def both(episode, task):
        return right(episode, task), course_reward(episode, task)

    return tuple(outcomes(TASKS[kind], both, Limits(max_turns=turns)))


def column(kind: str, turns: int, place: int) -> list[Outcome]:
    """The sheet with one number a line: 0 whether it was right, 1 the reward."""
    return [line._replace(value=line.value[place]) for line in sheet(kind, turns)]


def random_policy(seed: int) -> SoftmaxPolicy:
    rng = random.Random(seed)
    rows = {state: [rng.uniform(-2, 2) for _ in ACTIONS] for state in STATES}
    return SoftmaxPolicy(STATES, ACTIONS, rows)


class Episodes(unittest.TestCase):
    def test_how_many_there_are(self):
        for turns, expected in TURNS.items():
            self.assertEqual(expected, 6 if turns == 1 else 2 + 4 * TURNS[turns - 1])
        for kind, task in TASKS.items():
            for turns in (1, 2, 3):
                limits = Limits(max_turns=turns)
                with self.subTest(kind=kind, turns=turns):
                    count = sum(1 for _ in every_episode(task, limits))
                    self.assertEqual(count, TURNS[turns])
            for turns in TURNS:
                count = sum(line.episodes for line in sheet(kind, turns))
                self.assertEqual(count, TURNS[turns])

    def test_each_is_there_once_sound_and_with_uniform_log_probs(self):
        for task in TASKS.values():
            seen = set()
            for episode in every_episode(task, Limits(max_turns=3)):
                episode.check()
                self.assertIsNotNone(episode.finish_reason)
                seen.add(tuple(action for _, action in episode.choices()))
                for place in episode.positions("decision"):
                    self.assertEqual(episode.logprobs[place], -math.log(6))
            self.assertEqual(len(seen), 106)

    def test_fewer_actions_grow_a_smaller_tree(self):
        # one answer, one call: 1 + T(n - 1), T(1) = 2
        actions = ("answer_from_memory", "call_calculator")
        found = list(every_episode(GOLDEN_TASK, Limits(max_turns=4), actions))
        self.assertEqual(len(found), 5)
        logprobs = {x for episode in found for x in episode.logprobs if x}
        self.assertEqual(logprobs, {-math.log(2)})

    def test_the_loop_plays_none_that_is_missing(self):
        limits = Limits(max_turns=3)
        known = {
            tuple(episode.choices()): episode
            for episode in every_episode(TASKS["lookup"], limits)
        }
        rng, policy = random.Random(0), random_policy(0)
        for _ in range(200):
            played = run_episode(policy, TASKS["lookup"], rng, limits)
            twin = known[tuple(played.choices())]
            self.assertEqual(played.tokens, twin.tokens)
            self.assertEqual(played.loss_mask, twin.loss_mask)
            self.assertEqual(played.finish_reason, twin.finish_reason)


class Probabilities(unittest.TestCase):
    def test_they_add_up_to_one(self):
        for kind in TASKS:
            for seed in range(3):
                policy = random_policy(seed)
                for turns in TURNS:
                    total = math.fsum(probabilities(policy, sheet(kind, turns)))
                    self.assertAlmostEqual(total, 1.0, delta=1e-12)

    def test_of_one_episode_it_is_the_product_of_its_decisions(self):
        policy = random_policy(1)
        decisions = ((("hard/start", "call_calculator"), 1),)
        decisions += ((("hard/result", "answer_from_observation"), 2),)
        expected = policy.probability("hard/start", "call_calculator")
        expected *= policy.probability("hard/result", "answer_from_observation") ** 2
        (found,) = probabilities(policy, [Outcome(decisions, 1.0, 3)])
        self.assertAlmostEqual(found, 3 * expected, delta=1e-14)

    def test_a_decision_that_the_policy_does_not_know_is_named(self):
        lame = SoftmaxPolicy(STATES, ["answer_from_memory"])
        with self.assertRaisesRegex(PolicyError, "hard/start.*answer_from_obs"):
            probabilities(lame, sheet("hard", 1))

    def test_sampling_agrees(self):
        # 4000 seeded episodes; 5 standard errors of a share are below 0.04
        policy, rng = random_policy(5), random.Random(5)
        limits = Limits(max_turns=3)
        exact = expectation(policy, column("easy", 3, 0))
        hits = [
            right(run_episode(policy, TASKS["easy"], rng, limits), TASKS["easy"])
            for _ in range(4000)
        ]
        self.assertGreater(exact, 0.05)
        self.assertAlmostEqual(math.fsum(hits) / 4000, exact, delta=0.04)


class UniformPolicy(unittest.TestCase):
    """What an agent that knows nothing gets, by counting paths.

    k calls come first, each with probability 4/6, then the ending.
    hard:    calculator, answer from it: 1/36, after any k calls
    easy:    the same, or the answer by heart, 1/6, after any k calls
    lookup:  1/36, and one of the k calls before was a lookup: (4/6)^k - (3/6)^k
    """

    CALL, NOT_LOOKUP = Fraction(4, 6), Fraction(3, 6)

    def success(self, kind: str, turns: int) -> Fraction:
        before_two = range(turns - 1)  # calls before the last two decisions
        with_call = sum(self.CALL**k * Fraction(1, 36) for k in before_two)
        if kind == "hard":
            return with_call
        if kind == "easy":
            return with_call + sum(self.CALL**k * Fraction(1, 6) for k in range(turns))
        looked_up = (self.CALL**k - self.NOT_LOOKUP**k for k in before_two)
        return sum(looked_up) * Fraction(1, 36)

    def test_the_derivation_at_five_turns(self):
        self.assertEqual(self.success("hard", 5), Fraction(65, 972))
        self.assertEqual(self.success("easy", 5), Fraction(487, 972))
        self.assertEqual(self.success("lookup", 5), Fraction(115, 7776))

    def test_success(self):
        policy = SoftmaxPolicy(STATES, ACTIONS)
        for kind in TASKS:
            for turns in TURNS:
                with self.subTest(kind=kind, turns=turns):
                    found = expectation(policy, column(kind, turns, 0))
                    expected = float(self.success(kind, turns))
                    self.assertAlmostEqual(found, expected, delta=1e-12)

    def test_return_of_hard_at_three_turns(self):
        # calculator, answer: 1/36 * 0.9. A call before it: lookup (runs, and fails) and
        # calculator cost 0.1, broken and unknown are invalid and cost 0.2:
        # 1/216 * (0.8 + 0.8 + 0.7 + 0.7)
        policy = SoftmaxPolicy(STATES, ACTIONS)
        found = expectation(policy, column("hard", 3, 1))
        self.assertAlmostEqual(found, 0.9 / 36 + 3.0 / 216, delta=1e-12)

    def test_the_toy_world(self):
        # take at once: 1/2 * 1; work, then take: 1/2 * 1/2 * 3
        found = toy_mdp.exact_return(lambda state, action: 0.5)
        self.assertEqual(found, 0.5 * 1 + 0.5 * 0.5 * 3)
        self.assertEqual(found, 1.25)

    def test_the_toy_world_under_any_policy_by_playing_it(self):
        for seed in range(5):
            rng = random.Random(seed)
            rows = {s: [rng.uniform(-2, 2) for _ in range(2)] for s in toy_mdp.STATES}
            policy = SoftmaxPolicy(toy_mdp.STATES, toy_mdp.ACTIONS, rows)
            total = []
            for first, second in itertools.product(toy_mdp.ACTIONS, repeat=2):
                plan = {"start": first, "ready": second}
                steps = toy_mdp.play(plan.__getitem__)
                chance = policy.probability("start", first)
                chance *= policy.probability("ready", second)
                total.append(chance * math.fsum(step.reward for step in steps))
            found = toy_mdp.exact_return(policy.probability)
            self.assertAlmostEqual(found, math.fsum(total), delta=1e-12)


class Expectations(unittest.TestCase):
    def test_several_means_at_once_are_the_single_means(self):
        for kind in TASKS:
            policy = random_policy(3)
            both = expectations(policy, sheet(kind, 4))
            for place, value in enumerate(both):
                single = expectation(policy, column(kind, 4, place))
                self.assertAlmostEqual(value, single, delta=1e-14)

    def test_a_sheet_is_a_count_of_every_episode(self):
        task, limits, policy = TASKS["lookup"], Limits(max_turns=3), random_policy(4)
        parts = []
        for episode in every_episode(task, limits):
            chance = math.prod(
                policy.probability(*choice) for choice in episode.choices()
            )
            parts.append(chance * course_reward(episode, task))
        found = expectation(policy, column("lookup", 3, 1))
        self.assertAlmostEqual(found, math.fsum(parts), delta=1e-14)


class Gradient(unittest.TestCase):
    def test_it_is_the_finite_difference_of_the_expectation(self):
        step = 1e-5
        for kind in TASKS:
            for turns in (3, 4):
                lines = column(kind, turns, 1)
                policy = random_policy(turns)
                gradient = exact_gradient(policy, lines)
                largest = 0.0
                for state in STATES:
                    for index in range(len(ACTIONS)):
                        values = []
                        for sign in (1, -1):
                            moved = policy.copy()
                            moved.logits[state][index] += sign * step
                            values.append(expectation(moved, lines))
                        slope = (values[0] - values[1]) / (2 * step)
                        found = gradient[state][index]
                        self.assertAlmostEqual(found, slope, delta=1e-9)
                        largest = max(largest, abs(found))
                self.assertGreater(largest, 1e-3)

    def test_a_constant_has_no_gradient(self):
        lines = [line._replace(value=1.0) for line in sheet("lookup", 4)]
        policy = random_policy(6)
        self.assertAlmostEqual(expectation(policy, lines), 1.0, delta=1e-12)
        for row in exact_gradient(policy, lines).values():
            for slope in row:
                self.assertAlmostEqual(slope, 0.0, delta=1e-12)

    def test_ascent_changes_the_policy_and_goes_up(self):
        policy = SoftmaxPolicy(STATES, ACTIONS)
        sheets = [column(kind, 3, 1) for kind in TASKS]
        start = math.fsum(expectation(policy, lines) for lines in sheets) / 3
        values = [start, *ascend(policy, sheets, 1.0, 20)]
        self.assertEqual(len(values), 21)
        self.assertTrue(all(a < b for a, b in itertools.pairwise(values)))
        now = math.fsum(expectation(policy, lines) for lines in sheets) / 3
        self.assertAlmostEqual(values[-1], now, delta=1e-12)
        # the first step is the mean of the gradients, one times the rate
        once = SoftmaxPolicy(STATES, ACTIONS)
        next(ascend(once, sheets, 3.0, 1))
        uniform = SoftmaxPolicy(STATES, ACTIONS)
        for kind, lines in zip(TASKS, sheets):
            gradient = exact_gradient(uniform, lines)
            for state in (state for state in STATES if state.startswith(kind)):
                for x, slope in zip(once.logits[state], gradient[state]):
                    self.assertAlmostEqual(x, slope * 3.0 / 3, delta=1e-12)


class Best(unittest.TestCase):
    def test_the_optimum_of_each_kind(self):
        # right pays 1, less 0.1 a call: none, one or two calls are needed
        for kind, value, actions in (
            ("easy", 1.0, ["answer_from_memory"]),
            ("hard", 0.9, ["call_calculator", "answer_from_observation"]),
            (
                "lookup",
                0.8,
                ["call_lookup", "call_calculator", "answer_from_observation"],
            ),
        ):
            with self.subTest(kind=kind):
                found, sequence = best(TASKS[kind], course_reward)
                self.assertAlmostEqual(found, value, delta=1e-12)
                self.assertEqual(sequence, actions)

    def test_where_nothing_is_right_the_shortest_is_best(self):
        # lookup needs three decisions
        found, sequence = best(TASKS["lookup"], course_reward, Limits(max_turns=2))
        self.assertEqual((found, len(sequence)), (0.0, 1))

    def test_no_policy_does_better(self):
        for kind in TASKS:
            highest, _ = best(TASKS[kind], course_reward, Limits(max_turns=3))
            for seed in range(20):
                value = expectation(random_policy(seed), column(kind, 3, 1))
                self.assertLess(value, highest)


class ExpectedEstimates(unittest.TestCase):
    """What chapter 02.4 prints: every group compared, against the exact gradient."""

    def ratio_and_cosine(self, group_size, **switches):
        limits, policy = Limits(max_turns=2), SoftmaxPolicy(STATES, ACTIONS)
        reward = SMALL_COSTS.total
        mean = expected_estimate(
            policy, GOLDEN_TASK, reward, COURSE.but(**switches), group_size, limits
        )
        exact = exact_gradient(policy, outcomes(GOLDEN_TASK, reward, limits))
        return compare(mean, exact)

    def test_leave_one_out_is_the_gradient_and_the_group_mean_a_share_of_it(self):
        for group_size in (2, 3):
            ratio, cosine = self.ratio_and_cosine(
                group_size, std="none", baseline="leave_one_out"
            )
            self.assertAlmostEqual(ratio, 1.0)
            self.assertAlmostEqual(cosine, 1.0)
            ratio, cosine = self.ratio_and_cosine(group_size, std="none")
            self.assertAlmostEqual(ratio, (group_size - 1) / group_size)
            self.assertAlmostEqual(cosine, 1.0)

    def test_a_switch_it_would_ignore_is_refused(self):
        for name, value in (("unit", "token"), ("groups", "solved")):
            with self.assertRaisesRegex(ValueError, name):
                self.ratio_and_cosine(2, **{name: value})
        with self.assertRaisesRegex(ValueError, "kl_place"):
            self.ratio_and_cosine(2, kl_place="reward", kl_weight=5.0)

    def test_a_gradient_of_no_length_has_no_direction(self):
        policy = SoftmaxPolicy(STATES, ACTIONS)
        with self.assertRaisesRegex(ValueError, "length 0"):
            compare(policy.zero_gradient(), policy.zero_gradient())

    def test_dividing_by_the_std_turns_it_once_costs_differ(self):
        _, cosine = self.ratio_and_cosine(2)
        self.assertLess(cosine, 0.6)


if __name__ == "__main__":
    unittest.main()
