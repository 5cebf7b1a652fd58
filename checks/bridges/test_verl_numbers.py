"""verl's own numbers beside ours: advantages, losses, gradients, KL, where a reward lands.

The functions called are those of ``verl.trainer.ppo`` that its trainers call. All is in
float64 and within 1e-9 unless a test says why not.
"""

from __future__ import annotations

from checks.bridges.verl_world import (
    CONFIG,
    TOKENIZER,
    DataProto,
    bridge,
    config,
    objects,
    torch,
)

# isort: split

import math
import random
import unittest
from itertools import chain
from typing import NamedTuple

from rollout import SETTINGS
from tensordict import TensorDict
from verl.trainer.ppo import core_algos
from verl.trainer.ppo.ray_trainer import apply_kl_penalty, compute_advantage
from verl.utils import tensordict_utils
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.config import FSDPActorConfig
from verl.workers.utils.losses import ppo_loss

from agentic_rl.advantage import AdvantageError, group_advantages, spread
from agentic_rl.bridges.frameworks import BridgeError
from agentic_rl.conventions import (
    CHOICES,
    PRESETS,
    REINFORCE_PLUS_PLUS,
    SWITCHES,
    VERL,
    Convention,
)
from agentic_rl.golden import golden_group, golden_set
from agentic_rl.objective import kl_term, policy_loss
from agentic_rl.trajectory import last_trainable

CLOSE = 1e-9
SEQUENCES = ("seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm")
SINGLE = 1e-6  # where verl computes in float32 whatever it is given

# Estimators that our switches can't say, and why.
NO_ESTIMATOR = {
    "gae": "needs a value function",
    "gdpo": "normalises each reward of several by itself",
    "gpg": "scales by the share of rewards that are not 0",
    "grpo_passk": "only the best of a group, against the second best",
    "grpo_vectorized": "grpo again, in float32 whatever it is given: see below",
    "opo": "its baseline weighs each peer by its length",
    "optimal_token_baseline": "needs the sum of squared probabilities",
    "remax": "its baseline is a greedy rollout's reward",
    "tir_optimal_token_baseline": "needs the sum of squared probabilities",
}
NO_LOSS = {
    "bypass_mode": "takes the rollout's log-probs for the old ones",
    "cispo": "clips the weight of a log-prob, which is no clip of a ratio",
    "clip_cov": "chooses what to clip by covariance",
    "dppo_kl": "a trust region by divergence",
    "dppo_tv": "a trust region by divergence",
    "dro": "a quadratic penalty on the log-ratio",
    "geo_mean": "a geometric mean of clipped ratios",
    "gpg": "no ratio: only equal where the policy is the old one",
    "kl_cov": "a KL penalty on what covaries most",
    "sapo": "a smooth gate instead of a clip",
}


class Sample(NamedTuple):
    """A padded batch: numbers as lists, one row an episode."""

    rewards: list[float]
    groups: list[str]
    mask: list[list[int]]
    advantages: list[list[float]]
    new: list[list[float]]
    old: list[list[float]]
    ref: list[list[float]]

    @property
    def width(self) -> int:
        return len(self.mask[0])


GROUPS = [*"aaaa", *"bbb", "c", *"ddddd"]
SHIFTS = (-0.6, -0.1, 0.0, 0.05, 0.3, 1.5, -25.0, 25.0)


def sample(seed: int, width: int = 9, shifts: tuple[float, ...] = SHIFTS) -> Sample:
    """13 episodes: a group of equal rewards, a group of one, a row without a mark.

    Lengths differ, and inside a row stands what a tool wrote. New and old log-probs
    differ by one of the shifts; new and reference ones by up to 25 in both directions.
    """
    rng = random.Random(seed)
    rewards = [0.5 if group == "b" else rng.uniform(-1, 2) for group in GROUPS]
    mask, advantages = [], []
    for row in range(len(GROUPS)):
        length = 1 + int(rng.random() * width)
        marks = [int(rng.random() < 0.7) for _ in range(length - 1)]
        marks = [*marks, 1, *[0] * (width - length)]
        mask.append([0] * width if row == 2 else marks)
        advantage = rng.choice((-1.3, -0.4, 0.0, 0.7, 2.0))
        advantages.append([advantage * mark for mark in mask[-1]])
    old = [[-2 * rng.random() for _ in range(width)] for _ in GROUPS]
    new = [[value + rng.choice(shifts) for value in row] for row in old]
    differ = (-25.0, -3.0, -0.2, 0.0, 0.4, 2.0, 12.0, 25.0)
    ref = [[value + rng.choice(differ) for value in row] for row in new]
    return Sample(rewards, list(GROUPS), mask, advantages, new, old, ref)


