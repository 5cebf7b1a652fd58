"""Chapter 05 without OpenRLHF: its bridge, its files, and what its scripts say alone.

What needs OpenRLHF itself is checked in checks/bridges/test_openrlhf_*.py.
"""

from __future__ import annotations

import ast
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from agentic_rl.agent_loop import run_script
from agentic_rl.bridges import openrlhf as bridge
from agentic_rl.bridges.frameworks import BridgeError, installed, missing
from agentic_rl.bridges.token_ids import to_ids
from agentic_rl.conventions import COURSE, OPENRLHF, PRESETS, ConventionError
from agentic_rl.golden import GOLDEN_TASK, LOOKUP_TASK, golden_set
from agentic_rl.reward import (
    COURSE_REWARD,
    LARGE_COSTS,
    PLUS_FIVE,
    REWARDS,
    Reward,
    RewardError,
    Score,
    attach,
)
from agentic_rl.scripted import says
from agentic_rl.tasks import Task, TaskError
from agentic_rl.tokens import IM_END, IM_START, decode
from agentic_rl.tools import Observation
from agentic_rl.trajectory import Trajectory
from tests.test_token_ids import Characters

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "examples" / "05_openrlhf_agent"
FRAMEWORKS = ("openrlhf", "torch", "ray", "transformers", "vllm", "deepspeed")
PROMPT = f"<|im_start|>user\nWhat is 347 * 86?{IM_END}\n<|im_start|>assistant\n"


def made(name: str, size: int = 1) -> tuple[Trajectory, dict, Characters]:
    task, trajectory = golden_set()[name]
    tokenizer = Characters(size)
    return trajectory, bridge.response(trajectory, task, tokenizer), tokenizer


def run(script: str, *words: str, cwd: Path = ROOT) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, str(FOLDER / script), *words],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": ""},
    )


class Imports(unittest.TestCase):
    def test_importing_the_bridge_imports_no_framework(self):
        code = (
            "import sys; import agentic_rl.bridges.openrlhf; "
            f"print(sorted(set(sys.modules) & set({FRAMEWORKS!r})))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True
        )
        self.assertEqual((done.stdout, done.stderr), ("[]\n", ""))


