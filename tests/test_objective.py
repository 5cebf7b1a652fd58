"""Ratio, clip, KL, aggregation: the specification of the loss and of its gradient.

Three kinds of evidence: tables worked out by hand (cases c06, f01 to f06, h01 to h03),
central finite differences for every combination of switches, and straight-line formulas
of TRL, verl and OpenRLHF written from their equations, with no code in common.
"""

from __future__ import annotations

import itertools
import math
import random
import unittest
from collections.abc import Callable
from typing import Any, NamedTuple

from agentic_rl.advantage import group_advantages, spread
from agentic_rl.conventions import COURSE, DR_GRPO, OPENRLHF, TRL, VERL, Convention
from agentic_rl.grpo import logit_gradient
from agentic_rl.objective import (
    ObjectiveError,
    clipped_loss,
    kl_estimate,
    kl_term,
    policy_loss,
    ratios_of,
    row_weights,
)
from agentic_rl.policy import SoftmaxPolicy
from agentic_rl.trajectory import TrajectoryError

AGGREGATIONS = ("episode_sum", "episode_mean", "batch_mean", "batch_sum", "constant")
OPEN = COURSE.but(clip="off", log_ratio_clamp=None)  # nothing bends the line


class Arrays(NamedTuple):
    """What policy_loss is given; rows of unequal lengths."""

    new: list[list[Any]]
    old: list[list[Any]]
    advantages: list[list[Any]]
    mask: list[list[int]]
    ref: list[list[Any]]

    def loss(self, convention: Convention):
        return policy_loss(
            self.new, self.old, self.advantages, convention, self.mask, self.ref
        )


# Log-ratios on both sides of every bend, with both signs of advantage: the clips at
# log 0.8 = -0.223 and log 1.2 = 0.182, the dual clip at log 3 = 1.099, the tests' clamp
# at 0.6. The means of the rows, for ratio="sequence", lie on both sides as well.
LOG_RATIOS = (
    (0.1, -0.5, 0.25),
    (1.3, 1.4),
    (-0.9, 7.0, -0.4, -0.35),  # 7.0 is masked
    (3.0, 3.0),  # all masked
    (0.35,),
    (1.5, 1.25),
    (-0.8, 0.1, 0.4, 0.85),
    (0.9,),
)
ADVANTAGES = (
    (1.0, -0.7, 0.8),
    (-1.1, 0.6),
    (0.9, 5.0, -1.3, 0.4),
    (2.0, 2.0),
    (1.7,),
    (-0.5, -0.6),
    (-1.2, -0.8, -1.0, -0.9),
    (0.7,),
)
MASK = ((1, 1, 1), (1, 1), (1, 0, 1, 1), (0, 0), (1,), (1, 1), (1, 1, 1, 1), (1,))
BENDS = (-0.6, math.log(0.8), math.log(1.2), 0.6, math.log(3.0))
JITTER = 0.02


def bent_batch(seed: int) -> Arrays:
    """A batch whose active positions all stand well away from where the loss bends."""
    rng = random.Random(seed)
    new, old, ref = [], [], []
    for row in LOG_RATIOS:
        new.append([rng.uniform(-2.5, -0.2) for _ in row])
        moves = [move + rng.uniform(-JITTER, JITTER) for move in row]
        old.append([x - move for x, move in zip(new[-1], moves)])
        # away from 0, where the clamp on KL would bend for a reference far off
        ref.append([x - rng.choice((-1, 1)) * rng.uniform(0.1, 0.5) for x in new[-1]])
    advantages = [[x * rng.uniform(0.9, 1.1) for x in row] for row in ADVANTAGES]
    return Arrays(new, old, advantages, [list(row) for row in MASK], ref)


def interval(log_ratio: float) -> int:
    """How many bends lie below: 0 to 5."""
    return sum(log_ratio > bend for bend in BENDS)


def every_objective():
    """Each combination of the switches that change the loss."""
    kls = [{"kl_place": "none"}]
    for estimator, with_ratio in itertools.product(("k1", "k2", "k3"), (False, True)):
        kl = {"kl_place": "loss", "kl_weight": 0.3, "kl_estimator": estimator}
        kls.append({**kl, "kl_ratio": with_ratio})
    for clip, dual, ratio, aggregation, clamp, kl in itertools.product(
        ("off", "ppo", "two_sided"),
        (None, 3.0),
        ("unit", "sequence"),
        AGGREGATIONS,
        (None, 0.6, 20.0),
        kls,
    ):
        yield COURSE.but(
            clip=clip,
            dual_clip=dual,
            ratio=ratio,
            aggregation=aggregation,
            log_ratio_clamp=clamp,
            max_length=7,
            **kl,
        )


class ObjectiveCase(unittest.TestCase):
    def assert_close(self, found, expected, tolerance=1e-12) -> None:
        self.assertEqual(len(found), len(expected))
        for place, (x, y) in enumerate(zip(found, expected)):
            self.assertLessEqual(abs(x - y), tolerance, f"place {place}: {x} != {y}")

    def assert_rows_close(self, found, expected, tolerance=1e-12) -> None:
        self.assertEqual(len(found), len(expected))
        for row, other in zip(found, expected):
            self.assert_close(row, other, tolerance)