def f64(rows):
    return torch.tensor(rows, dtype=torch.float64)


def placed(taken: Sample) -> torch.Tensor:
    """Token-level rewards: an episode's reward on its last position, as verl has them."""
    rewards = torch.zeros(len(taken.mask), taken.width, dtype=torch.float64)
    for row, marks in enumerate(taken.mask):
        last = last_trainable(marks) if any(marks) else taken.width - 1
        rewards[row, last] = taken.rewards[row]
    return rewards


def their_advantages(
    taken: Sample, name: str, mask_type=torch.float64, **settings
) -> list[list[float]]:
    """``compute_advantage`` of verl's trainer with the estimator of this name."""
    data = DataProto.from_dict(
        tensors={
            "token_level_rewards": placed(taken),
            "response_mask": torch.tensor(taken.mask, dtype=mask_type),
        },
        non_tensors={"uid": objects(taken.groups)},
    )
    algorithm = config(
        f"algorithm.adv_estimator={name}",
        *(f"algorithm.{key}={value}" for key, value in settings.items()),
    ).algorithm
    done = compute_advantage(
        data,
        adv_estimator=algorithm.adv_estimator,
        gamma=algorithm.gamma,
        norm_adv_by_std_in_grpo=algorithm.norm_adv_by_std_in_grpo,
        config=algorithm,
    )
    return done.batch["advantages"].tolist()


def our_advantages(taken: Sample, convention: Convention) -> list[list[float]]:
    """Ours, in the same rectangle: 0.0 where the mask is 0."""
    lengths = [sum(marks) for marks in taken.mask]
    values = group_advantages(taken.rewards, taken.groups, convention)
    found = []
    for row, marks in zip(spread(values, lengths, convention), taken.mask):
        rest = iter(row)
        found.append([next(rest) if mark else 0.0 for mark in marks])
    return found


def actor(**settings) -> FSDPActorConfig:
    """verl's actor config: its dataclass, with the Hydra files' defaults."""
    defaults = {"clip_ratio_low": 0.2, "clip_ratio_high": 0.2, "clip_ratio_c": 3.0}
    return FSDPActorConfig(
        strategy="fsdp",
        rollout_n=1,
        ppo_micro_batch_size_per_gpu=1,
        use_dynamic_bsz=False,
        **{**defaults, **settings},
    )


def their_loss(taken: Sample, name: str, mode: str, settings: FSDPActorConfig):
    """(value, gradient) of a registered policy loss."""
    new = f64(taken.new).requires_grad_(True)
    value, _ = core_algos.get_policy_loss_fn(name)(
        old_log_prob=f64(taken.old),
        log_prob=new,
        advantages=f64(taken.advantages),
        response_mask=torch.tensor(taken.mask),
        loss_agg_mode=mode,
        config=settings,
    )
    value.backward()
    return value.item(), new.grad.tolist()


def our_loss(taken: Sample, convention: Convention):
    found = policy_loss(
        taken.new, taken.old, taken.advantages, convention, taken.mask, taken.ref
    )
    return found.value, found.gradient


class Numbers(unittest.TestCase):
    def assert_rows(self, theirs, ours, within=CLOSE):
        for row, (left, right) in enumerate(zip(theirs, ours, strict=True)):
            for place, (a, b) in enumerate(zip(left, right, strict=True)):
                self.assertAlmostEqual(a, b, delta=within, msg=(row, place))

    def assert_loss(self, theirs, ours, within=CLOSE):
        self.assertAlmostEqual(theirs[0], ours[0], delta=within * max(1, abs(ours[0])))
        self.assert_rows(theirs[1], ours[1], within)


WHITENED = VERL.but(
    std="none", whiten=True, std_epsilon=1e-8, epsilon_place="under_root"
)


