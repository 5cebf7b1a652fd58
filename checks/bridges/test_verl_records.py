"""One episode in verl's own loop, its own data set, its own reward manager: the same record.

A server says what the assistants of our golden set say; verl's ToolAgentLoop writes down
ids, mask and log-probs, and its reward manager calls our reward. Ours are beside them, id
by id. Where the two differ, the difference is pinned with its reason.
"""

from __future__ import annotations

from checks.bridges.verl_world import (
    CONFIG,
    SCRATCH,
    TOKENIZER,
    TOOLS_FILE,
    DataProto,
    Server,
    bridge,
    config,
    managed,
    objects,
    play,
    quiet,
    row_of,
    said,
    text_of,
    tools,
    turns_of,
)

# isort: split

import asyncio
import copy
import inspect
import json
import math
import unittest

import make_data
import numpy as np
import torch
from tool_math_tools import Calculator, Lookup
from verl.experimental.agent_loop.agent_loop import AgentLoopOutput, AgentLoopWorker
from verl.trainer.ppo import core_algos
from verl.trainer.ppo.reward import load_reward_manager
from verl.utils.dataset.rl_dataset import RLHFDataset

from agentic_rl.agent_loop import Limits
from agentic_rl.bridges.frameworks import BridgeError
from agentic_rl.bridges.tiny_model import make_model, make_tokenizer, right_episode
from agentic_rl.bridges.token_ids import to_ids
from agentic_rl.conventions import VERL
from agentic_rl.evaluation import held_out_tasks, training_tasks
from agentic_rl.golden import GOLDEN_TASK, golden_set
from agentic_rl.objective import policy_loss
from agentic_rl.scripted import ACTS_WELL, slow_tools
from agentic_rl.tasks import Task, one_of_each
from agentic_rl.tool_math import CALCULATOR, lookup_tool
from agentic_rl.tools import ToolBox
from agentic_rl.trajectory import Trajectory

GOLDEN = golden_set()
RECORD = (
    "prompt_ids",
    "response_ids",
    "response_mask",
    "response_logprobs",
    "num_turns",
)

# Where verl's loop writes another record than ours; see the tests of these names.
OTHER_LOOP = ("broken JSON", "unknown tool")


class SlowLookup(Lookup):
    """The lookup of the golden episode that meets a timeout."""

    def box(self, create_kwargs):
        return ToolBox([slow_tools(GOLDEN["timeout"][0]).tools["lookup"]])


def tools_of(name: str) -> list:
    """The tools that this golden episode met."""
    calculator, lookup = tools()
    if name == "timeout":
        lookup = copy.copy(lookup)
        lookup.__class__ = SlowLookup
    return [calculator, lookup]


def played(name: str) -> AgentLoopOutput:
    task, trajectory = GOLDEN[name]
    return play(task, Server(turns_of(trajectory)), with_tools=tools_of(name))


