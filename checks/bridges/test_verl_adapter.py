"""Agent Lightning's adapter for verl: rows, masks, rewards, advantages, losses beside ours.

Its real RolloutAdapter, rollout-level advantage and per_rollout_mean loss run here, in the
environment of verl, on rollouts as its manager hands them over. First what agrees with our
own code, then what a reader would not guess: each test of the last three classes is a row of
the chapter's tables.
"""

from __future__ import annotations

from checks.bridges.verl_world import TOKENIZER, torch

# isort: split

import contextlib
import io
import sys
import unittest
from pathlib import Path

import agentlightning.verl as agl_verl
from agentlightning.verl import entrypoint, trainer
from agentlightning.verl.per_rollout_loss import normalize_advantages_by_rollout
from agentlightning.verl.rollout_level_advantage import compute_rollout_level_advantage
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from verl.trainer.ppo.core_algos import AdvantageEstimator, agg_loss
from verl.trainer.ppo.ray_trainer import compute_advantage

from agentic_rl.advantage import group_advantages, row_advantages
from agentic_rl.bridges import agent_lightning as bridge
from agentic_rl.conventions import PRESETS
from agentic_rl.golden import golden_group, golden_set
from agentic_rl.objective import policy_loss

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "examples" / "06_agent_lightning"))

import verl_side
from verl_side import OURS, adapted, completed, prepared, row_values, rows_of

GOLDEN = golden_set()
SMALL = {"max_prompt_length": 4, "max_response_length": 6}


def calls(*turns: tuple[list[int], list[int]]) -> list[bridge.Triplet]:
    """Model calls of a few ids; each id has log-prob -0.5."""
    return [
        bridge.Triplet(prompt, response, [-0.5] * len(response))
        for prompt, response in turns
    ]


def single(name: str, reward: float | None, rows: int = 1, group: str = "g", place=0):
    """A rollout of so many turns that never merge."""
    turns = calls(*(([10 + turn], [20]) for turn in range(rows)))
    return completed(name, turns, reward, group, place)


def quiet() -> contextlib.redirect_stdout:
    """Without what the adapter prints."""
    return contextlib.redirect_stdout(io.StringIO())


def advantages(data, estimator="grpo", gamma=1.0):
    """Rollout-level, of prepared data: one list a row."""
    chosen = {
        "adv_estimator": AdvantageEstimator(estimator),
        "gamma": gamma,
        "lam": 1.0,
    }
    found, _ = compute_rollout_level_advantage(data, num_repeat=1, **chosen)
    return found.batch["advantages"].tolist()


def wide(data):
    """With rewards of float32."""
    data.batch["token_level_rewards"] = data.batch["token_level_scores"].float()
    return data


def composed(*overrides: str):
    """Its own config.yaml, composed by Hydra on top of verl's."""
    folder = Path(agl_verl.__file__).parent
    with initialize_config_dir(config_dir=str(folder), version_base=None):
        return compose("config", overrides=list(overrides))


