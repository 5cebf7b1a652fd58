"""TRL's numbers and ours, for the same batch: advantages, losses, gradients.

The trainers are real ones, made with the arguments that ``bridge.settings`` gives for a
convention. ``_compute_loss`` gets made-up log-probs in the place of a model's forward
pass; ``_generate_and_score_completions`` gets made-up rollouts in the place of sampling.
What they return is held against objective.policy_loss and advantage.group_advantages, in
float64 and within 1e-9, unless a test says why not.
"""

from __future__ import annotations

import functools
import itertools
import math
import random
import unittest
from typing import Any, NamedTuple

from agentic_rl.advantage import AdvantageError, group_advantages, spread
from agentic_rl.bridges import sums
from agentic_rl.bridges import trl as bridge
from agentic_rl.bridges.frameworks import BridgeError
from agentic_rl.bridges.token_ids import to_ids
from agentic_rl.conventions import (
    CHOICES,
    COURSE,
    DR_GRPO,
    PRESETS,
    SWITCHES,
    TRL,
    Convention,
    ConventionError,
)
from agentic_rl.golden import golden_group, golden_set
from agentic_rl.objective import Loss, policy_loss
from checks.bridges import trl_world as world
from checks.bridges.trl_world import torch

# isort: split

from accelerate import Accelerator

CLOSE = 1e-9


class Batch(NamedTuple):
    """Rows of one width: log-probs, and what they are compared with and weighted by."""

    new: list[list[float]]
    old: list[list[float]]
    ref: list[list[float]]
    advantages: list[float]
    completion_mask: list[list[int]]
    tool_mask: list[list[int]]

    @property
    def mask(self) -> list[list[int]]:
        """1 where both are."""
        return [
            [a * b for a, b in zip(*rows)]
            for rows in zip(self.completion_mask, self.tool_mask)
        ]

    def part(self, first: int, last: int) -> Batch:
        """Some of the rows."""
        return Batch(*(rows[first:last] for rows in self))


def random_batch(seed: int, rows: int = 8, width: int = 7) -> Batch:
    """Both signs, unequal lengths, tool answers inside, one row all masked."""
    rng = random.Random(seed)
    lengths = [width, 1, *(rng.randint(2, width) for _ in range(rows - 2))]
    new = [[-3 * rng.random() for _ in range(width)] for _ in range(rows)]

    def near(values: list[float]) -> list[float]:
        return [value + 1.6 * rng.random() - 0.8 for value in values]

    tools = [[int(rng.random() < 0.7) for _ in range(width)] for _ in range(rows)]
    tools[0], tools[1] = [1] * width, [1] * width
    tools[2] = [0] * width
    return Batch(
        new,
        [near(row) for row in new],
        [near(row) for row in new],
        [2.0, -2.0, *(rng.choice((-1, 1, 0)) * rng.random() for _ in range(rows - 2))],
        [[1] * length + [0] * (width - length) for length in lengths],
        tools,
    )


@functools.cache
def trainer_for(**settings: Any) -> Any:
    """A real trainer with these settings; the number of hidden units does not matter."""
    return world.trainer(
        world.constant,
        [world.ROW] * 8,
        model=world.small_model_folder(),
        processing_class=sums.make_tokenizer(),
        **{
            "per_device_train_batch_size": 8,
            "num_generations": 8,
            "max_completion_length": 7,
            **settings,
        },
    )


def theirs(trainer: Any, batch: Batch, items: int | None = None) -> Loss:
    """TRL's loss of a batch, and its gradient with respect to the log-probs."""
    Accelerator(cpu=True)  # a config made since then has let go of the shared state
    double = functools.partial(torch.tensor, dtype=torch.float64)
    new = double(batch.new, requires_grad=True)
    trainer._get_per_token_logps_and_entropies = lambda *rest, **named: (
        new,
        torch.zeros_like(new),
        None,
    )
    mask = torch.tensor(batch.mask)
    ones = torch.ones_like(mask)
    loss = trainer._compute_loss(
        trainer.model,
        {
            "prompt_ids": ones,
            "prompt_mask": ones,
            "completion_ids": ones,
            "completion_mask": torch.tensor(batch.completion_mask),
            "tool_mask": torch.tensor(batch.tool_mask),
            "advantages": double(batch.advantages),
            "old_per_token_logps": double(batch.old),
            "ref_per_token_logps": double(batch.ref),
            "num_items_in_batch": mask.sum() if items is None else torch.tensor(items),
        },
    )
    loss.backward()
    return Loss(loss.item(), new.grad.tolist(), {})


