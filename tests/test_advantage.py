"""Rewards of a group -> advantages: the specification.

Cases c01 to c04, h05 and h06 are public reports of what went wrong elsewhere; the
values here are worked out by hand with the reason beside them.
"""

from __future__ import annotations

import itertools
import math
import random
import unittest

from agentic_rl.advantage import (
    AdvantageError,
    flags,
    group_advantages,
    informative,
    kept,
    returns_to_go,
    row_advantages,
    spread,
)
from agentic_rl.conventions import (
    COURSE,
    DR_GRPO,
    OPENRLHF,
    PRESETS,
    REINFORCE_PLUS_PLUS,
    RLOO,
    TRL,
    VERL,
    Convention,
)
from agentic_rl.golden import golden_group
from agentic_rl.trajectory import TrajectoryError

MEAN = COURSE.but(std="none")  # eq. group
LOO = RLOO  # eq. loo
NOISE = (0.1 + 0.2, 0.3)  # differ in the last bit: 0.30000000000000004 and 0.3


def one_group(rewards, convention: Convention = COURSE) -> list[float]:
    return group_advantages(rewards, ["g"] * len(rewards), convention)


class AdvantageCase(unittest.TestCase):
    def assert_close(self, found, expected, tolerance=1e-12) -> None:
        self.assertEqual(len(found), len(expected))
        for place, (x, y) in enumerate(zip(found, expected)):
            self.assertLessEqual(abs(x - y), tolerance, f"place {place}: {x} != {y}")


