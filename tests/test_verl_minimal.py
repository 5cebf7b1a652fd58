"""Chapter 04 without verl: its bridge, its files, and what its script says alone.

What needs verl itself is checked in checks/bridges/test_verl_*.py.
"""

from __future__ import annotations

import ast
import json
import math
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

from agentic_rl.bridges import verl as bridge
from agentic_rl.bridges.frameworks import VERSIONS, BridgeError, installed, missing
from agentic_rl.conventions import COURSE, PRESETS, VERL
from agentic_rl.golden import GOLDEN_TASK, LOOKUP_TASK, golden_set
from agentic_rl.reward import COURSE_REWARD, LARGE_COSTS, Reward, Term, right
from agentic_rl.tasks import Task, kind_of
from agentic_rl.tool_math import CALCULATOR, lookup_tool
from agentic_rl.trajectory import Trajectory, TrajectoryError
from tests.test_token_ids import Characters

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "examples" / "04_verl_minimal"
FRAMEWORKS = ("verl", "torch", "ray", "transformers", "numpy", "pyarrow", "hydra")


def row(task: Task = GOLDEN_TASK) -> dict:
    return next(bridge.rows([task], "train"))


def scored(text: str, task: Task = GOLDEN_TASK, reward=COURSE_REWARD, **extra) -> dict:
    """The score of a response as text, with what verl's loop adds to the row."""
    info = {**row(task)["extra_info"], "num_turns": 2, "tool_rewards": [], **extra}
    return bridge.score("tool-math", text, task.answer, info, reward)


class Imports(unittest.TestCase):
    def test_importing_the_bridge_imports_no_framework(self):
        code = (
            "import sys; import agentic_rl.bridges.verl; "
            f"print(sorted(set(sys.modules) & set({FRAMEWORKS!r})))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True
        )
        self.assertEqual((done.stdout, done.stderr), ("[]\n", ""))

    @unittest.skipIf(installed("verl"), "verl is here")
    def test_what_needs_verl_says_in_one_line_what_to_install(self):
        for call in (
            lambda: bridge.tool_schema(CALCULATOR),
            lambda: bridge.batch([], 0, 1, 1),
        ):
            with self.assertRaises(BridgeError) as caught:
                call()
            text = str(caught.exception)
            self.assertEqual(text, missing("verl"))
            self.assertNotIn("\n", text)
            self.assertIn(VERSIONS["verl"], text)
            self.assertIn("requirements-verl.txt", text)


class ThereAndBack(unittest.TestCase):
    def test_every_golden_episode_comes_back_from_its_fields(self):
        for name, (_, trajectory) in golden_set().items():
            tokenizer = Characters()
            fields = bridge.output(trajectory, tokenizer)
            self.assertEqual(bridge.from_output(fields, tokenizer), trajectory, name)

    def test_a_response_ends_with_what_the_assistant_wrote(self):
        for name, (_, trajectory) in golden_set().items():
            fields = bridge.output(trajectory, Characters())
            lengths = {
                len(fields[key])
                for key in ("response_ids", "response_mask", "response_logprobs")
            }
            self.assertEqual(len(lengths), 1, name)
            self.assertEqual(fields["response_mask"][-1], 1, name)
            self.assertEqual(
                sum(fields["response_mask"]), fields["response_mask"].count(1)
            )

    def test_turns_are_counted_as_verl_counts_them(self):
        # The prompt, n turns of the assistant, and n - 1 of tools between them.
        for name, turns in (("guess", 2), ("two tools", 6), ("parallel calls", 6)):
            trajectory = golden_set()[name][1]
            fields = bridge.output(trajectory, Characters())
            self.assertEqual(fields["num_turns"], turns, name)

    def test_a_record_that_is_not_ours_or_does_not_fit_is_refused(self):
        tokenizer = Characters()
        fields = bridge.output(golden_set()["guess"][1], tokenizer)
        with self.assertRaisesRegex(BridgeError, "notes: none"):
            bridge.from_output({**fields, "extra_fields": {}}, tokenizer)
        with self.assertRaisesRegex(TrajectoryError, "response_mask"):
            bridge.from_output({**fields, "response_mask": [1]}, tokenizer)
        notes = fields["extra_fields"]["notes"]
        for odd, told in (
            ({"choices": None}, "notes: choices: expected a list"),
            ({"choices": [("start",)]}, r"notes: choices: expected \(state, choice\)"),
            ({"turn_ends": [1]}, "notes: turn_ends: expected text"),
            ({"breakdown": None}, "notes: breakdown: expected a dict"),
            ({"more": 1}, "notes: expected task_id, choices"),
        ):
            extra = {**fields["extra_fields"], "notes": {**notes, **odd}}
            with self.assertRaisesRegex(BridgeError, told):
                bridge.from_output({**fields, "extra_fields": extra}, tokenizer)
        with self.assertRaisesRegex(BridgeError, "response_logprobs: None"):
            bridge.from_output({**fields, "response_logprobs": None}, tokenizer)
        with self.assertRaisesRegex(BridgeError, "no token of an assistant"):
            bridge.output(Trajectory("silent"), tokenizer)