class Rows(unittest.TestCase):
    def test_every_golden_episode_is_one_row_with_our_mask(self):
        for name, (_, episode) in GOLDEN.items():
            turns = verl_side.calls_of(episode, TOKENIZER)
            (row,) = rows_of(adapted([completed(name, turns, 0.0)])[0])
            ours = bridge.merged(episode, TOKENIZER)
            self.assertEqual(row[:3], ours[:3], name)
            torch.testing.assert_close(row.logprobs, ours.logprobs)

    def test_a_prompt_that_begins_with_all_ids_so_far_goes_on_with_the_row(self):
        turns = calls(([10], [20]), ([10, 20, 11], [22]))
        data, metrics = adapted([completed("a", turns, 1.0)], **SMALL)
        expected = [bridge.Row([10], [20, 11, 22], [1, 0, 1], [-0.5, 0.0, -0.5])]
        self.assertEqual(rows_of(data), expected)
        self.assertEqual(bridge.merge(turns), expected)
        self.assertEqual(metrics["training/n_unmerged_rollouts"], 0)

    def test_any_other_prompt_begins_a_new_row_of_the_same_rollout(self):
        for second in ([10, 99, 12], [10], [10, 20, 11]):
            turns = calls(([10], [20, 21]), (second, [22]))
            data, metrics = adapted([completed("a", turns, 1.0)], **SMALL)
            self.assertEqual(rows_of(data), bridge.merge(turns), second)
            self.assertEqual(len(data), 2)
            self.assertEqual(
                data.non_tensor_batch["rollout_id_list"].tolist(), ["a", "a"]
            )
            self.assertEqual(metrics["training/n_unmerged_rollouts"], 1)

    def test_a_prompt_with_nothing_new_goes_on_without_an_observation(self):
        turns = calls(([10], [20]), ([10, 20], [21]))
        (row,) = rows_of(adapted([completed("a", turns, 1.0)], **SMALL)[0])
        self.assertEqual(row, bridge.merge(turns)[0])
        self.assertEqual(row.response_mask, [1, 1])

    def test_rows_of_one_turn_each_have_no_mask_of_their_own(self):
        turns = calls(([10], [20]), ([10, 20, 11], [22]))
        data, _ = adapted([completed("a", turns, 1.0)], "transition", **SMALL)
        self.assertNotIn("response_mask", data.batch.keys())
        self.assertEqual(data.non_tensor_batch["turn_index_list"].tolist(), [0, 1])
        self.assertEqual(prepared(data).batch["response_mask"].sum(-1).tolist(), [1, 1])

    def test_a_failed_rollout_is_a_row_like_any_other(self):
        failed = single("a", 1.0).model_copy(
            update={"rollout_state": "failed", "error_message": "exit 1"}
        )
        data, _ = adapted([failed, single("b", 0.0, place=1)], **SMALL)
        found = [row[0] for row in advantages(wide(prepared(data)))]
        self.assertGreater(found[0], 0.0)


class Advantages(unittest.TestCase):
    def test_rollout_level_ones_are_our_row_advantages(self):
        for level in ("trajectory", "transition"):
            data = verl_side.group_data(TOKENIZER, level, exact=True)
            names = data.non_tensor_batch["rollout_id_list"].tolist()
            scores = data.batch["token_level_scores"].sum(-1).tolist()
            ours = row_advantages(names, scores, ["g"] * len(names), OURS)
            torch.testing.assert_close(
                row_values(data, True), ours, atol=1e-6, rtol=1e-5
            )

    def test_they_stand_on_every_trainable_id_and_nowhere_else(self):
        data = verl_side.group_data(TOKENIZER, "trajectory", exact=True)
        values = row_values(data, True)
        mask = data.batch["response_mask"]
        expected = torch.tensor(values).unsqueeze(-1) * mask
        torch.testing.assert_close(data.batch["advantages"], expected)

    def test_leave_one_out_is_ours_too(self):
        rewards = [0.5, 0.25, 1.0]
        rollouts = [single(f"r{i}", x, i + 1, place=i) for i, x in enumerate(rewards)]
        data = wide(prepared(adapted(rollouts, **SMALL)[0]))
        names = data.non_tensor_batch["rollout_id_list"].tolist()
        told = [rewards[int(name[1])] for name in names]
        ours = row_advantages(names, told, ["g"] * len(names), PRESETS["rloo"])
        found = [row[0] for row in advantages(data, "rloo")]
        torch.testing.assert_close(found, ours, atol=1e-6, rtol=1e-5)

    def test_rows_that_disagree_are_refused_by_both(self):
        data = wide(
            prepared(adapted([single("a", 1.0, 2), single("b", 0.0)], **SMALL)[0])
        )
        data.batch["token_level_rewards"][0] *= 2
        with self.assertRaisesRegex(RuntimeError, "same scalar"):
            advantages(data)
        with self.assertRaises(ValueError):
            row_advantages(["a", "a", "b"], [2.0, 1.0, 0.0], ["g"] * 3, OURS)

    def test_an_advantage_that_differs_from_id_to_id_is_refused(self):
        turns = calls(([10], [20, 21, 22]))
        data = wide(prepared(adapted([completed("a", turns, 1.0)], **SMALL)[0]))
        config = OmegaConf.create({"gamma": 0.5, "use_pf_ppo": False})
        with self.assertRaisesRegex(RuntimeError, "non-constant"):
            compute_rollout_level_advantage(
                data,
                adv_estimator=AdvantageEstimator.REINFORCE_PLUS_PLUS,
                gamma=0.5,
                lam=1.0,
                num_repeat=1,
                config=config,
            )

    def test_equal_rewards_still_get_zero(self):
        for count in range(2, 33):
            for reward in (0.1, 0.7, 0.9, 1.2):
                rollouts = [single(f"r{i}", reward, place=i) for i in range(count)]
                data = prepared(adapted(rollouts, **SMALL)[0])
                self.assertEqual(
                    {row[0] for row in advantages(data)}, {0.0}, (count, reward)
                )