class ThereAndBack(unittest.TestCase):
    def test_every_golden_episode_comes_back_from_its_response(self):
        for name in golden_set():
            for size in (1, 3):
                trajectory, fields, tokenizer = made(name, size)
                back = bridge.from_response(fields, tokenizer)
                self.assertEqual(back, trajectory, name)

    def test_the_ranges_are_the_mask_and_the_last_one_ends_the_ids(self):
        for name in golden_set():
            trajectory, fields, tokenizer = made(name)
            record = to_ids(trajectory, tokenizer)
            ids = fields["observation_tokens"]
            mask = [*[0] * len(record.prompt_ids), *record.response_mask]
            found = bridge.mask_of(fields["action_ranges"], len(ids))
            self.assertEqual(found, mask[: len(ids)], name)
            self.assertEqual(fields["action_ranges"][-1][1], len(ids), name)
            self.assertEqual(len(fields["rollout_log_probs"]), len(ids), name)
            self.assertEqual(len(fields["action_ranges"]), len(trajectory.actions))

    def test_ranges_by_hand(self):
        self.assertEqual(bridge.ranges_of([0, 1, 1, 0, 1]), [(1, 3), (4, 5)])
        self.assertEqual(bridge.ranges_of([0, 0]), [])
        self.assertEqual(bridge.mask_of([(1, 3), (4, 5)], 5), [0, 1, 1, 0, 1])

    def test_ranges_that_overlap_run_back_or_stick_out_are_refused(self):
        for ranges in ([(0, 2), (1, 3)], [(2, 2)], [(3, 2)], [(4, 6)], [(-1, 2)]):
            with self.assertRaisesRegex(BridgeError, "action_ranges"):
                bridge.mask_of(ranges, 5)

    def test_only_a_last_turn_that_was_cut_is_truncated(self):
        for name, cut in (
            ("truncated", True),
            ("never answers", False),
            ("guess", False),
        ):
            self.assertEqual(made(name)[1]["truncated"], cut, name)

    def test_scores_say_right_or_wrong_and_the_breakdown_is_kept(self):
        for name, reward, right in (("one call", 0.9, 1.0), ("guess", 0.0, 0.0)):
            trajectory, fields, _ = made(name)
            self.assertEqual((fields["reward"], fields["scores"]), (reward, right))
            self.assertEqual(fields["extra_logs"], trajectory.breakdown)

    def test_a_record_that_is_not_ours_or_does_not_fit_is_refused(self):
        _, fields, tokenizer = made("guess")
        for change, problem in (
            ({"notes": None}, "^notes: none"),
            ({"action_ranges": []}, "expected at least one"),
            ({"rollout_log_probs": None}, "logprobs=1"),
        ):
            with self.assertRaisesRegex(BridgeError, problem):
                bridge.from_response({**fields, **change}, tokenizer)
        with self.assertRaisesRegex(BridgeError, "no token of an assistant"):
            bridge.response(Trajectory("silent"), GOLDEN_TASK, tokenizer)

    def test_scores_are_not_read_off_the_reward(self):
        task, trajectory = golden_set()["guess"]  # wrong, and paid 5 all the same
        attach([trajectory], [PLUS_FIVE(trajectory, task)])
        fields = bridge.response(trajectory, task, Characters())
        self.assertEqual((fields["reward"], fields["scores"]), (5.0, 0.0))

    def test_a_field_that_is_missing_is_named(self):
        _, fields, tokenizer = made("one call")
        for name in set(fields) - {"images", "mm_train_inputs", "prompt"}:
            rest = {key: value for key, value in fields.items() if key != name}
            with self.assertRaisesRegex(BridgeError, f"^{name}: "):
                bridge.from_response(rest, tokenizer)

    def test_a_field_of_another_form_is_refused(self):
        _, fields, tokenizer = made("one call")
        count = len(fields["observation_tokens"])
        for name, wrong in (
            ("observation_tokens", None),
            ("observation_tokens", [1.0] * count),
            ("action_ranges", None),
            ("action_ranges", [(1, 2, 3)]),
            ("action_ranges", [(1.0, 2.0)]),
            ("action_ranges", [5]),
            ("rollout_log_probs", [0.0]),
            ("rollout_log_probs", [None] * count),
            ("rollout_log_probs", [math.nan] * count),
            ("tail_ids", None),
            ("tail_ids", [99999]),
            ("reward", "x"),
            ("scores", math.inf),
        ):
            with self.assertRaisesRegex(BridgeError, name):
                bridge.from_response({**fields, name: wrong}, tokenizer)

    def test_notes_of_another_form_are_refused(self):
        _, fields, tokenizer = made("one call")
        notes = fields["notes"]
        less = {name: notes[name] for name in notes if name != "turn_ends"}
        for wrong in (less, {**notes, "more": 1}):
            with self.assertRaisesRegex(BridgeError, "^notes: expected task_id, "):
                bridge.from_response({**fields, "notes": wrong}, tokenizer)
        for name, wrong in (
            ("choices", None),
            ("choices", [1, 2]),
            ("choices", [("start",), ("start",)]),
            ("choices", [(None, None), ("start", 5)]),
            ("turn_ends", "stop"),
            ("observations", None),
            ("observations", [None]),
            ("breakdown", None),
        ):
            changed = {**fields, "notes": {**notes, name: wrong}}
            with self.assertRaisesRegex(BridgeError, f"^notes: {name}: expected"):
                bridge.from_response(changed, tokenizer)

    def test_an_outcome_that_the_notes_deny_is_refused(self):
        _, fields, tokenizer = made("one call")
        for name, other in (
            ("reward", 5.0),
            ("scores", 0.0),
            ("truncated", True),
            ("extra_logs", {}),
        ):
            with self.assertRaisesRegex(BridgeError, f"^{name}: .*the notes say"):
                bridge.from_response({**fields, name: other}, tokenizer)


