"""Chapter 00: the toy MDP, REINFORCE on it, and its numbers by hand."""

from __future__ import annotations

import contextlib
import io
import math
import random
import runpy
import unittest
from pathlib import Path

from agentic_rl.advantage import returns_to_go
from agentic_rl.objective import policy_loss
from agentic_rl.policy import SoftmaxPolicy, weighted_score
from agentic_rl.toy_mdp import ACTIONS, END, STATES, exact_return, play, transition

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "examples" / "00_toy_mdp" / "toy_policy_update.py"


def always(*actions):
    """A chooser that takes these actions in turn."""
    plan = iter(actions)
    return lambda state: next(plan)


def random_policy(seed: int) -> SoftmaxPolicy:
    rng = random.Random(seed)
    logits = {state: [rng.uniform(-2, 2) for _ in ACTIONS] for state in STATES}
    return SoftmaxPolicy(STATES, ACTIONS, logits)


def episodes_with_probability(policy: SoftmaxPolicy):
    """The three episodes that can happen, and how likely each is."""
    for plan in (("take",), ("work", "take"), ("work", "work")):
        steps = play(always(*plan))
        yield steps, math.prod(policy.probability(s.state, s.action) for s in steps)


class World(unittest.TestCase):
    def test_the_four_transitions(self):
        self.assertEqual(transition("start", "take"), (1.0, END))
        self.assertEqual(transition("start", "work"), (0.0, "ready"))
        self.assertEqual(transition("ready", "take"), (3.0, END))
        self.assertEqual(transition("ready", "work"), (0.0, END))

    def test_an_unknown_state_or_action_is_named(self):
        with self.assertRaisesRegex(ValueError, "'sleep' in state 'start'"):
            transition("start", "sleep")
        with self.assertRaisesRegex(ValueError, "'take' in state 'end'"):
            transition(END, "take")

    def test_reward_and_return_differ_where_the_reward_comes_late(self):
        steps = play(always("work", "take"))
        rewards = [step.reward for step in steps]
        self.assertEqual(rewards, [0.0, 3.0])
        self.assertEqual(returns_to_go(rewards, [1, 1]), [3.0, 3.0])

    def test_no_action_is_right_everywhere(self):
        self.assertGreater(play(always("work", "take"))[-1].reward, 1.0)
        self.assertEqual(play(always("work", "work"))[-1].reward, 0.0)


class ExactReturn(unittest.TestCase):
    def test_uniform_is_one_half_plus_three_quarters(self):
        uniform = SoftmaxPolicy(STATES, ACTIONS)
        self.assertAlmostEqual(exact_return(uniform.probability), 0.5 * 1 + 0.25 * 3)

    def test_it_is_the_mean_over_all_episodes(self):
        for seed in range(20):
            policy = random_policy(seed)
            by_hand = math.fsum(
                chance * steps[-1].reward
                for steps, chance in episodes_with_probability(policy)
            )
            self.assertAlmostEqual(exact_return(policy.probability), by_hand, places=12)


class Reinforce(unittest.TestCase):
    """The mean of return * score over all episodes is the gradient of J."""

    def expected_estimate(self, policy: SoftmaxPolicy, baseline: float):
        decisions = []
        for steps, chance in episodes_with_probability(policy):
            returns = returns_to_go([step.reward for step in steps], [1] * len(steps))
            for step, value in zip(steps, returns):
                decisions.append((step.state, step.action, chance * (value - baseline)))
        return weighted_score(policy, decisions)

    def slope(self, policy: SoftmaxPolicy, state: str, index: int) -> float:
        ends = []
        for shift in (1e-5, -1e-5):
            moved = policy.copy()
            moved.logits[state][index] += shift
            ends.append(exact_return(moved.probability))
        return (ends[0] - ends[1]) / 2e-5

    def test_the_estimator_is_unbiased_with_and_without_a_baseline(self):
        for seed in range(5):
            policy = random_policy(seed)
            for baseline in (0.0, 1.25, -7.0):
                estimate = self.expected_estimate(policy, baseline)
                for state in STATES:
                    for index in range(len(ACTIONS)):
                        self.assertAlmostEqual(
                            estimate[state][index],
                            self.slope(policy, state, index),
                            places=8,
                        )

    def test_many_updates_find_work_then_take(self):
        policy, rng = SoftmaxPolicy(STATES, ACTIONS), random.Random(5)
        for _ in range(80):
            decisions = []
            for _ in range(16):
                steps = play(lambda state: policy.sample(state, rng)[0])
                returns = returns_to_go([s.reward for s in steps], [1] * len(steps))
                decisions += [
                    (s.state, s.action, g / 16) for s, g in zip(steps, returns)
                ]
            policy.move(weighted_score(policy, decisions), 0.5)
        self.assertGreater(policy.probability("start", "work"), 0.95)
        self.assertGreater(policy.probability("ready", "take"), 0.95)


