"""The switches and the presets.

The values of the frameworks' presets are those of TRL 1.16.0, verl 0.9.1 and OpenRLHF
0.11.2, which were run; bridges compare the numbers with the frameworks themselves.
"""

from __future__ import annotations

import dataclasses
import math
import unittest

from agentic_rl.advantage import AdvantageError, group_advantages, kept, spread
from agentic_rl.conventions import (
    CHOICES,
    COURSE,
    DAPO,
    DR_GRPO,
    GRPO_PAPER,
    GSPO,
    OPENRLHF,
    PRESETS,
    REINFORCE_PLUS_PLUS,
    RLOO,
    TRL,
    VERL,
    Convention,
    ConventionError,
)
from agentic_rl.objective import policy_loss

FIELDS = {field.name for field in dataclasses.fields(Convention)}
NOT_SWITCHES = {"name", "source", "notes"}


class Switches(unittest.TestCase):
    def test_every_choice_can_be_made_and_no_other(self):
        for name, allowed in CHOICES.items():
            for value in allowed:
                with self.subTest(switch=name, value=value):
                    self.assertEqual(getattr(COURSE.but(**{name: value}), name), value)
            for value in ("", "nonsense", None, 7, allowed):
                with self.subTest(switch=name, value=value):
                    with self.assertRaises(ConventionError) as caught:
                        Convention(**{name: value})
                    text = str(caught.exception)
                    self.assertIn(name, text)
                    self.assertIn(repr(value), text)
                    for choice in allowed:
                        self.assertIn(str(choice), text)

    def test_numbers_and_flags_that_are_not_there(self):
        never = ("1", [1], math.nan, math.inf)
        refused = {
            "std_epsilon": (-1e-9, None, *never),
            "mean_epsilon": (-1e-9, None, *never),
            "clip_low": (-0.1, None, *never),
            "clip_high": (-0.1, None, *never),
            "kl_weight": (-0.1, None, *never),
            # a clamp of 0 would hold every ratio at 1; None is how to have no clamp
            "log_ratio_clamp": (0, -20, *never),
            "kl_log_ratio_clamp": (0, -20, *never),
            "kl_clamp": (0, -10, *never),
            # at 1 or below the bound of -c * A would cut the unclipped loss
            "dual_clip": (1, 0.5, -3, *never),
            "max_length": (0, -5, None, *never),
            "discount": (-0.1, 1.1, None, *never),
            # a text would count as true, "no" and "false" too
            "whiten": ("no", 0, 1, None),
            "kl_ratio": ("no", 0, 1, None),
        }
        for name, values in refused.items():
            for value in values:
                with self.subTest(switch=name, value=value):
                    with self.assertRaises(ConventionError) as caught:
                        COURSE.but(**{name: value, "returns": "to_go"})
                    self.assertTrue(str(caught.exception).startswith(f"{name}: "))
                    self.assertIn(repr(value), str(caught.exception))
        # every switch is refused something, here or by its list of choices
        self.assertEqual(FIELDS, NOT_SWITCHES | set(CHOICES) | set(refused))

    def test_values_at_the_edge_are_there(self):
        COURSE.but(std_epsilon=0, mean_epsilon=0, clip_low=0, clip_high=0, kl_weight=0)
        COURSE.but(dual_clip=None, log_ratio_clamp=None, kl_clamp=None, max_length=1)
        COURSE.but(discount=0, returns="to_go")
        COURSE.but(whiten=True, kl_ratio=True)

    def test_what_differs_from_it_is_told_by_value(self):
        self.assertEqual(
            COURSE.differing({"ddof": 0, "std": COURSE.std, "dual_clip": 3.0}),
            {"ddof": 0, "dual_clip": 3.0},
        )
        self.assertEqual(COURSE.differing(vars(COURSE)), {})

    def test_a_discount_needs_returns_to_go(self):
        with self.assertRaisesRegex(ConventionError, 'discount.*returns="to_go"'):
            COURSE.but(discount=0.9)
        self.assertEqual(COURSE.but(discount=0.9, returns="to_go").discount, 0.9)

    def test_but_turns_what_it_is_told_and_nothing_else(self):
        turned = COURSE.but(std="none", clip_high=0.28)
        changed = {
            name for name in FIELDS if getattr(turned, name) != getattr(COURSE, name)
        }
        self.assertEqual(changed, {"std", "clip_high"})
        self.assertEqual((COURSE.std, COURSE.clip_high), ("group", 0.2))
        self.assertEqual(COURSE.but(), COURSE)

    def test_but_refuses_a_switch_that_is_not_there(self):
        with self.assertRaisesRegex(ConventionError, "'epsilon' is no switch"):
            COURSE.but(epsilon=0.2)

    def test_a_convention_can_not_be_changed_by_accident(self):
        with self.assertRaises(dataclasses.FrozenInstanceError):
            COURSE.std = "none"
        self.assertEqual(len({COURSE, COURSE.but(), TRL}), 2)  # and it can be a key


