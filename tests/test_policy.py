"""The softmax policy's specification.

Expected values come from the two equations (eq. softmax, eq. score) worked out by hand
on odds that are whole numbers, or from central finite differences, which share no code
with the derivative they check.
"""

from __future__ import annotations

import json
import math
import random
import unittest

from agentic_rl.policy import (
    PolicyError,
    SoftmaxPolicy,
    pick,
    weighted_score,
)

STATES = ("here", "there")
ACTIONS = ("a", "b", "c")
# The largest number that random.random() can give.
HIGHEST_DRAW = 1 - 2**-53


def with_odds(*odds: float, state: str = "here") -> SoftmaxPolicy:
    """Logits log(odds) give probabilities odds / sum(odds): exact by eq. softmax."""
    return SoftmaxPolicy(STATES, ACTIONS, {state: [math.log(x) for x in odds]})


def random_policy(seed: int) -> SoftmaxPolicy:
    rng = random.Random(seed)
    rows = {state: [rng.uniform(-3, 3) for _ in ACTIONS] for state in STATES}
    return SoftmaxPolicy(STATES, ACTIONS, rows)


class PolicyCase(unittest.TestCase):
    def assert_close(self, found, expected, tolerance=1e-12) -> None:
        self.assertEqual(len(found), len(expected))
        for place, (x, y) in enumerate(zip(found, expected)):
            self.assertLessEqual(abs(x - y), tolerance, f"place {place}: {x} != {y}")


class Probabilities(PolicyCase):
    def test_no_logits_means_uniform(self):
        policy = SoftmaxPolicy(STATES, ACTIONS)
        for state in STATES:
            self.assert_close(policy.probabilities(state), [1 / 3] * 3)

    def test_odds_of_one_two_three(self):
        policy = with_odds(1, 2, 3)
        self.assert_close(policy.probabilities("here"), [1 / 6, 2 / 6, 3 / 6])
        self.assertAlmostEqual(policy.probability("here", "b"), 1 / 3, delta=1e-12)
        self.assertAlmostEqual(policy.log_prob("here", "c"), -math.log(2), delta=1e-12)
        # the other state was given no logits and stays uniform
        self.assert_close(policy.probabilities("there"), [1 / 3] * 3)

    def test_they_add_up_to_one_and_agree_with_the_log_probs(self):
        for seed in range(50):
            policy = random_policy(seed)
            shares = policy.probabilities("here")
            self.assertAlmostEqual(math.fsum(shares), 1.0, delta=1e-14)
            logs = [policy.log_prob("here", action) for action in ACTIONS]
            self.assert_close([math.exp(x) for x in logs], shares, 1e-14)
            self.assertTrue(all(x < 0 for x in logs))

    def test_adding_a_constant_to_all_logits_changes_nothing(self):
        # Halves and powers of two add without rounding, so equality is exact.
        row = [0.5, -1.25, 2.0]
        first = SoftmaxPolicy(STATES, ACTIONS, {"here": row})
        for shift in (-1024.0, 3.5, 2.0**40):
            moved = [logit + shift for logit in row]
            other = SoftmaxPolicy(STATES, ACTIONS, {"here": moved})
            self.assertEqual(first.probabilities("here"), other.probabilities("here"))
            self.assertEqual(first.log_prob("here", "b"), other.log_prob("here", "b"))

    def test_huge_logits_neither_overflow_nor_lose_the_log_prob(self):
        # exp(1e300) and exp(800) are no floats; exp(-1000) rounds to 0.
        for top in (800.0, 1e5, 1e300):
            policy = SoftmaxPolicy(STATES, ACTIONS, {"here": [top, 0.0, -top]})
            self.assertEqual(policy.probabilities("here"), [1.0, 0.0, 0.0])
            self.assertEqual(policy.log_prob("here", "a"), 0.0)
            self.assertEqual(policy.log_prob("here", "b"), -top)
            self.assertEqual(policy.log_prob("here", "c"), -2 * top)
            self.assertEqual(policy.score("here", "b"), [-1.0, 1.0, 0.0])
            self.assertEqual(policy.entropy("here"), 0.0)

    def test_all_logits_very_negative_is_still_a_distribution(self):
        policy = SoftmaxPolicy(STATES, ACTIONS, {"here": [-1e6] * 3})
        self.assert_close(policy.probabilities("here"), [1 / 3] * 3)