class TheLoop(unittest.TestCase):
    def test_ids_mask_and_logprobs_are_ours_one_by_one(self):
        for name, (_, trajectory) in GOLDEN.items():
            if name in OTHER_LOOP:
                continue
            theirs, ours = played(name), bridge.output(trajectory, TOKENIZER)
            for field in RECORD:
                self.assertEqual(getattr(theirs, field), ours[field], (name, field))

    def test_the_mask_is_one_on_what_the_assistant_said_its_end_included(self):
        turns = turns_of(GOLDEN["two tools"][1])
        self.assertEqual(
            text_of(played("two tools"), 1), [TOKENIZER.decode(ids) for ids, _ in turns]
        )
        first, _ = text_of(played("two tools"), 0)
        self.assertEqual(
            first, "\n<|im_start|>tool\n34<|im_end|>\n<|im_start|>assistant\n"
        )

    def test_the_kinds_of_observations_are_those_of_our_loop(self):
        for name, (_, trajectory) in GOLDEN.items():
            if name in OTHER_LOOP:
                continue
            output = played(name)
            ours = [seen.kind for seen in trajectory.observations]
            if (
                trajectory.finish_reason == "max_turns"
            ):  # verl does not run the last call
                ours.pop()
            self.assertEqual(output.extra_fields.get(bridge.TOOL_KINDS, []), ours, name)

    def test_a_cut_turn_has_no_end_in_either_record(self):
        output = played("truncated")
        self.assertNotIn(TOKENIZER.eos_token_id, output.response_ids)
        self.assertEqual(set(output.response_mask), {1})
        tail = bridge.output(GOLDEN["truncated"][1], TOKENIZER)["extra_fields"][
            "tail_ids"
        ]
        self.assertEqual(
            TOKENIZER.decode(tail), "<|im_end|>\n"
        )  # our harness closes it

    def test_broken_json_ends_verls_loop_where_ours_goes_on(self):
        output, ours = played("broken JSON"), GOLDEN["broken JSON"][1]
        record = bridge.output(ours, TOKENIZER)
        self.assertEqual(text_of(output, 1), [TOKENIZER.decode(turns_of(ours)[0][0])])
        length = len(output.response_ids)
        self.assertEqual(output.response_ids, record["response_ids"][:length])
        self.assertEqual(set(record["response_mask"][:length]), {1})
        self.assertEqual((output.num_turns, record["num_turns"]), (2, 4))

    def test_an_unknown_tool_is_told_in_verls_words(self):
        output, ours = played("unknown tool"), GOLDEN["unknown tool"][1]
        self.assertEqual(
            text_of(output, 1), [TOKENIZER.decode(t) for t, _ in turns_of(ours)]
        )
        self.assertIn(
            "Unknown function 'python'. Available tools: ['calculator', 'lookup']",
            text_of(output, 0)[0],
        )
        self.assertEqual(len(output.extra_fields["tool_rewards"]), 2)
        self.assertEqual(output.extra_fields[bridge.TOOL_KINDS], ["result"])

    def test_a_record_without_notes_is_refused_on_the_way_back(self):
        with self.assertRaisesRegex(BridgeError, "notes: none"):
            bridge.from_output(played("one call").model_dump(), TOKENIZER)


class ThereAndBack(unittest.TestCase):
    def test_our_fields_are_an_agent_loop_output_and_come_back_from_it(self):
        for name, (_, trajectory) in GOLDEN.items():
            output = AgentLoopOutput(**bridge.output(trajectory, TOKENIZER))
            back = bridge.from_output(output.model_dump(), TOKENIZER)
            self.assertEqual(back, trajectory, name)

    def test_a_padded_batch_of_them_comes_back_in_float64(self):
        outputs = [bridge.output(x, TOKENIZER) for _, x in GOLDEN.values()]
        padded = bridge.batch(outputs, TOKENIZER.pad_token_id, 96, 512, torch.float64)
        back = bridge.from_batch(padded)
        self.assertEqual(back, [{**item} for item in outputs])
        for fields, (_, trajectory) in zip(back, GOLDEN.values()):
            self.assertEqual(bridge.from_output(fields, TOKENIZER), trajectory)

    def test_it_is_a_data_proto(self):
        outputs = [bridge.output(x, TOKENIZER) for _, x in GOLDEN.values()]
        padded = bridge.batch(outputs, TOKENIZER.pad_token_id, 96, 512)
        arrays = {name: objects(values) for name, values in padded.non_tensors.items()}
        data = DataProto.from_dict(tensors=padded.tensors, non_tensors=arrays)
        self.assertEqual(len(data), len(GOLDEN))

    def test_what_does_not_fit_is_refused_not_cut(self):
        outputs = [bridge.output(GOLDEN["two tools"][1], TOKENIZER)]
        for lengths, name in (((4, 512), "prompt_ids"), ((96, 8), "response_ids")):
            with self.assertRaisesRegex(BridgeError, f"{name}: .* don't fit"):
                bridge.batch(outputs, TOKENIZER.pad_token_id, *lengths)

    def test_what_would_be_misaligned_or_not_finite_is_refused(self):
        good = bridge.output(GOLDEN["one call"][1], TOKENIZER)
        half = good["response_mask"][:-1]
        odd = [math.nan, *good["response_logprobs"][1:]]
        for wrong, told in (
            ({"response_ids": []}, "response_ids: expected at least one"),
            (
                {"response_mask": half},
                f"response_mask: {len(half)} for {len(half) + 1}",
            ),
            ({"response_logprobs": None}, "response_logprobs: none for"),
            ({"response_logprobs": odd}, "nan is not finite"),
            ({"reward_score": math.inf}, "inf is not finite"),
            ({"extra_fields": {"__num_turns__": 99}}, "the name of the turns' column"),
        ):
            with self.assertRaisesRegex(BridgeError, told):
                bridge.batch([{**good, **wrong}], TOKENIZER.pad_token_id, 96, 512)
        with self.assertRaisesRegex(BridgeError, "outputs: expected at least one"):
            bridge.batch([], TOKENIZER.pad_token_id, 96, 512)

    def test_a_batch_without_log_probs_has_no_way_back(self):
        good = bridge.output(GOLDEN["one call"][1], TOKENIZER)
        padded = bridge.batch([good], TOKENIZER.pad_token_id, 96, 512)
        del padded.tensors["rollout_log_probs"]
        with self.assertRaisesRegex(BridgeError, "no rollout_log_probs"):
            bridge.from_batch(padded)

    def test_a_batch_with_one_unscored_episode_is_refused(self):
        outputs = [bridge.output(x, TOKENIZER) for _, x in list(GOLDEN.values())[:2]]
        outputs[1]["reward_score"] = None
        with self.assertRaisesRegex(BridgeError, r"reward_score\[1\]: None"):
            bridge.batch(outputs, TOKENIZER.pad_token_id, 96, 512)