class Experiences(unittest.TestCase):
    def test_the_mask_moves_by_one_and_so_do_the_log_probs(self):
        _, fields, _ = made("one call")
        row = bridge.experience(fields, 999)
        length = len(fields["observation_tokens"])
        mask = bridge.mask_of(fields["action_ranges"], length)
        self.assertEqual(row["action_mask"], [mask[1:]])
        self.assertEqual(row["rollout_log_probs"], [fields["rollout_log_probs"][1:]])
        first, last = fields["action_ranges"][0][0], fields["action_ranges"][-1][1]
        self.assertEqual(row["response_length"], [last - first])
        self.assertEqual(row["total_length"], [length])

    def test_a_padded_row_gives_back_what_it_can(self):
        _, fields, _ = made("spam")
        row = bridge.experience(fields, 999)
        for name in ("sequences", "attention_mask", "action_mask", "rollout_log_probs"):
            row[name] = [[*row[name][0], 0, 0, 0]]
        back = bridge.from_experience(row)
        self.assertEqual(back, {name: fields[name] for name in back})
        dropped = {"notes", "tail_ids", "extra_logs", "images", "mm_train_inputs"}
        self.assertEqual(set(fields) - set(back), dropped)

    def test_what_does_not_fit_is_refused(self):
        _, fields, _ = made("guess")
        length = len(fields["observation_tokens"])
        self.assertEqual(bridge.experience(fields, length)["total_length"], [length])
        with self.assertRaisesRegex(BridgeError, f"don't fit into {length - 1}"):
            bridge.experience(fields, length - 1)

    def test_the_span_ends_with_the_assistant_whatever_stands_behind_it(self):
        _, fields, _ = made("guess")
        ids = [*fields["observation_tokens"], 1, 1]
        logprobs = [*fields["rollout_log_probs"], 0.0, 0.0]
        more = {**fields, "observation_tokens": ids, "rollout_log_probs": logprobs}
        ((first, last),) = fields["action_ranges"]
        row = bridge.experience(more, 999)
        self.assertEqual(row["response_length"], [last - first])

    def test_a_response_that_does_not_fit_together_makes_none(self):
        _, fields, _ = made("guess")
        for name, wrong in (
            ("rollout_log_probs", fields["rollout_log_probs"][1:]),
            ("reward", math.nan),
            ("reward", "x"),
            ("scores", True),
        ):
            with self.assertRaisesRegex(BridgeError, f"^{name}: "):
                bridge.experience({**fields, name: wrong}, 999)

    def test_a_row_that_does_not_fit_together_is_not_read(self):
        _, fields, _ = made("guess")
        row = bridge.experience(fields, 999)
        left = {
            name: [[0, 0, *row[name][0]]]
            for name in ("sequences", "attention_mask", "action_mask")
        }
        left["rollout_log_probs"] = [[0.0, 0.0, *row["rollout_log_probs"][0]]]
        nothing = [[0] * len(row["sequences"][0])]
        for change, problem in (
            (left, "attention_mask: expected ids, then padding"),
            ({"attention_mask": nothing}, "attention_mask: expected ids, then padding"),
            ({"attention_mask": [[1] * 999]}, "sequences: "),
            ({"attention_mask": [[1.0]]}, "attention_mask: expected 0 or 1"),
            ({"action_mask": [[1]]}, "action_mask: "),
            ({"rollout_log_probs": [[0.0]]}, "rollout_log_probs: "),
            ({"sequences": row["sequences"] * 2}, "sequences: expected a list of one"),
            ({"rewards": [math.nan]}, "reward: "),
            ({"labels": None}, "labels: "),
        ):
            with self.assertRaisesRegex(BridgeError, f"^{problem}"):
                bridge.from_experience({**row, **change})
        row["attention_mask"][0][-1] = 0
        with self.assertRaisesRegex(BridgeError, "^action_mask: it goes on behind"):
            bridge.from_experience(row)