class ByHand(AdvantageCase):
    def test_the_golden_group(self):
        # 0.9 + 0 + 0.7 + 0 = 1.6, mean 0.4; deviations 0.5, -0.4, 0.3, -0.4;
        # squares 0.25 + 0.16 + 0.09 + 0.16 = 0.66; / 3 = 0.22
        rewards = [0.9, 0.0, 0.7, 0.0]
        deviations = [0.5, -0.4, 0.3, -0.4]
        self.assert_close(one_group(rewards, MEAN), deviations)
        scaled = [value / math.sqrt(0.22) for value in deviations]
        self.assert_close(one_group(rewards), scaled)
        population = [value / math.sqrt(0.165) for value in deviations]  # 0.66 / 4
        self.assert_close(one_group(rewards, COURSE.but(ddof=0)), population)
        # the mean of the three others: 0.7/3, 1.6/3, 0.9/3, 1.6/3
        others = [0.9 - 0.7 / 3, -1.6 / 3, 0.7 - 0.9 / 3, -1.6 / 3]
        self.assert_close(one_group(rewards, LOO), others)

    def test_the_golden_group_as_it_is_played(self):
        rewards = [episode.reward for episode in golden_group()]
        self.assert_close(rewards, [0.9, 0.0, 0.7, 0.0])
        expected = [1.066004, -0.852803, 0.639602, -0.852803]  # 0.5 / 0.469042, ...
        self.assert_close(one_group(rewards), expected, 5e-7)

    def test_scaling_right_and_wrong_case_h06(self):
        # Case h06 (trl#2832): [0, 1] and [-3, 1] are the same after scaling.
        # [2, 2, 5]: mean 3, squares 1 + 1 + 4 = 6; / 2 = 3, / 3 = 2.
        two = math.sqrt(0.5)
        table = {
            (0, 1): ([-two, two], [-1.0, 1.0]),
            (-3, 1): ([-two, two], [-1.0, 1.0]),
            (2, 2, 5): (
                [-1 / math.sqrt(3), -1 / math.sqrt(3), 2 / math.sqrt(3)],
                [-1 / math.sqrt(2), -1 / math.sqrt(2), 2 / math.sqrt(2)],
            ),
        }
        for rewards, (sample, population) in table.items():
            self.assert_close(one_group(rewards), sample)
            self.assert_close(one_group(rewards, COURSE.but(ddof=0)), population)
        # without the std, scale matters
        self.assert_close(one_group((0, 1), MEAN), [-0.5, 0.5])
        self.assert_close(one_group((-3, 1), MEAN), [-2.0, 2.0])

    def test_groups_go_by_name_not_by_place_case_c01(self):
        # Case c01 (R1-V#67): rows interleaved by prompt. p1 has 1, 0, and p2 has 5, 5.
        rewards, groups = [1, 5, 0, 5], ["p1", "p2", "p1", "p2"]
        half = math.sqrt(0.5)
        expected = [half, 0.0, -half, 0.0]
        self.assert_close(group_advantages(rewards, groups), expected)
        by_place = group_advantages(rewards, ["p1", "p1", "p2", "p2"])
        self.assert_close(by_place, [-half, half, -half, half])  # the reported bug

    def test_three_frameworks_three_constants_case_c03(self):
        # Case c03 (verl#6348). [1, 0, 0, 0]: mean 0.25, squares 0.75, / 3: std 0.5.
        rewards = [1, 0, 0, 0]
        for preset, epsilon in ((TRL, 1e-4), (VERL, 1e-6), (OPENRLHF, 1e-9)):
            scale = 0.5 + epsilon
            self.assert_close(
                one_group(rewards, preset), [0.75 / scale] + [-0.25 / scale] * 3
            )
        self.assert_close(one_group(rewards, TRL), [1.4997] + [-0.4999] * 3, 1e-7)
        # ddof 0: sqrt(0.75 / 4) = 0.433013
        population = [1.732051] + [-0.57735] * 3
        self.assert_close(one_group(rewards, COURSE.but(ddof=0)), population, 5e-7)
        # [1, 1.0001]: deviations 5e-5, std 5e-5 * sqrt(2) = 7.07107e-5
        for preset, expected in (
            (TRL, 0.292893),
            (VERL, 0.697246),
            (OPENRLHF, 0.707097),
        ):
            with self.subTest(preset=preset.name):
                found = one_group([1.0, 1.0001], preset)
                self.assert_close(found, [-expected, expected], 5e-7)

    def test_where_epsilon_goes(self):
        # [1, 0, 0, 0] has variance 0.25; epsilon 0.11 makes each place its own number
        base = COURSE.but(std_epsilon=0.11)
        for place, scale in {
            "added": 0.61,  # 0.5 + 0.11
            "under_root": 0.6,  # sqrt(0.25 + 0.11)
            "floor": 0.5,  # sqrt(max(0.25, 0.11))
        }.items():
            with self.subTest(place=place):
                found = one_group([1, 0, 0, 0], base.but(epsilon_place=place))
                self.assert_close(found, [0.75 / scale] + [-0.25 / scale] * 3)
        floor = base.but(epsilon_place="floor", std_epsilon=0.36)
        self.assert_close(one_group([1, 0, 0, 0], floor), [1.25] + [-0.25 / 0.6] * 3)

    def test_std_of_the_batch(self):
        # groups (1, 0) and (5, 5): group means 0.5 and 5; the batch 1, 0, 5, 5 has mean
        # 2.75 and squares 3.0625 + 7.5625 + 2 * 5.0625 = 20.75, / 3
        scale = math.sqrt(20.75 / 3)
        found = group_advantages([1, 0, 5, 5], "aabb", COURSE.but(std="batch"))
        self.assert_close(found, [0.5 / scale, -0.5 / scale, 0.0, 0.0])

    def test_baseline_of_the_batch(self):
        batch = COURSE.but(baseline="batch_mean", std="none")
        found = group_advantages([1, 0, 5, 5], "aabb", batch)
        self.assert_close(found, [-1.75, -2.75, 2.25, 2.25])
        # the equal rewards of b still say something: they are compared with a
        scaled = batch.but(std="batch")
        scale = math.sqrt(20.75 / 3)
        expected = [-1.75 / scale, -2.75 / scale, 2.25 / scale, 2.25 / scale]
        self.assert_close(group_advantages([1, 0, 5, 5], "aabb", scaled), expected)

    def test_no_baseline_is_the_reward_itself(self):
        plain = COURSE.but(baseline="none", std="none")
        self.assertEqual(group_advantages([1, 0, 5, 5], "aabb", plain), [1, 0, 5, 5])