class TheWorker(unittest.TestCase):
    """AgentLoopWorker, which pads what the loop returns, on a real model's folder."""

    def episodes(self) -> list[tuple[Task, Trajectory]]:
        """Different questions, so that the server knows who asks."""
        first, *more = training_tasks()[:4]
        return [
            *(GOLDEN[name] for name in ("one call", "two tools", "unicode")),
            *((task, right_episode(task)) for task in more),
            (first, ACTS_WELL.run(first, Limits(turn_tokens=3))),
        ]

    def test_its_batch_is_ours(self):
        path = SCRATCH / "tiny"
        make_tokenizer().save_pretrained(path)
        make_model(TOKENIZER, seed=0).save_pretrained(path)
        cfg = config(
            f"actor_rollout_ref.model.path={path}",
            f"actor_rollout_ref.rollout.multi_turn.tool_config_path={TOOLS_FILE}",
        )
        tasks, trajectories = zip(*self.episodes())
        rows = [_as_the_data_set_has_it(task) for task in tasks]
        data = DataProto.from_dict(
            tensors={"dummy_tensor": torch.zeros(len(rows), 1)},
            non_tensors={key: objects([x[key] for x in rows]) for key in rows[0]},
        )
        data.non_tensor_batch["index"] = np.arange(len(rows))
        outputs = [bridge.output(episode, TOKENIZER) for episode in trajectories]
        server = Many(
            {
                tuple(fields["prompt_ids"]): Server(turns_of(episode))
                for fields, episode in zip(outputs, trajectories)
            }
        )
        with quiet():
            theirs = asyncio.run(AgentLoopWorker(cfg, server).generate_sequences(data))
        lengths = cfg.data.max_prompt_length, cfg.data.max_response_length
        for fields in outputs:
            fields["reward_score"] = None  # no reward worker runs here
        ours = bridge.batch(outputs, TOKENIZER.pad_token_id, *lengths)
        self.assertEqual(set(ours.tensors), set(theirs.batch.keys()))
        for name, tensor in theirs.batch.items():
            self.assertTrue(torch.equal(tensor, ours.tensors[name]), name)
        self.assertEqual(
            theirs.non_tensor_batch["__num_turns__"].tolist(),
            ours.non_tensors["__num_turns__"],
        )