class Rows(unittest.TestCase):
    def test_the_ability_is_the_kind_of_the_question(self):
        self.assertEqual(row(GOLDEN_TASK)["ability"], kind_of(GOLDEN_TASK.question))
        self.assertEqual(row(LOOKUP_TASK)["ability"], kind_of(LOOKUP_TASK.question))
        self.assertNotEqual(row(GOLDEN_TASK)["ability"], row(LOOKUP_TASK)["ability"])

    def test_a_row_has_verls_columns(self):
        found = row()
        self.assertEqual(
            list(found),
            [
                "data_source",
                "agent_name",
                "prompt",
                "ability",
                "reward_model",
                "extra_info",
            ],
        )
        self.assertEqual(
            found["prompt"], [{"role": "user", "content": "What is 347 * 86?"}]
        )
        self.assertEqual(
            found["reward_model"], {"style": "rule", "ground_truth": "29842"}
        )
        self.assertEqual(found["agent_name"], "tool_agent")

    def test_all_rows_have_the_same_keys_whatever_the_task(self):
        def keys(value):
            if not isinstance(value, dict):
                return type(value)
            return {name: keys(part) for name, part in value.items()}

        self.assertEqual(keys(row(GOLDEN_TASK)), keys(row(LOOKUP_TASK)))

    def test_the_price_list_and_the_task_are_text(self):
        info = row(LOOKUP_TASK)["extra_info"]
        prices = info["tools_kwargs"]["lookup"]["create_kwargs"]["prices"]
        self.assertEqual(json.loads(prices), {"kettles": "34", "lamps": "19"})
        self.assertEqual(bridge.task_of(info), LOOKUP_TASK)

    def test_a_row_without_a_task_is_refused(self):
        for info in ({}, None, {"task": LOOKUP_TASK.to_dict()}):
            with self.assertRaisesRegex(BridgeError, "no task"):
                bridge.task_of(info)