class Presets(unittest.TestCase):
    def test_each_stands_under_its_name_and_says_where_it_is_from(self):
        self.assertEqual(
            list(PRESETS),
            [
                "course",
                "grpo",
                "dr_grpo",
                "dapo",
                "gspo",
                "rloo",
                "reinforce++",
                "trl",
                "verl",
                "openrlhf",
                "agent_lightning",
            ],
        )
        for name, preset in PRESETS.items():
            self.assertEqual(preset.name, name)
            self.assertTrue(preset.source)

    def test_notes_speak_of_switches_that_exist_once_each(self):
        for name, preset in PRESETS.items():
            with self.subTest(preset=name):
                noted = [field for field, _ in preset.notes]
                self.assertLessEqual(set(noted), FIELDS - NOT_SWITCHES)
                self.assertEqual(len(noted), len(set(noted)))
                self.assertTrue(all(text for _, text in preset.notes))

    def test_papers_say_what_they_leave_open(self):
        for preset in (GRPO_PAPER, DR_GRPO, DAPO, GSPO, RLOO, REINFORCE_PLUS_PLUS):
            with self.subTest(preset=preset.name):
                texts = [text for _, text in preset.notes]
                self.assertTrue(any("we chose" in text for text in texts))

    def assert_values(self, preset: Convention, **values: object) -> None:
        for name, value in values.items():
            with self.subTest(preset=preset.name, switch=name):
                self.assertEqual(getattr(preset, name), value)

    def test_the_frameworks_values(self):
        # Case c03 (verl#6348): three times the same formula, three epsilons
        for preset, epsilon in ((TRL, 1e-4), (VERL, 1e-6), (OPENRLHF, 1e-9)):
            self.assert_values(
                preset,
                baseline="group_mean",
                std="group",
                ddof=1,
                std_epsilon=epsilon,
                epsilon_place="added",
                zero_spread="divide",
                unit="token",
                aggregation="batch_mean",
                ratio="unit",
                clip="ppo",
                clip_low=0.2,
                clip_high=0.2,
                kl_place="none",
                kl_estimator="k3",
            )
        # Case f01 (miles#1363): verl and OpenRLHF clamp the log-ratio, TRL does not
        self.assert_values(TRL, log_ratio_clamp=None, dual_clip=None, kl_clamp=None)
        self.assert_values(VERL, log_ratio_clamp=20.0, dual_clip=3.0)
        self.assert_values(OPENRLHF, log_ratio_clamp=20.0, dual_clip=None)
        # Case f04 (trl#2854): verl clamps log-ratio and k3, OpenRLHF k3 alone
        self.assert_values(VERL, kl_log_ratio_clamp=20.0, kl_clamp=10.0)
        self.assert_values(OPENRLHF, kl_log_ratio_clamp=None, kl_clamp=10.0)
        self.assert_values(TRL, kl_ratio=True)
        # Case c02 (verl#7794): a group of one
        self.assert_values(VERL, group_of_one="raw")
        self.assert_values(TRL, group_of_one="zero", unscored="left_out")
        self.assert_values(OPENRLHF, group_of_one="refuse")
        # verl divides an episode's sum by its count + 1e-8 and passes over empty rows
        self.assert_values(VERL, mean_epsilon=1e-8, empty_rows="left_out")

    def test_the_papers_values(self):
        mean = {"baseline": "group_mean", "unit": "token", "ratio": "unit"}
        self.assert_values(
            GRPO_PAPER,
            **mean,
            std="group",
            aggregation="episode_mean",
            kl_place="loss",
            kl_weight=0.04,
            kl_estimator="k3",
        )
        # Dr. GRPO takes out both divisions: by the std and by the length
        self.assert_values(DR_GRPO, **mean, std="none", aggregation="episode_sum")
        self.assert_values(
            DAPO,
            **mean,
            aggregation="batch_mean",
            clip_low=0.2,
            clip_high=0.28,
            groups="informative",
            kl_place="none",
        )
        self.assert_values(
            GSPO,
            ratio="sequence",
            clip_low=3e-4,
            clip_high=4e-4,
            aggregation="episode_mean",
        )
        self.assert_values(
            RLOO,
            baseline="leave_one_out",
            std="none",
            clip="off",
            kl_place="reward",
            kl_estimator="k1",
        )
        self.assert_values(
            REINFORCE_PLUS_PLUS,
            baseline="none",
            std="none",
            whiten=True,
            returns="to_go",
            discount=1.0,
            kl_place="reward",
            kl_estimator="k1",
        )

    def test_no_two_presets_give_the_same_numbers(self):
        """Two rows of the table that no batch can tell apart would be one row.

        The batch has an informative group, one of equal rewards, one of rewards that
        nearly are, unequal lengths, log-ratios on both sides of every clip and one
        beyond the clamp, and a policy that has moved away from the reference.
        """
        numbers = {name: fingerprint(preset) for name, preset in PRESETS.items()}
        names = list(numbers)
        for place, one in enumerate(names):
            for other in names[:place]:
                with self.subTest(one=one, other=other):
                    pairs = zip(numbers[one], numbers[other])
                    self.assertGreater(max(abs(a - b) for a, b in pairs), 1e-9)