class Score(PolicyCase):
    def test_by_hand(self):
        # pi = 1/6, 2/6, 3/6 and b was chosen: 0 - 1/6, 1 - 2/6, 0 - 3/6
        score = with_odds(1, 2, 3).score("here", "b")
        self.assert_close(score, [-1 / 6, 4 / 6, -3 / 6])

    def test_it_is_the_finite_difference_of_the_log_prob(self):
        step = 1e-5
        for seed in range(10):
            policy = random_policy(seed)
            for action in ACTIONS:
                slopes = []
                for index in range(len(ACTIONS)):
                    values = []
                    for sign in (1, -1):
                        row = list(policy.logits["here"])
                        row[index] += sign * step
                        moved = SoftmaxPolicy(STATES, ACTIONS, {"here": row})
                        values.append(moved.log_prob("here", action))
                    slopes.append((values[0] - values[1]) / (2 * step))
                self.assert_close(policy.score("here", action), slopes, 1e-9)

    def test_its_numbers_add_up_to_zero(self):
        for seed in range(10):
            for action in ACTIONS:
                score = random_policy(seed).score("here", action)
                self.assertAlmostEqual(math.fsum(score), 0.0, delta=1e-14)

    def test_its_mean_under_the_policy_is_zero(self):
        # sum_a pi(a) d log pi(a) = d sum_a pi(a) = d 1 = 0: why a baseline is free
        for seed in range(10):
            policy = random_policy(seed)
            shares = policy.probabilities("here")
            scores = [policy.score("here", action) for action in ACTIONS]
            means = [
                math.fsum(share * score[index] for share, score in zip(shares, scores))
                for index in range(len(ACTIONS))
            ]
            self.assert_close(means, [0.0] * 3, 1e-15)

    def test_weighted_score_adds_up_decisions_in_their_states(self):
        policy = with_odds(1, 2, 3)
        decisions = [("here", "b", 6.0), ("here", "c", -3.0), ("there", "a", 1.5)]
        gradient = weighted_score(policy, decisions)
        # 6 * (-1/6, 4/6, -3/6) - 3 * (-1/6, -2/6, 3/6) = (-1/2, 5, -9/2)
        self.assert_close(gradient["here"], [-0.5, 5.0, -4.5])
        # 1.5 * (2/3, -1/3, -1/3)
        self.assert_close(gradient["there"], [1.0, -0.5, -0.5])

    def test_no_decisions_no_gradient(self):
        policy = random_policy(0)
        self.assertEqual(weighted_score(policy, []), policy.zero_gradient())
        zeros = {"here": [0.0] * 3, "there": [0.0] * 3}
        self.assertEqual(policy.zero_gradient(), zeros)


class EntropyAndKL(PolicyCase):
    def test_entropy_by_hand(self):
        uniform = SoftmaxPolicy(STATES, ACTIONS)
        self.assertAlmostEqual(uniform.entropy("here"), math.log(3), delta=1e-14)
        # 1/2, 1/4, 1/4: half of log 2 and two quarters of log 4 = 1.5 log 2
        halves = with_odds(2, 1, 1)
        self.assertAlmostEqual(halves.entropy("here"), 1.5 * math.log(2), delta=1e-14)

    def test_entropy_is_highest_when_uniform(self):
        for seed in range(20):
            entropy = random_policy(seed).entropy("here")
            self.assertGreater(entropy, 0.0)
            self.assertLess(entropy, math.log(3))

    def test_kl_by_hand_and_its_direction(self):
        halves, uniform = with_odds(2, 1, 1), SoftmaxPolicy(STATES, ACTIONS)
        # KL(p || uniform) = log 3 - H(p)
        forward = math.log(3) - 1.5 * math.log(2)
        self.assertAlmostEqual(halves.kl(uniform, "here"), forward, delta=1e-14)
        # KL(uniform || p) = 1/3 log(2/3) + 2/3 log(4/3)
        backward = math.log(2 / 3) / 3 + math.log(4 / 3) * 2 / 3
        self.assertAlmostEqual(uniform.kl(halves, "here"), backward, delta=1e-14)
        self.assertGreater(abs(forward - backward), 1e-3)

    def test_kl_to_itself_is_zero_and_else_positive(self):
        for seed in range(20):
            policy, other = random_policy(seed), random_policy(seed + 100)
            self.assertEqual(policy.kl(policy.copy(), "here"), 0.0)
            self.assertGreater(policy.kl(other, "here"), 0.0)

    def test_kl_where_a_probability_rounds_to_zero(self):
        # the action that is never taken adds 0 times a finite number
        sharp = SoftmaxPolicy(STATES, ACTIONS, {"here": [5000.0, 0.0, 0.0]})
        uniform = SoftmaxPolicy(STATES, ACTIONS)
        self.assertAlmostEqual(sharp.kl(uniform, "here"), math.log(3), delta=1e-12)
        # the other way round: two thirds of the mass, each 5000 nats away
        back = uniform.kl(sharp, "here")
        self.assertAlmostEqual(back, 5000 * 2 / 3 - math.log(3), delta=1e-9)