class Advantages(Numbers):
    """Each estimator that our switches can say, on random batches and the golden group."""

    def compare(self, name: str, convention: Convention, within=CLOSE, **settings):
        for seed in range(5):
            taken = sample(seed)
            self.assert_rows(
                their_advantages(taken, name, **settings),
                our_advantages(taken, convention),
                within,
            )

    def test_grpo_is_the_preset_verl_save_for_a_group_of_one_which_verl_scales_in_float32(
        self,
    ):
        for seed in range(5):
            taken = sample(seed)
            theirs = their_advantages(taken, "grpo")
            ours = our_advantages(taken, VERL)
            alone = taken.groups.index("c")
            self.assert_rows(theirs[alone : alone + 1], ours[alone : alone + 1], SINGLE)
            theirs[alone] = ours[alone]
            self.assert_rows(theirs, ours)

    def test_grpo_without_std_only_takes_the_mean_off(self):
        self.compare("grpo", VERL.but(std="none"), norm_adv_by_std_in_grpo=False)

    def test_grpo_vectorized_is_the_same_in_float32(self):
        self.compare("grpo_vectorized", VERL, SINGLE)

    def test_rloo_gives_a_group_of_one_its_raw_reward(self):
        self.compare("rloo", VERL.but(baseline="leave_one_out", std="none"))

    def test_rloo_vectorized_gives_a_group_of_one_nothing(self):
        convention = VERL.but(baseline="leave_one_out", std="none", group_of_one="zero")
        self.compare("rloo_vectorized", convention)

    def test_reinforce_plus_plus_whitens_returns_to_go_over_the_whole_batch(self):
        for gamma in (1.0, 0.9):
            convention = WHITENED.but(baseline="none", returns="to_go", discount=gamma)
            self.compare("reinforce_plus_plus", convention, gamma=gamma)

    def test_reinforce_plus_plus_baseline_takes_the_groups_mean_off_before(self):
        self.compare("reinforce_plus_plus_baseline", WHITENED)

    def test_a_mask_of_integers_as_its_trainer_has_it_whitens_in_float32(self):
        convention = WHITENED.but(baseline="none", returns="to_go")
        theirs = their_advantages(sample(0), "reinforce_plus_plus", torch.int64)
        ours = our_advantages(sample(0), convention)
        self.assert_rows(theirs, ours, SINGLE)
        apart = max(abs(a - b) for x, y in zip(theirs, ours) for a, b in zip(x, y))
        self.assertGreater(apart, CLOSE)

    def test_the_golden_group_has_the_advantages_of_chapter_00(self):
        # Rewards 0.9, 0, 0.7, 0: mean 0.4, variance (0.25 + 0.16 + 0.09 + 0.16) / 3.
        rewards = [episode.reward for episode in golden_group()]
        self.assertEqual(rewards, [0.9, 0.0, 0.7, 0.0])
        taken = Sample(rewards, ["g"] * 4, [[1]] * 4, [], [], [], [])
        std = math.sqrt(0.66 / 3)
        for name, by_hand in (
            ("grpo", [0.5 / std, -0.4 / std, 0.3 / std, -0.4 / std]),
            ("rloo", [2 / 3, -1.6 / 3, 0.4, -1.6 / 3]),
        ):
            theirs = [row[0] for row in their_advantages(taken, name)]
            for a, b in zip(theirs, by_hand):
                self.assertAlmostEqual(a, b, delta=1e-5)  # epsilon is 1e-6

    def test_every_estimator_has_a_counterpart_or_a_reason(self):
        ours = {name.partition(" ")[0] for name in bridge.ESTIMATORS}
        registered = {str(name) for name in core_algos.ADV_ESTIMATOR_REGISTRY}
        self.assertEqual(registered, ours | set(NO_ESTIMATOR))

    def test_the_samples_have_what_the_estimators_must_survive(self):
        taken = sample(0)
        self.assertEqual({taken.groups.count(name) for name in "abcd"}, {1, 3, 4, 5})
        self.assertIn([0] * taken.width, taken.mask)
        self.assertEqual({taken.rewards[row] for row in (4, 5, 6)}, {0.5})
        self.assertGreater(len({sum(marks) for marks in taken.mask}), 4)


# A loss function called by itself leaves rows without a mark out; and where the mask is of
# integers, n + 1e-8 is float32, which is n.
ALONE = VERL.but(empty_rows="left_out", mean_epsilon=0.0)
# With the size of the batch that verl's trainer gives it, all rows count.
TRAINED = VERL.but(empty_rows="counted", mean_epsilon=0.0)


