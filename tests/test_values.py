"""One question, one answer: is this a number that can be computed with?"""

from __future__ import annotations

import math
import sys
import unittest
from fractions import Fraction

from agentic_rl.advantage import AdvantageError, group_advantages, spread
from agentic_rl.conventions import COURSE, PRESETS, ConventionError
from agentic_rl.grpo import Config
from agentic_rl.objective import ObjectiveError, policy_loss
from agentic_rl.policy import PolicyError, SoftmaxPolicy
from agentic_rl.values import SHORT, is_finite, remembered

HUGE = int(sys.float_info.max)  # the largest number that a float holds
NUMBERS = (0, -3, 0.5, -0.0, 5e-324, sys.float_info.max, HUGE, -HUGE)
OTHERS = (
    *(True, False, None, "1", b"1", [1], 1j, Fraction(1, 2)),
    *(math.nan, math.inf, -math.inf, HUGE * 10, -(10**400)),
)


class IsFinite(unittest.TestCase):
    def test_ints_and_floats_are_numbers_as_far_as_a_float_reaches(self):
        for value in NUMBERS:
            self.assertTrue(is_finite(value), value)

    def test_nothing_else_is(self):
        for value in OTHERS:
            self.assertFalse(is_finite(value), value)


class Remembered(unittest.TestCase):
    def test_short_texts_are_computed_once_and_long_ones_are_not_kept(self):
        for length, calls in ((SHORT, 1), (SHORT + 1, 2)):
            seen = []
            function = remembered(
                lambda text, seen=seen: seen.append(text) or len(text)
            )
            for _ in range(2):
                self.assertEqual(function("x" * length), length)
            self.assertEqual(len(seen), calls)


class EveryDoor(unittest.TestCase):
    """Wherever a number comes in, what is none is refused in the door's own words."""

    def test_each_refuses_what_is_no_number(self):
        for value in OTHERS:
            if value is not None:  # an unscored sample, a switch that is off
                with self.assertRaisesRegex(AdvantageError, r"rewards\[0\]: expected"):
                    group_advantages([value, 0.0], ["a", "a"])
                with self.assertRaisesRegex(ConventionError, "dual_clip: expected"):
                    COURSE.but(dual_clip=value)
            with self.assertRaisesRegex(PolicyError, "'s': logits must be finite"):
                SoftmaxPolicy(["s"], ["a", "b"], {"s": [0.0, value]})
            with self.assertRaisesRegex(ConventionError, "clip_low: expected"):
                COURSE.but(clip_low=value)
            with self.assertRaisesRegex(ValueError, "learning_rate: expected"):
                Config(learning_rate=value)
            with self.assertRaisesRegex(
                ObjectiveError, r"logprobs\[0\]\[0\]: expected"
            ):
                policy_loss([[value]], [[0.0]], [[1.0]])


class TooLargeToCompute(unittest.TestCase):
    """Each number is finite, and what they add up to is not."""

    def test_rewards_whose_spread_no_float_can_hold(self):
        with self.assertRaisesRegex(AdvantageError, "group 'a': its rewards are too"):
            group_advantages([1e200, 0.0], ["a", "a"])

    def test_an_advantage_that_would_be_infinite(self):
        with self.assertRaisesRegex(AdvantageError, "group 'a': its rewards are too"):
            group_advantages([1.7e308, -1.7e308, 0.0], ["a"] * 3, PRESETS["rloo"])

    def test_positions_that_cannot_be_whitened(self):
        with self.assertRaisesRegex(AdvantageError, "too large to whiten"):
            spread([1e200, -1e200], [1, 1], PRESETS["reinforce++"])

    def test_a_row_and_a_batch_whose_losses_add_up_to_no_number(self):
        rule = COURSE.but(aggregation="batch_sum", clip="off")
        for rows, said in (([[1.7e308] * 2], "row 0"), ([[1.7e308]] * 2, "its rows")):
            zeros = [[0.0] * len(row) for row in rows]
            with self.assertRaisesRegex(ObjectiveError, said):
                policy_loss(zeros, zeros, rows, rule)


if __name__ == "__main__":
    unittest.main()
