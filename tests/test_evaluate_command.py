"""``evaluate``, ``compare`` and ``conventions``: tables whose numbers are known."""

from __future__ import annotations

import json
import re
import tempfile
import unittest
from pathlib import Path

from agentic_rl.advantage import group_advantages
from agentic_rl.cli import compare, conventions, evaluate
from agentic_rl.cli.runs import open_run
from agentic_rl.cli.storage import HELD_OUT, load_tasks
from agentic_rl.conventions import COURSE, PRESETS, SWITCHES
from agentic_rl.evaluation import answer_sheets, as_dicts, exact, optimum
from agentic_rl.golden import GOLDEN_ACTIONS, GOLDEN_TASK, golden_group
from agentic_rl.policy import SoftmaxPolicy
from agentic_rl.tasks import generate, write_tasks
from agentic_rl.tool_math import ACTIONS, STATES
from tests.support import command


def by_policy(printed: str) -> dict[str, dict]:
    """What ``evaluate --json`` printed, by the name of the policy."""
    return {row["policy"]: row for row in json.loads(printed)}


class Runs(unittest.TestCase):
    """Two short runs that differ in one thing, made once."""

    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = Path(scratch.name)
        cls.a, cls.b = cls.folder / "a", cls.folder / "b"
        command("train", "--steps", 6, "--out", cls.a)
        command("train", "--steps", 8, "--term", "right=1", "--out", cls.b)


class Policies(Runs):
    def test_the_exact_row_is_the_oracles(self):
        done = command("evaluate", self.a, "--json")
        table = by_policy(done.out)
        names = ["untrained", "best scripted", str(self.a), "optimum"]
        self.assertEqual(list(table), names)
        tasks = load_tasks(HELD_OUT)
        record = json.loads((self.a / "policy.json").read_text())
        policy = SoftmaxPolicy.from_dict(record)
        sheets = answer_sheets(tasks)
        expected = as_dicts(exact(policy, sheets))
        self.assertEqual(table[str(self.a)]["exact"], expected)
        self.assertEqual(table["optimum"]["exact"], as_dicts(optimum(sheets)))

    def test_a_folder_and_its_policy_file_are_the_same_policy(self):
        file = self.a / "policy.json"
        table = by_policy(command("evaluate", self.a, file, "--json").out)
        self.assertEqual(
            {**table[str(self.a)], "policy": None}, {**table[str(file)], "policy": None}
        )

    def test_no_row_is_lost_however_the_policies_are_called(self):
        done = command("evaluate", self.a, self.a, "--json", "--episodes", 5)
        names = [row["policy"] for row in json.loads(done.out)]
        ends = ["untrained", "best scripted", "optimum"]
        self.assertEqual(names, [*ends[:2], str(self.a), str(self.a), ends[2]])

    def test_more_episodes_another_seed_another_sample_the_same_exact_figure(self):
        def rows(*arguments: object) -> dict:
            done = command("evaluate", self.a, "--json", *arguments)
            return by_policy(done.out)

        first, again = rows(), rows("--episodes", 300, "--seed", 0)
        other, more = rows("--seed", 1), rows("--episodes", 999)
        self.assertEqual(first, again)
        for changed in (other, more):
            self.assertEqual(changed["untrained"]["exact"], first["untrained"]["exact"])
            self.assertNotEqual(
                changed["untrained"]["sampled"], first["untrained"]["sampled"]
            )

    def test_the_table_fits_and_a_missing_kind_gets_a_dash(self):
        path = self.folder / "easy.jsonl"
        easy = [task for task in generate(3, seed=0) if task.id.startswith("easy")]
        path.write_text(write_tasks(easy))
        out = command("evaluate", self.a, "--tasks", path).out
        self.assertLessEqual(max(map(len, out.splitlines())), 80)
        row = next(line for line in out.splitlines() if line.startswith("optimum"))
        self.assertEqual(row.split()[1:], "1.000 - - - - - 0.00 - - 0.00 1.000".split())

    def test_what_is_no_policy_is_refused_by_file(self):
        path = self.folder / "policy.json"
        other = SoftmaxPolicy(["s"], ["a"]).to_dict()
        lame = SoftmaxPolicy(STATES, ACTIONS[:2]).to_dict()
        for record, said in (
            ("{", "not valid JSON"),
            ("[]", "expected an object with 'actions' and 'logits'"),
            (json.dumps(other), "not those of Tool-Math"),
            (json.dumps(lame), "not those of Tool-Math"),
        ):
            path.write_text(record)
            done = command("evaluate", path)
            self.assertEqual((done.status, done.out), (2, ""))
            self.assertIn(f"{path}: ", done.err)
            self.assertIn(said, done.err)
        for arguments, said in (
            ([self.folder / "none"], "No such file"),
            ([self.folder], "config.json: No such file"),
            ([self.a, self.a / "trajectories.jsonl"], "by itself"),
        ):
            done = command("evaluate", *arguments)
            self.assertEqual((done.status, done.out), (2, ""))
            self.assertIn(said, done.err)


