"""Chapter 03, without TRL: the interface, the settings, reward and replay.

What calls TRL itself is in checks/bridges/, which need it installed.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import runpy
import subprocess
import sys
import unittest
from pathlib import Path
from unittest import mock

from agentic_rl.agent_loop import Episode, Limits
from agentic_rl.bridges import frameworks, sums, trl_worlds
from agentic_rl.bridges import trl as bridge
from agentic_rl.bridges.frameworks import BridgeError
from agentic_rl.conventions import COURSE, DR_GRPO, PRESETS, TRL, VERL, ConventionError
from agentic_rl.golden import GOLDEN_TASK, LOOKUP_TASK, golden_group, golden_set
from agentic_rl.reward import COURSE_REWARD, Score
from agentic_rl.tasks import Task, TaskError, generate
from agentic_rl.tool_math import CALCULATOR, ToolMath
from tests.pages import printed

ROOT = Path(__file__).resolve().parents[1]
CHAPTER = ROOT / "examples" / "03_grpo_single_turn"
GOLDEN = golden_set()
GONE = mock.patch.object(frameworks, "installed", lambda framework: None)
OLD = mock.patch.object(frameworks, "installed", lambda framework: "0.9.0")


def call(function, completions, **given):
    """A reward function, called as TRL calls it; (rewards, extra columns, metrics)."""
    extra: dict[str, list] = {}
    metrics: dict[str, float] = {}
    count = len(completions)
    rewards = function(
        **{
            "prompts": [[]] * count,
            "completions": completions,
            "completion_ids": [[7]] * count,
            "task": [bridge.rows([GOLDEN_TASK])[0]["task"]] * count,
            "trainer_state": None,
            "log_extra": extra.__setitem__,
            "log_metric": metrics.__setitem__,
            **given,
        }
    )
    return rewards, extra, metrics


class NoFramework(unittest.TestCase):
    def test_importing_the_bridges_imports_no_framework(self):
        program = (
            "import sys; from agentic_rl.bridges import trl, trl_worlds, sums; "
            "print([name for name in ('trl', 'torch', 'transformers', 'tokenizers', "
            "'datasets') if name in sys.modules])"
        )
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True
        )
        self.assertEqual((done.stdout, done.stderr), ("[]\n", ""))

    def test_a_missing_or_another_version_is_one_line_that_says_what_to_install(self):
        for patch, state in (
            (GONE, "trl is not there"),
            (OLD, "trl 0.9.0 is installed"),
        ):
            with patch:
                line = frameworks.missing("trl")
                self.assertTrue(line.startswith(f"{state}, this course needs 1.16.0"))
                self.assertIn("requirements-optional.txt", line)
                self.assertNotIn("\n", line)
                with self.assertRaisesRegex(BridgeError, state):
                    frameworks.require("trl")

    def test_the_lock_file_pins_the_version_that_the_bridge_speaks_of(self):
        lock = (ROOT / frameworks.LOCKS["trl"]).read_text(encoding="utf-8")
        self.assertIn(f"\ntrl=={frameworks.VERSIONS['trl']}\n", f"\n{lock}\n")


class Scripts(unittest.TestCase):
    def test_without_trl_the_first_prints_the_interface_and_what_to_install(self):
        script = runpy.run_path(str(CHAPTER / "train_grpo_single_turn.py"))
        with mock.patch.dict(
            script["main"].__globals__, {"missing": lambda name: "trl is not there"}
        ):
            page = printed(script["main"])
        self.assertIn("Not run: trl is not there.", page)
        self.assertRegex(page, r"one call +3 +0\.9 +1\.0 +-0\.1 +0\.0\n")
        self.assertRegex(page, r"spam +7 +0\.7 +1\.0 +-0\.3 +0\.0\n")
        self.assertRegex(page, r"one call +0\.9000 +1\.0660 +1\.0658\n")
        self.assertTrue(page.isascii())
        self.assertLessEqual(max(map(len, page.splitlines())), 80)

    def test_without_trl_the_others_end_with_that_line_and_status_1(self):
        for name in ("train_grpo_tools.py", "two_steps_of_smollm2.py"):
            with self.subTest(name):
                script = runpy.run_path(str(CHAPTER / name))
                said = io.StringIO()
                with (
                    mock.patch.dict(
                        script["main"].__globals__, {"missing": lambda name: "gone"}
                    ),
                    mock.patch.object(sys, "argv", [name]),
                    contextlib.redirect_stderr(said),
                ):
                    self.assertEqual(script["main"](), 1)
                self.assertEqual(said.getvalue(), "gone\n")

    def test_what_is_missing_fits_eighty_columns(self):
        for name in ("train_grpo_tools.py", "two_steps_of_smollm2.py"):
            script = runpy.run_path(str(CHAPTER / name))
            argv = mock.patch.object(sys, "argv", [name])
            with GONE, argv, contextlib.redirect_stderr(io.StringIO()) as said:
                script["main"]()
                told = frameworks.missing("trl")
            lines = said.getvalue().splitlines()
            self.assertEqual(" ".join(lines), told)
            self.assertLessEqual(max(map(len, lines)), 80)

    def test_an_unknown_way_to_the_tools_is_refused(self):
        script = runpy.run_path(str(CHAPTER / "train_grpo_tools.py"))
        argv = mock.patch.object(sys, "argv", ["x", "--with", "magic"])
        with argv, contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertRaises(SystemExit, script["main"])
        self.assertIn("'tools', 'environment', 'rollout'", said.getvalue())


class Rows(unittest.TestCase):
    def test_a_row_is_the_question_as_a_conversation_and_the_task_as_json(self):
        (row,) = bridge.rows([LOOKUP_TASK])
        self.assertEqual(
            row["prompt"], [{"role": "user", "content": LOOKUP_TASK.question}]
        )
        self.assertEqual(json.loads(row["task"]), LOOKUP_TASK.to_dict())

    def test_every_task_comes_back(self):
        tasks = generate(5, seed=0)
        self.assertEqual([bridge.task_of(row) for row in bridge.rows(tasks)], tasks)

    def test_a_row_without_a_task_is_refused(self):
        for row in ({}, {"task": None}, {"task": {"id": "a"}}):
            with self.assertRaisesRegex(BridgeError, "row: no task"):
                bridge.task_of(row)

    def test_a_row_whose_answer_is_wrong_is_refused(self):
        row = bridge.rows([GOLDEN_TASK])[0]
        row["task"] = row["task"].replace("29842", "29843")
        with self.assertRaisesRegex(TaskError, "field 'answer'"):
            bridge.task_of(row)


class Completions(unittest.TestCase):
    """completion() and replay() are each other's way back."""

    ENDS_EARLIER = ("broken JSON", "never answers", "truncated", "timeout")

    def test_replayed_a_completion_is_the_episode_again(self):
        for name, (task, episode) in GOLDEN.items():
            if name not in self.ENDS_EARLIER:
                with self.subTest(name):
                    again = bridge.replay(task, bridge.completion(episode))
                    self.assertEqual(again.messages, episode.messages)
                    self.assertEqual(again.observations, episode.observations)
                    self.assertEqual(again.tokens, episode.tokens)
                    self.assertEqual(again.finish_reason, "stop")

    def test_a_cut_turn_is_cut_again(self):
        task, episode = GOLDEN["truncated"]
        again = bridge.replay(task, bridge.completion(episode), cut=True)
        self.assertEqual(again.loss_mask, episode.loss_mask)
        self.assertEqual(again.finish_reason, "length")
        self.assertIsNone(again.answer)

    def test_calls_have_no_numbers_and_an_answer_has_its_tools_name(self):
        told = bridge.completion(GOLDEN["one call"][1])
        self.assertEqual(
            told,
            [
                {
                    "role": "assistant",
                    "content": "",
                    "tool_calls": [
                        {
                            "type": "function",
                            "function": {
                                "name": "calculator",
                                "arguments": {"expression": "347 * 86"},
                            },
                        }
                    ],
                },
                {"role": "tool", "name": "calculator", "content": "29842"},
                {"role": "assistant", "content": "Answer: 29842"},
            ],
        )

    def test_a_call_nobody_can_read_is_text_and_the_last_message(self):
        told = bridge.completion(GOLDEN["broken JSON"][1])
        self.assertEqual([message["role"] for message in told], ["assistant"])
        self.assertTrue(told[0]["content"].startswith("<tool_call>"))
        again = bridge.replay(GOLDEN_TASK, told)
        self.assertEqual((again.finish_reason, again.invalid_calls), ("length", 1))

    def test_out_of_turns_the_last_call_is_not_answered(self):
        told = bridge.completion(GOLDEN["never answers"][1])
        self.assertEqual(len(told), 2 * Limits().max_turns - 1)
        self.assertIn("tool_calls", told[-1])
        again = bridge.replay(GOLDEN_TASK, told)
        self.assertEqual(again.finish_reason, "max_turns")

    def test_a_tool_that_said_something_else_is_refused(self):
        told = bridge.completion(GOLDEN["one call"][1])
        told[1]["content"] = "29843"
        with self.assertRaisesRegex(
            BridgeError, "message 1: TRL recorded '29843', our"
        ):
            bridge.replay(GOLDEN_TASK, told)

    def test_an_answer_too_many_or_too_few_is_refused(self):
        told = bridge.completion(GOLDEN["one call"][1])
        for broken in ([told[0], told[1], told[1], told[2]], [told[0], told[2]]):
            with self.assertRaises(BridgeError):
                bridge.replay(GOLDEN_TASK, broken)

    def test_a_turn_after_the_end_is_refused(self):
        told = bridge.completion(GOLDEN["one call"][1])
        with self.assertRaisesRegex(BridgeError, r"message 3: .*\(stop\)"):
            bridge.replay(GOLDEN_TASK, [*told, told[-1]])

    def test_another_author_is_refused(self):
        with self.assertRaisesRegex(BridgeError, "a turn of 'user'"):
            bridge.replay(GOLDEN_TASK, [{"role": "user", "content": "29842"}])