class Losses(Numbers):
    """Each aggregation of the token losses; value, and gradient by log-prob."""

    def test_vanilla_is_our_loss_in_every_aggregation(self):
        for seed in range(5):
            taken = sample(seed)
            for ours, theirs in bridge.AGGREGATIONS.items():
                convention = ALONE.but(aggregation=ours, max_length=taken.width)
                with self.subTest(seed=seed, mode=theirs):
                    self.assert_loss(
                        their_loss(taken, "vanilla", theirs, actor()),
                        our_loss(taken, convention),
                    )

    def test_gspo_is_our_loss_by_sequence_in_every_aggregation(self):
        for seed in range(5):
            taken = sample(seed, shifts=(-0.9, -0.2, 0.0, 0.1, 0.7, 2.0))
            for ours, theirs in bridge.AGGREGATIONS.items():
                convention = ALONE.but(
                    aggregation=ours,
                    max_length=taken.width,
                    ratio="sequence",
                    dual_clip=None,
                    log_ratio_clamp=10.0,
                )
                with self.subTest(seed=seed, mode=theirs):
                    self.assert_loss(
                        their_loss(taken, "gspo", theirs, actor()),
                        our_loss(taken, convention),
                    )

    def test_the_epsilon_of_a_mean_is_lost_where_the_mask_is_of_integers(self):
        losses, marks = torch.tensor([[3.0] * 3], dtype=torch.float64), [[1, 1, 0]]
        for mask_type, by_hand in (
            (torch.float64, 6 / (2 + 1e-8)),
            (torch.int64, 3.0),
            (torch.bool, 3.0),  # as verl's workers have it
        ):
            mask = torch.tensor(marks, dtype=mask_type)
            value = core_algos.agg_loss(losses, mask, "seq-mean-token-mean")
            self.assertAlmostEqual(float(value), by_hand, delta=1e-12)

    def test_rows_without_a_mark_count_once_the_size_of_the_batch_is_given(self):
        losses = torch.tensor([[3.0], [5.0]], dtype=torch.float64)
        mask = torch.tensor([[1], [0]])
        for mode in SEQUENCES:
            alone = core_algos.agg_loss(losses, mask, mode)
            trained = core_algos.agg_loss(losses, mask, mode, global_batch_size=2)
            self.assertEqual((float(alone), float(trained)), (3.0, 1.5), mode)

    def test_gspo_holds_its_log_ratio_at_10_and_only_from_above(self):
        # A bad action: above the range nothing clips it, below it the loss is 0.8.
        # A good one: below the range nothing clips it.
        ours = ALONE.but(**bridge.unsaid(PRESETS["gspo"]), ratio="sequence")
        self.assertEqual(ours.log_ratio_clamp, 10.0)
        for log_ratio, advantage, loss in (
            (12.0, -1.0, math.exp(10)),
            (-12.0, 1.0, -math.exp(-12)),
        ):
            one = Sample(
                [0.0], ["g"], [[1]], [[advantage]], [[log_ratio]], [[0.0]], [[0.0]]
            )
            theirs = their_loss(one, "gspo", "token-mean", actor())
            self.assertAlmostEqual(theirs[0], loss, delta=CLOSE * max(1, abs(loss)))
            if log_ratio > 0:
                self.assert_loss(theirs, our_loss(one, ours.but(dual_clip=None)))

    def test_the_two_sides_of_the_clip_may_differ(self):
        taken = sample(7)
        settings = actor(clip_ratio_low=0.1, clip_ratio_high=0.4, clip_ratio_c=2.0)
        convention = ALONE.but(clip_low=0.1, clip_high=0.4, dual_clip=2.0)
        self.assert_loss(
            their_loss(taken, "vanilla", "token-mean", settings),
            our_loss(taken, convention),
        )

    def test_a_constant_of_ones_own_divides_the_sum(self):
        taken = sample(8)
        settings = actor(loss_scale_factor=100)
        settings.global_batch_info["loss_scale_factor"] = settings.loss_scale_factor
        self.assert_loss(
            their_loss(taken, "vanilla", "seq-mean-token-sum-norm", settings),
            our_loss(taken, ALONE.but(aggregation="constant", max_length=100)),
        )

    def test_each_branch_by_hand(self):
        # (ratio, advantage) -> loss, d loss / d ratio; the clip is 0.8 to 1.2, dual at 3.
        for ratio, advantage, loss, slope in (
            (1.1, 2.0, -2.2, -2.0),  # inside
            (1.5, 2.0, -2.4, 0.0),  # far enough up
            (0.5, 2.0, -1.0, -2.0),  # a good action that got rarer: no clip
            (0.5, -2.0, 1.6, 0.0),  # far enough down
            (1.5, -2.0, 3.0, 2.0),  # a bad action that got likelier: no clip
            (4.0, -2.0, 6.0, 0.0),  # and ran away: dual clip
        ):
            new = math.log(ratio)
            one = Sample([0.0], ["g"], [[1]], [[advantage]], [[new]], [[0.0]], [[0.0]])
            value, gradient = their_loss(one, "vanilla", "token-mean", actor())
            self.assertAlmostEqual(value, loss, delta=CLOSE)
            self.assertAlmostEqual(gradient[0][0], slope * ratio, delta=CLOSE)
            self.assert_loss((value, gradient), our_loss(one, ALONE))

    def test_the_samples_reach_every_branch(self):
        seen = set()
        for seed in range(5):
            taken = sample(seed)
            for news, olds, gains, marks in zip(
                taken.new, taken.old, taken.advantages, taken.mask
            ):
                for new, old, gain, mark in zip(news, olds, gains, marks):
                    if mark and gain:
                        side = (new - old > math.log(1.2)) - (new - old < math.log(0.8))
                        seen.add((gain > 0, side, abs(new - old) > 20))
                        seen.add(("dual", gain < 0 and new - old > math.log(3)))
        for sign in (True, False):
            self.assertLessEqual({(sign, side, False) for side in (-1, 0, 1)}, seen)
            self.assertLessEqual({(sign, -1, True), (sign, 1, True)}, seen)
        self.assertIn(("dual", True), seen)

    def test_every_loss_has_a_counterpart_or_a_reason(self):
        registered = {  # by verl itself: Agent Lightning adds two
            name
            for name, function in core_algos.POLICY_LOSS_REGISTRY.items()
            if function.__module__.startswith("verl.")
        }
        self.assertEqual(registered, {"vanilla", "gspo"} | set(NO_LOSS))