class Gradient(ObjectiveCase):
    STEP = 1e-6

    def assert_gradient(self, arrays: Arrays, convention: Convention) -> None:
        """The gradient is the central finite difference at every position."""
        gradient = arrays.loss(convention).gradient
        for row, place in (
            (r, p) for r, line in enumerate(arrays.new) for p in range(len(line))
        ):
            values = []
            for sign in (1, -1):
                moved = [list(line) for line in arrays.new]
                moved[row][place] += sign * self.STEP
                values.append(arrays._replace(new=moved).loss(convention).value)
            slope = (values[0] - values[1]) / (2 * self.STEP)
            error = abs(gradient[row][place] - slope)
            self.assertLess(error, 1e-7, f"[{row}][{place}] {convention}")

    def test_the_batch_stands_where_it_should(self):
        """Each side of each bend is there, and no position is near a bend."""
        for seed in range(3):
            arrays = bent_batch(seed)
            sides, means = set(), set()
            for new, old, gains, mask in zip(*arrays[:4]):
                active = [
                    (a - b, gain) for a, b, gain, on in zip(new, old, gains, mask) if on
                ]
                if not active:
                    continue
                mean = math.fsum(move for move, _ in active) / len(active)
                for move in (mean, *(move for move, _ in active)):
                    distance = min(abs(move - bend) for bend in BENDS)
                    self.assertGreater(distance, 100 * self.STEP)
                sides |= {(interval(move), gain > 0) for move, gain in active}
                means.add(interval(mean))
            self.assertEqual(len(sides), 6 * 2)  # six intervals, two signs
            self.assertEqual(means, {1, 2, 3, 4, 5})

    def test_every_combination_of_switches(self):
        """1,260 objectives, 19 positions each: off, one- and two-sided clip, with and
        without dual clip, ratios per unit and per sequence, five aggregations, no KL or
        three estimators with and without the ratio, no clamp, one that holds, one that
        does not."""
        count = 0
        for number, convention in enumerate(every_objective()):
            self.assert_gradient(bent_batch(number % 3), convention)
            count += 1
        self.assertEqual(count, 3 * 2 * 2 * 5 * 3 * 7)

    def test_clamps_of_the_kl_and_the_mean_epsilon(self):
        kl = {"kl_place": "loss", "kl_weight": 0.7}
        for estimator, with_ratio, clamp, bound, empty in itertools.product(
            ("k1", "k2", "k3"),
            (False, True),
            (None, 0.3),
            (None, 0.04),
            ("counted", "left_out"),
        ):
            convention = COURSE.but(
                **kl,
                kl_estimator=estimator,
                kl_ratio=with_ratio,
                kl_log_ratio_clamp=clamp,
                kl_clamp=bound,
                empty_rows=empty,
                aggregation="episode_mean",
                mean_epsilon=0.25,
            )
            self.assert_gradient(bent_batch(4), convention)

    def test_at_ratio_one_it_is_the_policy_gradient(self):
        """d(-ratio * A) / d logprob = -A where ratio is 1: eq. clip is REINFORCE."""
        arrays = bent_batch(0)
        arrays = arrays._replace(old=arrays.new)
        for clip, dual, ratio in itertools.product(
            ("off", "ppo", "two_sided"), (None, 3.0), ("unit", "sequence")
        ):
            convention = COURSE.but(
                clip=clip, dual_clip=dual, ratio=ratio, aggregation="batch_sum"
            )
            gradient = arrays.loss(convention).gradient
            for row, (gains, mask) in enumerate(zip(arrays.advantages, arrays.mask)):
                active = [gain for gain, on in zip(gains, mask) if on]
                for place, on in enumerate(mask):
                    slope = -gains[place] if on else 0.0
                    if on and ratio == "sequence":
                        slope = -math.fsum(active) / len(active)
                    self.assertAlmostEqual(gradient[row][place], slope, delta=1e-12)


class Clip(ObjectiveCase):
    # Case f03 (spinningup#315): epsilon 0.2. -min(r * A, clip(r) * A):
    #   1.5,  1: min(1.5, 1.2)    = 1.2   the good step went far enough
    #   0.5,  1: min(0.5, 0.8)    = 0.5   a good action that lost ground is pulled back
    #   1.5, -1: min(-1.5, -1.2)  = -1.5  a bad action that gained ground, pushed back
    #   0.5, -1: min(-0.5, -0.8)  = -0.8  the bad one went down far enough
    #   10,  -1: min(-10, -1.2)   = -10   without bound, unless dual clip says -3
    #   1.5,  2: min(3, 2.4)      = 2.4   it is the ratio that is clipped
    CASES = ((1.5, 1), (0.5, 1), (1.5, -1), (0.5, -1), (10, -1), (1.5, 2))
    LOSS = (-1.2, -0.5, 1.5, 0.8, 10, -2.4)
    LOSS_DUAL = (-1.2, -0.5, 1.5, 0.8, 3, -2.4)
    FLOWS = (False, True, True, False, True, False)
    FLOWS_DUAL = (False, True, True, False, False, False)

    def test_the_full_table_case_f03(self):
        for dual, losses, flows in (
            (None, self.LOSS, self.FLOWS),
            (3.0, self.LOSS_DUAL, self.FLOWS_DUAL),
        ):
            convention = COURSE.but(dual_clip=dual)
            for (ratio, advantage), expected, flow in zip(self.CASES, losses, flows):
                with self.subTest(ratio=ratio, advantage=advantage, dual=dual):
                    loss, slope = clipped_loss(ratio, advantage, convention)
                    self.assertAlmostEqual(loss, expected, delta=1e-12)
                    self.assertEqual(slope, -advantage if flow else 0.0)

    def test_the_table_through_the_whole_loss(self):
        old = [[-3.0] for _ in self.CASES]
        new = [[-3.0 + math.log(ratio)] for ratio, _ in self.CASES]
        gains = [[float(advantage)] for _, advantage in self.CASES]
        loss = policy_loss(new, old, gains, COURSE)
        self.assertAlmostEqual(loss.value, math.fsum(self.LOSS) / 6, delta=1e-12)
        flows = [row[0] != 0.0 for row in loss.gradient]
        self.assertEqual(tuple(flows), self.FLOWS)

    def test_two_sided_clips_whatever_the_sign(self):
        # 0.5, 1 and 1.5, -1 are held as well: -0.8 and 1.2, and no gradient
        expected = (-1.2, -0.8, 1.2, 0.8, 1.2, -2.4)
        convention = COURSE.but(clip="two_sided")
        for (ratio, advantage), value in zip(self.CASES, expected):
            loss, slope = clipped_loss(ratio, advantage, convention)
            self.assertAlmostEqual(loss, value, delta=1e-12)
            self.assertEqual(slope, 0.0)

    def test_off_is_the_plain_surrogate(self):
        for ratio, advantage in self.CASES:
            found = clipped_loss(ratio, advantage, COURSE.but(clip="off"))
            self.assertEqual(found, (-ratio * advantage, -advantage))
        # the dual clip works by itself
        dual = COURSE.but(clip="off", dual_clip=3.0)
        self.assertEqual(clipped_loss(10, -1, dual), (3.0, 0.0))
        self.assertEqual(clipped_loss(10, 1, dual), (-10, -1))

    def test_two_widths(self):
        wide = COURSE.but(clip_low=0.1, clip_high=0.5)
        for ratio, advantage, loss, flows in (
            (1.4, 1, -1.4, True),
            (1.6, 1, -1.5, False),
            (0.95, -1, 0.95, True),
            (0.85, -1, 0.9, False),
        ):
            found, slope = clipped_loss(ratio, advantage, wide)
            self.assertAlmostEqual(found, loss, delta=1e-12)
            self.assertEqual(slope != 0.0, flows)

    def test_inside_the_range_and_at_advantage_zero_nothing_happens(self):
        for ratio in (0.8, 0.9, 1.0, 1.2):
            for advantage in (1.0, -1.0):
                for clip in ("ppo", "two_sided"):
                    found = clipped_loss(ratio, advantage, COURSE.but(clip=clip))
                    self.assertEqual(found, (-ratio * advantage, -advantage))
        for ratio in (0.0, 0.5, 1.0, 100.0):
            loss, slope = clipped_loss(ratio, 0.0, COURSE.but(dual_clip=3.0))
            self.assertEqual((loss, slope), (0.0, 0.0))

    def test_the_loss_never_gets_better_by_clipping(self):
        # min of two surrogates: a lower bound (Schulman et al. 2017)
        rng = random.Random(0)
        for _ in range(500):
            ratio, advantage = rng.uniform(0, 5), rng.uniform(-2, 2)
            loss, _ = clipped_loss(ratio, advantage)
            self.assertGreaterEqual(loss, -ratio * advantage)
            bounded, _ = clipped_loss(ratio, advantage, COURSE.but(dual_clip=3.0))
            self.assertLessEqual(bounded, max(-3 * advantage, 0) + 1e-12)