class RewardFunction(unittest.TestCase):
    def completions(self):
        return [bridge.completion(episode) for episode in golden_group()]

    def test_the_golden_group_and_what_each_reward_is_made_of(self):
        """1 - 0.1, a wrong guess, 1 - 3 * 0.1, a wrong guess after a bad call."""
        reward = bridge.reward_function(COURSE_REWARD, None)
        rewards, extra, metrics = call(reward, self.completions())
        for got, expected in zip(rewards, (0.9, 0.0, 0.7, 0.0)):
            self.assertAlmostEqual(got, expected)
        self.assertEqual(extra["right"], [1.0, 0.0, 1.0, 0.0])
        self.assertEqual(list(extra), ["right", "calls", "invalid_calls"])
        for got, expected in zip(extra["calls"], (-0.1, 0.0, -0.3, 0.0)):
            self.assertAlmostEqual(got, expected)
        self.assertAlmostEqual(metrics["breakdown/calls"], -0.1)
        self.assertAlmostEqual(metrics["breakdown/right"], 0.5)
        self.assertEqual(metrics["calls"], (1 + 0 + 3 + 1) / 4)
        self.assertEqual(metrics["unscored"], 0.0)

    def test_a_cut_completion_has_no_answer(self):
        reward = bridge.reward_function(COURSE_REWARD, end_id=7)
        answer = [[{"role": "assistant", "content": "Answer: 29842"}]] * 2
        rewards, _, _ = call(reward, answer, completion_ids=[[3, 7], [3, 4]])
        self.assertEqual(rewards, [1.0, 0.0])

    def test_what_can_not_be_replayed_is_unscored_and_counted(self):
        told = self.completions()
        told[0][1]["content"] = "29843"
        rewards, extra, metrics = call(
            bridge.reward_function(COURSE_REWARD, None), told
        )
        self.assertIsNone(rewards[0])
        self.assertIsNone(extra["right"][0])
        self.assertEqual(metrics["unscored"], 0.25)
        self.assertAlmostEqual(metrics["breakdown/right"], 1 / 3)

    def test_a_reward_of_none_stays_none(self):
        rewards, extra, metrics = call(
            bridge.reward_function(lambda episode, task: None, None), self.completions()
        )
        self.assertEqual(rewards, [None] * 4)
        self.assertEqual((extra, metrics["unscored"]), ({}, 1.0))

    def test_a_batch_without_a_score_empties_the_columns_of_the_one_before(self):
        """TRL keeps a column that is not logged again, and would print it once more."""
        told = self.completions()
        lost = [[{"role": "user", "content": "?"}]] * 4
        for make in (
            lambda: bridge.reward_function(COURSE_REWARD, None),
            bridge.recorded_reward,
        ):
            reward = make()
            columns = {
                "reward": [0.9, None],
                "breakdown": [{"right": 1.0}, {}],
                "observations": [[], []],
            }
            call(reward, told, **columns)
            columns.update(reward=[None] * 2, breakdown=[{}] * 2)
            rewards, extra, metrics = call(reward, lost, **columns)
            self.assertEqual(set(rewards), {None})
            self.assertEqual(set(extra["right"]), {None})
            self.assertEqual(metrics["unscored"], 1.0)
            self.assertNotIn("breakdown/right", metrics)

    def test_a_call_that_json_can_not_write_is_unscored(self):
        """Python's json reads NaN, so TRL runs such a call; the run must not end of it."""
        for odd in (math.nan, math.inf):
            told = self.completions()
            told[0][0] = {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    {
                        "type": "function",
                        "function": {
                            "name": "calculator",
                            "arguments": {"expression": odd},
                        },
                    }
                ],
            }
            rewards, *_ = call(bridge.reward_function(COURSE_REWARD, None), told)
            self.assertIsNone(rewards[0])
            self.assertIsNotNone(rewards[1])

    def test_no_rollout_at_all_is_refused(self):
        for reward in (
            bridge.reward_function(COURSE_REWARD, None),
            bridge.recorded_reward(),
        ):
            with self.assertRaisesRegex(BridgeError, "at least one rollout"):
                call(reward, [], reward=[], breakdown=[], observations=[])
        with self.assertRaisesRegex(BridgeError, "at least one rollout"):
            bridge.columns([])

    def test_a_breakdown_that_does_not_add_up_is_refused(self):
        wrong = bridge.reward_function(
            lambda episode, task: Score(1.0, {"half": 0.5}), None
        )
        with self.assertRaisesRegex(ValueError, "adds up to something else"):
            call(wrong, self.completions())

    def test_beside_our_own_loop_the_recorded_score_is_handed_over(self):
        rewards, extra, metrics = call(
            bridge.recorded_reward(),
            [[], []],
            reward=[0.9, None],
            breakdown=[{"right": 1.0, "calls": -0.1}, {}],
            observations=[["result"], ["result", "tool_error"]],
        )
        self.assertEqual(rewards, [0.9, None])
        self.assertEqual(extra["calls"], [-0.1, None])
        self.assertEqual((metrics["calls"], metrics["unscored"]), (1.5, 0.5))