def their_training_loss(taken: Sample, settings: FSDPActorConfig):
    """(value, gradient) of ``ppo_loss``, which verl's workers call.

    It reads log-probs from the model's flat output, each at the id before its own.
    """
    count, width = len(taken.mask), taken.width
    ones = torch.ones(count, width, dtype=torch.int64)
    data = TensorDict(
        {
            "prompts": ones[:, :1],
            "responses": ones,
            "attention_mask": torch.cat([ones[:, :1], ones], dim=1),
            "response_mask": torch.tensor(taken.mask),
            "old_log_probs": f64(taken.old),
            "advantages": f64(taken.advantages),
            "ref_log_prob": f64(taken.ref),
        },
        batch_size=count,
    )
    tensordict_utils.assign_non_tensor(
        data,
        dp_size=1,
        batch_num_tokens=sum(map(sum, taken.mask)),
        global_batch_size=count,
    )
    new = f64(taken.new).requires_grad_(True)
    flat = torch.cat([new, torch.zeros(count, 1, dtype=torch.float64)], dim=1)
    value, _ = ppo_loss(settings, {"log_probs": flat.flatten()}, data)
    value.backward()
    return value.item(), new.grad.tolist()


# Of each estimator: of the log-ratio, and of the value.
CLAMPS = {"k1": (None, None), "k2": (None, None), "k3": (20.0, 10.0)}


class KL(Numbers):
    """Estimators with their clamps, in the loss and in the reward."""

    def by_hand(self, estimator: str, taken: Sample):
        """(values, slopes) of our own estimators, with verl's clamps."""
        ratio, bound = CLAMPS[estimator]
        convention = VERL.but(
            kl_estimator=estimator, kl_log_ratio_clamp=ratio, kl_clamp=bound
        )
        terms = [
            [kl_term(a, b, convention) for a, b in zip(new, ref)]
            for new, ref in zip(taken.new, taken.ref)
        ]
        return tuple([[term[i] for term in row] for row in terms] for i in (0, 1))

    def theirs(self, name: str, taken: Sample):
        new = f64(taken.new).requires_grad_(True)
        values = core_algos.kl_penalty(new, f64(taken.ref), name)
        values.sum().backward()
        return values.tolist(), new.grad.tolist()

    def test_the_three_estimators_under_both_their_names(self):
        for seed in range(3):
            taken = sample(seed)
            for estimator, other in bridge.KL_ESTIMATORS.items():
                ours = self.by_hand(estimator, taken)
                for name in (estimator, other):
                    with self.subTest(name=name, seed=seed):
                        for left, right in zip(self.theirs(name, taken), ours):
                            self.assert_rows(left, right)

    def test_a_plus_keeps_the_value_and_takes_the_gradient_of_k2(self):
        taken = sample(3)
        _, slopes = self.by_hand("k2", taken)
        for estimator in ("k1", "k3"):
            values, _ = self.by_hand(estimator, taken)
            theirs = self.theirs(f"{estimator}+", taken)
            self.assert_rows(theirs[0], values)
            self.assert_rows(theirs[1], slopes)

    def test_in_the_loss_it_is_weighed_and_aggregated_like_the_loss(self):
        for estimator, theirs in bridge.KL_ESTIMATORS.items():
            ratio, bound = CLAMPS[estimator]
            for ours, mode in bridge.AGGREGATIONS.items():
                taken = sample(4)
                convention = TRAINED.but(
                    kl_place="loss",
                    kl_weight=0.05,
                    kl_estimator=estimator,
                    kl_log_ratio_clamp=ratio,
                    kl_clamp=bound,
                    aggregation=ours,
                    max_length=taken.width,
                )
                settings = actor(
                    use_kl_loss=True,
                    kl_loss_coef=0.05,
                    kl_loss_type=theirs,
                    loss_agg_mode=mode,
                )
                with self.subTest(estimator=estimator, mode=mode):
                    self.assert_loss(
                        their_training_loss(taken, settings),
                        our_loss(taken, convention),
                    )

    def test_in_the_reward_each_token_pays_and_grpo_sees_the_sum(self):
        for estimator, name in bridge.KL_ESTIMATORS.items():
            taken = sample(5)
            data = DataProto.from_dict(
                tensors={
                    "token_level_scores": placed(taken),
                    "response_mask": torch.tensor(taken.mask),
                    "old_log_probs": f64(taken.old),
                    "ref_log_prob": f64(taken.ref),
                }
            )
            data, _ = apply_kl_penalty(
                data, core_algos.FixedKLController(0.03), kl_penalty=name
            )
            kl, _ = self.by_hand(estimator, taken._replace(new=taken.old))
            charged = [
                reward - 0.03 * math.fsum(k * m for k, m in zip(row, marks))
                for reward, row, marks in zip(taken.rewards, kl, taken.mask)
            ]
            theirs = data.batch["token_level_rewards"].sum(dim=-1).tolist()
            self.assert_rows([theirs], [charged])

    def test_with_returns_to_go_a_token_does_not_pay_for_those_before_it(self):
        # Reward 1, two tokens with a KL of 1 each, weight 0.1: ours charges 0.2 to both.
        data = DataProto.from_dict(
            tensors={
                "token_level_scores": f64([[0.0, 1.0]]),
                "response_mask": torch.tensor([[1, 1]]),
                "old_log_probs": f64([[0.0, 0.0]]),
                "ref_log_prob": f64([[-1.0, -1.0]]),
            }
        )
        data, _ = apply_kl_penalty(data, core_algos.FixedKLController(0.1))
        _, returns = core_algos.compute_reinforce_plus_plus_outcome_advantage(
            data.batch["token_level_rewards"], f64([[1, 1]]), CONFIG.algorithm
        )
        self.assert_rows(returns.tolist(), [[0.8, 0.9]])
        lacking = bridge.unsaid(REINFORCE_PLUS_PLUS)
        self.assertEqual((lacking["kl_place"], lacking["kl_weight"]), ("none", 0.0))

    def test_compute_rewards_knows_k1_alone(self):
        taken = sample(6)
        theirs = core_algos.compute_rewards(
            placed(taken), f64(taken.old), f64(taken.ref), 0.03
        )
        kl, _ = self.by_hand("k1", taken._replace(new=taken.old))
        rewards = placed(taken).tolist()
        ours = [[r - 0.03 * k for r, k in zip(*pair)] for pair in zip(rewards, kl)]
        self.assert_rows(theirs.tolist(), ours)