class Ratio(ObjectiveCase):
    def test_one_a_unit_or_one_a_sequence(self):
        new, old = [math.log(0.5), math.log(0.3)], [math.log(0.25), math.log(0.6)]
        self.assert_close(ratios_of(new, old, COURSE).values, [2.0, 0.5])
        # GSPO: the geometric mean of 2 and 0.5 is 1
        sequence = COURSE.but(ratio="sequence")
        self.assert_close(ratios_of(new, old, sequence).values, [1.0, 1.0])
        found = ratios_of([-1.0, -1.0, -1.0], [-1.3, -1.3, -1.0], sequence).values
        self.assert_close(found, [math.exp(0.2)] * 3)
        self.assertEqual(ratios_of([], [], sequence).values, [])

    def test_a_ratio_that_runs_away_is_clamped_case_f01(self):
        # Case f01 (miles#1363): log-ratio 999, held at 20: exp(20) = 485165195.4097903
        arrays = ([[-1.0]], [[-1000.0]], [[0.0]])
        loss = policy_loss(*arrays, COURSE.but(log_ratio_clamp=20))
        self.assertEqual(loss.value, 0.0)
        self.assertEqual(loss.gradient, [[0.0]])
        ratio = loss.metrics["largest_ratio"]
        self.assertAlmostEqual(ratio / 485165195.4097903, 1.0, delta=1e-12)
        # where the clamp holds, the log-prob moves nothing
        held = policy_loss([[-1.0]], [[-1000.0]], [[-1.0]], COURSE)
        self.assertAlmostEqual(held.value / 485165195.4097903, 1.0, delta=1e-12)
        self.assertEqual(held.gradient, [[0.0]])
        low = policy_loss([[-1000.0]], [[-1.0]], [[1.0]], COURSE)
        self.assertAlmostEqual(-low.value / math.exp(-20), 1.0, delta=1e-12)
        self.assertEqual(low.gradient, [[0.0]])

    def test_without_a_clamp_it_is_an_error_that_says_what_to_do(self):
        for convention in (OPEN, TRL, OPEN.but(ratio="sequence")):
            with self.assertRaisesRegex(
                ObjectiveError, "row 1: log-ratio 999 .*log_ratio_clamp"
            ):
                policy_loss(
                    [[-1.0], [-1.0]], [[-1.0], [-1000.0]], [[0.0], [0.0]], convention
                )

    def test_a_loss_beyond_all_numbers_is_an_error_too(self):
        # exp(709) is a number, a hundred times that is not
        with self.assertRaisesRegex(ObjectiveError, "row 0: .*log_ratio_clamp"):
            policy_loss([[-1.0]], [[-710.0]], [[-100.0]], OPEN)

    def test_a_ratio_that_vanishes_is_zero(self):
        loss = policy_loss([[-2000.0]], [[-1.0]], [[1.0]], OPEN)
        self.assertEqual((loss.value, loss.gradient), (0.0, [[0.0]]))