class Losses(unittest.TestCase):
    """per_rollout_mean against our objective, whose aggregation is episode_mean."""

    def test_it_is_ours_where_each_rollout_is_a_row_with_every_clip(self):
        data = verl_side.group_data(TOKENIZER, "trajectory", exact=True)
        row_values(data, True)
        for shift in (0.1, 0.3, -0.3, 1.5, 25.0):  # in range, clips, dual clip, clamp
            theirs, ours = (
                verl_side.their_loss(data, shift),
                verl_side.our_loss(data, shift),
            )
            torch.testing.assert_close(theirs, ours, atol=1e-6, rtol=1e-5)

    def test_the_clips_did_act(self):
        data = verl_side.group_data(TOKENIZER, "trajectory", exact=True)
        row_values(data, True)
        inside, above, beyond, far = (
            verl_side.our_loss(data, shift) for shift in (0.1, 0.3, 1.5, 2.5)
        )
        # One ratio for all, and advantages that add up to 0: so does the loss.
        self.assertAlmostEqual(inside, 0.0, 6)
        self.assertGreater(above, 0.01)  # good actions are held, bad ones are not
        self.assertAlmostEqual(beyond, far, 6)  # from 3 on, bad ones are held too

    def test_each_rollout_is_weighed_by_the_ids_of_all_its_rows(self):
        mask = torch.tensor([[1, 1, 0], [1, 1, 1], [1, 0, 0]])
        values = torch.ones(3, 3)
        found = normalize_advantages_by_rollout(
            values, mask, ["a", "a", "b"], num_trained_rows=3
        )
        expected = [1 / 15, 1 / 15, 1 / 3]  # 5 ids and 1 id, three rows
        torch.testing.assert_close(found[:, 0].tolist(), expected)


class TheConfig(unittest.TestCase):
    def test_every_override_of_the_bridge_has_its_place_in_it(self):
        plain, said = composed(), bridge.overrides(OURS)
        chosen = composed(*said)
        for line in said:
            key, _, value = line.partition("=")
            missing = object()
            self.assertIsNot(
                OmegaConf.select(plain, key, default=missing), missing, key
            )
            self.assertEqual(str(OmegaConf.select(chosen, key)).lower(), value.lower())

    def test_the_settings_that_the_page_explains_are_there(self):
        plain, missing = composed(), object()
        for name in (
            "agl_base_url",
            "agl_key",
            "local.agent_class",
            "local.env_map",
            "k8s.job_template_path",
            "rollout_timeout_seconds",
            "trace_aggregator.level",
            "reward_fillna_value",
        ):
            found = OmegaConf.select(plain, f"agentlightning.{name}", default=missing)
            self.assertIsNot(found, missing, name)

    def test_every_preset_composes_once_what_it_lacks_is_given_up(self):
        for name in (
            "course",
            "grpo",
            "dr_grpo",
            "dapo",
            "gspo",
            "rloo",
            "trl",
            "verl",
        ):
            preset = PRESETS[name]
            composed(*bridge.overrides(preset.but(**bridge.unsaid(preset))))