def ours(convention: Convention, batch: Batch) -> Loss:
    """Our loss of the same batch."""
    return policy_loss(
        batch.new,
        batch.old,
        [[value] * len(batch.new[0]) for value in batch.advantages],
        convention,
        batch.mask,
        batch.ref,
    )


class Losses(unittest.TestCase):
    def assert_same(self, convention: Convention, batch: Batch) -> Loss:
        """Value and gradient; returns ours."""
        expected = ours(convention, batch)
        found = theirs(trainer_for(**bridge.settings(convention)), batch)
        self.assertAlmostEqual(found.value, expected.value, delta=CLOSE)
        for got, row in zip(found.gradient, expected.gradient):
            for value, own in zip(got, row):
                self.assertAlmostEqual(value, own, delta=CLOSE)
        return expected

    def test_every_aggregation_ratio_clip_and_kl_in_value_and_gradient(self):
        aggregations = ("batch_mean", "episode_mean", "episode_sum", "constant")
        clips: tuple[dict[str, Any], ...] = (
            {},
            {"clip_low": 0.1, "clip_high": 0.28},
            {"dual_clip": 1.5},
            {"clip": "off"},
        )
        divergences: tuple[dict[str, Any], ...] = (
            {},
            {"kl_place": "loss", "kl_weight": 0.04, "kl_ratio": True},
            {"kl_place": "loss", "kl_weight": 0.04, "kl_ratio": False},
        )
        for aggregation, ratio, clip, kl in itertools.product(
            aggregations, ("unit", "sequence"), clips, divergences
        ):
            convention = TRL.but(
                aggregation=aggregation, ratio=ratio, max_length=7, **clip, **kl
            )
            for seed in range(3):
                with self.subTest(f"{aggregation} {ratio} {clip} {kl} {seed}"):
                    self.assert_same(convention, random_batch(seed))

    def test_the_batches_reach_both_sides_of_the_clip_for_both_signs(self):
        """A < 0 below 1 - low and above 1 + high, A > 0 likewise; and the dual clip."""
        reached = set()
        for seed in range(3):
            batch = random_batch(seed)
            for row, advantage in enumerate(batch.advantages):
                for place, mark in enumerate(batch.mask[row]):
                    ratio = math.exp(batch.new[row][place] - batch.old[row][place])
                    side = "low" if ratio < 0.8 else "high" if ratio > 1.2 else "in"
                    if mark and advantage:
                        reached.add((side, advantage > 0))
                        if ratio > 1.5 and advantage < 0:
                            reached.add(("dual", False))
        sides = {
            (side, sign) for side in ("low", "in", "high") for sign in (True, False)
        }
        self.assertEqual(reached, sides | {("dual", False)})

    def test_a_row_without_a_trainable_token_has_no_gradient_and_counts_as_a_row(self):
        batch = random_batch(0)
        self.assertNotIn(1, batch.mask[2])
        for aggregation in ("episode_mean", "episode_sum", "constant", "batch_mean"):
            convention = TRL.but(aggregation=aggregation, max_length=7)
            self.assert_same(convention, batch)
            found = theirs(trainer_for(**bridge.settings(convention)), batch)
            self.assertEqual(set(found.gradient[2]), {0.0})

    def test_a_batch_without_a_trainable_token_has_loss_0(self):
        batch = random_batch(0)._replace(tool_mask=[[0] * 7] * 8)
        for aggregation in ("episode_mean", "episode_sum", "constant", "batch_mean"):
            self.assert_same(TRL.but(aggregation=aggregation, max_length=7), batch)

    def test_where_the_ratio_is_1_the_loss_is_minus_the_weighted_advantages(self):
        """By hand: no clip and no KL acts at the first step on a batch."""
        batch = random_batch(1)
        batch = batch._replace(old=batch.new)
        total = sum(a * sum(row) for a, row in zip(batch.advantages, batch.mask))
        found = theirs(trainer_for(**bridge.settings(TRL)), batch)
        self.assertAlmostEqual(
            found.value, -total / sum(map(sum, batch.mask)), delta=CLOSE
        )

    def test_no_log_ratio_is_clamped_not_even_one_of_25(self):
        """A < 0 takes the larger of the two losses, so one ratio of e^25 is the loss."""
        batch = random_batch(0).part(0, 1)._replace(advantages=[-1.0])
        batch.new[0][0], batch.old[0][0] = -1.0, -26.0
        found = theirs(trainer_for(**bridge.settings(TRL)), batch)
        expected = ours(TRL, batch)
        self.assertGreater(found.value, math.exp(25) / 7)
        self.assertAlmostEqual(found.value / expected.value, 1.0, delta=CLOSE)
        self.assertAlmostEqual(
            found.gradient[0][0] / expected.gradient[0][0], 1.0, delta=CLOSE
        )

    def test_bnpo_is_the_same_as_dapo_while_a_batch_is_not_divided(self):
        batch = random_batch(2)
        settings = {**bridge.settings(TRL), "loss_type": "bnpo"}
        found = theirs(trainer_for(**settings), batch)
        self.assertAlmostEqual(found.value, ours(TRL, batch).value, delta=CLOSE)

    def test_divided_into_micro_batches_dapo_stays_the_mean_over_all_and_bnpo_does_not(
        self,
    ):
        """Two halves, added up as gradient accumulation does."""
        batch = random_batch(3)
        items = sum(map(sum, batch.mask))
        halves = batch.part(0, 4), batch.part(4, 8)
        summed = {}
        for loss_type in ("dapo", "bnpo"):
            settings = {**bridge.settings(TRL), "loss_type": loss_type}
            trainer = trainer_for(
                **settings, gradient_accumulation_steps=2, generation_batch_size=16
            )
            summed[loss_type] = sum(
                theirs(trainer, half, items).value for half in halves
            )
        whole = ours(TRL, batch).value
        own = [ours(TRL, half).value for half in halves]
        self.assertAlmostEqual(summed["dapo"], whole, delta=CLOSE)
        self.assertAlmostEqual(summed["bnpo"], sum(own) / 2, delta=CLOSE)
        self.assertGreater(abs(summed["bnpo"] - whole), 1e-3)

    def test_the_golden_set_token_by_token(self):
        """Every record's own length and mask, in one batch, under TRL's defaults."""
        episodes = [episode for _, episode in golden_set().values()]
        records = [to_ids(episode, world.tokenizer()) for episode in episodes]
        width = max(len(record.response_ids) for record in records)
        rng = random.Random(0)
        advantages = group_advantages(
            [episode.reward for episode in episodes], [0] * len(episodes), TRL
        )
        rows = [[-2 * rng.random() for _ in range(width)] for _ in records]
        batch = Batch(
            rows,
            [[value + rng.random() - 0.5 for value in row] for row in rows],
            rows,
            advantages,
            [
                [1] * len(r.response_ids) + [0] * (width - len(r.response_ids))
                for r in records
            ],
            [r.response_mask + [1] * (width - len(r.response_ids)) for r in records],
        )
        self.assertEqual(
            sum(map(sum, batch.mask)), sum(sum(r.response_mask) for r in records)
        )
        self.assert_same(TRL, batch)
        self.assert_same(DR_GRPO, batch)