class KL(ObjectiveCase):
    def test_three_estimators_case_f04(self):
        # Case f04 (trl#2854): d = 0.5: 0.5, 0.125, exp(-0.5) + 0.5 - 1 = 0.106531;
        # with the sign swapped exp(0.5) - 0.5 - 1 = 0.148721
        for estimator, value, slope in (
            ("k1", 0.5, 1.0),
            ("k2", 0.125, 0.5),
            ("k3", 0.106531, 0.393469),  # 1 - exp(-0.5)
        ):
            found = kl_estimate(-1.0, -1.5, estimator)
            self.assert_close(found, (value, slope), 5e-7)
        swapped, _ = kl_estimate(-1.5, -1.0, "k3")
        self.assertAlmostEqual(swapped, 0.148721, delta=5e-7)

    def test_signs(self):
        rng = random.Random(0)
        for _ in range(200):
            new, ref = rng.uniform(-5, 0), rng.uniform(-5, 0)
            self.assertGreaterEqual(kl_estimate(new, ref, "k2")[0], 0.0)
            self.assertGreaterEqual(kl_estimate(new, ref, "k3")[0], 0.0)
            self.assertEqual(kl_estimate(new, ref, "k1")[0] < 0, new < ref)
        for estimator in ("k1", "k2", "k3"):
            self.assertEqual(kl_estimate(-1.0, -1.0, estimator)[0], 0.0)

    def test_clamps(self):
        # verl: the log-ratio at 20, then k3 at 10; OpenRLHF: k3 at 10 alone
        on = {"kl_place": "loss", "kl_weight": 1.0}
        for preset in (VERL, OPENRLHF):
            self.assertEqual(kl_term(-9.0, -1.0, preset.but(**on)), (10.0, 0.0))
        self.assertEqual(kl_term(-900.0, -1.0, VERL.but(**on)), (10.0, 0.0))
        # with the log-ratio held at -2: exp(2) - 2 - 1
        clamp = COURSE.but(kl_log_ratio_clamp=2.0)
        self.assert_close(kl_term(-9.0, -1.0, clamp), (math.exp(2) - 3, 0.0))
        self.assert_close(kl_term(-1.0, -9.0, clamp), (math.exp(-2) + 1, 0.0))
        bound = COURSE.but(kl_estimator="k1", kl_clamp=3.0)
        self.assertEqual(kl_term(-9.0, -1.0, bound), (-3.0, 0.0))
        self.assertEqual(kl_term(-1.0, -9.0, bound), (3.0, 0.0))
        self.assertEqual(kl_term(-1.0, -3.5, bound), (2.5, 1.0))

    def test_k3_too_large_and_names_that_are_no_estimator(self):
        with self.assertRaisesRegex(ObjectiveError, "log-ratio 1999 .*k3"):
            kl_estimate(-2000.0, -1.0, "k3")
        with self.assertRaisesRegex(ObjectiveError, "k1, k2 or k3, got 'k4'"):
            kl_estimate(-1.0, -1.0, "k4")

    def test_what_each_does_to_the_policy_case_f05(self):
        """Case f05 (trl#4967): in the loss k1 does nothing on the mean, k3 has the
        gradient of the forward KL, k2 that of the reverse KL, as has k1 in the reward.

        Policy 0.8, 0.2; reference 0.5, 0.5; parameter: the logit of action 0.
        Reverse KL: p (1 - p) log(p / (1 - p)) = 0.16 log 4 = 0.221807.
        Forward KL: p - 1/2 = 0.3.
        """
        logits = {"s": [math.log(0.8), math.log(0.2)]}
        policy = SoftmaxPolicy(["s"], ["a", "b"], logits)
        half = math.log(0.5)
        expected = {"k1": 0.0, "k2": 0.16 * math.log(4), "k3": 0.3}
        self.assertAlmostEqual(expected["k2"], 0.221807, delta=5e-7)
        for estimator, slope in expected.items():
            convention = COURSE.but(
                kl_place="loss", kl_weight=1.0, kl_estimator=estimator
            )
            found = self.mean_slope(policy, convention, lambda _: 0.0, half)
            self.assertAlmostEqual(found, slope, delta=1e-12)
        # k1 in the reward: A = -(logprob - ref), no KL in the loss
        found = self.mean_slope(policy, COURSE, lambda lp: -(lp - half), half)
        self.assertAlmostEqual(found, expected["k2"], delta=1e-12)

    def mean_slope(
        self,
        policy: SoftmaxPolicy,
        convention: Convention,
        advantage: Callable[[float], float],
        ref: float,
    ) -> float:
        """d loss / d logit of "a", the exact mean over the two possible samples."""
        parts = []
        for action in policy.actions:
            log_prob = policy.log_prob("s", action)
            rows, gains = [[log_prob]], [[advantage(log_prob)]]
            loss = policy_loss(rows, rows, gains, convention, None, [[ref]])
            gradient = logit_gradient(policy, [[("s", action)]], loss.gradient)
            parts.append(math.exp(log_prob) * gradient["s"][0])
        return math.fsum(parts)

    def test_samples_of_an_older_policy_need_the_ratio(self):
        """Case f05, related trl#3025: with samples of an older policy, the mean of
        ratio * k3 is still the KL; the mean of k3 is not."""
        policy = SoftmaxPolicy(["s"], ["a", "b"], {"s": [1.0, 0.0]})
        older = SoftmaxPolicy(["s"], ["a", "b"], {"s": [0.0, 0.5]})
        reference = SoftmaxPolicy(["s"], ["a", "b"])
        kl = COURSE.but(kl_place="loss", kl_weight=1.0)
        for with_ratio in (True, False):
            parts = []
            for action in policy.actions:
                new, old, ref = (
                    [[p.log_prob("s", action)]] for p in (policy, older, reference)
                )
                loss = policy_loss(
                    new, old, [[0.0]], kl.but(kl_ratio=with_ratio), None, ref
                )
                parts.append(math.exp(old[0][0]) * loss.value)
            error = abs(math.fsum(parts) - policy.kl(reference, "s"))
            (self.assertLess if with_ratio else self.assertGreater)(
                error, 1e-12 if with_ratio else 1e-2
            )