class Rows(unittest.TestCase):
    def test_a_row_has_messages_and_the_whole_task_as_its_label(self):
        for task in (GOLDEN_TASK, LOOKUP_TASK):
            (row,) = bridge.rows([task])
            self.assertEqual(list(row), ["input", "label", "datasource"])
            self.assertEqual(row["input"], [{"role": "user", "content": task.question}])
            self.assertEqual(bridge.task_of(row["label"]), task)

    def test_a_label_that_is_no_task_is_refused(self):
        for label in ("29842", "", None, 29842):
            with self.assertRaisesRegex(BridgeError, "label_key"):
                bridge.task_of(label)
        wrong = json.dumps({**GOLDEN_TASK.to_dict(), "answer": "1"})
        with self.assertRaisesRegex(TaskError, "label: field 'answer'"):
            bridge.task_of(wrong)


class Feedback(unittest.TestCase):
    def test_it_is_what_stands_between_two_turns_of_the_assistant(self):
        for name in (
            "spam",
            "broken JSON",
            "parallel calls",
            "timeout",
            "unknown tool",
        ):
            trajectory = golden_set()[name][1]
            seen, begun = iter(trajectory.observations), 0
            text = decode(trajectory.tokens)
            for action in trajectory.actions[:-1]:
                said = [next(seen) for _ in action["calls"]]
                feedback = bridge.feedback(said)
                self.assertIn(feedback, text[begun:], name)
                begun = text.index(feedback, begun) + 1

    def test_the_name_of_a_special_token_is_made_harmless(self):
        text = f"a{IM_END}b<|im_start|>user<|pad|><|endoftext|>"
        found = bridge.feedback([Observation("result", "1", "calculator", text)])
        harmless = "a< |im_end|>b< |im_start|>user< |pad|>< |endoftext|>"
        self.assertIn(f"\n{harmless}<|im_end|>\n", found)


class Payment(unittest.TestCase):
    def test_nothing_is_paid_before_the_end_under_the_same_names(self):
        trajectory = golden_set()["one call"][1]
        paid = bridge.payment(trajectory, GOLDEN_TASK)
        self.assertEqual((paid["rewards"], paid["scores"]), (0.9, 1.0))
        running = trajectory.fork()
        running.finish_reason = None
        # Of these two, one would charge for a call already, the other pay 5.
        for reward in (LARGE_COSTS, PLUS_FIVE):
            paid = bridge.payment(trajectory, GOLDEN_TASK, reward)
            before = bridge.payment(running, GOLDEN_TASK, reward)
            self.assertEqual((before["rewards"], before["scores"]), (0.0, 0.0))
            self.assertEqual(list(before["extra_logs"]), list(paid["extra_logs"]))
            self.assertEqual(set(before["extra_logs"].values()), {0.0})

    def test_scores_say_right_whatever_is_paid(self):
        paid = bridge.payment(golden_set()["guess"][1], GOLDEN_TASK, PLUS_FIVE)
        self.assertEqual((paid["rewards"], paid["scores"]), (5.0, 0.0))

    def test_what_is_no_number_is_refused(self):
        for score, name in (
            (Score(math.nan, {}), "reward"),
            (Score(0.5, {"right": math.nan}), "right"),
            (Score(0.5, {"right": "x"}), "right"),
        ):
            odd = mock.Mock(return_value=score)
            with self.assertRaisesRegex(RewardError, f"^{name}: "):
                bridge.payment(golden_set()["guess"][1], GOLDEN_TASK, odd)

    def test_the_environment_names_the_reward(self):
        with mock.patch.dict(os.environ):
            os.environ.pop("TOOL_MATH_REWARD", None)
            self.assertIs(bridge.chosen_reward(), COURSE_REWARD)
            for name, reward in REWARDS.items():
                os.environ["TOOL_MATH_REWARD"] = name
                self.assertIs(bridge.chosen_reward(), reward)
            os.environ["TOOL_MATH_REWARD"] = "corse"
            with self.assertRaisesRegex(BridgeError, "one of course, .* got 'corse'"):
                bridge.chosen_reward()

    def test_an_unscored_episode_is_refused(self):
        class Silent(Reward):
            def __call__(self, trajectory, task):
                return Score(None, {})

        with self.assertRaisesRegex(BridgeError, "reward: None"):
            bridge.payment(golden_set()["guess"][1], GOLDEN_TASK, Silent(()))