class SurprisesOfRows(unittest.TestCase):
    def test_a_template_that_drops_thoughts_splits_a_rollout(self):
        episode = GOLDEN["thinking"][1]
        kept = verl_side.calls_of(episode, TOKENIZER)
        dropped = verl_side.without_thoughts(episode, TOKENIZER)
        for turns, rows in ((kept, 1), (dropped, 2)):
            found = rows_of(adapted([completed("a", turns, 1.0)])[0])
            self.assertEqual(
                [row[:3] for row in found], [r[:3] for r in bridge.merge(turns)]
            )
            self.assertEqual(len(found), rows)

    def test_ids_that_the_tokenizer_would_not_have_cut_split_a_rollout(self):
        turns = verl_side.calls_of(GOLDEN["one call"][1], TOKENIZER)
        cut = verl_side.cut_otherwise(turns, TOKENIZER)
        texts = [TOKENIZER.decode(x[0].response_ids) for x in (turns, cut)]
        self.assertEqual(texts[0], texts[1])
        self.assertNotEqual(turns[0].response_ids, cut[0].response_ids)
        self.assertEqual(len(adapted([completed("a", cut, 1.0)])[0]), 2)

    def test_level_trajectory_changes_the_triplets_it_was_given(self):
        turns = calls(([10], [20]), ([10, 20, 11], [22]))
        rollout = completed("a", turns, 1.0)
        first, _ = adapted([rollout], **SMALL)
        self.assertEqual(rollout.triplets[0].response["log_probs"], [-0.5, 0.0, -0.5])
        second, _ = adapted([rollout], **SMALL)
        self.assertIn("rollout_log_probs", first.batch.keys())
        self.assertNotIn("rollout_log_probs", second.batch.keys())
        bridge.merge(turns)
        self.assertEqual(turns, calls(([10], [20]), ([10, 20, 11], [22])))

    def test_one_call_without_log_probs_takes_those_of_the_batch(self):
        good = single("a", 1.0)
        bad = completed("b", [bridge.Triplet([10], [20], None)], 0.0, "g", 1)
        with quiet() as page:
            data, _ = adapted([good, bad], **SMALL)
        self.assertNotIn("rollout_log_probs", data.batch.keys())
        self.assertIn("Mixed rollout log_probs", page.getvalue())

    def test_a_long_prompt_is_cut_and_its_row_marked_to_be_dropped(self):
        turns = calls(([1, 2, 3, 4, 5], [20]))
        data, _ = adapted(
            [completed("a", turns, 1.0), single("b", 0.0, place=1)], **SMALL
        )
        self.assertEqual(data.batch["is_drop_mask"].tolist(), [True, False])
        self.assertEqual(rows_of(data)[0].prompt_ids, [1, 2, 3, 4])  # its end is gone
        # Its trainer drops it before the advantage: the other one has no peer left.
        rest = wide(prepared(data[[1]]))
        self.assertEqual(len(rest), 1)

    def test_a_long_response_is_cut_and_trained_on_all_the_same(self):
        turns = calls(([10], [20, 21, 22, 23, 24, 25, 26, 27]))
        data, metrics = adapted([completed("a", turns, 1.0)], **SMALL)
        (row,) = rows_of(data)
        self.assertEqual(row.response_ids, [20, 21, 22, 23, 24, 25])
        self.assertEqual(data.batch["is_drop_mask"].tolist(), [False])
        self.assertEqual(
            data.batch["token_level_scores"][0].tolist(), [0, 0, 0, 0, 0, 1]
        )
        self.assertEqual(metrics["training/n_truncated_sample"], 1)

    def test_a_rollout_without_a_model_call_is_only_printed(self):
        silent = completed("a", [], 1.0)
        with quiet() as page:
            data, metrics = adapted([silent, single("b", 0.0, place=1)], **SMALL)
        self.assertEqual(data.non_tensor_batch["rollout_id_list"].tolist(), ["b"])
        self.assertIn("No triplets found for training rollout a", page.getvalue())
        self.assertEqual(metrics["training/reward"], 0.5)  # it counts in the mean