class Aggregation(ObjectiveCase):
    def test_three_answers_for_the_same_losses_case_c06(self):
        # Case c06 (trl#3256): A = 1 on 2 tokens, A = -1 on 8, ratio 1.
        # episode means: (-1 + 1) / 2; all tokens: (-2 + 8) / 10; (-2 + 8) / (2 * 10)
        new = [[-1.0] * 2, [-1.0] * 8]
        gains = [[1.0] * 2, [-1.0] * 8]
        for switches, value, weights in (
            ({"aggregation": "episode_mean"}, 0.0, [0.25, 0.0625]),
            ({"aggregation": "batch_mean"}, 0.6, [0.1, 0.1]),
            ({"aggregation": "constant", "max_length": 10}, 0.3, [0.05, 0.05]),
            ({"aggregation": "episode_sum"}, 3.0, [0.5, 0.5]),
            ({"aggregation": "batch_sum"}, 6.0, [1.0, 1.0]),
        ):
            with self.subTest(**switches):
                convention = COURSE.but(**switches)
                loss = policy_loss(new, new, gains, convention)
                self.assertAlmostEqual(loss.value, value, delta=1e-12)
                self.assert_close(row_weights(gains, convention), weights)
                self.assert_close(loss.gradient[0], [-weights[0]] * 2)
                self.assert_close(loss.gradient[1], [weights[1]] * 8)

    def test_rows_without_an_active_position(self):
        # two of three rows count something: 2 and 1 positions
        mask = [[1, 1, 0], [0, 0], [1]]
        for aggregation, counted, left_out in (
            ("episode_sum", [1 / 3] * 3, [1 / 2] * 3),
            ("episode_mean", [1 / 6, 0.0, 1 / 3], [1 / 4, 0.0, 1 / 2]),
            ("batch_mean", [1 / 3] * 3, [1 / 3] * 3),
            ("batch_sum", [1.0] * 3, [1.0] * 3),
            ("constant", [1 / 30] * 3, [1 / 20] * 3),
        ):
            for rule, expected in (("counted", counted), ("left_out", left_out)):
                convention = COURSE.but(
                    aggregation=aggregation, empty_rows=rule, max_length=10
                )
                with self.subTest(aggregation=aggregation, empty_rows=rule):
                    self.assert_close(row_weights(mask, convention), expected)

    def test_mean_epsilon_is_added_to_an_episodes_count(self):
        convention = COURSE.but(aggregation="episode_mean", mean_epsilon=0.5)
        self.assert_close(row_weights([[1, 1], [1]], convention), [0.2, 1 / 3])

    def test_a_batch_without_an_active_position(self):
        for aggregation, rule in itertools.product(
            AGGREGATIONS, ("counted", "left_out")
        ):
            convention = COURSE.but(aggregation=aggregation, empty_rows=rule)
            for rows in ([[-1.0, -2.0], [-1.0]], [[], []], []):
                mask = [[0] * len(row) for row in rows]
                loss = policy_loss(rows, rows, rows, convention, mask)
                self.assertEqual(loss.value, 0.0)
                self.assertEqual(loss.gradient, [[0.0] * len(row) for row in rows])
                ratios = {
                    "smallest_ratio": 1.0,
                    "largest_ratio": 1.0,
                }  # nothing has moved
        self.assertEqual(loss.metrics, dict.fromkeys(loss.metrics, 0.0) | ratios)

    def test_no_mask_means_all_positions(self):
        arrays = bent_batch(2)
        ones = [[1] * len(row) for row in arrays.new]
        plain = policy_loss(arrays.new, arrays.old, arrays.advantages)
        self.assertEqual(plain, arrays._replace(mask=ones).loss(COURSE))


class Zero(ObjectiveCase):
    def test_the_loss_is_zero_and_the_gradient_is_not_case_h01(self):
        # Case h01 (trl#2703): rewards 1 and 0, two tokens each, ratio 1.
        # A = +-0.707107; sum of losses 0; slopes -A / 4 = -+0.176777
        advantages = group_advantages([1, 0], "gg")
        rows = [[-0.4, -1.2], [-0.9, -0.1]]
        gains = spread(advantages, [2, 2])
        for aggregation in ("episode_mean", "batch_mean"):
            loss = policy_loss(rows, rows, gains, COURSE.but(aggregation=aggregation))
            self.assertAlmostEqual(loss.value, 0.0, delta=1e-15)
            slope = math.sqrt(0.5) / 4
            self.assertAlmostEqual(slope, 0.176777, delta=5e-7)
            self.assert_rows_close(loss.gradient, [[-slope] * 2, [slope] * 2])

    def test_a_loss_may_be_negative_case_h02(self):
        # Case h02 (ms-swift#3579): lengths 4 and 2: (-4 + 2) * 0.707107 / 6
        gains = spread(group_advantages([1, 0], "gg"), [4, 2])
        loss = policy_loss(gains, gains, gains, COURSE.but(aggregation="batch_mean"))
        self.assertAlmostEqual(loss.value, -math.sqrt(0.5) / 3, delta=1e-12)
        self.assertAlmostEqual(loss.value, -0.235702, delta=5e-7)

    def test_one_step_a_batch_never_clips_case_f06(self):
        # Case f06 (trl#3120): the stored log-probs are the current ones
        rows = [[-0.3], [-0.7]]
        loss = policy_loss(rows, rows, [[1.0], [-1.0]])
        self.assertEqual(loss.value, 0.0)
        self.assert_rows_close(loss.gradient, [[-0.5], [0.5]])
        self.assertEqual(loss.metrics["largest_ratio"], 1.0)
        self.assertEqual(loss.metrics["clip_fraction_positive"], 0.0)
        self.assertEqual(loss.metrics["clip_fraction_negative"], 0.0)
        self.assertEqual(loss.metrics["kl_old"], 0.0)