class Settings(unittest.TestCase):
    WRONG = {  # noqa: RUF012
        "course": {"unit", "log_ratio_clamp", "std_epsilon", "zero_spread"},
        "grpo": {"std_epsilon", "zero_spread"},
        "dr_grpo": set(),
        "dapo": {"groups", "std_epsilon", "zero_spread"},
        "gspo": {"std_epsilon", "zero_spread"},
        "rloo": {"baseline", "kl_estimator", "kl_place"},
        "reinforce++": {
            *("baseline", "unscored", "returns", "whiten"),
            *("kl_estimator", "kl_place"),
        },
        "trl": set(),
        "verl": {"group_of_one", "unscored", "log_ratio_clamp", "std_epsilon"},
        "openrlhf": {"unscored", "log_ratio_clamp", "std_epsilon"},
        "agent_lightning": {
            *("group_of_one", "unscored", "log_ratio_clamp", "std_epsilon"),
            "empty_rows",
        },
    }

    def test_of_each_preset_what_trl_can_not_say(self):
        self.assertEqual(set(self.WRONG), set(PRESETS))
        for name, wrong in self.WRONG.items():
            self.assertEqual(set(bridge.unsayable(PRESETS[name])), wrong, name)

    def test_a_preset_that_it_can_not_say_is_refused_with_each_switch(self):
        for name, wrong in self.WRONG.items():
            if wrong:
                with self.assertRaises(ConventionError) as refused:
                    bridge.settings(PRESETS[name])
                for switch in wrong:
                    self.assertIn(f"{switch}=", str(refused.exception))
        with self.assertRaisesRegex(
            ConventionError, r"std_epsilon=1e-06 \(it has 0.0001\)"
        ):
            bridge.settings(VERL)

    def test_the_nearest_of_each_preset_can_be_said(self):
        for preset in PRESETS.values():
            nearest = preset.but(**bridge.unsayable(preset))
            self.assertEqual(bridge.unsayable(nearest), {})
            bridge.settings(nearest)

    def test_the_preset_trl(self):
        self.assertEqual(
            bridge.settings(TRL, group_size=4, epochs=2),
            {
                "num_generations": 4,
                "num_iterations": 2,
                "scale_rewards": "group",
                "loss_type": "dapo",
                "importance_sampling_level": "token",
                "epsilon": 0.2,
                "epsilon_high": 0.2,
                "delta": None,
                "beta": 0.0,
                "use_bias_correction_kl": True,
            },
        )

    def test_dr_grpo_sums_over_an_episode_and_its_code_divides_by_a_constant(self):
        found = bridge.settings(DR_GRPO)
        self.assertEqual(
            (found["loss_type"], found["scale_rewards"]), ("luspo", "none")
        )
        found = bridge.settings(DR_GRPO.but(aggregation="constant", max_length=64))
        self.assertEqual(found["loss_type"], "dr_grpo")
        self.assertEqual(found["max_completion_length"], 64)

    def test_each_switch_that_it_can_say_is_said(self):
        for switches, name, value in (
            ({"ratio": "sequence"}, "importance_sampling_level", "sequence"),
            ({"aggregation": "episode_mean"}, "loss_type", "grpo"),
            ({"std": "batch"}, "scale_rewards", "batch"),
            ({"std": "none"}, "scale_rewards", "none"),
            ({"clip_high": 0.28}, "epsilon_high", 0.28),
            ({"clip": "off"}, "epsilon", float("inf")),
            ({"dual_clip": 3.0}, "delta", 3.0),
            ({"kl_place": "loss", "kl_weight": 0.04}, "beta", 0.04),
            ({"kl_ratio": False}, "use_bias_correction_kl", False),
        ):
            self.assertEqual(bridge.settings(TRL.but(**switches))[name], value, name)

    def test_each_switch_that_it_can_not_say_is_named(self):
        for switches in (
            {"baseline": "leave_one_out"},
            {"ddof": 0},
            {"std_epsilon": 1e-6},
            {"epsilon_place": "under_root"},
            {"zero_spread": "zero"},
            {"group_of_one": "raw"},
            {"unscored": "zero"},
            {"groups": "informative"},
            {"returns": "to_go", "discount": 0.9},
            {"whiten": True},
            {"unit": "decision"},
            {"aggregation": "batch_sum"},
            {"clip": "two_sided"},
            {"log_ratio_clamp": 20.0},
        ):
            self.assertEqual(set(bridge.unsayable(TRL.but(**switches))), set(switches))
        loss = {"kl_place": "loss", "kl_weight": 0.1}
        for more in (
            {"kl_estimator": "k1"},
            {"kl_clamp": 10.0},
            {"kl_log_ratio_clamp": 20.0},
        ):
            self.assertEqual(set(bridge.unsayable(TRL.but(**loss, **more))), set(more))
        mean = TRL.but(aggregation="episode_mean", mean_epsilon=1e-8)
        self.assertEqual(bridge.unsayable(mean), {"mean_epsilon": 0.0})
        rows = TRL.but(aggregation="episode_sum", empty_rows="left_out")
        self.assertEqual(bridge.unsayable(rows), {"empty_rows": "counted"})
        for switches in ({"clip": "off"}, {"clip_high": 2.5}):
            both = TRL.but(dual_clip=3.0, **switches)
            bound = (
                {} if both.clip_high < 2 and both.clip == "ppo" else {"dual_clip": None}
            )
            self.assertEqual(bridge.unsayable(both), bound)

    def test_a_switch_that_acts_on_nothing_is_not_asked_about(self):
        self.assertEqual(
            bridge.unsayable(TRL.but(std="none", std_epsilon=0.0, ddof=0)), {}
        )
        self.assertEqual(bridge.unsayable(TRL.but(kl_estimator="k1", kl_clamp=1.0)), {})

    def test_a_group_of_one_is_refused(self):
        with self.assertRaisesRegex(
            BridgeError, "group_size: TRL needs an integer, at least 2, got 1"
        ):
            bridge.settings(TRL, group_size=1)

    def test_what_is_no_number_of_rollouts_epochs_or_ids_is_refused(self):
        for odd in (2.5, math.nan, "8", True, None):
            with self.assertRaisesRegex(
                BridgeError, "group_size: TRL needs an integer"
            ):
                bridge.settings(TRL, group_size=odd)
        for odd in (0, -1, 1.5):
            with self.assertRaisesRegex(BridgeError, "epochs: TRL needs an integer"):
                bridge.settings(TRL, epochs=odd)
        with self.assertRaisesRegex(BridgeError, "max_length: TRL needs an integer"):
            bridge.settings(TRL.but(aggregation="constant", max_length=40.5))
        with self.assertRaisesRegex(
            ConventionError, "expected a Convention, got 'trl'"
        ):
            bridge.settings("trl")

    def test_the_course_itself_is_not_one_of_trls(self):
        self.assertRaises(ConventionError, bridge.settings, COURSE)