class Identities(AdvantageCase):
    def random_rewards(self, seed: int, count: int) -> list[float]:
        rng = random.Random(seed)
        return [rng.uniform(-2, 2) for _ in range(count)]

    def test_leave_one_out_is_the_group_mean_times_n_over_n_minus_one(self):
        for count in range(2, 9):
            rewards = self.random_rewards(count, count)
            mean = one_group(rewards, MEAN)
            expected = [count / (count - 1) * value for value in mean]
            self.assert_close(one_group(rewards, LOO), expected)
            # and it is what its name says
            for index, reward in enumerate(rewards):
                others = rewards[:index] + rewards[index + 1 :]
                baseline = math.fsum(others) / len(others)
                found = one_group(rewards, LOO)[index]
                self.assertAlmostEqual(found, reward - baseline, delta=1e-12)

    def test_scaled_advantages_have_mean_zero_and_std_one(self):
        for seed in range(20):
            found = one_group(self.random_rewards(seed, 5))
            self.assertAlmostEqual(math.fsum(found), 0.0, delta=1e-12)
            squares = math.fsum(value * value for value in found)
            self.assertAlmostEqual(squares / 4, 1.0, delta=1e-12)  # ddof 1

    def test_a_constant_more_for_all_changes_nothing(self):
        for convention in (COURSE, MEAN, LOO, TRL, COURSE.but(std="batch")):
            rewards = self.random_rewards(1, 6)
            moved = [reward + 5.0 for reward in rewards]
            self.assert_close(
                group_advantages(rewards, "ababab", convention),
                group_advantages(moved, "ababab", convention),
            )

    def test_only_scaling_forgets_the_size_of_rewards(self):
        rewards = self.random_rewards(2, 5)
        tenfold = [10 * reward for reward in rewards]
        self.assert_close(one_group(rewards), one_group(tenfold))
        expected = [10 * value for value in one_group(rewards, MEAN)]
        self.assert_close(one_group(tenfold, MEAN), expected)

    def test_the_order_of_episodes_carries_no_meaning(self):
        rewards = [0.9, 0.0, 0.7, None, 1.0, 0.3]
        groups = ["x", "x", "y", "x", "y", "x"]
        for name, preset in PRESETS.items():
            preset = preset.but(unscored="left_out")
            known = group_advantages(rewards, groups, preset)
            for order in itertools.islice(itertools.permutations(range(6)), 0, 720, 37):
                with self.subTest(preset=name, order=order):
                    found = group_advantages(
                        [rewards[i] for i in order], [groups[i] for i in order], preset
                    )
                    self.assert_close(found, [known[i] for i in order])

    def test_groups_do_not_see_each_other(self):
        first, second = self.random_rewards(3, 4), self.random_rewards(4, 3)
        both = group_advantages(first + second, [1] * 4 + [2] * 3)
        self.assert_close(both, one_group(first) + one_group(second))

    def test_names_of_groups_may_be_anything_hashable(self):
        names = [("task", 1), None, ("task", 1), None, 7]
        found = group_advantages([1, 1, 0, 0, 5], names, MEAN)
        self.assert_close(found, [0.5, 0.5, -0.5, -0.5, 0.0])