class Masking(ObjectiveCase):
    CONVENTIONS = (
        COURSE,
        TRL.but(kl_place="loss", kl_weight=0.1),
        VERL.but(kl_place="loss", kl_weight=0.1),
        COURSE.but(ratio="sequence", aggregation="episode_mean"),
        DR_GRPO.but(max_length=9, aggregation="constant", clip="two_sided"),
    )

    def test_what_stands_at_a_masked_position_is_never_read(self):
        for convention in self.CONVENTIONS:
            clean = bent_batch(1)
            expected = clean.loss(convention)
            for junk in (
                0.0,
                math.nan,
                math.inf,
                None,
                "placeholder",
                1e308,
                -1e308,
                [],
            ):
                dirty = Arrays(*([list(row) for row in rows] for rows in clean))
                for row, mask in enumerate(MASK):
                    for place, mark in enumerate(mask):
                        if not mark:
                            for array in (
                                dirty.new,
                                dirty.old,
                                dirty.ref,
                                dirty.advantages,
                            ):
                                array[row][place] = junk
                with self.subTest(convention=convention.name, junk=junk):
                    self.assertEqual(dirty.loss(convention), expected)

    def test_masked_positions_get_no_gradient(self):
        for convention in self.CONVENTIONS:
            gradient = bent_batch(1).loss(convention).gradient
            for row, mask in zip(gradient, MASK):
                for slope, mark in zip(row, mask):
                    if not mark:
                        self.assertEqual(slope, 0.0)
            self.assertNotEqual(gradient[0][0], 0.0)

    def test_no_gradient_is_a_negative_zero(self):
        # what a clip or a clamp has cut prints as 0.0, whatever the advantage's sign
        for clip, clamp in itertools.product(("ppo", "two_sided"), (None, 0.6)):
            convention = COURSE.but(clip=clip, dual_clip=3.0, log_ratio_clamp=clamp)
            loss = bent_batch(0).loss(convention)
            text = repr(loss.gradient)
            self.assertIn("0.0", text)
            self.assertNotRegex(text, r"-0\.0[,\]]")
        self.assertEqual(repr(clipped_loss(1.0, 0.0)), "(0.0, 0.0)")

    def test_padding_changes_nothing(self):
        for convention in self.CONVENTIONS:
            arrays = bent_batch(1)
            padded = Arrays(*([[*row, 0, 0] for row in rows] for rows in arrays))
            plain, wide = arrays.loss(convention), padded.loss(convention)
            self.assertEqual(wide.value, plain.value)
            self.assertEqual(wide.metrics, plain.metrics)
            self.assertEqual(
                wide.gradient, [[*row, 0.0, 0.0] for row in plain.gradient]
            )

    def test_a_tools_words_would_drown_the_agents_case_h03(self):
        # Case h03 (trl#2810): 3 tokens of the agent, 297 of a tool; with all of them in
        # the mean, 99 % of the weight lies on text that the policy did not choose
        mask = [[1] * 3 + [0] * 297]
        rows = [[-1.0] * 300]
        mean = COURSE.but(aggregation="batch_mean")
        masked = policy_loss(rows, rows, [[1.0] * 300], mean, mask).gradient[0]
        self.assertEqual(sum(1 for slope in masked if slope), 3)
        self.assert_close(masked[:3], [-1 / 3] * 3)
        unmasked = policy_loss(rows, rows, [[1.0] * 300], mean).gradient[0]
        on_tool = math.fsum(unmasked[3:]) / math.fsum(unmasked)
        self.assertAlmostEqual(on_tool, 0.99, delta=1e-12)


class Errors(ObjectiveCase):
    def test_arrays_of_other_shapes_are_named(self):
        good = {
            "logprobs": [[-1.0, -2.0], [-1.0]],
            "old_logprobs": [[-1.0, -2.0], [-1.0]],
            "advantages": [[1.0, 1.0], [1.0]],
            "mask": [[1, 1], [1]],
            "ref_logprobs": [[-1.0, -2.0], [-1.0]],
        }
        convention = COURSE.but(kl_place="loss", kl_weight=1.0)
        policy_loss(convention=convention, **good)
        for name in list(good)[1:]:
            for rows, words in (
                ([[1.0, 1.0]], f"{name}: 1 .*2 rows"),
                ([[1.0, 1.0], [1.0], []], f"{name}: 3 .*2 rows"),
                ([[1.0, 1.0], [1.0, 1.0]], rf"{name}\[1\]: 2 .*1 logprobs\[1\]"),
                ([[1.0], [1.0]], rf"{name}\[0\]: 1 .*2 logprobs\[0\]"),
            ):
                refused = self.assertRaisesRegex(TrajectoryError, words)
                with self.subTest(array=name, rows=rows), refused:
                    policy_loss(convention=convention, **{**good, name: rows})

    def test_stored_log_probs_are_required_case_f06(self):
        # Case f06 (trl#3120): never fall back to the current ones
        with self.assertRaisesRegex(ObjectiveError, "old_logprobs: missing"):
            policy_loss([[-1.0]], None, [[1.0]])

    def test_a_kl_needs_its_reference(self):
        convention = COURSE.but(kl_place="loss", kl_weight=0.1)
        with self.assertRaisesRegex(ObjectiveError, "ref_logprobs: missing"):
            policy_loss([[-1.0]], [[-1.0]], [[1.0]], convention)
        # elsewhere it is not needed
        policy_loss([[-1.0]], [[-1.0]], [[1.0]], convention.but(kl_place="reward"))

    def test_a_number_that_is_none_is_named_with_its_place(self):
        convention = COURSE.but(kl_place="loss", kl_weight=0.1)
        names = {"logprobs": 0, "old_logprobs": 1, "advantages": 2, "ref_logprobs": 4}
        for name, field in names.items():
            for junk in (math.nan, math.inf, -math.inf, None, "-1.0"):
                arrays = bent_batch(0)
                arrays[field][2][3] = junk
                words = rf"^{name}\[2\]\[3\]: .*{junk}"
                refused = self.assertRaisesRegex(ObjectiveError, words)
                with self.subTest(array=name, junk=junk), refused:
                    arrays.loss(convention)

    def test_nothing_is_changed_in_place(self):
        arrays, twin = bent_batch(0), bent_batch(0)
        arrays.loss(COURSE)
        self.assertEqual(arrays, twin)