class Episodes(Runs):
    def tally(self, *lines: object, **options: object) -> dict:
        path = self.folder / "episodes.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        tasks = self.folder / "golden.jsonl"
        tasks.write_text(write_tasks([GOLDEN_TASK]))
        return json.loads(command("evaluate", path, "--tasks", tasks, "--json").out)

    def test_the_golden_group_counted_by_hand(self):
        found = self.tally(*(episode.to_dict() for episode in golden_group()))
        calls = sum(
            action.startswith("call") for row in GOLDEN_ACTIONS for action in row
        )
        means = found["kinds"]["hard"]["means"]
        self.assertEqual(found["lines"], 4)
        self.assertEqual(means["success"], 2 / 4)
        self.assertAlmostEqual(means["reward"], (0.9 + 0 + 0.7 + 0) / 4)
        self.assertEqual(means["turns"], sum(map(len, GOLDEN_ACTIONS)) / 4)
        self.assertEqual(means["calls"], (calls - 1) / 4)  # those that ran
        self.assertEqual(means["invalid"], 1 / 4)
        self.assertEqual(means["unfinished"], 0.0)

    def test_a_task_nobody_knows_is_not_judged(self):
        episode = golden_group()[0]
        episode.task_id = "unknown"
        kind = self.tally(episode.to_dict())["kinds"]["hard"]
        self.assertEqual((kind["episodes"], kind["judged"]), (1, 0))
        self.assertIsNone(kind["means"]["success"])

    def test_chat_logs_are_counted_apart(self):
        said = [{"role": "user", "content": "hi"}]
        answered = [*said, {"role": "assistant", "content": "hello"}]
        calls = [
            {"id": name, "function": {"name": "f", "arguments": arguments}}
            for name, arguments in (("a", "{}"), ("b", "{"))
        ]
        asked = {"role": "assistant", "content": None, "tool_calls": calls}
        found = self.tally({"messages": said, "reward": 0}, answered, [*said, asked])
        kind = found["kinds"]["chat logs"]
        self.assertEqual((kind["episodes"], kind["scored"]), (3, 1))
        self.assertEqual((kind["calls"], kind["invalid"]), (1, 1))
        self.assertEqual(kind["unfinished"], 2)  # nobody answered; two calls hang

    def test_a_mean_that_no_float_holds_is_null(self):
        log = [{"role": "assistant", "content": "hi"}]
        found = self.tally(*[{"messages": log, "reward": 1.7e308}] * 2)
        self.assertIsNone(found["kinds"]["chat logs"]["means"]["reward"])

    def test_a_runs_own_tasks_judge_its_episodes(self):
        done = command("evaluate", self.a / "trajectories.jsonl", "--json")
        found = json.loads(done.out)
        kinds = found["kinds"].values()
        self.assertEqual(sum(kind["judged"] for kind in kinds), 6 * 48)
        metrics = (self.a / "metrics.jsonl").read_text().splitlines()
        success = [json.loads(line)["success"] for line in metrics]
        right = sum(kind["right"] for kind in kinds)
        self.assertAlmostEqual(right / (6 * 48), sum(success) / 6)

    def test_bad_lines_are_told_and_do_not_stop_the_rest(self):
        path = self.folder / "mixed.jsonl"
        good = json.dumps(golden_group()[0].to_dict())
        path.write_text(f"{good}\n{{\n{good}\n")
        done = command("evaluate", path)
        self.assertEqual(done.status, 1)
        self.assertIn("1 of 3 lines bad: 2", done.err)
        self.assertRegex(done.out, r"(?m)^hard +2 ")
        path.write_text("{\n" * 3)
        done = command("evaluate", path)
        self.assertEqual((done.status, done.out), (2, ""))
        self.assertIn("3 of 3 lines bad: 1-3", done.err)
        self.assertIn("no episode in it", done.err)


