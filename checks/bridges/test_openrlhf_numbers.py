"""OpenRLHF's own numbers beside ours: advantages, losses, gradients, KL, its settings.

The code called is what its trainer calls: RemoteExperienceMaker, PolicyLoss,
compute_approx_kl. All is in float64 and within 1e-9 unless a test says why not.
"""

from __future__ import annotations

from checks.bridges.openrlhf_world import (
    bridge,
    cpu_stubs,
    maker_of,
    playing,
    settings,
    torch,
)

# isort: split

import contextlib
import io
import math
import random
import unittest
from typing import NamedTuple

from openrlhf.models import PolicyLoss, aggregate_loss
from openrlhf.models.utils import compute_approx_kl
from openrlhf.trainer.ppo_utils.experience import Experience

from agentic_rl.advantage import (
    AdvantageError,
    group_advantages,
    returns_to_go,
    spread,
)
from agentic_rl.bridges.frameworks import BridgeError
from agentic_rl.conventions import CHOICES, COURSE, OPENRLHF, PRESETS, SWITCHES
from agentic_rl.golden import golden_group
from agentic_rl.objective import kl_term, policy_loss
from agentic_rl.trajectory import last_trainable

CLOSE = 1e-9
SINGLE = 2e-6  # where OpenRLHF computes in float32 whatever it is given
SIZE = 4  # of a group
SEQUENCE = {
    "aggregation": "episode_mean",
    "mean_epsilon": 1e-8,
    "empty_rows": "left_out",
}
ESTIMATORS = {
    name: OPENRLHF.but(**switches) for name, switches in bridge.ESTIMATORS.items()
}
WHITENED = ("reinforce", "reinforce_baseline")


class Sample(NamedTuple):
    """A padded batch: numbers as lists, one row an episode; groups are neighbours."""

    rewards: list[float]
    groups: list[int]
    mask: list[list[int]]
    advantages: list[list[float]]
    new: list[list[float]]
    old: list[list[float]]
    ref: list[list[float]]


SHIFTS = (-0.6, -0.1, 0.0, 0.05, 0.3, 1.5, -25.0, 25.0)