class Metrics(ObjectiveCase):
    def test_clip_fractions_by_sign_and_the_largest_ratio(self):
        # A > 0: 1.5 is cut, 0.5 and 1.1 are not: 1/3. A < 0: 0.5 is cut, 1.5 is not:
        # 1/2. A = 0 counts for neither.
        ratios = (1.5, 0.5, 4.0, 1.1, 0.5, 1.5)
        gains = (1.0, 1.0, 0.0, 1.0, -1.0, -1.0)
        old = [[-3.0] * 6]
        new = [[-3.0 + math.log(ratio) for ratio in ratios]]
        metrics = policy_loss(new, old, [list(gains)]).metrics
        self.assertAlmostEqual(metrics["clip_fraction_positive"], 1 / 3, delta=1e-12)
        self.assertAlmostEqual(metrics["clip_fraction_negative"], 1 / 2, delta=1e-12)
        self.assertAlmostEqual(metrics["largest_ratio"], 4.0, delta=1e-12)
        off = policy_loss(new, old, [list(gains)], OPEN).metrics
        self.assertEqual(off["clip_fraction_positive"], 0.0)
        self.assertEqual(off["clip_fraction_negative"], 0.0)
        # a dual clip cuts as well: 4 with A < 0
        dual = policy_loss([[-1.0]], [[-1.0 - math.log(4)]], [[-1.0]], VERL).metrics
        self.assertEqual(dual["clip_fraction_negative"], 1.0)

    def test_kl_against_old_and_reference_are_means_over_active_positions(self):
        # k3 of new against old: d = 0.5 and -0.5: exp(-d) + d - 1
        new, old = [[-1.0, -1.0, -1.0]], [[-1.5, -0.5, -9.0]]
        ref = [[-1.2, -0.9, -9.0]]
        mask, gains = [[1, 1, 0]], [[1.0] * 3]
        convention = COURSE.but(kl_place="loss", kl_weight=0.5, kl_estimator="k1")
        metrics = policy_loss(new, old, gains, convention, mask, ref).metrics
        expected = (math.exp(-0.5) + 0.5 - 1 + math.exp(0.5) - 0.5 - 1) / 2
        self.assertAlmostEqual(metrics["kl_old"], expected, delta=1e-12)
        self.assertAlmostEqual(metrics["kl_ref"], (0.2 - 0.1) / 2, delta=1e-12)


# ------------------------------------------------- the frameworks' formulas, re-derived


def random_batch(seed: int) -> Arrays:
    """Six rows of up to 6 tokens, one of them fully masked; some ratios moved far."""
    rng = random.Random(seed)
    lengths = [rng.randrange(1, 7) for _ in range(6)]
    old = [[rng.uniform(-3, -0.5) for _ in range(n)] for n in lengths]
    moves = [
        [rng.choice((0.05, 0.3, 1.0)) * rng.uniform(-2, 2) for _ in r] for r in old
    ]
    new = [[x + y for x, y in zip(row, move)] for row, move in zip(old, moves)]
    ref = [[x + rng.uniform(-1, 1) for x in row] for row in old]
    gains = [[rng.uniform(-1.5, 1.5)] * n for n in lengths]
    mask = [[1 if rng.random() < 0.7 else 0 for _ in row] for row in old]
    mask[rng.randrange(6)] = [0] * len(mask[0])
    mask = [(row + [0] * n)[:n] for row, n in zip(mask, lengths)]
    if not any(map(any, mask)):
        mask[0][0] = 1
    return Arrays(new, old, gains, mask, ref)


def trl_loss(a: Arrays, beta: float) -> float:
    """dapo loss: all active tokens in one mean; KL k3, times the ratio."""
    total, count = 0.0, 0
    for row, marks in enumerate(a.mask):
        for t, mark in enumerate(marks):
            coef_1 = math.exp(a.new[row][t] - a.old[row][t])
            coef_2 = max(0.8, min(1.2, coef_1))
            advantage = a.advantages[row][t]
            per_token = -min(coef_1 * advantage, coef_2 * advantage)
            gap = a.ref[row][t] - a.new[row][t]
            per_token += beta * (math.exp(gap) - gap - 1) * coef_1
            total += mark * per_token
            count += mark
    return total / count


def verl_loss(a: Arrays, mode: str, beta: float) -> float:
    """vanilla: max form, dual clip at 3 for A < 0, log-ratio within 20; agg_loss."""
    sums, counts = [], []
    for row, marks in enumerate(a.mask):
        total = 0.0
        for t, mark in enumerate(marks):
            advantage = a.advantages[row][t]
            ratio = math.exp(max(-20.0, min(20.0, a.new[row][t] - a.old[row][t])))
            losses = -advantage * ratio, -advantage * max(0.8, min(1.2, ratio))
            loss = max(losses)
            if advantage < 0:
                loss = min(loss, -advantage * 3.0)
            gap = max(-20.0, min(20.0, a.ref[row][t] - a.new[row][t]))
            loss += beta * max(-10.0, min(10.0, math.exp(gap) - gap - 1))
            total += mark * loss
        sums.append(total)
        counts.append(sum(marks))
    rows = sum(1 for count in counts if count)
    if mode == "token-mean":
        return math.fsum(sums) / sum(counts)
    if mode == "token-sum":
        return math.fsum(sums)
    if mode == "seq-mean-token-sum":
        return math.fsum(sums) / rows
    means = [x / (n + 1e-8) for x, n in zip(sums, counts) if n]
    return math.fsum(means) / rows  # seq-mean-token-mean