class LossIsZeroAndTheGradientIsNot(unittest.TestCase):
    def test_centred_advantages_at_ratio_one(self):
        logprobs = [[math.log(0.5)], [math.log(0.5)]]
        loss = policy_loss(logprobs, logprobs, [[1.0], [-1.0]])
        self.assertEqual(loss.value, 0.0)
        self.assertEqual(loss.gradient, [[-0.5], [0.5]])


class Script(unittest.TestCase):
    """The chapter's script; what it prints is checked against what is known."""

    @classmethod
    def setUpClass(cls):
        cls.module = runpy.run_path(str(SCRIPT))
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            cls.module["main"]()
        cls.text = printed.getvalue()

    def test_its_closed_form_gradient_is_the_slope_of_j(self):
        policy = random_policy(3)
        gradient = self.module["exact_gradient"](policy)
        for state in STATES:
            for index in range(len(ACTIONS)):
                slope = Reinforce.slope(self, policy, state, index)
                self.assertAlmostEqual(gradient[state][index], slope, places=8)

    def test_one_update_by_hand(self):
        """Four episodes with returns 0, 1, 1, 3 at start, under pi = 1/2.

        work was sampled with returns 0 and 3, take with 1 and 1: the logit of work gets
        (0 + 3) / 4 * 1/2 - (1 + 1) / 4 * 1/2 = 0.125. In ready, take got 3 and work 0:
        3 / 4 * 1/2 - 0 = 0.375.
        """
        rows = [line.split() for line in self.text.splitlines()]
        start_work = "work 0.0000 0.1250 0.0625 0.5000 0.5312"  # sigmoid(0.125)
        ready_take = "ready take 0.0000 0.3750 0.1875 0.5000 0.5927"  # sigmoid(0.375)
        self.assertIn(start_work.split(), rows)
        self.assertIn(ready_take.split(), rows)
        self.assertAlmostEqual(1 / (1 + math.exp(-0.125)), 0.5312, places=4)
        self.assertAlmostEqual(1 / (1 + math.exp(-0.375)), 0.5927, places=4)

    def test_estimates_are_within_three_standard_errors_of_the_exact_gradient(self):
        rows = [line.split() for line in self.text.splitlines()]
        exact = next(row for row in rows if row[:1] == ["exact"] and len(row) == 3)
        scattered = []
        table = [row for row in rows if len(row) == 5]
        for name in (["no", "baseline"], ["baseline", "1.25"]):
            row = next(row for row in table if row[:2] == name)
            error = float(row[-1]) / math.sqrt(400)
            self.assertLess(abs(float(row[-3]) - float(exact[1])), 3 * error)
            self.assertLess(
                abs(float(row[-2]) - float(exact[2])), 0.02
            )  # 3 * ~0.13 / 20
            scattered.append(float(row[-1]))
        self.assertLess(scattered[1], scattered[0], "a baseline makes it scatter less")

    def test_the_zero_loss_moves_the_policy(self):
        self.assertIn("loss = mean of -ratio * A = 0.0000", self.text)
        self.assertIn(
            "moves pi(work|start): 0.5000 -> 0.6225", self.text
        )  # sigmoid(0.5)
        self.assertAlmostEqual(1 / (1 + math.exp(-0.5)), 0.6225, places=4)


if __name__ == "__main__":
    unittest.main()