class ZeroSpread(AdvantageCase):
    def test_equal_rewards_give_exactly_zero(self):
        # fsum([0.47] * 7) / 7 is not 0.47, so that centring alone leaves a bit
        self.assertNotEqual(math.fsum([0.47] * 7) / 7, 0.47)
        for reward in (0.0, 1.0, 0.47, -3.7, 1e9):
            for preset in PRESETS.values():
                if preset.zero_spread == "zero" and preset.baseline != "none":
                    self.assertEqual(one_group([reward] * 7, preset), [0.0] * 7)

    def test_rounding_noise_is_no_signal(self):
        # Without the rule: deviations of one bit over a std of one bit are +-0.7, as
        # strong as right against wrong.
        rewards = [NOISE[0], NOISE[1], NOISE[1]]
        self.assertNotEqual(*NOISE)
        for convention in (
            COURSE,
            MEAN,
            LOO,
            COURSE.but(ddof=0),
            COURSE.but(std="batch"),
            COURSE.but(baseline="leave_one_out"),
            COURSE.but(baseline="batch_mean", std="batch"),
            COURSE.but(baseline="batch_mean", std="group"),
            COURSE.but(baseline="none", std="group"),
        ):
            with self.subTest(baseline=convention.baseline, std=convention.std):
                self.assertEqual(one_group(rewards, convention), [0.0] * 3)

    def test_a_group_of_noise_in_a_batch_that_differs(self):
        # next to the batch it says something, divided by its own noise it does not
        rewards, groups = [*NOISE, 1.0, 0.0], "aabb"
        by_group = COURSE.but(baseline="batch_mean", std="group")
        self.assertEqual(group_advantages(rewards, groups, by_group)[:2], [0.0, 0.0])
        by_batch = COURSE.but(std="batch")
        self.assertEqual(group_advantages(rewards, groups, by_batch)[:2], [0.0, 0.0])

    def test_a_small_difference_that_is_meant_is_kept(self):
        half = math.sqrt(0.5)
        self.assert_close(one_group([1.0, 1.0 + 1e-6]), [-half, half], 1e-9)

    def test_divide_divides_the_noise_by_epsilon(self):
        # one bit below 0.3 is 2**-54 = 5.55e-17; its half over (std + 1e-9)
        bit = NOISE[0] - NOISE[1]
        divide = COURSE.but(zero_spread="divide", std_epsilon=1e-20)
        found = one_group(NOISE, divide)
        # the mean of two neighbours rounds to one of them, so one deviation is a bit
        self.assertEqual(bit, 2.0**-54)
        self.assertTrue(any(abs(value) > 0.5 for value in found))
        for preset in (TRL, VERL, OPENRLHF):
            found = one_group(NOISE, preset)
            limit = bit / preset.std_epsilon
            self.assertTrue(all(abs(value) <= limit for value in found))
            self.assertTrue(any(value != 0.0 for value in found))

    def test_divide_with_epsilon_zero_defines_zero_over_zero_as_zero(self):
        divide = COURSE.but(zero_spread="divide", std_epsilon=0.0)
        self.assertEqual(one_group([0.5, 0.5], divide), [0.0, 0.0])

    def test_no_baseline_keeps_equal_rewards(self):
        # REINFORCE compares nothing, so equal rewards are not zero
        plain = COURSE.but(baseline="none", std="none")
        self.assertEqual(one_group([0.5, 0.5], plain), [0.5, 0.5])