class Worlds(unittest.TestCase):
    def test_an_environment_answers_as_our_world_does(self):
        place = trl_worlds.Environment()
        place.reset(**bridge.rows([LOOKUP_TASK])[0])
        own = ToolMath(LOOKUP_TASK).tools
        for name, arguments in (
            ("lookup", {"item": "kettles"}),
            ("lookup", {"item": "dragons"}),
            ("calculator", {"expression": "1/0"}),
            ("calculator", {"wrong": "1"}),
        ):
            expected = trl_worlds.call_text(own, name, arguments)
            self.assertEqual(getattr(place, name)(**arguments), expected)

    def test_an_argument_may_have_any_name(self):
        place = trl_worlds.Environment()
        place.reset(**bridge.rows([GOLDEN_TASK])[0])
        for name in ("world", "self", "name"):
            told = place.calculator(**{"expression": "1", name: "x"})
            self.assertIn(f"unknown argument '{name}'", told)

    def test_a_function_has_the_tools_name_hints_and_a_google_docstring(self):
        (function, _) = trl_worlds.as_functions(trl_worlds.shared_tools([]))
        self.assertEqual(function.__name__, "calculator")
        self.assertEqual(function.__annotations__, {"expression": str, "return": str})
        self.assertEqual(
            function.__doc__,
            "Exact arithmetic.\n\nArgs:\n    expression: The expression.\n",
        )
        self.assertEqual(
            function(expression="347 * 86"), CALCULATOR.run({"expression": "347 * 86"})
        )

    def test_one_shelf_for_all_tasks(self):
        tasks = generate(10, seed=4)
        with self.assertRaisesRegex(BridgeError, "tools= has one price list"):
            trl_worlds.shared_tools(tasks)
        shelved = trl_worlds.on_one_shelf(tasks)
        trl_worlds.shared_tools(shelved)
        for before, after in zip(tasks, shelved):
            self.assertEqual(after.question, before.question)
            self.assertEqual(bridge.task_of(bridge.rows([after])[0]), after)
            self.assertEqual(after.prices is None, before.prices is None)
        lists = [task.prices for task in shelved if task.prices]
        self.assertEqual(lists, [lists[0]] * 10)

    def test_sums_have_one_digit_and_stand_once(self):
        tasks = sums.sums()
        self.assertEqual(len({task.question for task in tasks}), 36)  # 8 + 7 + ... + 1
        for task in tasks:
            self.assertEqual(bridge.task_of(bridge.rows([task])[0]), task)
            self.assertLessEqual(int(task.answer), 9)
        self.assertEqual(len(sums.sums(4)), 6)

    def test_a_sum_is_right_by_its_digit_alone(self):
        task = Task("sum", "What is 4 + 2?", "4 + 2", "6")
        row = bridge.rows([task])[0]["task"]
        reward = bridge.reward_function(COURSE_REWARD, None)
        said = [
            [{"role": "assistant", "content": text}] for text in ("6", "7", "+", "")
        ]
        rewards, _, _ = call(reward, said, task=[row] * 4)
        self.assertEqual(rewards, [1.0, 0.0, 0.0, 0.0])

    def test_silent_turns_the_hub_off(self):
        with mock.patch.dict("os.environ", {}, clear=True):
            bridge.silent()
            from os import environ

            self.assertEqual(environ["HF_HUB_OFFLINE"], "1")
            self.assertEqual(environ["HF_HUB_DISABLE_TELEMETRY"], "1")

    def test_an_episode_written_turn_by_turn_gives_its_texts_back(self):
        episode = Episode(GOLDEN_TASK)
        texts = [episode.world.speak("call_calculator"), "Answer: 29842"]
        for text in texts:
            bridge.say(episode, text, cut=False)
        self.assertEqual(bridge.written(episode.trajectory), texts)


if __name__ == "__main__":
    unittest.main()