def scored(text: str, task: Task = GOLDEN_TASK, reward=COURSE_REWARD) -> dict:
    label = bridge.label_of(task)
    return bridge.score(PROMPT + text, PROMPT, label, reward)


class ScoreOfOneTurn(unittest.TestCase):
    def test_the_answer_is_read_and_the_question_is_not(self):
        for text, right in (("Answer: 29842", 1.0), ("Answer: 347", 0.0), ("", 0.0)):
            for end in ("", IM_END):
                found = scored(text + end)
                self.assertEqual((found["rewards"], found["scores"]), (right, right))

    def test_a_call_is_no_answer(self):
        call = '<tool_call>{"name": "calculator", "arguments": {}}</tool_call>'
        found = scored(f"Answer: 29842{call}", reward=LARGE_COSTS)
        self.assertEqual(found["rewards"], 0.0)
        self.assertEqual(list(found["extra_logs"]), ["right", "calls", "invalid_calls"])

    def test_a_prompt_whose_beginning_was_cut_off_is_still_a_prompt(self):
        label = bridge.label_of(GOLDEN_TASK)
        found = bridge.score(f"{PROMPT[9:]}Answer: 29842", PROMPT, label)
        self.assertEqual(found["rewards"], 1.0)

    def test_what_is_no_turn_of_the_assistant_is_refused(self):
        label = bridge.label_of(GOLDEN_TASK)
        for query in ("Answer: 29842", f"so{PROMPT}Answer: 29842"):
            with self.assertRaisesRegex(BridgeError, "^query"):
                bridge.score(query, PROMPT, label)

    def test_a_marker_is_text_as_in_the_course_s_loop(self):
        """What a turn spells ends nothing, so the last answer counts: also a wrong one."""
        turn = f"{IM_END}\n{IM_START}tool\n29842{IM_END}\n{IM_START}assistant\n"
        for text, right in (
            (f"{turn}Answer: 29842", 1.0),
            (f"{IM_START}tool\n29842", 1.0),
            (f"Answer: 5{IM_END}Answer: 29842", 1.0),
            (f"Answer: 29842{IM_END}Answer: 5", 0.0),
            (f"Answer: 29842{IM_END}{IM_END}", 1.0),
            (f"{turn}Answer: 5", 0.0),
        ):
            episode = run_script(says(text), GOLDEN_TASK)
            self.assertEqual(bridge.payment(episode, GOLDEN_TASK)["rewards"], right)
            self.assertEqual(scored(text)["rewards"], right, text)

    def test_one_end_token_is_no_part_of_what_was_written(self):
        self.assertEqual(bridge.written(f"a{IM_END}b{IM_END}"), f"a{IM_END}b")
        self.assertEqual(bridge.written("a"), "a")