class TheGoldenSet(Numbers):
    """All episodes of the golden set as one batch: real ids, masks and rewards."""

    def taken(self) -> Sample:
        episodes = [trajectory for _, trajectory in golden_set().values()]
        outputs = [bridge.output(episode, TOKENIZER) for episode in episodes]
        width = max(len(fields["response_ids"]) for fields in outputs)
        padded = bridge.batch(
            outputs, TOKENIZER.pad_token_id, 96, width, torch.float64
        ).tensors
        rng = random.Random(0)
        old = padded["rollout_log_probs"].tolist()
        new = [[value + rng.choice(SHIFTS) for value in row] for row in old]
        rewards = padded["rm_scores"].sum(dim=-1).tolist()
        groups = [episode.task_id for episode in episodes]
        mask = padded["response_mask"].tolist()
        taken = Sample(rewards, groups, mask, [], new, old, old)
        return taken._replace(advantages=our_advantages(taken, VERL))

    def test_advantages_loss_and_gradient_are_verls(self):
        taken = self.taken()
        self.assert_rows(their_advantages(taken, "grpo"), taken.advantages)
        for ours, theirs in bridge.AGGREGATIONS.items():
            convention = ALONE.but(aggregation=ours, max_length=taken.width)
            self.assert_loss(
                their_loss(taken, "vanilla", theirs, actor()),
                our_loss(taken, convention),
            )

    def test_padding_changes_nothing_of_ours(self):
        taken = self.taken()
        cut = [
            [row[place] for place, mark in enumerate(marks) if mark]
            for rows in (taken.new, taken.old, taken.advantages)
            for row, marks in zip(rows, taken.mask)
        ]
        count = len(taken.mask)
        new, old, gains = cut[:count], cut[count : 2 * count], cut[2 * count :]
        alone = policy_loss(new, old, gains, VERL)
        self.assertAlmostEqual(alone.value, our_loss(taken, VERL)[0], delta=CLOSE)


class WhereTheRewardLands(unittest.TestCase):
    def test_on_the_last_id_that_the_assistant_wrote(self):
        for name, (_, trajectory) in golden_set().items():
            fields = bridge.output(trajectory, TOKENIZER)
            padded = bridge.batch([fields], TOKENIZER.pad_token_id, 96, 512)
            rewards = padded.tensors["rm_scores"][0]
            last = last_trainable(fields["response_mask"])
            self.assertEqual(last, len(fields["response_ids"]) - 1, name)
            self.assertAlmostEqual(float(rewards[last]), trajectory.reward, places=6)
            self.assertEqual(float(rewards.sum()), float(rewards[last]))