class GroupOfOne(AdvantageCase):
    def test_each_rule_case_c02(self):
        # Case c02 (verl#7794)
        self.assertEqual(one_group([0.7], COURSE.but(group_of_one="zero")), [0.0])
        self.assertEqual(one_group([0.7], LOO), [0.0])
        # verl takes mean 0 and std 1: 0.7 / (1 + 1e-6)
        self.assert_close(one_group([0.7], VERL), [0.7 / 1.000001], 1e-15)
        self.assertEqual(one_group([0.7], MEAN.but(group_of_one="raw")), [0.7])
        with self.assertRaisesRegex(AdvantageError, "'g'.*no peers"):
            one_group([0.7], COURSE.but(group_of_one="refuse"))
        self.assertEqual(flags([0.7], ["p1"]), ["group 'p1': size 1 has no baseline"])

    def test_epsilon_goes_to_its_place_there_too(self):
        raw = COURSE.but(group_of_one="raw", std_epsilon=0.44)
        for place, scale in {
            "added": 1.44,
            "under_root": 1.2,  # sqrt(1 + 0.44)
            "floor": 1.0,  # sqrt(max(1, 0.44))
        }.items():
            found = one_group([0.7], raw.but(epsilon_place=place))
            self.assert_close(found, [0.7 / scale])

    def test_a_single_episode_beside_a_full_group(self):
        found = group_advantages([1, 0, 0.7], ["a", "a", "b"], MEAN)
        self.assert_close(found, [0.5, -0.5, 0.0])

    def test_what_is_left_when_peers_are_unscored(self):
        # the rule goes by the episodes that count
        self.assertEqual(one_group([0.7, None], MEAN), [0.0, 0.0])
        self.assertEqual(
            one_group([0.7, None], MEAN.but(group_of_one="raw")), [0.7, 0.0]
        )
        self.assertEqual(one_group([0.7, None], TRL), [0.0, 0.0])
        with self.assertRaisesRegex(AdvantageError, "no peers"):
            one_group([0.7, None], MEAN.but(group_of_one="refuse"))

    def test_a_baseline_outside_the_group_needs_no_peers(self):
        batch = COURSE.but(baseline="batch_mean", std="none", group_of_one="refuse")
        self.assert_close(group_advantages([1, 0], ["a", "b"], batch), [0.5, -0.5])
        plain = COURSE.but(baseline="none", std="none", group_of_one="refuse")
        self.assertEqual(group_advantages([1, 0], ["a", "b"], plain), [1, 0])


class Unscored(AdvantageCase):
    REWARDS = (1.0, None, 0.0)

    def test_left_out_of_mean_and_std_with_advantage_zero(self):
        half = math.sqrt(0.5)
        left_out = COURSE.but(unscored="left_out")
        self.assert_close(one_group(self.REWARDS, left_out), [half, 0.0, -half])
        self.assert_close(one_group(self.REWARDS, MEAN), [0.5, 0.0, -0.5])

    def test_left_out_of_the_batch_as_well(self):
        # scored: 1, 0, 4 and 2: mean 1.75, squares 0.5625 + 3.0625 + 5.0625 + 0.0625
        found = group_advantages(
            [1.0, None, 0.0, 4.0, 2.0], "aaabb", COURSE.but(std="batch")
        )
        scale = math.sqrt(8.75 / 3)
        expected = [0.5, 0.0, -0.5, 1.0, -1.0]
        self.assert_close(found, [value / scale for value in expected])

    def test_zero_takes_it_for_a_reward(self):
        found = one_group(self.REWARDS, MEAN.but(unscored="zero"))
        self.assert_close(found, [2 / 3, -1 / 3, -1 / 3])

    def test_refuse_names_it(self):
        with self.assertRaisesRegex(AdvantageError, r"rewards\[1\].*refuse"):
            one_group(self.REWARDS, VERL)

    def test_nobody_scored(self):
        self.assertEqual(one_group([None, None]), [0.0, 0.0])
        self.assertEqual(group_advantages([], []), [])


class Refused(AdvantageCase):
    def test_numbers_that_are_not_finite_are_named(self):
        for reward in (math.nan, math.inf, -math.inf):
            for preset in PRESETS.values():
                with self.assertRaisesRegex(AdvantageError, r"rewards\[1\].*finite"):
                    one_group([1.0, reward, 0.0], preset)

    def test_lengths_that_differ_are_named(self):
        calls = {
            "groups": lambda: group_advantages([1, 0], ["g"]),
            "groups: 1": lambda: informative([1, 0], ["g"]),
            "solved": lambda: kept([1, 0], ["g", "g"], [True]),
            "lengths": lambda: spread([1.0, 0.0], [2]),
            "rollouts": lambda: row_advantages(["r"], [1, 0], ["g", "g"]),
            "groups: 3": lambda: row_advantages(["r", "s"], [1, 0], ["g"] * 3),
            "mask": lambda: returns_to_go([1, 0], [1]),
        }
        for name, call in calls.items():
            with self.subTest(name), self.assertRaisesRegex(TrajectoryError, name):
                call()
        with self.assertRaises(TrajectoryError):
            spread([1.0], [2, 2])