def fingerprint(preset: Convention) -> list[float]:
    """Every advantage and every slope that a preset gives on one fixed batch."""
    rewards = [1.0, 0.0, 0.5, 0.3, 0.3, 0.3, 1.0, 1.0, 1.001]
    groups = [0, 0, 0, 1, 1, 1, 2, 2, 2]
    solved = [True, False, False, False, False, False, True, True, True]
    advantages = group_advantages(rewards, groups, preset)
    keep = kept(rewards, groups, solved, preset)
    lengths = [1, 2, 3, 2, 1, 2, 3, 1, 2]
    # one log-ratio above the high clip for A > 0, one below the low clip, one past 3
    moves = [0.25, 1.5, -0.3, 0.1, 0.0, -0.1, 0.22, -0.24, 0.3]
    rows = spread(advantages, lengths, preset)
    old = [[-1.0 - 0.1 * place for place in range(n)] for n in lengths]
    new = [
        [x + move / (1 + i) for i, x in enumerate(row)] for row, move in zip(old, moves)
    ]
    new[1][1], old[1][1] = -0.5, -26.0  # a ratio that ran away, A < 0
    ref = [[x - 0.4 for x in row] for row in old]
    mask = [[1 if taken else 0] * n for taken, n in zip(keep, lengths)]
    loss = policy_loss(new, old, rows, preset, mask, ref)
    slopes = [slope for row in loss.gradient for slope in row]
    try:
        alone = group_advantages([0.7], ["only"], preset)
    except AdvantageError:
        alone = [-1.0]
    return [*advantages, *alone, *slopes]


if __name__ == "__main__":
    unittest.main()