def openrlhf_loss(a: Arrays, low: float, high: float, dual: float | None) -> float:
    """PolicyLoss, token level; log-ratio within 20."""
    losses = []
    for new, old, gains, marks in zip(*a[:4]):
        for x, y, advantage, mark in zip(new, old, gains, marks):
            if not mark:
                continue
            ratio = math.exp(max(-20.0, min(20.0, x - y)))
            surrogate = min(
                ratio * advantage, max(1 - low, min(1 + high, ratio)) * advantage
            )
            if dual is not None and advantage < 0:
                surrogate = max(surrogate, dual * advantage)
            losses.append(-surrogate)
    return math.fsum(losses) / len(losses)


class Frameworks(ObjectiveCase):
    SEEDS = range(40)

    def test_the_batches_reach_every_branch(self):
        reached = set()
        for seed in self.SEEDS:
            a = random_batch(seed)
            if any(not any(row) for row in a.mask):
                reached.add("empty row")
            if len({sum(row) for row in a.mask}) > 2:
                reached.add("unequal")
            for new, old, gains, marks in zip(*a[:4]):
                for x, y, gain, mark in zip(new, old, gains, marks):
                    if mark:
                        sign = "+" if gain > 0 else "-"
                        ratio = math.exp(x - y)
                        for name, there in (
                            ("low", ratio < 0.8),
                            ("inside", 0.8 < ratio < 1.2),
                            ("high", 1.2 < ratio < 3),
                            ("dual", ratio > 3),
                        ):
                            if there:
                                reached.add(name + sign)
        sides = {n + s for n in ("low", "inside", "high", "dual") for s in "+-"}
        self.assertEqual(reached, sides | {"empty row", "unequal"})

    def test_trl(self):
        for seed in self.SEEDS:
            arrays = random_batch(seed)
            for beta in (0.0, 0.04):
                convention = TRL.but(kl_place="loss", kl_weight=beta)
                found = arrays.loss(convention).value
                self.assertAlmostEqual(found, trl_loss(arrays, beta), delta=1e-12)
            self.assertAlmostEqual(
                arrays.loss(TRL).value, trl_loss(arrays, 0), delta=1e-12
            )

    def test_verl(self):
        modes = {
            "token-mean": "batch_mean",
            "token-sum": "batch_sum",
            "seq-mean-token-sum": "episode_sum",
            "seq-mean-token-mean": "episode_mean",
        }
        for seed in self.SEEDS:
            arrays = random_batch(seed)
            self.assertAlmostEqual(
                arrays.loss(VERL).value, verl_loss(arrays, "token-mean", 0), delta=1e-12
            )
            for (mode, aggregation), beta in itertools.product(
                modes.items(), (0.0, 0.5)
            ):
                convention = VERL.but(
                    aggregation=aggregation, kl_place="loss", kl_weight=beta
                )
                found = arrays.loss(convention).value
                expected = verl_loss(arrays, mode, beta)
                self.assertAlmostEqual(found, expected, delta=1e-12)

    def test_openrlhf(self):
        for seed in self.SEEDS:
            arrays = random_batch(seed)
            for high, dual in itertools.product((0.2, 0.28), (None, 3.0)):
                convention = OPENRLHF.but(clip_high=high, dual_clip=dual)
                found = arrays.loss(convention).value
                expected = openrlhf_loss(arrays, 0.2, high, dual)
                self.assertAlmostEqual(found, expected, delta=1e-12)

    def test_gspo_by_hand(self):
        # moves 0.1 and 0.3: s = exp(0.2) = 1.2214 for both tokens; A = 1, -1
        new, old = [[-1.0, -1.0]], [[-1.1, -1.3]]
        convention = COURSE.but(ratio="sequence", aggregation="episode_mean")
        ratio = math.exp(0.2)
        for gains, expected in (([1.0, 1.0], -1.2), ([-1.0, -1.0], ratio)):
            found = policy_loss(new, old, [gains], convention).value
            self.assertAlmostEqual(found, expected, delta=1e-12)


class WrongShapes(unittest.TestCase):
    """What a reader's first attempts look like."""

    def test_one_number_where_a_row_was_meant(self):
        with self.assertRaisesRegex(ValueError, r"advantages\[0\]: expected 2 values"):
            policy_loss([[-1.0, -2.0]], [[-1.0, -2.0]], [1.0])

    def test_a_mask_is_zero_or_one(self):
        for mark in (0.5, "0", math.nan, None, 2):
            with self.assertRaisesRegex(ObjectiveError, r"mask\[0\]: expected 0 or 1"):
                policy_loss([[-1.0]], [[-1.0]], [[1.0]], mask=[[mark]])

    def test_a_name_is_no_convention(self):
        with self.assertRaisesRegex(ValueError, "'trl'.*PRESETS"):
            policy_loss([[-1.0]], [[-1.0]], [[1.0]], "trl")

    def test_a_bound_on_the_kl_holds_where_exp_would_overflow(self):
        bounded = COURSE.but(kl_place="loss", kl_weight=1.0, kl_clamp=10.0)
        self.assertEqual(kl_term(-1000.0, -1.0, bounded), (10.0, 0.0))
        with self.assertRaisesRegex(ObjectiveError, "kl_log_ratio_clamp"):
            kl_term(-1000.0, -1.0, bounded.but(kl_clamp=None))

    def test_kl_old_is_that_of_new_against_old_from_the_samples(self):
        """k3 with d = new - old = 0.5: exp(-0.5) + 0.5 - 1; swapped: exp(0.5) - 1.5."""
        loss = policy_loss([[-1.0]], [[-1.5]], [[1.0]])
        self.assertAlmostEqual(loss.metrics["kl_old"], math.exp(-0.5) - 0.5)


if __name__ == "__main__":
    unittest.main()