class Settings(unittest.TestCase):
    """What ``settings`` says is what the trainer then holds."""

    def test_the_trainer_takes_them_over(self):
        convention = TRL.but(
            clip_low=0.1, clip_high=0.3, dual_clip=2.0, ratio="sequence", std="batch"
        )
        trainer = trainer_for(**bridge.settings(convention))
        self.assertEqual(trainer.epsilon_low, 0.1)
        self.assertEqual(trainer.epsilon_high, 0.3)
        self.assertEqual(trainer.args.delta, 2.0)
        self.assertEqual(trainer.importance_sampling_level, "sequence")
        self.assertEqual(trainer.scale_rewards, "batch")

    def test_the_nearest_of_every_preset_makes_a_real_trainer_with_our_loss(self):
        batch = random_batch(4)
        for preset in PRESETS.values():
            with self.subTest(preset.name):
                nearest = preset.but(**bridge.unsayable(preset))
                found = theirs(trainer_for(**bridge.settings(nearest)), batch)
                expected = ours(nearest, batch)
                self.assertAlmostEqual(found.value, expected.value, delta=CLOSE)

    def test_a_bound_below_the_clip_is_refused_because_trl_bounds_both_signs(self):
        """TRL's delta caps the ratio whatever the sign; our dual_clip only where A < 0."""
        convention = TRL.but(clip_high=0.8, dual_clip=1.5)
        with self.assertRaisesRegex(ConventionError, "dual_clip=1.5"):
            bridge.settings(convention)
        batch = random_batch(0)
        settings = {**bridge.settings(convention.but(dual_clip=None)), "delta": 1.5}
        found = theirs(trainer_for(**settings), batch)
        self.assertGreater(abs(found.value - ours(convention, batch).value), 1e-4)

    def test_a_group_of_one_is_refused_by_both(self):
        with self.assertRaisesRegex(ValueError, "at least 2 generations|minimum"):
            world.config(num_generations=1)
        with self.assertRaisesRegex(BridgeError, "at least 2"):
            bridge.settings(TRL, group_size=1)