class Tools(unittest.TestCase):
    def test_a_tool_is_made_from_what_its_row_says(self):
        create = row(LOOKUP_TASK)["extra_info"]["tools_kwargs"]["lookup"][
            "create_kwargs"
        ]
        box = bridge.toolbox("lookup", create)
        self.assertEqual(list(box.tools), ["lookup"])
        self.assertEqual(box.tools["lookup"].run({"item": "kettles"}), "34")
        calculator = bridge.toolbox("calculator", {}).tools["calculator"]
        self.assertEqual(calculator.run({"expression": "347 * 86"}), "29842")

    def test_what_is_missing_is_refused(self):
        for name, create in (
            ("lookup", {}),
            ("lookup", {"prices": "7"}),
            ("lookup", {"prices": None}),
            ("lookup", None),
            ("python", {}),
        ):
            with self.assertRaises(BridgeError):
                bridge.toolbox(name, create)

    def test_the_yaml_file_and_the_tools_say_the_same(self):
        text = (FOLDER / "tool_config.yaml").read_text(encoding="utf-8")
        ours = [tool.schema()["function"] for tool in (CALCULATOR, lookup_tool({}))]
        for field, name in (("name", "name"), ("description", "description")):
            self.assertEqual(
                re.findall(rf"^ +{field}: (.+)$", text, re.MULTILINE),
                [tool[name] for tool in ours],
            )
        self.assertEqual(
            re.findall(r"required: \[(\w+)\]", text),
            [argument for tool in ours for argument in tool["parameters"]["required"]],
        )
        self.assertEqual(text.count("type: native"), len(ours))

    def test_the_yaml_file_names_classes_that_the_python_file_has(self):
        text = (FOLDER / "tool_config.yaml").read_text(encoding="utf-8")
        named = re.findall(r"class_name: (\w+)\.(\w+)", text)
        self.assertEqual({module for module, _ in named}, {"tool_math_tools"})
        tree = ast.parse((FOLDER / "tool_math_tools.py").read_text(encoding="utf-8"))
        classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
        self.assertLessEqual({name for _, name in named}, classes)


HEAD = "\ntool\n29842\nassistant\n"  # a tool's answer, special tokens left out


class Score(unittest.TestCase):
    def test_every_golden_episode_is_paid_what_it_is_paid_here(self):
        for name, (task, trajectory) in golden_set().items():
            tokenizer = Characters()
            fields = bridge.output(trajectory, tokenizer)
            text = tokenizer.decode(fields["response_ids"])
            text = text.replace("<|im_start|>", "").replace("<|im_end|>", "")
            if name == "marker in text":  # characters are no special token
                continue
            if trajectory.finish_reason == "length":
                continue  # verl does not say so: see the surprises
            found = scored(
                text, task, num_turns=fields["num_turns"], **fields["extra_fields"]
            )
            expected = {
                "score": trajectory.reward,
                **trajectory.breakdown,
                "unclear": 0,
            }
            self.assertEqual(found, expected, name)

    def test_the_parts_add_up_and_the_gate_holds(self):
        call = dict(num_turns=4, tool_rewards=[0.0], tool_kinds=["result"])
        right = scored(f"call{HEAD}Answer: 29842", **call)
        self.assertEqual(right["score"], 0.9)
        self.assertEqual(right["score"], right["right"] + right["calls"])
        wrong = scored(f"call{HEAD}Answer: 1", **call)
        self.assertEqual((wrong["score"], wrong["calls"]), (0.0, 0.0))
        costly = scored(f"call{HEAD}Answer: 1", reward=LARGE_COSTS, **call)
        self.assertEqual(costly["score"], -0.1)

    def test_what_verl_refused_is_an_invalid_call(self):
        # Two calls were answered and our tools ran one of them.
        found = scored(
            f"call{HEAD}call{HEAD}Answer: 29842",
            num_turns=6,
            tool_rewards=[0.0, 0.0],
            tool_kinds=["result"],
        )
        self.assertEqual(found["invalid_calls"], -0.2)
        self.assertAlmostEqual(found["score"], 0.7)

    def test_a_call_in_the_last_turn_is_no_answer_and_a_broken_one_a_fault(self):
        whole = '<tool_call>{"name": "calculator", "arguments": {}}</tool_call>'
        for text, invalid in ((whole, 0.0), (whole.replace("}}", "}"), -0.2)):
            found = scored(f"Answer: 29842{text}", reward=LARGE_COSTS)
            self.assertEqual((found["right"], found["invalid_calls"]), (0.0, invalid))

    def test_a_tools_text_is_never_read_for_an_answer(self):
        call = dict(num_turns=4, tool_rewards=[0.0], tool_kinds=["result"])
        self.assertEqual(scored(f"call{HEAD}", **call)["right"], 0.0)
        self.assertEqual(scored(f"call{HEAD}I don't know.", **call)["right"], 0.0)

    def test_more_headers_than_turns_are_unclear_and_not_paid(self):
        call = dict(num_turns=4, tool_rewards=[0.0], tool_kinds=["result"])
        found = scored(f"call{HEAD}so\nassistant\nAnswer: 29842", **call)
        self.assertEqual((found["score"], found["unclear"]), (0.0, 1.0))
        # Without a tool nobody else wrote anything.
        alone = scored("so\nassistant\nAnswer: 29842")
        self.assertEqual((alone["score"], alone["unclear"]), (1.0, 0.0))

    def test_what_is_missing_or_contradicts_itself_is_refused(self):
        for extra, problem in (
            ({"num_turns": None}, "num_turns"),
            ({"num_turns": 3}, "num_turns"),
            ({"num_turns": 2.9}, "num_turns"),
            ({"num_turns": math.inf}, "num_turns"),
            ({"num_turns": "two"}, "num_turns"),
            ({"num_turns": 4}, "headers"),
            ({"tool_kinds": ["result"]}, "1 for 0 answers"),
            ({"tool_kinds": ["odd"], "tool_rewards": [0.0]}, "unknown kind"),
        ):
            with self.assertRaisesRegex(BridgeError, problem):
                scored("Answer: 29842", **extra)
        with self.assertRaisesRegex(ValueError, "reward: "):
            scored("Answer: 29842", reward=lambda *episode: (math.nan, {}))
        for name in ("score", "unclear"):
            paid = Reward((Term(name, 1.0, right),))
            with self.assertRaisesRegex(BridgeError, f"a term named '{name}'"):
                scored("Answer: 29842", reward=paid)
        info = {**row()["extra_info"], "num_turns": 2}
        with self.assertRaisesRegex(BridgeError, "data_source"):
            bridge.score("gsm8k", "", "29842", info)
        with self.assertRaisesRegex(BridgeError, "ground_truth"):
            bridge.score("tool-math", "", "1", info)