class SurprisesOfNumbers(unittest.TestCase):
    def test_rewards_and_advantages_are_bfloat16(self):
        data = verl_side.group_data(TOKENIZER, "trajectory")
        scores = data.batch["token_level_scores"]
        self.assertEqual(scores.dtype, torch.bfloat16)
        self.assertEqual(scores.sum(-1).tolist(), [0.8984375, 0.0, 0.69921875, 0.0])
        first = row_values(data, True)[0]
        self.assertEqual(data.batch["advantages"].dtype, torch.bfloat16)
        exact = group_advantages([x.reward for x in golden_group()], ["g"] * 4)[0]
        self.assertEqual(first, 1.0703125)
        self.assertAlmostEqual(exact, 1.0660, 4)

    def test_rewards_that_differ_by_little_become_equal(self):
        rollouts = [single("a", 0.9), single("b", 0.9003, place=1)]
        data = prepared(adapted(rollouts, **SMALL)[0])
        self.assertEqual([row[0] for row in advantages(data)], [0.0, 0.0])
        ours = group_advantages([0.9, 0.9003], ["g", "g"], OURS)
        self.assertLess(ours[0], -0.7)

    def test_the_mean_of_two_rewards_is_one_of_them(self):
        """0.8984 and 0.9023 are neighbours in bfloat16; their mean is rounded as well."""
        rollouts = [single("a", 0.9), single("b", 0.901, place=1)]
        data = prepared(adapted(rollouts, **SMALL)[0])
        found = [row[0] for row in advantages(data)]
        self.assertEqual(found[0], 0.0)
        self.assertGreater(found[1], 1.4)
        self.assertAlmostEqual(
            sum(group_advantages([0.9, 0.901], ["g", "g"], OURS)), 0.0
        )

    def test_statistics_over_rows_can_turn_the_sign(self):
        """Rewards 1, 0.7, 0: the second is above the mean of three rollouts, 0.567."""
        rewards = {"a": 1.0, "b": 0.7, "c": 0.0}
        rollouts = [
            single(name, reward, 6 if name == "a" else 1, place=place)
            for place, (name, reward) in enumerate(rewards.items())
        ]
        data = wide(prepared(adapted(rollouts, "transition", **SMALL)[0]))
        names = data.non_tensor_batch["rollout_id_list"].tolist()
        told = [rewards[name] for name in names]
        by_row, by_rollout = row_values(data, False), row_values(data, True)
        place = names.index("b")
        self.assertLess(by_row[place], 0.0)  # below the mean of eight rows, 0.8375
        self.assertGreater(by_rollout[place], 0.0)
        over_rows = group_advantages(told, ["g"] * 8, OURS)
        torch.testing.assert_close(by_row, over_rows, atol=0.01, rtol=0.01)

    def test_the_mean_of_per_rollout_mean_is_over_rows(self):
        data = verl_side.group_data(TOKENIZER, "transition", exact=True)
        row_values(data, True)
        self.assertEqual(len(data), 9)
        theirs, ours = verl_side.their_loss(data, 0.3), verl_side.our_loss(data, 0.3)
        self.assertAlmostEqual(theirs * 9 / 4, ours, 6)
        self.assertGreater(abs(ours), 0.01)

    def test_in_two_mini_batches_a_kl_weighs_twice_as_much(self):
        """Four rollouts of one id. Each mini-batch has two rows, the divisor is four."""
        mask = torch.ones(4, 1)
        values = torch.tensor([[1.0], [2.0], [3.0], [4.0]])
        found = normalize_advantages_by_rollout(
            values, mask, list("abcd"), num_trained_rows=4
        )
        for half in (slice(0, 2), slice(2, 4)):
            theirs = verl_side.per_rollout_loss(found[half], mask[half], 0.1)
            gains = values[half].tolist()
            ours = policy_loss([[-0.9]] * 2, [[-1.0]] * 2, gains, OURS).value
            self.assertAlmostEqual(theirs * 2, ours, 6)
            # A KL of 0.5 at each id is 0.5 in any mini-batch, as it is of ours.
            kl = agg_loss(mask[half] / 2, mask[half], "seq-mean-token-mean")
            self.assertEqual(float(kl), 0.5)
        convention = OURS.but(kl_place="loss", kl_weight=0.1)
        no_kl = {"kl_place": "none", "kl_weight": 0.0}
        self.assertEqual(bridge.unsaid(convention), no_kl)

    def test_a_missing_reward_is_filled_in_and_compared(self):
        rollouts = [single("a", None), single("b", 1.0, place=1)]
        data, metrics = adapted(rollouts, reward_fillna_value=-1.0, **SMALL)
        self.assertEqual(data.batch["token_level_scores"].sum(-1).tolist(), [-1.0, 1.0])
        self.assertEqual(metrics["training/n_rollouts_w_reward"], 1)
        data, _ = adapted(rollouts, **SMALL)
        found = [row[0] for row in advantages(wide(prepared(data)))]
        ours = group_advantages([None, 1.0], ["g", "g"], OURS)  # unscored: zero
        torch.testing.assert_close(found, ours, atol=1e-6, rtol=1e-5)
        left_out = group_advantages([None, 1.0], ["g", "g"])
        self.assertEqual(left_out, [0.0, 0.0])

    def test_a_dropped_rollout_leaves_the_statistics_of_its_group(self):
        turns = calls(([1, 2, 3, 4, 5], [20]))
        rollouts = [completed("a", turns, 1.0, "g", 0)]
        rollouts += [single(f"r{i}", x, place=i + 1) for i, x in enumerate((0.5, 0.25))]
        data = wide(prepared(adapted(rollouts, **SMALL)[0]))
        keep = (~data.batch["is_drop_mask"]).nonzero(as_tuple=True)[0].tolist()
        found = [row[0] for row in advantages(data[keep])]
        ours = group_advantages([0.5, 0.25], ["g", "g"], OURS)
        torch.testing.assert_close(found, ours, atol=1e-6, rtol=1e-5)

    def test_a_group_of_one_gets_its_raw_reward(self):
        data = wide(prepared(adapted([single("a", 0.5, 3)], **SMALL)[0]))
        found = [row[0] for row in advantages(data)]
        torch.testing.assert_close(found, [0.5] * 3, atol=1e-5, rtol=1e-5)
        # And of rows it is no group of one: three equal rewards.
        plain = compute_advantage(
            data,
            adv_estimator=AdvantageEstimator.GRPO,
            gamma=1.0,
            lam=1.0,
            num_repeat=1,
        )
        self.assertEqual(
            [row[0] for row in plain.batch["advantages"].tolist()], [0.0] * 3
        )

    def test_rows_of_equal_rewards_are_the_first_to_be_dropped(self):
        """By this list, where rows do not fill a mini-batch; the dropping was read."""
        rollouts = [
            single("a", 0.9, 2, "equal", 0),
            single("b", 0.9003, 1, "equal", 1),  # in bfloat16 the same
            single("c", 0.9, 1, "other", 2),
            single("d", 0.0, 1, "other", 3),
        ]
        data = prepared(adapted(rollouts, **SMALL)[0])
        names = data.non_tensor_batch["rollout_id_list"].tolist()
        found = [names[row] for row in trainer._same_reward_uid_indices(data)]
        self.assertEqual(found, ["a", "a", "b"])


class SurprisesOfSettings(unittest.TestCase):
    def test_its_entry_point_does_not_start_with_verl_0_9_1(self):
        runner = entrypoint._AglTaskRunner.__ray_metadata__.modified_class
        with self.assertRaisesRegex(ImportError, "TaskRunner"):
            runner()

    def test_its_defaults_are_rollout_level_but_the_estimator_is_gae(self):
        plain = composed()
        self.assertEqual(plain.algorithm.adv_estimator, "gae")
        self.assertTrue(plain.algorithm.enable_rollout_level_advantage)
        self.assertEqual(
            plain.actor_rollout_ref.actor.policy_loss.loss_mode, "per_rollout_mean"
        )
        self.assertEqual(plain.agentlightning.trace_aggregator.level, "trajectory")
        self.assertEqual(plain.agentlightning.reward_fillna_value, 0.0)


if __name__ == "__main__":
    unittest.main()