class Groups(AdvantageCase):
    REWARDS = (1.0, 0.0, 0.5, 0.5, *NOISE, None, None, 0.2, None)
    NAMES = ("a", "a", "b", "b", "c", "c", "d", "d", "e", "e")

    def test_informative_says_which_rewards_differ(self):
        found = informative(self.REWARDS, self.NAMES)
        expected = {"a": True, "b": False, "c": False, "d": False, "e": False}
        self.assertEqual(found, expected)
        self.assertEqual(list(found), list("abcde"))  # in order of appearance

    def test_flags_in_words(self):
        self.assertEqual(
            flags(self.REWARDS, self.NAMES),
            [
                "group 'b': all rewards equal, nothing to compare",
                "group 'c': all rewards equal, nothing to compare",
                "group 'd': 2 unscored",
                "group 'e': 1 unscored",
                "group 'e': size 1 has no baseline",
            ],
        )
        self.assertEqual(flags([1, 0], ["g", "g"]), [])

    def test_kept_all(self):
        self.assertEqual(kept([1, 1], "gg", [False, False]), [True, True])

    def test_kept_informative(self):
        convention = COURSE.but(groups="informative")
        solved = [False] * len(self.REWARDS)
        found = kept(self.REWARDS, self.NAMES, solved, convention)
        self.assertEqual(found, [True, True] + [False] * 8)

    def test_kept_informative_reads_unscored_as_the_convention_does(self):
        # taken as 0, None differs from 1: the advantages are 0.5 and -0.5
        convention = MEAN.but(groups="informative", unscored="zero")
        rewards, names = [1.0, None], ["g", "g"]
        self.assertEqual(group_advantages(rewards, names, convention), [0.5, -0.5])
        self.assertEqual(kept(rewards, names, [True, False], convention), [True, True])
        same = kept([0.0, None], names, [False, False], convention)
        self.assertEqual(same, [False, False])

    def test_kept_solved_goes_by_answers_not_by_rewards(self):
        convention = COURSE.but(groups="solved")
        rewards, names = [-0.1, -0.5, 1.0, 1.0], ["a", "b", "b", "a"]
        solved = [False, False, True, False]
        found = kept(rewards, names, solved, convention)
        self.assertEqual(found, [False, True, True, False])

    def test_how_often_a_group_says_nothing_case_h05(self):
        # Case h05 (CoursIA#10603): p^G + (1 - p)^G, here by playing every group
        p = 0.2
        for size, expected in ((2, 0.68), (4, 0.4112), (8, 0.1678), (16, 0.0281)):
            equal = p**size + (1 - p) ** size
            self.assertAlmostEqual(equal, expected, delta=5e-5)
            if size > 8:
                continue
            silent = []
            for rewards in itertools.product((0.0, 1.0), repeat=size):
                if not informative(rewards, ["g"] * size)["g"]:
                    silent.append(math.prod(p if r else 1 - p for r in rewards))
            self.assertAlmostEqual(math.fsum(silent), equal, delta=1e-12)


class Rows(AdvantageCase):
    def test_a_rollout_counts_once_case_c04(self):
        # Case c04 (agent-lightning#489): R1 became three rows, one a turn
        rollouts, rewards = ["R1", "R1", "R1", "R2"], [1, 1, 1, 0]
        half = math.sqrt(0.5)
        found = row_advantages(rollouts, rewards, ["g"] * 4)
        self.assert_close(found, [half, half, half, -half])
        # the reported bug: mean 0.75, std 0.5
        self.assert_close(one_group(rewards), [0.5, 0.5, 0.5, -1.5])

    def test_rows_may_stand_in_any_order(self):
        found = row_advantages(["x", "y", "x"], [1, 0, 1], ["g"] * 3, MEAN)
        self.assert_close(found, [0.5, -0.5, 0.5])

    def test_rows_of_one_rollout_agree(self):
        for rewards, groups in (([1, 0], "gg"), ([1, 1], "gh"), ([1, None], "gg")):
            with self.assertRaisesRegex(AdvantageError, "'r'.*disagree"):
                row_advantages(["r", "r"], rewards, groups)