# ------------------------------------------------------------------ advantages


def their_advantages(
    rewards: list[float | None], group: int, scale: str = "group", exact: bool = True
) -> list[float]:
    """Through the real ``_generate_and_score_completions``; sampling alone is made up.

    exact   rewards in float64, put in the place of ``_calculate_rewards``, and float64 as
            torch's default, because the std's n / (n - 1) is a division of whole numbers;
            otherwise all as it is: float32
    """
    trainer = world.trainer(
        lambda completions, **others: rewards,
        [world.ROW] * len(rewards),
        model=world.small_model_folder(),
        processing_class=sums.make_tokenizer(),
        per_device_train_batch_size=len(rewards),
        num_generations=group,
        scale_rewards=scale,
        max_completion_length=1,
    )
    trainer._generate_single_turn = lambda prompts, *rest: ([[3]] * len(prompts), None)
    if exact:
        numbers = [math.nan if value is None else value for value in rewards]
        column = torch.tensor(numbers, dtype=torch.float64)[:, None]
        trainer._calculate_rewards = lambda *rest: column
    if exact:
        torch.set_default_dtype(torch.float64)
    try:
        rows = [dict(world.ROW) for _ in rewards]
        found = trainer._generate_and_score_completions(rows)
    finally:
        torch.set_default_dtype(torch.float32)
    return found["advantages"].tolist()


SCALES = {"group": "group", "batch": "batch", "none": "none"}
NONE = None
GROUPS: dict[str, list[float | None]] = {
    "golden, and a group of its kind": [0.9, 0.0, 0.7, 0.0, 0.8, 0.8, 0.0, 0.9],
    "no spread in one": [1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 0.5, 0.25],
    "all but one equal": [0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 1.0],
    "some unscored": [0.9, NONE, 0.7, 0.0, 0.3, 0.3, NONE, 0.1],
    "a whole group unscored": [NONE, NONE, NONE, NONE, 0.0, 1.0, 0.5, 0.25],
    "large and negative": [-310.25, 12.5, 0.0, 75.0, 1e3, -1e3, 2.0, 3.0],
}