def _as_the_data_set_has_it(task: Task) -> dict:
    row = row_of(task)
    tools_kwargs = row["extra_info"]["tools_kwargs"]
    return {**row, "raw_prompt": row["prompt"], "tools_kwargs": tools_kwargs}


class Many:
    """A server for episodes that run at once: a script for each prompt."""

    def __init__(self, scripts: dict[tuple[int, ...], Server]):
        self.scripts, self.asking = scripts, {}

    async def generate(self, request_id, *, prompt_ids, **asked):
        if request_id not in self.asking:
            self.asking[request_id] = self.scripts.pop(tuple(prompt_ids))
        return await self.asking[request_id].generate(
            request_id, prompt_ids=prompt_ids, **asked
        )


class TheData(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with quiet():
            make_data.main(SCRATCH / "data")
            cls.sets = {
                name: RLHFDataset(
                    [str(SCRATCH / "data" / f"{name}.parquet")], TOKENIZER, cls.data()
                )
                for name in ("train", "test")
            }

    @staticmethod
    def data():
        return config(f"data.tool_config_path={TOOLS_FILE}").data

    def test_all_tasks_come_back_as_they_are(self):
        for name, tasks in (("train", training_tasks()), ("test", held_out_tasks())):
            found = self.sets[name]
            self.assertEqual(len(found), len(tasks))
            for place, task in enumerate(tasks):
                self.assertEqual(bridge.task_of(found[place]["extra_info"]), task)

    def test_a_row_brings_what_loop_tools_and_reward_ask_for(self):
        place, task = next(
            (i, task) for i, task in enumerate(training_tasks()) if task.prices
        )
        row = self.sets["train"][place]
        self.assertEqual(
            row["raw_prompt"], [{"role": "user", "content": task.question}]
        )
        self.assertEqual(row["agent_name"], "tool_agent")
        self.assertEqual(row["index"], place)
        self.assertEqual(row["reward_model"]["ground_truth"], task.answer)
        prices = row["tools_kwargs"]["lookup"]["create_kwargs"]["prices"]
        self.assertEqual(json.loads(prices), task.prices)

    def test_the_data_set_loads_the_tools_by_a_path_of_its_own(self):
        names = [tool["function"]["name"] for tool in self.sets["train"].tool_schemas]
        self.assertEqual(names, ["calculator", "lookup"])


class TheTools(unittest.TestCase):
    def test_the_yaml_file_says_what_our_tools_say(self):
        ours = [bridge.tool_schema(tool) for tool in (CALCULATOR, lookup_tool({}))]
        self.assertEqual([tool.tool_schema for tool in tools()], ours)
        self.assertEqual([type(tool) for tool in tools()], [Calculator, Lookup])

    def test_each_episode_has_its_own_prices_and_leaves_nothing_behind(self):
        for name, tool in (("two tools", tools()[1]), ("one call", tools()[0])):
            played(name)
            self.assertEqual(tool.boxes, {})

    def test_a_lookup_without_prices_is_refused(self):
        for kwargs in ({}, {"prices": "[]"}, {"prices": "{"}):
            with self.assertRaisesRegex(BridgeError, "expected prices"):
                asyncio.run(tools()[1].create(create_kwargs=kwargs))

    def test_arguments_that_are_no_object_are_an_invalid_call(self):
        for arguments in ("[1]", "7", '"x"', "null"):
            text = f'<tool_call>{{"name": "calculator", "arguments": {arguments}}}</tool_call>'
            output = play(GOLDEN_TASK, Server(said(text, "Answer: 29842")))
            self.assertEqual(output.extra_fields[bridge.TOOL_KINDS], ["invalid_call"])


class TheReward(unittest.TestCase):
    """Our reward, called by verl's reward manager with the text of the whole response."""

    def test_every_golden_episode_is_paid_as_in_chapter_01(self):
        for name, (task, trajectory) in GOLDEN.items():
            result = managed(task, played(name))
            parts = dict(result["reward_extra_info"])
            self.assertAlmostEqual(result["reward_score"], trajectory.reward, msg=name)
            self.assertEqual(parts.pop("unclear"), 0.0)
            self.assertEqual(parts.pop("score"), result["reward_score"])
            self.assertEqual(parts, trajectory.breakdown, name)

    def test_another_reward_is_named_in_the_config(self):
        key = "+reward.custom_reward_function.reward_kwargs.reward"
        task, _ = GOLDEN["spam"]
        result = managed(task, played("spam"), config(f"{key}=paid_calls"))
        self.assertAlmostEqual(result["reward_score"], 1 + 3 * 0.5)

    def test_the_manager_is_the_one_that_verl_takes_by_default(self):
        manager = load_reward_manager(CONFIG, TOKENIZER)
        self.assertEqual(type(manager).__name__, "NaiveRewardManager")
        self.assertTrue(inspect.iscoroutinefunction(manager.run_single))


class PractitionerCases(unittest.TestCase):
    def test_a02_a_mask_of_zeros_is_refused_before_it_makes_a_loss_of_nan(self):
        silent = Trajectory("silent")
        silent.add_context(("x",))
        with self.assertRaisesRegex(BridgeError, "no token of an assistant"):
            to_ids(silent, TOKENIZER)
        zeros = torch.zeros(1, 3, dtype=torch.int64)
        theirs = core_algos.agg_loss(torch.ones(1, 3), zeros, "token-mean")
        self.assertTrue(theirs.isnan())
        ours = policy_loss([[0.0] * 3], [[0.0] * 3], [[1.0] * 3], VERL, [[0] * 3])
        self.assertEqual(ours.value, 0.0)

    def test_b01_ids_that_were_sampled_stay_though_their_text_has_others(self):
        canonical = TOKENIZER.encode("Answer: 29842", add_special_tokens=False)
        sampled = TOKENIZER.convert_tokens_to_ids(list("Answer"))
        rest = TOKENIZER.encode(": 29842", add_special_tokens=False)
        ids = [*sampled, *rest, TOKENIZER.eos_token_id]
        self.assertEqual(TOKENIZER.decode(ids[:-1]), TOKENIZER.decode(canonical))
        self.assertNotEqual(ids[:-1], canonical)
        output = play(GOLDEN_TASK, Server([(ids, [-1.0] * len(ids))]))
        self.assertEqual(output.response_ids, ids)
        self.assertEqual(output.response_mask, [1] * len(ids))
        self.assertEqual(len(output.response_logprobs), len(ids))

    def test_b02_old_thoughts_stay_though_the_template_would_drop_them(self):
        forgets = make_tokenizer()
        forgets.chat_template = forgets.chat_template.replace(
            "message.content or ''", "(message.content or '').split('</think>')[-1]"
        )
        task, trajectory = GOLDEN["thinking"]
        server = Server(turns_of(trajectory))
        output = play(task, server, tokenizer=forgets)
        first, second = server.prompts
        turn = turns_of(trajectory)[0][0]
        self.assertEqual(second[: len(first) + len(turn)], [*first, *turn])
        dropped = forgets.apply_chat_template(
            [{"role": "assistant", "content": TOKENIZER.decode(turn)}], tokenize=False
        )
        self.assertNotIn("think", dropped)
        self.assertEqual(output.response_ids, played("thinking").response_ids)
        self.assertEqual(
            sum(output.response_mask), sum(len(t) for t, _ in server.turns)
        )


class OneOfEachKind(unittest.TestCase):
    def test_the_tasks_of_the_course_can_be_solved_in_verls_loop(self):
        for kind, task in one_of_each(training_tasks()).items():
            output = play(task, Server(turns_of(right_episode(task))))
            result = managed(task, output)
            self.assertEqual(result["reward_extra_info"]["right"], 1.0, kind)


if __name__ == "__main__":
    unittest.main()