class Hydra(Numbers):
    """What ``overrides`` writes, read by verl's own config, computed by its functions."""

    # Nothing in verl is near these; the error says so.
    NOT_NEAR = (VERL.but(baseline="batch_mean"), VERL.but(clip="two_sided"))
    MORE = (
        VERL.but(name="rloo raw", baseline="leave_one_out", std="none"),
        WHITENED.but(name="decay", baseline="none", returns="to_go", discount=0.9),
        VERL.but(name="no clip", clip="off", dual_clip=None, aggregation="batch_sum"),
        VERL.but(name="k1 in loss", kl_place="loss", kl_weight=0.1, kl_estimator="k1"),
        VERL.but(name="constant", aggregation="constant", max_length=40),
    )

    def conventions(self):
        for preset in (*PRESETS.values(), *self.MORE):
            yield preset.but(**bridge.unsaid(preset))

    def test_the_preset_verl_is_the_default_config_with_grpo(self):
        default = config("algorithm.adv_estimator=grpo")
        self.assertEqual(bridge.unsaid(VERL), {})
        for override in bridge.overrides(VERL):
            key, _, value = override.partition("=")
            self.assertEqual(str(select(default, key)), value, key)
        self.assertFalse(default.actor_rollout_ref.actor.use_kl_loss)

    def test_every_convention_gives_the_same_numbers_in_verl(self):
        for convention in self.conventions():
            cfg = config(*bridge.overrides(convention))
            algorithm = cfg.algorithm
            settings = omega_conf_to_dataclass(cfg.actor_rollout_ref.actor)
            # Without the ratios that run away: they would hide all other numbers.
            near = (-0.1, 0.0, 0.2) if convention.ratio == "sequence" else SHIFTS[:-2]
            for seed in range(3):
                taken = sample(seed, shifts=near)
                with self.subTest(convention=convention.name, seed=seed):
                    theirs = their_advantages(
                        taken,
                        algorithm.adv_estimator,
                        norm_adv_by_std_in_grpo=algorithm.norm_adv_by_std_in_grpo,
                        gamma=algorithm.gamma,
                    )
                    self.assert_rows(theirs, our_advantages(taken, convention), SINGLE)
                    self.assert_loss(
                        their_training_loss(taken, settings),
                        our_loss(taken, convention),
                    )

    def test_what_verl_cant_say_is_named(self):
        for name, preset in PRESETS.items():
            if missing := bridge.unsaid(preset):
                with self.assertRaises(BridgeError, msg=name) as caught:
                    bridge.overrides(preset)
                for switch in missing:
                    self.assertIn(f"{switch}=", str(caught.exception))
        for convention in self.NOT_NEAR:
            self.assertRaises(BridgeError, bridge.unsaid, convention)

    def test_kl_in_the_reward_is_said_by_the_algorithm(self):
        convention = VERL.but(
            kl_place="reward",
            kl_weight=0.03,
            kl_estimator="k1",
            kl_clamp=None,
            kl_log_ratio_clamp=None,
        )
        algorithm = config(*bridge.overrides(convention)).algorithm
        self.assertTrue(algorithm.use_kl_in_reward)
        self.assertEqual(algorithm.kl_penalty, "kl")
        self.assertEqual(algorithm.kl_ctrl.kl_coef, 0.03)
        self.assertEqual(algorithm.kl_ctrl.type, "fixed")

    def test_filtered_groups_are_said_by_the_algorithm(self):
        algorithm = config(*bridge.overrides(VERL.but(groups="informative"))).algorithm
        self.assertTrue(algorithm.filter_groups.enable)
        self.assertEqual(algorithm.filter_groups.metric, "reward")


def select(cfg, key: str):
    for name in key.split("."):
        cfg = cfg[name]
    return cfg