def sample(seed, shifts=SHIFTS, holes=True, width=9) -> Sample:
    """Three groups of four: one of equal rewards, one with a row that nobody wrote.

    Lengths differ, and inside a row stands what a tool wrote, unless holes is False. New
    and old log-probs differ by one of the shifts, new and reference ones by up to 25.
    """
    rng = random.Random(seed)
    groups = [row // SIZE for row in range(3 * SIZE)]
    rewards = [0.5 if group == 1 else rng.uniform(-1, 2) for group in groups]
    mask, advantages = [], []
    for _ in groups:
        length = 1 + int(rng.random() * width)
        marks = [int(not holes or rng.random() < 0.7) for _ in range(length - 1)]
        mask.append([*marks, 1, *[0] * (width - length)])
        advantage = rng.choice((-1.3, -0.4, 0.0, 0.7, 2.0))
        advantages.append([advantage] * width)
    mask[2] = [0] * width
    old = [[-2 * rng.random() for _ in range(width)] for _ in groups]
    new = [[value + rng.choice(shifts) for value in row] for row in old]
    differ = (-25.0, -3.0, -0.2, 0.0, 0.4, 2.0, 12.0, 25.0)
    ref = [[value + rng.choice(differ) for value in row] for row in new]
    return Sample(rewards, groups, mask, advantages, new, old, ref)


def f64(rows):
    return torch.tensor(rows, dtype=torch.float64)


def estimated(rewards, mask, name, size=SIZE, kl=None, values=None, **advantage):
    """Advantages [rows, places] by RemoteExperienceMaker; kl is charged at weight 0.3."""
    args = settings("--reward.clip_range", "-1000.0", "1000.0")
    args.algo.advantage.estimator = name
    args.rollout.n_samples_per_prompt = size
    args.algo.kl.init_coef = 0.3 if kl else 0.0
    vars(args.algo.advantage).update(advantage)
    zeros = f64(mask) * 0
    batch = Experience(
        index=list(range(len(rewards))),
        rewards=f64(rewards),
        action_mask=torch.tensor(mask),
        kl=f64(kl) if kl else zeros,
        values=f64(values) if values else zeros,
    )
    return maker_of(args).compute_advantages_and_returns([batch])[0].advantages.tolist()


def our_advantages(taken: Sample, convention):
    """Ours, in the same rectangle: 0.0 where the mask is 0."""
    values = group_advantages(taken.rewards, taken.groups, convention)
    lengths = [sum(marks) for marks in taken.mask]
    found = []
    for row, marks in zip(spread(values, lengths, convention), taken.mask):
        rest = iter(row)
        found.append([next(rest) if mark else 0.0 for mark in marks])
    return found


def whitened(rows, mask, divide=True):
    """Less the mean and over the root of the variance, over all places with a mark."""
    pairs = [(r, m) for row, marks in zip(rows, mask) for r, m in zip(row, marks)]
    kept = [value for value, mark in pairs if mark]
    mean = math.fsum(kept) / len(kept)
    variance = math.fsum((value - mean) ** 2 for value in kept) / len(kept)
    scale = math.sqrt(max(variance, 1e-8)) if divide else 1.0
    return [[(value - mean) / scale for value in row] for row in rows]


def their_loss(taken: Sample, convention, mask_type=torch.float64, **more):
    """(value, gradient) of PolicyLoss, made of the flags of a convention as the trainer
    makes it."""
    actor = settings(*bridge.flags(convention)).actor
    new = f64(taken.new).requires_grad_(True)
    loss = PolicyLoss(
        clip_eps_low=actor.eps_clip_low_high[0],
        clip_eps_high=actor.eps_clip_low_high[1],
        dual_clip=actor.dual_clip,
        token_level_loss=actor.loss_agg_mode == "token-mean",
        policy_loss_type=actor.policy_loss_type,
        **{key: value for key, value in more.items() if key.startswith("is_")},
    )
    value = loss(
        new,
        f64(taken.old),
        f64(taken.advantages),
        torch.tensor(taken.mask, dtype=mask_type),
        **{key: value for key, value in more.items() if not key.startswith("is_")},
    )[0]
    value.backward()
    return value.item(), new.grad.tolist()


def our_loss(taken: Sample, convention):
    found = policy_loss(
        taken.new, taken.old, taken.advantages, convention, taken.mask, taken.ref
    )
    return found.value, found.gradient


class Numbers(unittest.TestCase):
    def assert_rows(self, theirs, ours, mask, within=CLOSE):
        """Equal wherever the mask is 1; what stands elsewhere is another matter."""
        for row, marks in enumerate(mask):
            for place, mark in enumerate(marks):
                if mark:
                    a, b = theirs[row][place], ours[row][place]
                    close = within * max(1, abs(b))
                    self.assertAlmostEqual(a, b, delta=close, msg=(row, place))

    def assert_loss(self, theirs, ours, mask, within=CLOSE):
        self.assertAlmostEqual(theirs[0], ours[0], delta=within * max(1, abs(ours[0])))
        self.assert_rows(theirs[1], ours[1], mask, within)


class Advantages(Numbers):
    """Each estimator that our switches can say, on random batches and the golden group."""

    def test_without_whitening_each_estimator_is_ours(self):
        for name, convention in ESTIMATORS.items():
            if name in WHITENED:
                continue
            for seed in range(5):
                taken = sample(seed)
                with self.subTest(name, seed=seed):
                    theirs = estimated(taken.rewards, taken.mask, name)
                    self.assert_rows(
                        theirs, our_advantages(taken, convention), taken.mask
                    )

    def test_whitening_is_ours_in_float32_in_which_it_takes_the_mean(self):
        for name in WHITENED:
            for seed in range(5):
                taken = sample(seed)
                with self.subTest(name, seed=seed):
                    theirs = estimated(taken.rewards, taken.mask, name)
                    ours = our_advantages(taken, ESTIMATORS[name])
                    self.assert_rows(theirs, ours, taken.mask, SINGLE)
                    self.assertNotEqual(theirs, ours)

    def test_reinforce_discounts_as_our_return_to_go_where_no_tool_speaks_inside(self):
        convention = ESTIMATORS["reinforce"].but(returns="to_go", discount=0.9)
        for seed in range(5):
            taken = sample(seed, holes=False)
            theirs = estimated(taken.rewards, taken.mask, "reinforce", gamma=0.9)
            ours = our_advantages(taken, convention)
            self.assert_rows(theirs, ours, taken.mask, SINGLE)

    def test_a_kl_in_the_reward_is_charged_by_token_on_top_of_the_advantage(self):
        # A place pays for itself and all that follow: not a term of the group's rewards.
        for name, convention in ESTIMATORS.items():
            taken = sample(1)
            kl = [[abs(value) for value in row] for row in taken.old]
            values = group_advantages(taken.rewards, taken.groups, convention)
            ours = []
            for value, row, marks in zip(values, kl, taken.mask):
                paid = [-0.3 * x for x in row]
                if any(marks):
                    paid[last_trainable(marks)] += value
                ours.append(returns_to_go(paid, marks))
            if name in WHITENED:
                ours = whitened(ours, taken.mask)
            with self.subTest(name):
                theirs = estimated(taken.rewards, taken.mask, name, kl=kl)
                self.assert_rows(theirs, ours, taken.mask, SINGLE)

    def test_gae_without_values_and_with_lambda_one_is_reinforce(self):
        taken = sample(3)
        theirs = estimated(taken.rewards, taken.mask, "gae", lambd=1.0)
        reinforce = estimated(taken.rewards, taken.mask, "reinforce")
        self.assert_rows(theirs, reinforce, taken.mask)

    def test_whitening_divides_by_a_hundredth_of_a_percent_at_least(self):
        # Returns of 0 and 2e-5: their variance is 1e-10, and 1e-8 stands in its place.
        values = [row[0] for row in estimated([0.0, 2e-5], [[1]] * 2, "reinforce", 2)]
        for value, by_hand in zip(values, (-0.1, 0.1)):
            self.assertAlmostEqual(value, by_hand, delta=1e-5)
        taken = Sample([0.0, 2e-5], [0, 0], [[1]] * 2, [], [], [], [])
        ours = our_advantages(taken, ESTIMATORS["reinforce"])
        self.assert_rows([[x] for x in values], ours, taken.mask, 1e-5)

    def test_no_std_norm_only_takes_the_mean_off(self):
        taken = sample(0)
        theirs = estimated(taken.rewards, taken.mask, "reinforce", no_std_norm=True)
        raw = [[reward] * len(row) for reward, row in zip(taken.rewards, taken.mask)]
        ours = whitened(raw, taken.mask, divide=False)
        self.assert_rows(theirs, ours, taken.mask, SINGLE)

    def test_the_golden_group_has_the_advantages_of_chapter_00(self):
        # Rewards 0.9, 0, 0.7, 0: mean 0.4, variance (0.25 + 0.16 + 0.09 + 0.16) / 3.
        rewards = [episode.reward for episode in golden_group()]
        std = math.sqrt(0.66 / 3)
        for name, by_hand in (
            ("group_norm", [0.5 / std, -0.4 / std, 0.3 / std, -0.4 / std]),
            ("dr_grpo", [0.5, -0.4, 0.3, -0.4]),
            ("rloo", [2 / 3, -1.6 / 3, 0.4, -1.6 / 3]),
        ):
            theirs = [row[0] for row in estimated(rewards, [[1]] * 4, name)]
            for a, b in zip(theirs, by_hand):
                self.assertAlmostEqual(a, b, delta=1e-8)  # epsilon is 1e-9

    def test_every_estimator_has_a_counterpart_or_a_reason(self):
        said = io.StringIO()
        with contextlib.redirect_stderr(said), self.assertRaises(SystemExit):
            settings("--algo.advantage.estimator", "none_of_them")
        choices = said.getvalue().rpartition("choose from")[2]
        names = {word.strip(" '\n)") for word in choices.split(",")}
        self.assertEqual(names, {*bridge.ESTIMATORS, "gae"})  # gae needs a critic

    def test_the_samples_have_what_the_estimators_must_survive(self):
        taken = sample(0)
        self.assertIn([0] * 9, taken.mask)
        self.assertEqual(set(taken.rewards[4:8]), {0.5})
        self.assertGreater(len({sum(marks) for marks in taken.mask}), 4)
        inside = [marks[: last_trainable(marks)] for marks in taken.mask if any(marks)]
        self.assertTrue(any(0 in marks for marks in inside))


LOSSES = {
    "token mean": OPENRLHF,
    "sequence mean": OPENRLHF.but(**SEQUENCE),
    "clip higher": OPENRLHF.but(clip_high=0.28),
    "narrow": OPENRLHF.but(clip_low=0.02, clip_high=0.03),
    "dual clip": OPENRLHF.but(dual_clip=3.0),
    "dual clip, sequence mean": OPENRLHF.but(dual_clip=1.5, **SEQUENCE),
    "no clip": OPENRLHF.but(clip="off"),
    "no clip but the dual one": OPENRLHF.but(clip="off", dual_clip=3.0),
}
BY_SEQUENCE = OPENRLHF.but(ratio="sequence", log_ratio_clamp=None, **SEQUENCE)


class Losses(Numbers):
    """PolicyLoss as the flags of our conventions make it; value and gradient."""

    def test_by_token_the_loss_and_its_gradient_are_ours(self):
        for name, convention in LOSSES.items():
            for seed in range(5):
                taken = sample(seed)
                with self.subTest(name, seed=seed):
                    theirs = their_loss(taken, convention)
                    self.assert_loss(theirs, our_loss(taken, convention), taken.mask)

    def test_gspo_is_our_loss_by_sequence(self):
        shifts = (-0.9, -0.2, 0.0, 0.1, 0.7, 2.0)
        for switches in ({}, {"clip_low": 3e-4, "clip_high": 4e-4}, {"dual_clip": 1.5}):
            convention = BY_SEQUENCE.but(**switches)
            for seed in range(5):
                taken = sample(seed, shifts)
                with self.subTest(switches, seed=seed):
                    theirs = their_loss(taken, convention)
                    self.assert_loss(theirs, our_loss(taken, convention), taken.mask)

    def test_the_data_trigger_each_side_of_each_clip(self):
        sides = set()
        for seed in range(5):
            taken = sample(seed)
            for row, marks in enumerate(taken.mask):
                for place, mark in enumerate(marks):
                    gap = taken.new[row][place] - taken.old[row][place]
                    gain = taken.advantages[row][place]
                    if mark and gain:
                        ratio = math.exp(gap)
                        where = (
                            "low" if ratio < 0.8 else "high" if ratio > 1.2 else "in"
                        )
                        sides.add((gain > 0, where))
                        if gain < 0 and ratio > 3:
                            sides.add("dual")
                        if abs(gap) > 20:
                            sides.add(("clamp", gap > 0))
        both = {
            (sign, where) for sign in (True, False) for where in ("low", "high", "in")
        }
        self.assertEqual(sides, both | {"dual", ("clamp", True), ("clamp", False)})

    def test_a_mask_of_integers_as_its_trainer_has_it_takes_the_sequence_mean_in_float32(
        self,
    ):
        # The count plus 1e-8 is a float32 there, which is the count.
        taken = sample(0, (-0.1, 0.0, 0.1))
        convention = OPENRLHF.but(**SEQUENCE)
        theirs = their_loss(taken, convention, torch.int64)
        exact = our_loss(taken, convention.but(mean_epsilon=0.0))
        self.assert_loss(theirs, exact, taken.mask, SINGLE)

    def test_micro_batches_add_up_to_the_loss_of_the_whole_batch(self):
        # Given the counts of the whole batch, as its trainer gives them.
        taken = sample(2, (-0.3, 0.0, 0.3))
        marks = [sum(row) for row in taken.mask]
        counts = {
            "batch_num_tokens": float(sum(marks)),
            "global_batch_size": float(sum(count > 0 for count in marks)),
        }
        for name in ("token mean", "sequence mean"):
            parts = [Sample(*(rows[half] for rows in taken)) for half in HALVES]
            losses = [their_loss(part, LOSSES[name], **counts)[0] for part in parts]
            whole = our_loss(taken, LOSSES[name])[0]
            self.assertAlmostEqual(sum(losses), whole, delta=CLOSE)

    def test_the_correction_for_a_sampler_that_differs_scales_the_advantages(self):
        # coef * loss(A) = loss(coef * A), as coef is never negative.
        taken = sample(4, (-0.3, 0.0, 0.3))
        rng = random.Random(0)
        gaps = (-2.0, -0.1, 0.0, 0.2, 2.5)
        rollout = [[value + rng.choice(gaps) for value in row] for row in taken.old]
        for level, mode in (("token", "mask"), ("token", "clip"), ("seq", "mask")):
            scaled = []
            for old, said, marks, gains in zip(
                taken.old, rollout, taken.mask, taken.advantages
            ):
                weights = [math.exp(a - b) for a, b in zip(old, said)]
                logs = [a - b for a, b, mark in zip(old, said, marks) if mark]
                mean = math.exp(math.fsum(logs) / len(logs)) if logs else math.nan
                read = weights if level == "token" else [mean] * len(weights)
                if mode == "mask":
                    kept = zip(read, weights)
                    used = [w if 0.5 <= r <= 2.0 else 0.0 for r, w in kept]
                else:
                    used = [min(max(r, 0.5), 2.0) for r in read]
                scaled.append([gain * weight for gain, weight in zip(gains, used)])
            theirs = their_loss(
                taken,
                OPENRLHF,
                is_correction_level=level,
                is_correction_mode=mode,
                is_correction_threshold=[0.5, 2.0],
                rollout_log_probs=f64(rollout),
            )
            with self.subTest(level, mode=mode):
                ours = our_loss(taken._replace(advantages=scaled), OPENRLHF)
                self.assert_loss(theirs, ours, taken.mask)


HALVES = (slice(None, 5), slice(5, None))


class Divergence(Numbers):
    """compute_approx_kl, which turns everything into float32, and the KL in the loss."""

    def test_k1_k2_k3_and_their_gradients_are_ours_with_a_clamp_at_ten(self):
        # Within 1e-4: a float32 has that much at exp(10).
        for estimator in ("k1", "k2", "k3"):
            convention = OPENRLHF.but(
                kl_place="loss", kl_weight=1.0, kl_estimator=estimator
            )
            taken = sample(0)
            new = f64(taken.new).requires_grad_(True)
            values = compute_approx_kl(new, f64(taken.ref), kl_estimator=estimator)
            values.sum().backward()
            held = 0
            for row, (left, right) in enumerate(zip(taken.new, taken.ref)):
                for place, pair in enumerate(zip(left, right)):
                    value, slope = kl_term(*pair, convention)
                    held += abs(value) == 10.0
                    with self.subTest(estimator, row=row, place=place):
                        self.assertAlmostEqual(
                            float(values[row, place].detach()), value, delta=1e-4
                        )
                        self.assertAlmostEqual(
                            float(new.grad[row, place]), slope, delta=1e-4
                        )
            self.assertGreater(held, 5)

    def test_the_kl_of_the_loss_is_a_mean_over_tokens(self):
        convention = OPENRLHF.but(kl_place="loss", kl_weight=0.5)
        taken = sample(1, (-0.3, 0.0, 0.3))
        mask = f64(taken.mask)
        kl = compute_approx_kl(f64(taken.new), f64(taken.ref), kl_estimator="k3")
        theirs = their_loss(taken, OPENRLHF)[0] + 0.5 * float(aggregate_loss(kl, mask))
        self.assertAlmostEqual(theirs, our_loss(taken, convention)[0], delta=1e-5)


class Settings(Numbers):
    """Flags, as its own parser reads them; and the preset, switch by switch."""

    def test_the_preset_is_what_its_program_does_with_group_norm_and_no_kl(self):
        default = settings("--algo.advantage.estimator", "group_norm")
        ours = settings(*bridge.flags(OPENRLHF))
        for args in (default, ours):
            args.actor.eps_clip_low_high = list(args.actor.eps_clip_low_high)
        self.assertEqual(default.actor, ours.actor)
        self.assertEqual(default.algo.advantage, ours.algo.advantage)
        # Not ours, and said in the notes of the preset or in the chapter's table.
        self.assertEqual(tuple(default.reward.clip_range), (-10, 10))
        self.assertEqual(default.algo.kl.init_coef, 0.01)
        self.assertEqual(default.algo.kl.estimator, "k1")
        self.assertFalse(default.algo.kl.use_loss)

    def test_any_other_value_of_a_switch_gives_other_advantages(self):
        taken = sample(0)
        # Differences of 1e-8, so that an epsilon shows; and of 4e-13, which we call equal.
        rewards = [*(1e-8 * x for x in taken.rewards[:4]), *taken.rewards[4:]]
        rewards[4:8] = [0.5, 0.5, 0.5, 0.5 + 4e-13]
        taken = taken._replace(rewards=rewards)
        theirs = estimated(taken.rewards, taken.mask, "group_norm")
        self.assert_rows(theirs, our_advantages(taken, OPENRLHF), taken.mask, 1e-7)
        others = {
            "baseline": ("leave_one_out", "batch_mean", "none"),
            "std": ("none", "batch"),
            "ddof": (0,),
            "std_epsilon": (0.0, 1e-8),
            "epsilon_place": ("under_root", "floor"),
            "zero_spread": ("zero",),
            "whiten": (True,),
        }
        for switch, values in others.items():
            for value in values:
                with self.subTest(switch, value=value):
                    ours = our_advantages(taken, OPENRLHF.but(**{switch: value}))
                    with self.assertRaises(AssertionError):
                        self.assert_rows(theirs, ours, taken.mask, 1e-7)

    def test_any_other_value_of_a_switch_gives_another_loss(self):
        samples = [sample(seed) for seed in range(5)]
        theirs = [their_loss(taken, OPENRLHF) for taken in samples]
        others = {
            "aggregation": set(CHOICES["aggregation"]) - {"batch_mean"},
            "ratio": {"sequence"},
            "clip": {"off", "two_sided"},
            "clip_low": {0.1},
            "clip_high": {0.28},
            "dual_clip": {3.0},
            "log_ratio_clamp": {10.0, None},
        }
        for switch, values in others.items():
            for value in values:
                with self.subTest(switch, value=value):
                    convention = OPENRLHF.but(**{switch: value})
                    with self.assertRaises(AssertionError):
                        for taken, loss in zip(samples, theirs):
                            self.assert_loss(
                                loss, our_loss(taken, convention), taken.mask
                            )

    def test_a_group_of_one_is_refused_by_the_program_and_nan_by_the_estimator(self):
        for name in ("group_norm", "rloo", "dr_grpo", "reinforce_baseline"):
            with self.assertRaises(AssertionError) as caught:
                settings(
                    *("--algo.advantage.estimator", name),
                    *("--rollout.n_samples_per_prompt", "1"),
                )
            self.assertIn("requires n_samples_per_prompt > 1", str(caught.exception))
            with self.assertRaises(AdvantageError):
                group_advantages([0.7], ["g"], ESTIMATORS[name])
        for name, expected in (
            ("group_norm", math.nan),
            ("rloo", math.nan),
            ("dr_grpo", 0),
        ):
            value = estimated([0.7], [[1]], name, size=1)[0][0]
            self.assertEqual(math.isnan(value), math.isnan(expected), name)
            if not math.isnan(expected):
                self.assertEqual(value, expected)

    def test_each_preset_becomes_flags_that_the_parser_takes(self):
        for name, preset in PRESETS.items():
            with self.subTest(name):
                convention = preset.but(**bridge.unsaid(preset))
                args = settings(*bridge.flags(convention))
                self.assertEqual(
                    args.actor.eps_clip_low_high[0] < 1, preset.clip == "ppo"
                )
                with contextlib.suppress(BridgeError):
                    self.assertEqual(bridge.flags(preset), bridge.flags(convention))

    def test_flags_say_what_they_should(self):
        said = settings(*bridge.flags(OPENRLHF.but(groups="solved", dual_clip=3.0)))
        self.assertTrue(said.algo.dynamic_filtering_enable)
        self.assertEqual(list(said.algo.dynamic_filtering_range), [0, 2])
        self.assertEqual(said.actor.dual_clip, 3.0)
        kl = {"kl_place": "loss", "kl_weight": 0.04, "kl_estimator": "k2"}
        said = settings(*bridge.flags(OPENRLHF.but(**kl)))
        self.assertTrue(said.algo.kl.use_loss)
        self.assertEqual((said.algo.kl.init_coef, said.algo.kl.estimator), (0.04, "k2"))
        said = settings(*bridge.flags(BY_SEQUENCE))
        self.assertEqual(said.actor.policy_loss_type, "gspo")
        self.assertEqual(said.actor.loss_agg_mode, "seq-mean-token-mean")

    def test_what_can_not_be_said_is_refused_by_name(self):
        for switch in ("unit", "aggregation", "unscored", "std_epsilon"):
            with self.assertRaisesRegex(BridgeError, rf"\b{switch}="):
                bridge.flags(COURSE)
        with self.assertRaisesRegex(BridgeError, "no estimator of .*std='batch'"):
            bridge.unsaid(OPENRLHF.but(std="batch"))
        self.assertLessEqual(set(bridge.unsaid(COURSE)), set(SWITCHES))

    def test_a_wrong_flag_is_refused(self):
        flags = [*playing.PLACES, *playing.ENGINES]
        said = io.StringIO()
        with contextlib.redirect_stderr(said), self.assertRaises(SystemExit):
            cpu_stubs.parsed([*flags, "--algo.advantage.estimator_", "rloo"])
        self.assertIn("unrecognized arguments", said.getvalue())


if __name__ == "__main__":
    unittest.main()