class Comparing(Runs):
    def test_only_what_differs_is_listed(self):
        found = json.loads(command("compare", self.a, self.b, "--json").out)
        self.assertEqual(
            found["settings"],
            {
                "steps done": [6, 8],
                "steps": [6, 8],
                "reward calls": ["-0.1 x calls, if right", None],
                "reward invalid_calls": ["-0.2 x invalid_calls, if right", None],
            },
        )
        for line in found["results"].values():
            a, b = line["values"]
            self.assertEqual(line["difference"], b - a)

    def test_a_run_does_not_differ_from_itself(self):
        done = command("compare", self.a, self.a)
        self.assertIn("Settings that differ\n" + "=" * 80 + "\nnone\n", done.out)
        self.assertNotRegex(done.out, r"[+-]\d\.\d{4}")

    def test_the_difference_comes_first_and_has_its_sign(self):
        there = command("compare", self.a, self.b).out
        back = command("compare", self.b, self.a).out
        self.assertRegex(there, r"what +B - A +A +B\n")
        for line in there.splitlines():
            self.assertLessEqual(len(line), 80)

        def gap(text: str) -> float:
            row = next(x for x in text.splitlines() if x.startswith("return"))
            return float(row.split()[-3])

        self.assertNotEqual(gap(there), 0.0)
        self.assertEqual(gap(there), -gap(back))
        self.assertIn("The two rewards are not the same", there)

    def test_logs_are_compared_as_far_as_both_go(self):
        rewards = command("compare", self.a, self.b).out.partition("reward while")[2]
        steps = rewards.partition("success while")[0]
        self.assertRegex(steps, r"(?m)^ +6 ")
        self.assertNotRegex(steps, r"(?m)^ +7 ")

    def test_two_runs_are_needed(self):
        for arguments, said in (
            ([self.a], "expected RUN"),
            ([self.a, self.b, self.a], "unknown argument"),
            ([self.a, self.folder], "config.json"),
        ):
            done = command("compare", *arguments)
            self.assertEqual((done.status, done.out), (2, ""))
            self.assertIn(said, done.err)

    def test_every_setting_has_a_name_of_its_own(self):
        record = open_run(self.a).settings.to_dict()
        flat = compare._flat(record)
        self.assertLessEqual(set(SWITCHES), set(flat))
        self.assertEqual(
            len(flat),
            len(SWITCHES)
            + 1
            + len(record["config"])
            - 1
            + len(record["config"]["limits"])
            + len(record["reward"]),
        )


class Conventions(unittest.TestCase):
    def test_the_golden_group_by_default(self):
        found = json.loads(command("conventions", "--json").out)
        rewards = [episode.reward for episode in golden_group()]
        self.assertEqual(found["rewards"], rewards)
        self.assertEqual(list(found["presets"]), list(PRESETS))
        for name in ("course", "dr_grpo", "rloo", "trl", "verl", "openrlhf"):
            expected = group_advantages(rewards, [0] * 4, PRESETS[name])
            self.assertEqual(found["presets"][name]["advantages"], expected)

    def test_whitening_is_what_the_update_would_get(self):
        # mean 0.4, sample std 0.4690: one decision an episode
        row = conventions.advantages([0.9, 0.0, 0.7, 0.0], PRESETS["reinforce++"])
        self.assertEqual([round(x, 4) for x in row], [1.066, -0.8528, 0.6396, -0.8528])

    def test_a_refusal_is_shown_with_its_reason(self):
        done = command("conventions", "1", "none")
        self.assertEqual(done.status, 0)
        self.assertRegex(done.out, r"(?m)^verl +refused +refused$")
        self.assertIn("verl refuses: rewards[1]: None", done.out)
        found = json.loads(command("conventions", "1", "none", "--json").out)
        self.assertIsNone(found["presets"]["verl"]["advantages"])

    def test_an_unscored_episode_that_is_left_out_is_no_zero(self):
        out = command("conventions", "1", "0", "none").out
        self.assertRegex(out, r"(?m)^course +0\.7071 +-0\.7071 +-$")

    def test_large_rewards_fit_too(self):
        out = command("conventions", *["-123456789.5", "987654321.25"] * 3).out
        self.assertLessEqual(max(map(len, out.splitlines())), 80)

    def test_a_long_group_goes_on_in_another_table(self):
        out = command("conventions", *range(1, 7)).out
        self.assertEqual(
            len([x for x in out.splitlines() if x.startswith("preset")]), 2
        )
        self.assertEqual(out.count("\ncourse "), 2)

    def test_a_negative_reward_is_a_number_and_a_word_is_refused(self):
        self.assertIn("-0.5", command("conventions", "-0.5", "1").out)
        done = command("conventions", "1", "much")
        self.assertEqual((done.status, done.out), (2, ""))
        self.assertIn("REWARD: expected a number or none, got 'much'", done.err)

    def test_every_switch_and_whoever_has_it_otherwise(self):
        out = command("conventions", "--switches").out
        table = out.partition("Every switch")[2].partition("Sources")[0]
        unfolded = re.sub(r"\n {2,}", " ", table)
        rows = dict(
            line.split(maxsplit=1) for line in unfolded.splitlines()[2:] if line
        )
        self.assertEqual(list(rows), list(SWITCHES))
        named = {switch: re.findall(r"[\w+]+", row) for switch, row in rows.items()}
        for name, rule in PRESETS.items():
            differs = {s for s in SWITCHES if getattr(rule, s) != getattr(COURSE, s)}
            self.assertEqual({s for s in SWITCHES if name in named[s]}, differs, name)
        self.assertLessEqual(max(map(len, out.splitlines())), 80)


class Names(unittest.TestCase):
    def test_a_long_name_keeps_its_end(self):
        for name in ("short", "x" * 16, "runs/" + "y" * 20):
            self.assertLessEqual(len(evaluate._short(name)), 16)
        self.assertTrue(evaluate._short("runs/" + "y" * 20).endswith("y" * 14))


if __name__ == "__main__":
    unittest.main()