class Advantages(unittest.TestCase):
    def assert_same(self, rewards: list[float | None], group: int, scale: str) -> None:
        names = [place // group for place in range(len(rewards))]
        convention = TRL.but(std=scale)
        expected = group_advantages(rewards, names, convention)
        found = their_advantages(rewards, group, scale)
        for got, own in zip(found, expected):
            self.assertAlmostEqual(got, own, delta=CLOSE)

    def test_every_kind_of_group_under_every_scale(self):
        for (name, rewards), scale in itertools.product(GROUPS.items(), SCALES):
            with self.subTest(f"{name}, {scale}"):
                self.assert_same(rewards, 4, scale)

    def test_random_rewards_with_holes(self):
        for seed, scale in itertools.product(range(4), SCALES):
            rng = random.Random(seed)
            rewards = [
                None
                if rng.random() < 0.15
                else rng.choice((0.0, 0.7, 0.9, rng.random()))
                for _ in range(24)
            ]
            with self.subTest(f"{seed}, {scale}"):
                self.assert_same(rewards, 8, scale)

    def test_the_golden_group_by_hand(self):
        """Mean 0.4, std sqrt(0.66 / 3) = 0.46904: A = 0.5 / (0.46904 + 0.0001)."""
        rewards = [episode.reward for episode in golden_group()]
        std = math.sqrt((0.25 + 0.16 + 0.09 + 0.16) / 3)
        found = their_advantages(rewards, 4)
        for got, gap in zip(found, (0.5, -0.4, 0.3, -0.4)):
            self.assertAlmostEqual(got, gap / (std + 1e-4), delta=CLOSE)

    def test_through_its_own_rewards_it_is_float32_and_six_digits_agree(self):
        """_calculate_rewards makes float32 tensors: the library's own precision."""
        for name in ("golden, and a group of its kind", "some unscored"):
            rewards = GROUPS[name]
            expected = group_advantages(rewards, [0] * 4 + [1] * 4, TRL)
            found = their_advantages(rewards, 4, exact=False)
            for got, own in zip(found, expected):
                self.assertAlmostEqual(got, own, delta=2e-6)

    def test_one_scored_rollout_among_unscored_ones_gets_0_in_trl(self):
        """No peers to compare with: its std is that of nothing. See group_of_one."""
        rewards = [1.0, None, None, None]
        for scale in SCALES:
            with self.subTest(scale):
                self.assertEqual(their_advantages(rewards, 4, scale), [0.0] * 4)
                own = group_advantages(rewards, [0] * 4, TRL.but(std=scale))
                self.assertEqual(own, [0.0] * 4)

    def test_a_convention_that_refuses_a_lone_rollout_is_stricter_than_trl(self):
        with self.assertRaises(AdvantageError):
            group_advantages([1.0, None], [0, 0], COURSE.but(group_of_one="refuse"))


# ------------------------------------------------------------------ the preset, each switch

PROBE = [0.9, None, 0.7, 0.0, 0.3, 0.5, 0.0, 0.1]  # two groups of four
KL = TRL.but(kl_place="loss", kl_weight=0.1)
# Where a switch does nothing under TRL's defaults: a convention under which it acts, and
# the values that it is turned to if they are not words.
WHERE: dict[str, tuple[Convention, tuple[Any, ...]]] = {
    "ddof": (TRL, (0,)),
    "std_epsilon": (TRL, (0.0, 1e-6, 1e-3)),
    "epsilon_place": (TRL.but(std="batch"), ("under_root",)),
    "discount": (TRL.but(returns="to_go"), (0.5,)),
    "whiten": (TRL, (True,)),
    "max_length": (TRL.but(aggregation="constant", max_length=7), (6, 8)),
    "mean_epsilon": (TRL.but(aggregation="episode_mean"), (0.5,)),
    "empty_rows": (TRL.but(aggregation="episode_mean"), ("left_out",)),
    "clip_low": (TRL, (0.1, 0.3)),
    "clip_high": (TRL, (0.1, 0.28)),
    "dual_clip": (TRL, (1.5,)),
    "log_ratio_clamp": (TRL, (0.5,)),
    "kl_place": (KL, ("reward",)),
    "kl_weight": (KL, (0.2,)),
    "kl_estimator": (KL, ("k1", "k2")),
    "kl_log_ratio_clamp": (KL, (0.1,)),
    "kl_clamp": (KL, (0.01,)),
    "kl_ratio": (KL, (False,)),
}
ELSEWHERE = {
    "group_of_one": "test_a_lone_rollout_gets_0",
    "zero_spread": "test_equal_rewards_are_divided",
    "groups": "test_all_groups_take_part",
    "returns": "discount, above: with a discount of 1 both values are one number",
    "unit": "test_the_objective_acts_on_tokens",
}


class ThePresetIsRight(unittest.TestCase):
    """Turn any switch of the preset, and the numbers are no longer TRL's."""

    BATCH = random_batch(0)

    def ours(self, convention: Convention) -> list[float] | None:
        """Advantages at each position, loss and gradient, in one list; None: refused."""
        try:
            values = group_advantages(PROBE, [0] * 4 + [1] * 4, convention)
        except AdvantageError:
            return None
        rows = spread(values, [3] * len(values), convention)
        loss = ours(convention, self.BATCH)
        return [*itertools.chain(*rows), loss.value, *itertools.chain(*loss.gradient)]

    def theirs(self, convention: Convention) -> list[float]:
        """The same from TRL, under the arguments that mean the convention."""
        said = convention.but(returns="episode")  # the same while the discount is 1
        values = their_advantages(PROBE, 4, said.std)
        loss = theirs(trainer_for(**bridge.settings(said)), self.BATCH)
        rows = [[value] * 3 for value in values]
        return [*itertools.chain(*rows), loss.value, *itertools.chain(*loss.gradient)]

    def same(self, found: list[float] | None, expected: list[float]) -> bool:
        return found is not None and all(
            abs(got - own) <= CLOSE for got, own in zip(found, expected, strict=True)
        )

    def test_every_switch_matters_or_has_a_test_of_its_own(self):
        for switch in SWITCHES:
            if switch in ELSEWHERE:
                continue
            at, others = WHERE.get(switch, (TRL, ()))
            expected = self.theirs(at)
            self.assertTrue(self.same(self.ours(at), expected), switch)
            words = (v for v in CHOICES.get(switch, ()) if v != getattr(at, switch))
            for value in others or words:
                with self.subTest(switch=switch, value=value):
                    turned = self.ours(at.but(**{switch: value}))
                    self.assertFalse(self.same(turned, expected))

    def test_the_defaults_of_its_config_say_the_same(self):
        plain = world.config(per_device_train_batch_size=8)
        for name, value in bridge.settings(TRL).items():
            if name == "epsilon_high":  # None means the same as epsilon
                self.assertIsNone(plain.epsilon_high)
            else:
                self.assertEqual(getattr(plain, name), value, name)

    def test_a_lone_rollout_gets_0(self):
        """group_of_one: a group of one can't be asked for; one scored among unscored."""
        with self.assertRaisesRegex(ValueError, "at least 2"):
            world.config(num_generations=1)
        self.assertEqual(their_advantages([1.0, None, None, None], 4), [0.0] * 4)

    def test_equal_rewards_are_divided(self):
        """zero_spread: float32's rounding of the mean, over epsilon; see the surprises."""
        self.assertNotEqual(their_advantages([1000.1] * 8, 8, exact=False)[0], 0.0)

    def test_all_groups_take_part(self):
        """groups: one without a spread adds 0 to the sum and its tokens to the count."""
        batch = random_batch(1)
        mute = batch._replace(advantages=[*batch.advantages[:4], *[0.0] * 4])
        found = theirs(trainer_for(**bridge.settings(TRL)), mute).value
        half = ours(TRL, mute.part(0, 4)).value
        share = sum(map(sum, mute.mask[:4])) / sum(map(sum, mute.mask))
        self.assertAlmostEqual(found, half * share, delta=CLOSE)

    def test_the_objective_acts_on_tokens(self):
        """unit: each token that the assistant wrote has a gradient, not its first alone."""
        found = theirs(trainer_for(**bridge.settings(TRL)), random_batch(1))
        slopes = [value for value in found.gradient[0] if value]
        self.assertEqual(sum(random_batch(1).mask[0]), 7)
        self.assertGreater(len(slopes), 1)


if __name__ == "__main__":
    unittest.main()