class Sampling(PolicyCase):
    def test_pick_at_the_boundaries(self):
        # shares [0, 1/4), [1/4, 3/4), [3/4, 1): the lower end belongs to the share
        shares = [0.25, 0.5, 0.25]
        below = math.nextafter if hasattr(math, "nextafter") else None
        self.assertIsNotNone(below)
        draws = {0.0: 0, below(0.25, 0): 0, 0.25: 1, below(0.75, 0): 1, 0.75: 2}
        draws[HIGHEST_DRAW] = 2
        for draw, expected in draws.items():
            with self.subTest(draw=draw):
                self.assertEqual(pick(shares, draw), expected)

    def test_pick_never_takes_what_has_no_share(self):
        self.assertEqual(pick([0.0, 1.0], 0.0), 1)
        self.assertEqual(pick([0.5, 0.0, 0.5], 0.5), 2)
        self.assertEqual(pick([1.0, 0.0], HIGHEST_DRAW), 0)

    def test_pick_when_rounding_leaves_the_shares_under_one(self):
        # Added one after the other, ten times 0.1 is 1 - 2**-53, which random() can
        # draw. The draw belongs to the last action that has a share at all.
        reached = 0.0
        for _ in range(10):
            reached += 0.1
        self.assertEqual(reached, HIGHEST_DRAW)
        self.assertEqual(pick([0.1] * 10, HIGHEST_DRAW), 9)
        self.assertEqual(pick([0.1] * 10 + [0.0], HIGHEST_DRAW), 9)

    def test_sample_takes_one_draw_and_tells_its_log_prob(self):
        policy = random_policy(3)
        rng, twin = random.Random(7), random.Random(7)
        for _ in range(200):
            action, log_prob = policy.sample("here", rng)
            expected = pick(policy.probabilities("here"), twin.random())
            self.assertEqual(action, ACTIONS[expected])
            self.assertEqual(log_prob, policy.log_prob("here", action))
        self.assertEqual(rng.getstate(), twin.getstate())

    def test_frequencies_follow_the_probabilities(self):
        # 6000 seeded draws; 5 standard deviations of a share are below 0.033
        policy, rng = with_odds(1, 2, 3), random.Random(0)
        seen = [policy.sample("here", rng)[0] for _ in range(6000)]
        for action, share in zip(ACTIONS, (1 / 6, 2 / 6, 3 / 6)):
            self.assertAlmostEqual(seen.count(action) / 6000, share, delta=0.033)


class Moving(PolicyCase):
    def test_move_adds_step_times_gradient_and_leaves_other_states(self):
        policy = SoftmaxPolicy(STATES, ACTIONS, {"here": [1, 2, 3]})
        policy.move({"here": [2.0, 0.0, -4.0]}, 0.25)
        self.assertEqual(policy.logits["here"], [1.5, 2.0, 2.0])
        self.assertEqual(policy.logits["there"], [0.0, 0.0, 0.0])

    def test_a_step_along_the_score_makes_the_choice_likelier(self):
        for seed in range(10):
            policy = random_policy(seed)
            before = policy.log_prob("here", "b")
            policy.move({"here": policy.score("here", "b")}, 0.1)
            self.assertGreater(policy.log_prob("here", "b"), before)

    def test_a_copy_goes_its_own_way(self):
        policy = random_policy(1)
        kept = [list(row) for row in policy.logits.values()]
        twin = policy.copy()
        self.assertEqual(twin.to_dict(), policy.to_dict())
        twin.move({"here": [1.0, 1.0, 0.0]}, 1.0)
        self.assertEqual(list(policy.logits.values()), kept)

    def test_the_rows_it_was_given_stay_the_callers(self):
        row = [1.0, 2.0, 3.0]
        SoftmaxPolicy(STATES, ACTIONS, {"here": row}).move({"here": [1.0] * 3}, 1.0)
        self.assertEqual(row, [1.0, 2.0, 3.0])