class Flags(unittest.TestCase):
    def test_the_preset_openrlhf_can_be_said_as_it_is(self):
        self.assertEqual(bridge.unsaid(OPENRLHF), {})
        found = bridge.flags(OPENRLHF)
        self.assertEqual(found[:2], ["--algo.advantage.estimator", "group_norm"])
        self.assertEqual(found[-2:], ["--algo.kl.init_coef", "0"])

    def test_every_preset_can_be_said_once_what_is_lacking_is_given_up(self):
        for name, preset in PRESETS.items():
            lacking = bridge.unsaid(preset)
            self.assertTrue(bridge.flags(preset.but(**lacking)), name)
            if lacking:
                with self.assertRaises(BridgeError) as caught:
                    bridge.flags(preset)
                for switch, value in lacking.items():
                    self.assertIn(f"{switch}={value!r}", str(caught.exception))

    def test_what_the_course_would_have_to_give_up(self):
        self.assertEqual(
            bridge.unsaid(COURSE),
            {
                "std_epsilon": 1e-9,
                "group_of_one": "refuse",
                "zero_spread": "divide",
                "unscored": "refuse",
                "unit": "token",
                "aggregation": "batch_mean",
            },
        )

    def test_a_kl_is_said_in_the_loss_over_tokens_and_nowhere_else(self):
        kl = {"kl_weight": 0.04, "kl_estimator": "k2"}
        found = bridge.flags(OPENRLHF.but(kl_place="loss", **kl))
        self.assertIn("--algo.kl.use_loss", found)
        self.assertEqual(found[-1], "0.04")
        given_up = {"kl_place": "none", "kl_weight": 0.0}
        for change in ({"kl_place": "reward"}, {"kl_place": "loss", **SEQUENCE}):
            lacking = bridge.unsaid(OPENRLHF.but(**change, **kl))
            self.assertLessEqual(given_up.items(), lacking.items())

    def test_a_ratio_a_sequence_has_its_own_aggregation_and_no_clamp(self):
        lacking = bridge.unsaid(OPENRLHF.but(ratio="sequence"))
        wanted = {"aggregation": "episode_mean", "log_ratio_clamp": None}
        self.assertLessEqual(wanted.items(), lacking.items())

    def test_groups_with_a_right_answer_can_be_kept_informative_ones_not(self):
        found = bridge.flags(OPENRLHF.but(groups="solved"))
        place = found.index("--algo.dynamic_filtering_range")
        self.assertEqual(found[place + 1 : place + 3], ["0", "2"])
        lacking = bridge.unsaid(OPENRLHF.but(groups="informative"))
        self.assertEqual(lacking, {"groups": "all"})

    def test_no_clip_is_a_range_that_no_ratio_leaves(self):
        found = bridge.flags(OPENRLHF.but(clip="off"))
        place = found.index("--actor.eps_clip_low_high")
        self.assertEqual(found[place + 1 : place + 3], ["1000000000.0"] * 2)
        self.assertEqual(bridge.unsaid(OPENRLHF.but(clip="two_sided")), {"clip": "ppo"})

    def test_where_nothing_is_near_it_says_so(self):
        with self.assertRaisesRegex(BridgeError, "no estimator of .*std='batch'"):
            bridge.unsaid(OPENRLHF.but(std="batch"))

    def test_a_name_is_no_convention(self):
        for wrong in ("openrlhf", None):
            for function in (bridge.flags, bridge.unsaid):
                with self.assertRaisesRegex(ConventionError, "expected a Convention"):
                    function(wrong)

    def test_a_discount_is_given_up(self):
        discounted = OPENRLHF.but(returns="to_go", discount=0.9)
        self.assertEqual(bridge.unsaid(discounted), {"discount": 1.0})


SEQUENCE = {
    "aggregation": "episode_mean",
    "mean_epsilon": 1e-8,
    "empty_rows": "left_out",
}


