"""Chapter 06 without Agent Lightning: its bridge, its files, what its scripts say alone.

What needs Agent Lightning is checked in checks/bridges/test_agent_lightning_*.py, what needs
verl too in test_verl_adapter.py.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import unittest
from pathlib import Path

from agentic_rl.bridges import agent_lightning as bridge
from agentic_rl.bridges.frameworks import BridgeError, installed, missing
from agentic_rl.bridges.token_ids import to_ids
from agentic_rl.conventions import (
    AGENT_LIGHTNING,
    COURSE,
    GSPO,
    PRESETS,
    VERL,
    ConventionError,
)
from agentic_rl.golden import GOLDEN_TASK, LOOKUP_TASK, golden_group, golden_set
from agentic_rl.messages import MessageError, parse_assistant, to_openai, user
from agentic_rl.reward import Score
from agentic_rl.tasks import TaskError
from agentic_rl.tool_math import ToolMath
from agentic_rl.trajectory import Trajectory
from tests.pages import links, read
from tests.test_token_ids import Characters

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "examples" / "06_agent_lightning"
FRAMEWORKS = (
    "agentlightning",
    "verl",
    "torch",
    "httpx",
    "fastapi",
    "pydantic",
    "hydra",
)
SCRIPTS = ("one_group.py", "train_grpo.py", "train_processes.py", "adapter.py")


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], cwd="/", capture_output=True, text=True
    )


def model_request(prompt: list, response: list, logprobs=None, **more) -> dict:
    """An event of a model call, as the gateway keeps it."""
    choice = {"token_ids": response}
    if logprobs is not None:
        choice["logprobs"] = {"content": [{"logprob": x} for x in logprobs]}
    body = {"prompt_token_ids": prompt, "choices": [choice]}
    data = {"response": body, "status": "ok", "http_status": 200, **more}
    return {"event_type": "model_request", "data": data}


def trimmed(prompt: list, response: list, logprobs=None) -> dict:
    """The same as a triplet."""
    data = {
        "prompt_token_ids": prompt,
        "response_token_ids": response,
        "response_log_probs": logprobs,
        "server": {},
    }
    return {"event_type": "model_request", "data": data}


class Imports(unittest.TestCase):
    def test_importing_the_bridge_imports_no_framework(self):
        code = (
            f"import sys; sys.path.insert(0, {str(ROOT)!r}); "
            "import agentic_rl.bridges.agent_lightning; "
            f"print(sorted(set(sys.modules) & set({FRAMEWORKS!r})))"
        )
        done = run("-c", code)
        self.assertEqual((done.stdout, done.stderr), ("[]\n", ""))


class ThereAndBack(unittest.TestCase):
    def test_every_golden_episode_comes_back_from_its_events(self):
        for name, (_, trajectory) in golden_set().items():
            tokenizer = Characters()
            found = bridge.events(trajectory, tokenizer)
            self.assertEqual(bridge.from_events(found, tokenizer), trajectory, name)

    def test_and_through_json(self):
        for name, (_, trajectory) in golden_set().items():
            tokenizer = Characters(size=2)
            found = json.loads(json.dumps(bridge.events(trajectory, tokenizer)))
            self.assertEqual(bridge.from_events(found, tokenizer), trajectory, name)

    def test_a_model_call_a_decision_then_notes_breakdown_reward(self):
        for name, (_, trajectory) in golden_set().items():
            kinds = [e["event_type"] for e in bridge.events(trajectory, Characters())]
            calls = ["model_request"] * len(trajectory.actions)
            told = ["trajectory_notes", "reward_breakdown", "reward"]
            self.assertEqual(kinds, [*calls, *told], name)

    def test_an_episode_without_a_reward_has_no_reward_event(self):
        trajectory = golden_group()[0]
        trajectory.reward, trajectory.breakdown = None, {}
        tokenizer = Characters()
        found = bridge.events(trajectory, tokenizer)
        self.assertEqual(found[-1]["event_type"], "trajectory_notes")
        self.assertEqual(bridge.from_events(found, tokenizer), trajectory)

    def test_what_is_missing_or_doubled_is_refused(self):
        tokenizer = Characters()
        found = bridge.events(golden_set()["two tools"][1], tokenizer)
        *calls, notes, parts, reward = found
        for events, problem in (
            ([*calls, parts, reward], "0 trajectory_notes"),
            ([*calls, notes, notes, parts, reward], "2 trajectory_notes"),
            ([*calls[1:], notes, parts, reward], "2 model requests for 3 decisions"),
            ([*calls, notes, parts, reward, reward], "2 rewards"),
            ([*calls, notes, reward], "no breakdown"),
            ([*calls, notes, parts], "no reward"),
        ):
            with self.assertRaisesRegex(BridgeError, problem):
                bridge.from_events(events, tokenizer)

    def test_notes_of_another_form_are_refused(self):
        tokenizer = Characters()
        *calls, notes, parts, reward = bridge.events(golden_group()[0], tokenizer)
        for change, problem in (
            ({"mine": 1}, "not those of this bridge"),
            ({"turn_ends": None}, "turn_ends: expected a list"),
            ({"choices": [1, 2]}, r"choices\[0\]"),
            ({"tail": [7]}, "tail: expected tokens, got 7"),
        ):
            other = {**notes, "data": {**notes["data"], **change}}
            with self.assertRaisesRegex(BridgeError, problem):
                bridge.from_events([*calls, other, parts, reward], tokenizer)

    def test_turns_that_do_not_merge_are_refused(self):
        tokenizer = Characters()
        found = bridge.events(golden_set()["two tools"][1], tokenizer)
        found[1]["data"]["response"]["prompt_token_ids"][0] += 1
        with self.assertRaisesRegex(BridgeError, "3 rows"):
            bridge.from_events(found, tokenizer)

    def test_turns_without_log_probs_are_refused(self):
        tokenizer = Characters()
        found = bridge.events(golden_set()["guess"][1], tokenizer)
        del found[0]["data"]["response"]["choices"][0]["logprobs"]
        with self.assertRaisesRegex(BridgeError, "mode val"):
            bridge.from_events(found, tokenizer)

    def test_an_episode_in_which_nobody_said_anything_is_refused(self):
        for call in (bridge.reports, lambda t: bridge.events(t, Characters())):
            with self.assertRaises(BridgeError):
                call(Trajectory("silent"))


class Rollouts(unittest.TestCase):
    def test_the_input_holds_task_label_and_seed(self):
        fields = bridge.rollout(LOOKUP_TASK, 7, "0-1-2", "course_agent:ToolMathAgent")
        self.assertEqual(fields["input"]["data_id"], LOOKUP_TASK.id)
        self.assertEqual(fields["input"]["seed"], 7)
        self.assertEqual(
            bridge.task_of(json.dumps(fields["input"]["task"])), LOOKUP_TASK
        )
        for place in fields["config"]["local"]["env_map"].values():
            self.assertIn(place.removeprefix("input."), fields["input"])

    def test_what_is_no_task_is_refused(self):
        for text, error in (
            ("{", BridgeError),
            (None, BridgeError),
            ("[" * 100_000, BridgeError),
            ("{}", TaskError),
            ("[]", TaskError),
        ):
            with self.assertRaisesRegex(error, "TASK"):
                bridge.task_of(text)


class Messages(unittest.TestCase):
    def test_a_request_is_in_openais_form(self):
        _, trajectory = golden_set()["one call"]
        tools = ToolMath(GOLDEN_TASK).tools.schemas()
        body = bridge.request(trajectory.messages[:3], tools, 7)
        self.assertEqual(set(body), {"messages", "tools", "seed"})
        (call,) = body["messages"][1]["tool_calls"]
        self.assertEqual(call["function"]["arguments"], '{"expression": "347 * 86"}')
        self.assertEqual(body["tools"], tools)
        self.assertEqual(bridge.request([], [], 7, 12)["max_tokens"], 12)

    def test_a_response_is_read_as_the_text_that_was_written(self):
        for name, (_, trajectory) in golden_set().items():
            for event in bridge.events(trajectory, Characters()):
                if event["event_type"] != "model_request":
                    continue
                text, _ = bridge.written(event["data"]["response"])
                ids = event["data"]["response"]["choices"][0]["token_ids"]
                end = "" if trajectory.finish_reason == "length" else "<|im_end|>"
                self.assertIn(f"{text}{end}", said(trajectory), name)
                self.assertGreater(len(ids), 0)

    def test_what_is_no_completion_or_no_text_of_ours_is_refused(self):
        for response in (
            {"error": {"message": "out of order"}},
            {"choices": []},
            {"choices": [None]},
            {"choices": [{"message": None, "finish_reason": "length"}]},
            [],
            None,
        ):
            with self.assertRaisesRegex(BridgeError, "no chat completion"):
                bridge.written(response)
        with self.assertRaises(MessageError):
            bridge.written(answered(content="<tool_call>"))
        with self.assertRaisesRegex(BridgeError, "an assistant writes text, got 5"):
            bridge.written(answered("length", content=5))

    def test_the_text_that_a_server_names_is_taken_as_it_is(self):
        response = answered(content="as parsed")
        response["choices"][0].update(text="as written", choice="guess")
        self.assertEqual(bridge.written(response), ("as written", "guess"))

    def test_a_thought_has_either_of_vllms_names(self):
        for name in ("reasoning_content", "reasoning"):
            response = answered(content="Answer: 1", **{name: "I add."})
            self.assertEqual(
                bridge.written(response), ("<think>I add.</think>Answer: 1", None)
            )

    def test_a_turn_that_was_cut_is_its_words(self):
        for message, text in (
            ({"content": "Ans"}, "Ans"),
            ({"content": None}, ""),
            ({}, ""),
            ({"content": None, "reasoning": "I ad"}, "<think>I ad"),
            ({"content": "An", "reasoning": "I add."}, "<think>I add.</think>An"),
        ):
            response = answered("length", **message)
            self.assertEqual(bridge.written(response), (text, None))

    def test_texts_go_along_only_where_they_are_not_the_courses_own(self):
        own = '<tool_call>{"name": "calculator", "arguments": {}}</tool_call>'
        other = own.replace("{", "\n{", 1)
        self.assertEqual(parse_assistant(own), parse_assistant(other))
        talk = [user("What is 1 + 1?"), parse_assistant(own)]
        self.assertNotIn("texts", bridge.request(talk, [], 7, None, [own]))
        self.assertEqual(bridge.request(talk, [], 7, None, [other])["texts"], [other])

    def test_a_prompt_holds_the_texts_that_it_is_given(self):
        tokenizer = Characters()
        talk = [user("Hi"), {"role": "assistant", "content": "parsed"}, user("And?")]
        expected = (
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n{}<|im_end|>\n"
            "<|im_start|>user\nAnd?<|im_end|>\n<|im_start|>assistant\n"
        )
        for texts, text in (([], "parsed"), (["written"], "written")):
            ids = bridge.prompt_ids(talk, tokenizer, texts)
            self.assertEqual(tokenizer.decode(ids), expected.format(text))

    def test_the_prompt_of_each_turn_is_that_of_the_trajectory(self):
        for name, (_, trajectory) in golden_set().items():
            tokenizer = Characters()
            record = to_ids(trajectory, tokenizer)
            spoken = [
                place
                for place, message in enumerate(trajectory.messages)
                if message["role"] == "assistant"
            ]
            for place, call in zip(spoken, bridge.turns(record)):
                ids = bridge.prompt_ids(
                    to_openai(trajectory.messages)[:place], tokenizer
                )
                self.assertEqual(ids, call.prompt_ids, name)


def answered(finish_reason: str = "stop", **message) -> dict:
    """A chat completion."""
    choice = {"message": {"role": "assistant", **message}}
    return {"choices": [{**choice, "finish_reason": finish_reason}]}


def said(trajectory: Trajectory) -> list[str]:
    """What the assistant wrote, turn by turn, its end of turn included."""
    texts: list[str] = []
    for token, mask, first in zip(
        trajectory.tokens, trajectory.loss_mask, trajectory.decision
    ):
        if first:
            texts.append("")
        if mask:
            texts[-1] += token
    return texts


class Rewards(unittest.TestCase):
    def test_a_score_and_its_events(self):
        score = Score(0.5, {"right": 1.0, "calls": -0.5})
        parts, reward = bridge.score_events(score, "stop")
        self.assertEqual(parts["data"], score.breakdown)
        self.assertEqual(
            reward["data"],
            {
                "value": 0.5,
                "message": "right 1, calls -0.5",
                "source": "agent",
                "reason": "stop",
            },
        )
        self.assertEqual(bridge.score_of([parts, reward]), score)
        self.assertEqual(bridge.score_events(Score(None, {})), [])
        self.assertEqual(bridge.score_of([]), Score(None, {}))

    def test_numbers_that_are_none_or_do_not_add_up_are_refused(self):
        for value, parts, problem in (
            ("0.9", {"right": 0.9}, "finite number"),
            (True, {"right": 1.0}, "finite number"),
            (0.9, {"right": "x"}, "right: expected a finite number, got 'x'"),
            (1.0, {"right": True}, "right: expected a finite number, got True"),
            (0.9, {"right": float("nan")}, "right: expected a finite number"),
            (0.9, {"right": 1.0}, "adds up"),
        ):
            events = [
                {"event_type": "reward_breakdown", "data": parts},
                {"event_type": "reward", "data": {"value": value}},
            ]
            with self.assertRaisesRegex(BridgeError, problem):
                bridge.score_of(events)
            with self.assertRaisesRegex(BridgeError, problem):
                bridge.score_events(Score(value, parts))

    def test_a_reward_without_a_value_is_refused(self):
        events = [
            {"event_type": "reward_breakdown", "data": {"right": 0.9}},
            {"event_type": "reward", "data": {}},
        ]
        with self.assertRaisesRegex(BridgeError, "finite number, got None"):
            bridge.score_of(events)


class Triplets(unittest.TestCase):
    def test_both_forms_say_the_same(self):
        whole = [model_request([1], [2], [-0.5]), model_request([1, 2, 3], [4])]
        short = [trimmed([1], [2], [-0.5]), trimmed([1, 2, 3], [4])]
        expected = [
            bridge.Triplet([1], [2], [-0.5]),
            bridge.Triplet([1, 2, 3], [4], None),
        ]
        self.assertEqual(bridge.triplets(whole), expected)
        self.assertEqual(bridge.triplets(short), expected)

    def test_of_the_same_prompt_the_last_is_kept(self):
        events = [
            model_request([1], [2]),
            model_request([3], [4]),
            model_request([1], [5]),
        ]
        found = [(x.prompt_ids, x.response_ids) for x in bridge.triplets(events)]
        self.assertEqual(found, [([3], [4]), ([1], [5])])

    def test_failed_and_empty_calls_are_left_out(self):
        events = [
            model_request([1], [2], status="error"),
            model_request([2], [2], http_status=500),
            model_request([3], []),
            {"event_type": "model_request", "data": {"response": {"error": {}}}},
        ]
        self.assertEqual(bridge.triplets(events), [])

    def test_a_call_that_failed_takes_the_earlier_one_of_its_prompt_with_it(self):
        events = [model_request([1], [2]), model_request([1], [], status="error")]
        self.assertEqual(bridge.triplets(events), [])

    def test_what_is_no_event_is_refused(self):
        fine = model_request([1], [2])
        for odd in ({"event_type": "reward"}, {"data": {}}, {**fine, "data": []}, None):
            for call in (bridge.triplets, bridge.score_of):
                with self.assertRaisesRegex(BridgeError, "event 1: expected event_ty"):
                    call([fine, odd])

    def test_what_is_of_another_kind_is_named(self):
        answer = {"prompt_token_ids": [1], "choices": [{"token_ids": [2]}]}
        for data, name in (
            ({"response": "text"}, "response: expected an object"),
            ({"response": {"choices": {}}}, "choices: expected a list"),
            ({"response": {"choices": [None, 1]}}, None),
            ({"response": {"choices": [5]}}, r"choices\[0\]: expected an object"),
            (
                {"response": {"choices": [{"logprobs": "x"}]}},
                "logprobs: expected an object",
            ),
            (
                {"response": {"choices": [{"logprobs": {"content": [5]}}]}},
                "logprobs: expected an object",
            ),
            (
                {"response": answer, "http_status": "500"},
                "http_status: expected a whole number",
            ),
            (
                {
                    "prompt_token_ids": [1],
                    "response_token_ids": [2],
                    "response_log_probs": 5,
                },
                "response_log_probs: expected a list",
            ),
        ):
            event = {"event_type": "model_request", "data": data}
            if name is None:  # nothing in it: no ids, so it is left out
                self.assertEqual(bridge.triplets([event]), [])
                continue
            with self.assertRaisesRegex(BridgeError, name):
                bridge.triplets([event])

    def test_log_probs_that_are_not_one_finite_number_an_id_are_none(self):
        for told in ([-0.5], [-0.5, None], [-0.5, float("nan")], [-0.5, "x"], None):
            for event in (model_request, trimmed):
                (call,) = bridge.triplets([event([1], [2, 3], told)])
                self.assertIsNone(call.logprobs, told)

    def test_what_is_no_list_of_ids_is_refused(self):
        for prompt, response, name in (
            ("1 2", [3], "prompt"),
            ([1], [True], "response"),
            ([1.0], [2], "prompt"),
        ):
            for event in (model_request, trimmed):
                with self.assertRaisesRegex(BridgeError, f"{name}: expected a list"):
                    bridge.triplets([event(prompt, response)])

    def test_a_call_without_a_prompt_is_refused(self):
        with self.assertRaisesRegex(
            BridgeError, "model request 1: no prompt_token_ids"
        ):
            bridge.triplets([model_request([1], [2]), model_request([], [3])])


class Rows(unittest.TestCase):
    def test_a_prompt_that_goes_on_is_merged(self):
        calls = [
            bridge.Triplet([10], [20], [-0.1]),
            bridge.Triplet([10, 20, 11], [22], [-0.2]),
        ]
        row = bridge.Row([10], [20, 11, 22], [1, 0, 1], [-0.1, 0.0, -0.2])
        self.assertEqual(bridge.merge(calls), [row])
        self.assertEqual(calls[0], bridge.Triplet([10], [20], [-0.1]))  # as it was

    def test_any_other_prompt_begins_a_new_row(self):
        for prompt in ([10, 99, 12], [10], []):
            calls = [
                bridge.Triplet([10], [20], [-0.1]),
                bridge.Triplet(prompt, [22], [-0.2]),
            ]
            rows = bridge.merge(calls)
            self.assertEqual([row.response_ids for row in rows], [[20], [22]], prompt)

    def test_one_turn_without_log_probs_takes_those_of_its_row(self):
        calls = [
            bridge.Triplet([10], [20], [-0.1]),
            bridge.Triplet([10, 20], [22], None),
        ]
        (row,) = bridge.merge(calls)
        self.assertEqual((row.response_mask, row.logprobs), ([1, 1], None))

    def test_every_golden_episode_is_one_row_with_its_own_mask(self):
        for name, (_, trajectory) in golden_set().items():
            tokenizer = Characters()
            record, row = (
                to_ids(trajectory, tokenizer),
                bridge.merged(trajectory, tokenizer),
            )
            end = len(row.response_ids)
            self.assertEqual(row.prompt_ids, record.prompt_ids, name)
            self.assertEqual(row.response_mask, record.response_mask[:end], name)
            self.assertNotIn(1, record.response_mask[end:], name)


class Overrides(unittest.TestCase):
    def test_its_own_default_can_be_said_as_it_is(self):
        self.assertEqual(bridge.unsaid(AGENT_LIGHTNING), {})
        said = dict(x.split("=", 1) for x in bridge.overrides(AGENT_LIGHTNING))
        self.assertEqual(said["algorithm.adv_estimator"], "grpo")
        self.assertEqual(said["algorithm.enable_rollout_level_advantage"], "true")
        mode = said["actor_rollout_ref.actor.policy_loss.loss_mode"]
        self.assertEqual(mode, "per_rollout_mean")
        self.assertEqual(said["agentlightning.reward_fillna_value"], "0.0")
        self.assertEqual(said["agentlightning.trace_aggregator.level"], "trajectory")

    def test_a_ratio_of_sequences_keeps_verls_loss_for_it(self):
        said = bridge.overrides(GSPO.but(**bridge.unsaid(GSPO)))
        self.assertIn("actor_rollout_ref.actor.policy_loss.loss_mode=gspo", said)

    def test_a_kl_in_the_loss_does_not_go_with_per_rollout_mean(self):
        no_kl = {"kl_place": "none", "kl_weight": 0.0}
        kl = {"kl_place": "loss", "kl_weight": 0.1}
        self.assertEqual(bridge.unsaid(AGENT_LIGHTNING.but(**kl)), no_kl)

    def test_nor_does_a_kl_in_the_reward_go_with_any_loss(self):
        no_kl = {"kl_place": "none", "kl_weight": 0.0}
        for preset in (AGENT_LIGHTNING, VERL.but(unscored="zero")):
            convention = preset.but(kl_place="reward", kl_weight=0.1)
            self.assertEqual(bridge.unsaid(convention), no_kl)

    def test_a_kl_in_verls_own_loss_is_said(self):
        convention = VERL.but(unscored="zero", kl_place="loss", kl_weight=0.1)
        self.assertEqual(bridge.unsaid(convention), {})
        said = bridge.overrides(convention)
        self.assertIn("actor_rollout_ref.actor.kl_loss_coef=0.1", said)

    def test_a_name_is_no_convention(self):
        for call in (bridge.unsaid, bridge.overrides):
            with self.assertRaisesRegex(ConventionError, "expected a Convention"):
                call("grpo")

    def test_what_verl_and_the_course_would_have_to_give_up(self):
        self.assertEqual(bridge.unsaid(VERL), {"unscored": "zero"})
        self.assertEqual(
            bridge.unsaid(COURSE),
            {
                "std_epsilon": 1e-6,
                "group_of_one": "raw",
                "zero_spread": "divide",
                "unit": "token",
                "unscored": "zero",
                "empty_rows": "left_out",
            },
        )

    def test_every_preset_can_be_said_once_what_it_lacks_is_given_up(self):
        for name, preset in PRESETS.items():
            if name == "reinforce++":
                continue
            lacking = bridge.unsaid(preset)
            self.assertTrue(bridge.overrides(preset.but(**lacking)), name)
            if lacking:
                with self.assertRaises(BridgeError) as caught:
                    bridge.overrides(preset)
                for switch, value in lacking.items():
                    self.assertIn(f"{switch}={value!r}", str(caught.exception))

    def test_a_mean_over_all_tokens_is_verls_own_loss(self):
        convention = AGENT_LIGHTNING.but(aggregation="batch_mean")
        said = dict(
            x.split("=", 1)
            for x in bridge.overrides(convention.but(**bridge.unsaid(convention)))
        )
        mode = said["actor_rollout_ref.actor.policy_loss.loss_mode"]
        self.assertEqual(mode, "vanilla")

    def test_groups_are_not_filtered(self):
        convention = AGENT_LIGHTNING.but(groups="informative")
        self.assertEqual(bridge.unsaid(convention), {"groups": "all"})
        for line in bridge.overrides(AGENT_LIGHTNING):
            self.assertNotIn("filter_groups", line)

    def test_an_advantage_that_differs_from_token_to_token_is_refused(self):
        with self.assertRaisesRegex(BridgeError, "one value a rollout"):
            bridge.unsaid(PRESETS["reinforce++"])


class TheFiles(unittest.TestCase):
    def test_the_readmes_run_what_is_there(self):
        for name in ("README.md", "README.en.md"):
            text = read(FOLDER / name)
            named = set(
                re.findall(r"python3 (examples/06_agent_lightning/\w+\.py)", text)
            )
            self.assertLessEqual(
                {f"examples/06_agent_lightning/{x}" for x in SCRIPTS}, named
            )
            for script in named:
                self.assertTrue((ROOT / script).is_file(), script)
            for link in links(text):
                self.assertTrue((FOLDER / link.partition("#")[0]).exists(), link)

    def test_the_surprises_are_the_tests_in_the_same_order(self):
        """Each test has a row in both pages, and each row names a test."""
        checks = ROOT / "checks" / "bridges"
        names = []
        for file, cases in (
            ("agent_lightning_surprises", ""),
            ("verl_adapter", "Surp"),
        ):
            for part in re.split(r"(?m)^class ", read(checks / f"test_{file}.py"))[1:]:
                if part.startswith(cases):
                    names += re.findall(r"(?m)^    def (test_\w+)\(", part)
        self.assertGreater(len(names), 30)
        for page, title in (("README.md", "意外"), ("README.en.md", "Surprises")):
            text = read(FOLDER / page)
            section = text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
            rows = re.findall(r"(?m)^\| .*\|$(?!\n\|---)", section)
            held = [row.split("|")[-2].strip() for row in rows]
            self.assertEqual(held, [f"`{name}`" for name in names], page)

    def test_the_kept_run_is_over_what_it_promises(self):
        done = run(
            str(FOLDER / "train_processes.py"),
            "--read",
            str(FOLDER / "runs" / "train_processes.jsonl"),
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        rewards = [float(x) for x in re.findall(r"(?m)^ +\d+ +(\d\.\d\d)", done.stdout)]
        self.assertEqual(len(rewards), 12)
        self.assertGreater(sum(rewards[-4:]) / 4, 0.9)
        self.assertLess(rewards[0], 0.3)


class TheScripts(unittest.TestCase):
    def test_one_that_takes_no_arguments_says_so_and_what_it_is(self):
        for script in ("one_group.py", "train_grpo.py", "adapter.py"):
            done = run(str(FOLDER / script), "--steps")
            self.assertEqual((done.returncode, done.stdout), (2, ""), script)
            self.assertIn("this program takes no arguments", done.stderr)
            done = run(str(FOLDER / script), "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""), script)
            self.assertTrue(done.stdout.startswith("Chapter 06. "), script)

    def test_what_is_no_kept_run_is_named(self):
        for path in (str(FOLDER / "nothing.jsonl"), str(FOLDER / "k8s_job.yaml")):
            done = run(str(FOLDER / "train_processes.py"), "--read", path)
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"{path}: no log of this program: ", done.stderr)
            self.assertNotIn("Traceback", done.stderr)

    @unittest.skipIf(installed("agent_lightning"), "Agent Lightning is here")
    def test_without_it_the_first_shows_the_group_as_the_bridge_writes_it(self):
        done = run(str(FOLDER / "one_group.py"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = done.stdout.splitlines()
        self.assertLessEqual(max(map(len, lines)), 80)
        self.assertTrue(done.stdout.isascii())
        self.assertTrue(
            " ".join(lines).endswith(f"Not run: {missing('agent_lightning')}.")
        )
        for shown in ("trajectory_notes", "course_agent:ToolMathAgent", "1.0660"):
            self.assertIn(shown, done.stdout)

    @unittest.skipIf(installed("agent_lightning"), "Agent Lightning is here")
    def test_without_it_the_others_say_in_one_paragraph_what_to_install(self):
        for script in SCRIPTS[1:]:
            done = run(str(FOLDER / script))
            self.assertEqual((done.returncode, done.stderr), (0, ""), script)
            self.assertIn("Not run: ", done.stdout)
            self.assertLessEqual(max(map(len, done.stdout.splitlines())), 80)


if __name__ == "__main__":
    unittest.main()