class Json(PolicyCase):
    def test_it_survives_json_bit_by_bit(self):
        rows = {"here": [0.1 + 0.2, -1e-300, 1e22], "there": [1 / 3, 5e-324, -0.0]}
        policy = SoftmaxPolicy(STATES, ACTIONS, rows)
        text = json.dumps(policy.to_dict())
        back = SoftmaxPolicy.from_dict(json.loads(text))
        self.assertEqual(json.dumps(back.to_dict()), text)
        self.assertEqual(back.actions, ACTIONS)
        for state in STATES:
            self.assertEqual(
                [x.hex() for x in back.logits[state]], [x.hex() for x in rows[state]]
            )

    def test_a_record_is_a_snapshot(self):
        policy = SoftmaxPolicy(STATES, ACTIONS)
        record = policy.to_dict()
        policy.move({"here": [1.0, 0.0, 0.0]}, 1.0)
        self.assertEqual(record["logits"]["here"], [0.0, 0.0, 0.0])


class Errors(PolicyCase):
    def assert_names(self, *words: str):
        """The error's text has all the words."""
        pattern = "".join(f"(?=.*{word})" for word in words)
        return self.assertRaisesRegex(PolicyError, f"(?s){pattern}")

    def test_an_unknown_state_is_named_with_those_there_are(self):
        policy = SoftmaxPolicy(STATES, ACTIONS)
        calls = {
            "probabilities": lambda: policy.probabilities("nowhere"),
            "log_prob": lambda: policy.log_prob("nowhere", "a"),
            "score": lambda: policy.score("nowhere", "a"),
            "entropy": lambda: policy.entropy("nowhere"),
            "move": lambda: policy.move({"nowhere": [1.0] * 3}, 1.0),
        }
        for name, call in calls.items():
            with self.subTest(call=name), self.assert_names("nowhere", "here, there"):
                call()

    def test_an_unknown_action_is_named_with_those_there_are(self):
        policy = SoftmaxPolicy(STATES, ACTIONS)
        for call in (policy.probability, policy.log_prob, policy.score):
            with self.assert_names("'jump'", "a, b, c"):
                call("here", "jump")

    def test_logits_that_do_not_fit(self):
        cases = {
            "no state": {"nowhere": [0.0] * 3},
            "2 logits for 3 actions": {"here": [0.0] * 2},
            "nan": {"here": [0.0, math.nan, 0.0]},
            "inf": {"here": [0.0, math.inf, 0.0]},
            "None": {"here": [0.0, None, 0.0]},
            "'1'": {"here": [0.0, "1", 0.0]},
        }
        for words, logits in cases.items():
            with self.subTest(words), self.assert_names(words, "here"):
                SoftmaxPolicy(STATES, ACTIONS, logits)

    def test_actions_are_there_and_each_once(self):
        # A repeated name would have two probabilities and one log-prob.
        for actions in ((), ("a", "b", "a")):
            with self.subTest(actions=actions), self.assert_names("actions"):
                SoftmaxPolicy(STATES, actions)

    def test_records_that_are_no_policy(self):
        for record in (
            None,
            [],
            {},
            {"actions": ["a"]},
            {"logits": {"here": [0.0]}},
            {"actions": ["a"], "logits": None},
            {"actions": ["a"], "logits": ["here"]},
            {"actions": ["a"], "logits": {"here": 0.0}},
            {"actions": "ab", "logits": {"here": [0.0, 0.0]}},
            {"actions": ["a", "b"], "logits": {"here": [0.0]}},
        ):
            with self.subTest(record=record), self.assertRaises(PolicyError):
                SoftmaxPolicy.from_dict(record)


class MisshapenSteps(unittest.TestCase):
    def test_a_row_of_another_length_moves_nothing(self):
        for row in ([1.0], [1.0, 2.0, 3.0]):
            policy = SoftmaxPolicy(["s"], ["a", "b"])
            with self.assertRaisesRegex(PolicyError, "'s'"):
                policy.move({"s": row}, 1.0)
            self.assertEqual(policy.logits, {"s": [0.0, 0.0]})


if __name__ == "__main__":
    unittest.main()