# switch -> (where it shows, the values that verl does not have)
OFF = TRAINED.but(dual_clip=None, clip="off")
MEAN = TRAINED.but(aggregation="episode_mean")
IN_LOSS = TRAINED.but(kl_place="loss", kl_weight=0.05)
WHERE = {
    "std_epsilon": (VERL, (0.0, 1e-4)),
    "mean_epsilon": (MEAN, (1e-6,)),
    "empty_rows": (MEAN, ("left_out",)),
    "clip_low": (VERL, (0.1,)),
    "clip_high": (VERL, (0.28,)),
    "dual_clip": (VERL, (None, 2.0)),
    "log_ratio_clamp": (OFF, (None, 10.0)),
    "kl_place": (IN_LOSS, ("reward",)),
    "kl_weight": (IN_LOSS, (0.04,)),
    "kl_estimator": (IN_LOSS, ("k1", "k2")),
    "kl_log_ratio_clamp": (IN_LOSS.but(kl_clamp=None), (None, 5.0)),
    "kl_clamp": (IN_LOSS, (None, 5.0)),
    "kl_ratio": (IN_LOSS, (True,)),
    "whiten": (VERL, (True,)),
    "discount": (VERL.but(returns="to_go"), (0.9,)),
    "max_length": (VERL.but(aggregation="constant"), (2,)),
}
# These can't show in numbers of verl, each for a reason.
ELSEWHERE = {
    "unscored": "a tensor holds no None: test_an_unscored_sample_is_an_error",
    "groups": "which groups come into the batch, not what is computed of them",
    "unit": "verl has no decisions: test_a_position_is_a_token",
    "returns": "with a discount of 1 both are the same",
}


class ThePresetIsRight(Numbers):
    """Turn any switch of the preset, and the numbers are no longer verl's.

    A switch that does nothing under verl's defaults is turned where it does something.
    """

    def numbers(self, convention: Convention):
        """Ours: the advantages, the loss and its gradient."""
        taken = self.TAKEN
        try:
            advantages = our_advantages(taken, convention)
        except AdvantageError:
            advantages = None
        return advantages, our_loss(taken, convention)

    TAKEN = sample(0)

    def differs(self, left, right) -> bool:
        if left[0] is None or right[0] is None:
            return left[0] is not right[0]
        flat = [[*chain(*x[0]), x[1][0], *chain(*x[1][1])] for x in (left, right)]
        return any(abs(a - b) > CLOSE for a, b in zip(*flat))

    def test_every_switch_matters_or_has_a_reason(self):
        # The tests above hold these conventions equal to verl; each other value differs.
        noisy = [1.2] * 7
        for switch in SWITCHES:
            at, others = WHERE.get(switch, (VERL, ()))
            others = others or tuple(
                value for value in CHOICES[switch] if value != getattr(VERL, switch)
            )
            for value in others:
                turned = at.but(**{switch: value})
                same = not self.differs(self.numbers(at), self.numbers(turned))
                with self.subTest(switch=switch, value=value):
                    if switch == "zero_spread":
                        # Equal rewards: the quotient of rounding noise, or exactly 0.
                        both = (
                            group_advantages(noisy, ["g"] * 7, c) for c in (at, turned)
                        )
                        self.assertEqual([set(x) for x in both][1], {0.0})
                    elif same:
                        self.assertIn(switch, ELSEWHERE)

    def test_an_unscored_sample_is_an_error(self):
        self.assertRaises(RuntimeError, torch.tensor, [0.5, None])
        with self.assertRaises(AdvantageError):
            group_advantages([0.5, None], ["g", "g"], VERL)

    def test_a_position_is_a_token(self):
        fields = bridge.output(golden_group()[0], TOKENIZER)
        record = golden_group()[0]
        self.assertGreater(
            sum(fields["response_mask"]), len(record.positions("decision"))
        )
        # Two rows of 1 and 3 tokens with losses -1: token-mean weighs tokens alike.
        two = Sample(
            [],
            [],
            [[1, 0, 0], [1, 1, 1]],
            [[2.0] * 3, [0.0] * 3],
            [[0.0] * 3] * 2,
            [[0.0] * 3] * 2,
            [[0.0] * 3] * 2,
        )
        value, _ = their_loss(two, "vanilla", "token-mean", actor())
        self.assertAlmostEqual(value, -2.0 / 4, delta=CLOSE)

    def test_the_values_that_the_source_names(self):
        actor_config = CONFIG.actor_rollout_ref.actor
        self.assertEqual(actor_config.clip_ratio_low, VERL.clip_low)
        self.assertEqual(actor_config.clip_ratio_high, VERL.clip_high)
        self.assertEqual(actor_config.clip_ratio_c, VERL.dual_clip)
        self.assertEqual(
            actor_config.loss_agg_mode, bridge.AGGREGATIONS[VERL.aggregation]
        )
        self.assertEqual(
            actor_config.kl_loss_type, bridge.KL_ESTIMATORS[VERL.kl_estimator]
        )
        bare = FSDPActorConfig(
            strategy="fsdp", rollout_n=1, ppo_micro_batch_size_per_gpu=1
        )
        self.assertEqual(bare.clip_ratio_high, VERL.clip_high)  # 0.2, and not 0.28
        self.assertNotIn("clip_ratio_high", " ".join(SETTINGS))


if __name__ == "__main__":
    unittest.main()