class Overrides(unittest.TestCase):
    def test_the_preset_verl_can_be_said_as_it_is(self):
        self.assertEqual(bridge.unsaid(VERL), {})
        found = dict(x.split("=", 1) for x in bridge.overrides(VERL))
        self.assertEqual(found["algorithm.adv_estimator"], "grpo")
        self.assertEqual(found["actor_rollout_ref.actor.loss_agg_mode"], "token-mean")
        self.assertEqual(found["actor_rollout_ref.actor.clip_ratio_c"], "3.0")

    def test_every_preset_can_be_said_once_what_verl_lacks_is_given_up(self):
        for name, preset in PRESETS.items():
            lacking = bridge.unsaid(preset)
            self.assertTrue(bridge.overrides(preset.but(**lacking)), name)
            if lacking:
                with self.assertRaises(BridgeError) as caught:
                    bridge.overrides(preset)
                for switch, value in lacking.items():
                    self.assertIn(f"{switch}={value!r}", str(caught.exception))

    def test_what_the_course_would_have_to_give_up(self):
        self.assertEqual(
            bridge.unsaid(COURSE),
            {
                "std_epsilon": 1e-6,
                "group_of_one": "raw",
                "zero_spread": "divide",
                "unscored": "refuse",
                "unit": "token",
            },
        )

    def test_a_ratio_a_sequence_has_a_clamp_of_its_own_and_no_dual_clip(self):
        lacking = bridge.unsaid(PRESETS["gspo"])
        self.assertEqual(lacking["log_ratio_clamp"], 10.0)
        by_sequence = VERL.but(ratio="sequence")
        self.assertEqual(
            bridge.unsaid(by_sequence), {"log_ratio_clamp": 10.0, "dual_clip": None}
        )

    def test_the_kl_in_verls_loss_has_no_ratio_before_it(self):
        weighed = VERL.but(kl_place="loss", kl_weight=0.1, kl_ratio=True)
        self.assertEqual(bridge.unsaid(weighed), {"kl_ratio": False})

    def test_what_is_added_to_a_count_is_lost_in_its_trainer(self):
        added = VERL.but(aggregation="episode_mean", mean_epsilon=1e-8)
        self.assertEqual(bridge.unsaid(added)["mean_epsilon"], 0.0)

    def test_rows_without_a_token_count_as_its_trainer_counts_them(self):
        for aggregation in ("episode_sum", "episode_mean", "constant"):
            for value, lacks in (("counted", False), ("left_out", True)):
                convention = VERL.but(aggregation=aggregation, empty_rows=value)
                self.assertEqual("empty_rows" in bridge.unsaid(convention), lacks)

    def test_a_kl_in_the_reward_with_returns_to_go_has_no_words_in_verl(self):
        lacking = bridge.unsaid(PRESETS["reinforce++"])
        self.assertEqual((lacking["kl_place"], lacking["kl_weight"]), ("none", 0.0))
        self.assertNotIn("kl_place", bridge.unsaid(PRESETS["rloo"]))

    def test_a_lone_episode_of_leave_one_out_chooses_between_two_estimators(self):
        rloo = VERL.but(baseline="leave_one_out", std="none")
        for value, name in (("raw", "rloo"), ("zero", "rloo_vectorized")):
            found = bridge.overrides(rloo.but(group_of_one=value))
            self.assertIn(f"algorithm.adv_estimator={name}", found)

    def test_no_clip_is_a_range_that_no_ratio_leaves(self):
        found = bridge.overrides(VERL.but(clip="off", dual_clip=None))
        for name in ("clip_ratio_low", "clip_ratio_high", "clip_ratio_c"):
            self.assertIn(f"actor_rollout_ref.actor.{name}=1000000000.0", found)

    def test_where_nothing_is_near_it_says_so(self):
        for convention in (VERL.but(baseline="batch_mean"), VERL.but(clip="two_sided")):
            self.assertRaises(BridgeError, bridge.unsaid, convention)