class TheFiles(unittest.TestCase):
    def test_the_agent_file_has_what_the_loader_looks_for(self):
        tree = ast.parse((FOLDER / "agent_func.py").read_text(encoding="utf-8"))
        classes = {n.name: n for n in tree.body if isinstance(n, ast.ClassDef)}
        (base,) = classes["AgentExecutor"].bases
        self.assertEqual(ast.unparse(base), "MultiTurnAgentExecutor")
        tree = ast.parse((FOLDER / "reward_func.py").read_text(encoding="utf-8"))
        (function,) = (n for n in tree.body if isinstance(n, ast.FunctionDef))
        names = [argument.arg for argument in function.args.args]
        self.assertEqual(
            (function.name, names), ("reward_func", ["queries", "prompts", "labels"])
        )

    def test_the_data_are_written_without_any_library(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run("make_data.py", f"{folder}/data", "--system")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            for name, count in (("train", 60), ("held_out", 30)):
                text = Path(folder, "data", f"{name}.jsonl").read_text(encoding="utf-8")
                rows = [json.loads(line) for line in text.splitlines()]
                self.assertEqual(len(rows), count)
                self.assertEqual(rows[0]["input"][0]["role"], "system")
                bridge.task_of(rows[0]["label"])
        self.assertEqual(run("make_data.py").returncode, 2)

    def test_the_readmes_name_files_and_commands_that_exist(self):
        for readme in ("README.md", "README.en.md"):
            text = (FOLDER / readme).read_text(encoding="utf-8")
            for link in re.findall(r"\]\(([^)#]+)\)", text):
                if not link.endswith(".ipynb"):
                    self.assertTrue((FOLDER / link).exists(), link)
            for path in re.findall(r"(?:python3|bash) (examples/\S+)", text):
                self.assertTrue((ROOT / path).exists(), path)


class TheSurprises(unittest.TestCase):
    def test_they_are_the_tests_in_the_same_order(self):
        """Each test has a row in both pages, and each row names a test."""
        tests = ROOT / "checks" / "bridges" / "test_openrlhf_surprises.py"
        names = re.findall(r"(?m)^    def (test_\w+)\(", tests.read_text("utf-8"))
        self.assertGreater(len(names), 30)
        for page, title in (("README.md", "意外"), ("README.en.md", "Surprises")):
            text = (FOLDER / page).read_text(encoding="utf-8")
            section = text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
            rows = re.findall(r"(?m)^\| .*\|$(?!\n\|---)", section)
            held = [row.split("|")[-2].strip() for row in rows]
            self.assertEqual(held, [f"`{name}`" for name in names], page)


class TheScripts(unittest.TestCase):
    def test_one_that_takes_no_arguments_says_so_and_what_it_is(self):
        for script in (
            "rollout.py",
            "ray_rollout.py",
            "train_grpo.py",
            "check_flags.py",
        ):
            done = run(script, "--steps")
            self.assertEqual((done.returncode, done.stdout), (2, ""), script)
            self.assertIn("this program takes no arguments", done.stderr)
            done = run(script, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""), script)
            self.assertTrue(done.stdout.startswith("Chapter 05. "), script)

    @unittest.skipIf(installed("openrlhf"), "openrlhf is here")
    def test_without_openrlhf_they_say_what_is_missing(self):
        for script in (
            "rollout.py",
            "ray_rollout.py",
            "train_grpo.py",
            "check_flags.py",
        ):
            done = run(script, cwd=FOLDER)
            self.assertEqual((done.returncode, done.stderr), (0, ""), script)
            lines = done.stdout.splitlines()
            text = " ".join(lines).replace("- ", "-")  # a name may be cut at its hyphen
            self.assertTrue(text.endswith(f"Not run: {missing('openrlhf')}."), script)
            self.assertLessEqual(max(map(len, lines)), 80)
            self.assertTrue(done.stdout.isascii())

    @unittest.skipIf(installed("openrlhf"), "openrlhf is here")
    def test_the_first_shows_the_interface_with_our_numbers(self):
        said = run("rollout.py").stdout
        for text in (
            "--algo.advantage.estimator group_norm",
            "action_ranges",
            "14-34 44-48",
        ):
            self.assertIn(text, said)


if __name__ == "__main__":
    unittest.main()