class Returns(AdvantageCase):
    def test_by_hand(self):
        # 3 + 0.5 * 4 = 5; 2 + 0.5 * 5 = 4.5; 1 + 0.5 * 4.5 = 3.25
        found = returns_to_go([1, 2, 3, 4], [1, 1, 1, 1], 0.5)
        self.assert_close(found, [3.25, 4.5, 5.0, 4.0])

    def test_a_tool_result_is_not_the_end_case_a08(self):
        # Case a08 (verl#7278): one decay a trainable step, none for what a tool said
        found = returns_to_go([0, 0, 0, 2], [1, 0, 0, 1], 0.9)
        self.assert_close(found, [1.8, 0.0, 0.0, 2.0])

    def test_padding_at_the_end(self):
        found = returns_to_go([0, 2, 0, 0], [1, 1, 0, 0], 0.5)
        self.assert_close(found, [1.0, 2.0, 0.0, 0.0])

    def test_nothing(self):
        self.assertEqual(returns_to_go([], []), [])
        self.assertEqual(returns_to_go([1, 1], [0, 0]), [0.0, 0.0])


class Spreading(AdvantageCase):
    def test_each_position_gets_the_episodes_advantage(self):
        self.assertEqual(spread([1.5, -2.0], [3, 0]), [[1.5, 1.5, 1.5], []])
        # undiscounted, to go is the same: the reward is at the end
        to_go = COURSE.but(returns="to_go")
        self.assertEqual(spread([1.5, -2.0], [3, 1], to_go), [[1.5] * 3, [-2.0]])

    def test_to_go_decays_backwards(self):
        convention = COURSE.but(returns="to_go", discount=0.5)
        rows = spread([4.0, -2.0, 1.0], [3, 1, 0], convention)
        self.assertEqual(rows, [[1.0, 2.0, 4.0], [-2.0], []])

    def test_whiten_by_hand(self):
        # positions 1, 1, 1, -3: mean 0, squares 12; ddof 1: std 2, ddof 0: sqrt(3)
        whiten = COURSE.but(whiten=True)
        self.assert_close(spread([1.0, -3.0], [3, 1], whiten)[0], [0.5] * 3)
        self.assert_close(spread([1.0, -3.0], [3, 1], whiten)[1], [-1.5])
        population = spread([1.0, -3.0], [3, 1], whiten.but(ddof=0))
        self.assert_close(population[1], [-math.sqrt(3)])
        # REINFORCE++: sqrt(4 + 1e-8)
        rows = spread([1.0, -3.0], [3, 1], REINFORCE_PLUS_PLUS)
        self.assert_close(rows[1], [-3 / math.sqrt(4 + 1e-8)], 1e-15)

    def test_whitening_counts_positions_not_episodes(self):
        rows = spread([1.0, 0.0], [9, 1], COURSE.but(whiten=True))
        values = [value for row in rows for value in row]
        self.assertAlmostEqual(math.fsum(values), 0.0, delta=1e-12)
        squares = math.fsum(value * value for value in values)
        self.assertAlmostEqual(squares / 9, 1.0, delta=1e-12)
        self.assertLess(rows[0][0], -rows[1][0])

    def test_whitening_equal_positions_is_zero(self):
        rows = spread([NOISE[0], NOISE[1]], [2, 1], COURSE.but(whiten=True))
        self.assertEqual(rows, [[0.0, 0.0], [0.0]])
        self.assertEqual(spread([], [], COURSE.but(whiten=True)), [])

    def test_dr_grpo_takes_the_std_out(self):
        self.assert_close(one_group([0.9, 0, 0.7, 0], DR_GRPO), [0.5, -0.4, 0.3, -0.4])


if __name__ == "__main__":
    unittest.main()