class TheScript(unittest.TestCase):
    @unittest.skipIf(installed("verl"), "verl is here")
    def test_without_verl_it_shows_the_interface_and_what_is_missing(self):
        done = subprocess.run(
            [sys.executable, str(FOLDER / "rollout.py")],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": ""},
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = done.stdout.splitlines()
        self.assertTrue(" ".join(lines).endswith(f"Not run: {missing('verl')}."))
        self.assertLessEqual(max(map(len, lines)), 80)
        self.assertTrue(done.stdout.isascii())
        self.assertIn("response_ids", done.stdout)
        self.assertIn("algorithm.adv_estimator=grpo", done.stdout)

    @unittest.skipIf(installed("verl"), "verl is here")
    def test_the_data_can_not_be_written_without_it(self):
        done = subprocess.run(
            [sys.executable, str(FOLDER / "make_data.py"), "nowhere"],
            capture_output=True,
            text=True,
            cwd=FOLDER,
        )
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(" ".join(done.stderr.split()), missing("verl"))
        self.assertFalse((FOLDER / "nowhere").exists())

    @unittest.skipIf(installed("verl"), "verl is here")
    def test_the_other_programs_say_what_is_missing_and_nothing_else(self):
        for name in (
            "ray_rollout.py",
            "train_worker.py",
            "train_main_ppo.py",
            "scale_out/two_cpu_nodes.py",
        ):
            done = subprocess.run(
                [sys.executable, str(FOLDER / name)], capture_output=True, text=True
            )
            with self.subTest(name):
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertEqual(" ".join(done.stderr.split()), missing("verl"))
                self.assertLessEqual(max(map(len, done.stderr.splitlines())), 80)

    def test_a_log_that_was_kept_is_read_without_verl(self):
        log = FOLDER / "runs" / "main_ppo.jsonl"
        program = [sys.executable, str(FOLDER / "train_main_ppo.py"), "--read"]
        done = subprocess.run([*program, str(log)], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("181-200", done.stdout)
        self.assertIn("4 is one call and an answer", " ".join(done.stdout.split()))
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 80)


if __name__ == "__main__":
    unittest.main()
