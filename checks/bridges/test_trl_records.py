"""A trajectory as TRL's record and back; TRL's own loop beside ours, token by token.

The tokenizer and its template are real. The tool loop is the one of GRPOTrainer: only what
the model writes comes from a script, a turn at a time (see trl_world.play).
"""

from __future__ import annotations

import copy
import itertools
import math
import unittest
from types import SimpleNamespace
from unittest import mock

from agentic_rl.agent_loop import Episode, Limits
from agentic_rl.bridges import tiny_model, trl_worlds
from agentic_rl.bridges import trl as bridge
from agentic_rl.bridges.frameworks import BridgeError
from agentic_rl.bridges.token_ids import TokenIds, to_ids
from agentic_rl.golden import GOLDEN_TASK, LOOKUP_TASK, golden_group, golden_set
from agentic_rl.messages import user
from agentic_rl.reward import COURSE_REWARD
from agentic_rl.scripted import slow_tools
from agentic_rl.tasks import Task, generate
from agentic_rl.tool_math import ToolMath
from agentic_rl.tools import ToolBox
from agentic_rl.trajectory import TrajectoryError, usable_rows
from checks.bridges import trl_world as world
from checks.bridges.trl_world import play, row_of, torch

GOLDEN = golden_set()
ROUNDS = Limits().max_turns - 1  # TRL counts rounds of tools; one more turn follows
EQUAL = (
    *(
        "one call",
        "guess",
        "spam",
        "two tools",
        "parallel calls",
        "tool error",
        "timeout",
    ),
    *("thinking", "empty answer", "unicode", "marker in text", "truncated"),
)
DIFFERENT = ("broken JSON", "unknown tool", "never answers")


def turns_of(record: TokenIds) -> list[list[int]]:
    """The ids of each turn of the assistant: the runs of mask 1."""
    pairs = zip(record.response_ids, record.response_mask)
    runs = itertools.groupby(pairs, key=lambda pair: pair[1])
    return [[token for token, _ in run] for mask, run in runs if mask]


def tools_of(name: str, task: Task) -> ToolBox:
    """The tools of an episode of the golden set."""
    return slow_tools(task) if name == "timeout" else ToolMath(task).tools


def their_loop(name: str, **arguments: object) -> world.Played:
    """TRL's loop, with the assistant of an episode of the golden set."""
    task, episode = GOLDEN[name]
    return play(
        row_of(task),
        turns_of(to_ids(episode, world.tokenizer())),
        max_tool_calling_iterations=ROUNDS,
        **(arguments or {"tools": trl_worlds.as_functions(tools_of(name, task))}),
    )


class Records(unittest.TestCase):
    """rollout() and trajectory_of(), on the golden set."""

    def test_there_and_back_nothing_is_lost(self):
        for name, (_, episode) in GOLDEN.items():
            with self.subTest(name):
                record = bridge.rollout(episode, world.tokenizer())
                back = bridge.trajectory_of(record, world.tokenizer())
                self.assertEqual(back, episode)

    def test_ids_mask_and_log_probs_have_one_length(self):
        for name, (_, episode) in GOLDEN.items():
            with self.subTest(name):
                record = bridge.rollout(episode, world.tokenizer())
                lengths = {
                    len(record[key])
                    for key in ("completion_ids", "env_mask", "logprobs")
                }
                self.assertEqual(len(lengths), 1)

    def test_a_completion_ends_with_the_end_token_where_the_assistant_ended(self):
        for name, (_, episode) in GOLDEN.items():
            record = bridge.rollout(episode, world.tokenizer())
            last = (record["completion_ids"][-1], record["env_mask"][-1])
            with self.subTest(name):
                if name == "truncated":
                    self.assertNotEqual(last[0], world.end())
                elif name == "never answers":  # a tool had the last word
                    self.assertEqual(last, (world.end(), 0))
                else:
                    self.assertEqual(last, (world.end(), 1))

    def test_the_log_prob_of_a_choice_stands_on_the_first_id_of_its_turn(self):
        record = bridge.rollout(golden_group()[0], world.tokenizer())
        starts = [
            place
            for place, mask in enumerate(record["env_mask"])
            if mask and (place == 0 or not record["env_mask"][place - 1])
        ]
        noted = {
            place: value for place, value in enumerate(record["logprobs"]) if value
        }
        self.assertEqual(noted, dict.fromkeys(starts, -math.log(6)))

    def test_without_its_notes_there_is_no_way_back(self):
        record = bridge.rollout(golden_group()[0], world.tokenizer())
        del record["choices"]
        with self.assertRaisesRegex(BridgeError, "'choices' is missing"):
            bridge.trajectory_of(record, world.tokenizer())

    def test_a_mask_that_trains_on_a_tool_is_refused_on_the_way_back(self):
        record = bridge.rollout(golden_group()[0], world.tokenizer())
        record["env_mask"] = [1] * len(record["env_mask"])
        with self.assertRaises(BridgeError):
            bridge.trajectory_of(record, world.tokenizer())


class ToolLoop(unittest.TestCase):
    """The real tool loop beside our episode."""

    def test_every_episode_is_in_one_of_the_two_lists(self):
        self.assertEqual(sorted(EQUAL + DIFFERENT), sorted(GOLDEN))

    def test_prompt_ids_and_tool_mask_are_ours_token_by_token(self):
        for name in EQUAL:
            with self.subTest(name):
                found = their_loop(name)
                record = bridge.rollout(GOLDEN[name][1], world.tokenizer())
                self.assertEqual(found.prompt_ids, record["prompt_ids"])
                self.assertEqual(found.ids, record["completion_ids"])
                self.assertEqual(found.mask, record["env_mask"])

    def test_the_messages_it_hands_to_a_reward_function_are_those_of_completion(self):
        for name in (*EQUAL, "broken JSON", "never answers"):
            if name != "marker in text":  # see test_trl_surprises.py
                with self.subTest(name):
                    expected = bridge.completion(GOLDEN[name][1])
                    self.assertEqual(their_loop(name).messages, expected)

    def test_replayed_its_messages_are_our_episode_again(self):
        for name in EQUAL:
            task, episode = GOLDEN[name]
            if name != "marker in text":
                with self.subTest(name):
                    found = their_loop(name)
                    again = bridge.replay(
                        task,
                        found.messages,
                        tools=tools_of(name, task),
                        cut=found.ids[-1] != world.end(),
                    )
                    self.assertEqual(again.messages, episode.messages)
                    self.assertEqual(again.observations, episode.observations)
                    self.assertEqual(again.finish_reason, episode.finish_reason)

    def test_replayed_its_ids_are_ours_with_our_mask(self):
        """Who wrote an id is found by playing, not read off TRL's mask."""
        for name in EQUAL:
            task, _ = GOLDEN[name]
            if name != "marker in text":
                with self.subTest(name):
                    found = their_loop(name)
                    record = bridge.replay_ids(
                        task, found.ids, world.tokenizer(), tools=tools_of(name, task)
                    )
                    length = len(found.ids)
                    self.assertEqual(record.response_ids[:length], found.ids)
                    self.assertEqual(record.response_mask[:length], found.mask)
                    self.assertEqual(sum(record.response_mask), sum(found.mask))

    def test_through_an_environment_it_is_the_same(self):
        for name in ("two tools", "parallel calls", "tool error", "thinking"):
            with self.subTest(name):
                found = their_loop(name, environment_factory=trl_worlds.Environment)
                self.assertEqual(found.ids, their_loop(name).ids)
                self.assertEqual(found.mask, their_loop(name).mask)
                self.assertEqual(found.messages, their_loop(name).messages)

    def test_a_call_nobody_can_read_ends_its_rollout_and_not_ours(self):
        found = their_loop("broken JSON")
        record = bridge.rollout(GOLDEN["broken JSON"][1], world.tokenizer())
        length = len(found.ids)
        self.assertLess(length, len(record["completion_ids"]))
        self.assertEqual(found.ids, record["completion_ids"][:length])
        self.assertEqual(found.mask, [1] * length)

    def test_after_the_last_turn_its_loop_runs_no_tool_and_ours_does(self):
        found = their_loop("never answers")
        record = bridge.rollout(GOLDEN["never answers"][1], world.tokenizer())
        length = len(found.ids)
        self.assertEqual(found.ids, record["completion_ids"][:length])
        self.assertEqual(found.mask, record["env_mask"][:length])
        self.assertEqual(set(record["env_mask"][length:]), {0})

    def test_an_unknown_tool_is_answered_in_other_words_and_not_replayed(self):
        found = their_loop("unknown tool")
        theirs = found.messages[1]["content"]
        ours = GOLDEN["unknown tool"][1].observations[0].content
        self.assertEqual(theirs, "{'error': 'Tool python not found.'}")
        self.assertEqual(
            ours, "error: no tool 'python'; the tools are calculator, lookup"
        )
        with self.assertRaisesRegex(BridgeError, "message 1: TRL recorded"):
            bridge.replay(GOLDEN_TASK, found.messages)


class Tools(unittest.TestCase):
    """Our tools as functions; an error has the same text as ours."""

    def test_every_kind_of_bad_argument_gives_our_text(self):
        box = trl_worlds.shared_tools([LOOKUP_TASK])
        functions = {
            function.__name__: function for function in trl_worlds.as_functions(box)
        }
        for name, arguments in (
            ("calculator", {"expression": "1/0"}),
            ("calculator", {"expression": "2 +"}),
            ("calculator", {"expression": 5}),
            ("calculator", {"formula": "1 + 1"}),
            ("calculator", {}),
            ("calculator", {"expression": "1", "digits": "2"}),
            ("lookup", {"item": "dragons"}),
            ("lookup", {"item": "lamps"}),
        ):
            with self.subTest(f"{name} {arguments}"):
                expected = trl_worlds.call_text(box, name, arguments)
                self.assertEqual(functions[name](**arguments), expected)
                world_of = trl_worlds.Environment()
                world_of.reset(**row_of(LOOKUP_TASK))
                self.assertEqual(getattr(world_of, name)(**arguments), expected)

    def test_transformers_reads_a_schema_off_them_with_our_names_and_types(self):
        from transformers.utils import get_json_schema

        box = trl_worlds.shared_tools([])
        for function in (
            *trl_worlds.as_functions(box),
            trl_worlds.Environment().calculator,
            trl_worlds.Environment().lookup,
        ):
            theirs = get_json_schema(function)["function"]
            ours = box.tools[function.__name__].schema()["function"]
            self.assertEqual(theirs["name"], ours["name"])
            self.assertEqual(theirs["description"], ours["description"])
            self.assertEqual(
                {
                    name: kind["type"]
                    for name, kind in theirs["parameters"]["properties"].items()
                },
                {
                    name: kind["type"]
                    for name, kind in ours["parameters"]["properties"].items()
                },
            )
            self.assertEqual(
                theirs["parameters"]["required"], ours["parameters"]["required"]
            )

    def test_two_rollouts_side_by_side_have_worlds_of_their_own(self):
        dear = Task(
            "dear",
            LOOKUP_TASK.question,
            "12 * price",
            "1200",
            "kettles",
            {"kettles": "100"},
        )
        worlds = [trl_worlds.Environment(), trl_worlds.Environment()]
        for each, task in zip(worlds, (LOOKUP_TASK, dear)):
            each.reset(**row_of(task))
        self.assertEqual(
            [each.lookup(item="kettles") for each in worlds], ["34", "100"]
        )


class OurLoop(unittest.TestCase):
    """rollout_func: our agent loop inside the real trainer."""

    def trainer(self, tasks: list[Task], reward=None, **settings):
        self.play = trl_worlds.rollout_function(tasks, COURSE_REWARD)
        return world.trainer(
            reward or bridge.recorded_reward(),
            bridge.rows(tasks),
            rollout_func=self.play,
            **{
                "num_generations": 2,
                "per_device_train_batch_size": 2 * len(tasks),
                "max_completion_length": 200,
                **settings,
            },
        )

    def test_a_scripted_model_leaves_the_record_of_our_own_episode(self):
        names = ("one call", "two tools", "parallel calls", "tool error", "broken JSON")
        for name in (*names, "unknown tool", "never answers", "thinking", "unicode"):
            task, episode = GOLDEN[name]
            turns = iter(turns_of(to_ids(episode, world.tokenizer())))

            def write(trainer, runs, length, turns=turns):
                ids = next(turns)
                return [(list(ids), [-0.25] * len(ids)) for _ in runs]

            trainer = self.trainer([task])
            batch = bridge.keep_batch(trainer)
            with self.subTest(name), mock.patch.object(trl_worlds, "_sample", write):
                trainer._generate_and_score_completions(
                    [row_of(task) for _ in range(2)]
                )
                ids, mask = bridge.completion_of(batch, 0)
                record = bridge.rollout(episode, world.tokenizer())
                self.assertEqual(ids, record["completion_ids"])
                self.assertEqual(mask, record["env_mask"])
                row = batch["rows"][0]
                self.assertEqual(row["observations"], record["observations"])
                self.assertEqual(row["reward"], episode.reward)
                self.assertEqual(row["breakdown"], episode.breakdown)

    def test_what_a_real_model_samples_goes_back_to_a_checked_trajectory(self):
        """Random weights write bytes that are no text; the ids stay as they were sampled."""
        tasks = generate(2, seed=3)
        trainer = self.trainer(tasks, max_completion_length=24)
        torch.manual_seed(0)
        prompts = [[user(task.question)] for task in tasks for _ in range(2)]
        told = self.play(prompts, trainer)
        for place in range(len(prompts)):
            record = {key: values[place] for key, values in told.items()}
            self.assertLessEqual(len(record["completion_ids"]), 24)
            back = bridge.trajectory_of(record, world.tokenizer())
            self.assertEqual(back.messages[0], prompts[place][0])
            self.assertAlmostEqual(
                math.fsum(record["logprobs"]),
                math.fsum(back.logprob(p) for p in back.positions("token")),
            )

    def test_the_record_goes_back_to_the_very_episode_that_was_scored(self):
        """Choices, log-probs and mask too; one turn that ended, and one that was cut."""
        for turn in (world.ids_of("Answer: 29842"), world.ids_of("Answer: 2")[:-1]):
            scored = []

            def reward(episode, task, scored=scored):
                scored.append(episode)
                return COURSE_REWARD(episode, task)

            def write(trainer, runs, length, turn=turn):
                return [(list(turn), [-0.5] * len(turn)) for _ in runs]

            trainer = self.trainer([GOLDEN_TASK])
            play = trl_worlds.rollout_function([GOLDEN_TASK], reward)
            with mock.patch.object(trl_worlds, "_sample", write):
                told = play([[user(GOLDEN_TASK.question)]], trainer)
            record = {key: values[0] for key, values in told.items()}
            back = bridge.trajectory_of(record, world.tokenizer())
            self.assertEqual(back, scored[0])
            self.assertEqual(back.truncated, turn[-1] != world.end())

    def test_each_turn_gets_the_room_that_its_own_rollout_has_left(self):
        trainer = self.trainer([GOLDEN_TASK])
        prompt = world.tokenizer()("1 + 1", add_special_tokens=False)["input_ids"]
        torch.manual_seed(0)
        runs = [
            SimpleNamespace(prompt_ids=prompt, ids=[5] * used)
            for used in (0, 10, 0, 10)
        ]
        turns = trl_worlds._sample(trainer, runs, 12)
        self.assertEqual(
            [len(ids) <= 2 for ids, _ in turns], [False, True, False, True]
        )
        for ids, logprobs in turns:
            self.assertEqual(len(ids), len(logprobs))

    def test_the_log_probs_are_those_that_trl_computes_for_these_ids(self):
        """float32, and another order of additions: five digits."""
        tasks = generate(2, seed=3)[:2]
        trainer = self.trainer(tasks, max_completion_length=16)
        torch.manual_seed(0)
        told = self.play([[user(task.question)] for task in tasks], trainer)
        for prompt, ids, values, mask in zip(
            told["prompt_ids"],
            told["completion_ids"],
            told["logprobs"],
            told["env_mask"],
        ):
            whole = torch.tensor([[*prompt, *ids]])
            found, _, _ = trainer._get_per_token_logps_and_entropies(
                trainer.model, whole, torch.ones_like(whole), len(ids)
            )
            for got, own, mark in zip(found[0].tolist(), values, mask):
                self.assertAlmostEqual(got * mark, own, delta=2e-5)

    def test_an_answer_that_leaves_no_room_ends_the_episode_as_length(self):
        task, episode = GOLDEN["one call"]
        first = turns_of(to_ids(episode, world.tokenizer()))[0]

        def write(trainer, runs, length):
            return [(list(first), [0.0] * len(first)) for _ in runs]

        trainer = self.trainer([task], max_completion_length=len(first) + 3)
        with mock.patch.object(trl_worlds, "_sample", write):
            told = self.play([[user(task.question)]] * 2, trainer)
        self.assertEqual(told["finish_reason"], ["length"] * 2)
        record = {key: values[0] for key, values in told.items()}
        back = bridge.trajectory_of(record, world.tokenizer())
        self.assertIsNone(back.answer)
        self.assertEqual(back.observations[0].content, "29842")

    def test_a_question_of_two_tasks_or_of_none_is_refused(self):
        other = Task("other", GOLDEN_TASK.question, "1 + 1", "2")
        with self.assertRaisesRegex(BridgeError, "two tasks ask"):
            trl_worlds.rollout_function([GOLDEN_TASK, other], COURSE_REWARD)
        trainer = self.trainer([GOLDEN_TASK])
        with self.assertRaisesRegex(BridgeError, "no task asks"):
            self.play([[user("Who?")]], trainer)


# ------------------------------------------------------------------ reported cases


class AssistantMask(unittest.TestCase):
    """Reports about ``return_assistant_tokens_mask`` (transformers 47326, Qwen3 1522)."""

    def test_a_span_that_ends_on_the_first_token_does_not_mark_the_rest(self):
        """Token 0 alone is the assistant's: [1, 0, 0, 0], never [1, 1, 1, 1]."""
        template = (
            "{%- generation %}{{ messages[0].content }}{%- endgeneration %}"
            "{{ messages[1].content }}"
        )
        found = world.tokenizer().apply_chat_template(
            [{"role": "assistant", "content": "z"}, user("qzq")],
            chat_template=template,
            return_dict=True,
            return_assistant_tokens_mask=True,
        )
        self.assertEqual(len(found["input_ids"]), 4)
        self.assertEqual(found["assistant_masks"], [1, 0, 0, 0])

    def test_a_template_without_generation_marks_gives_zeros_and_ours_does_not_need_it(
        self,
    ):
        conversation = [user("2+2?"), {"role": "assistant", "content": "4"}]
        plain = tiny_model.CHAT_TEMPLATE
        for mark in ("{%- generation %}\n", "{%- endgeneration %}\n"):
            self.assertIn(mark, plain)
            plain = plain.replace(mark, "")
        theirs = world.tokenizer().apply_chat_template(
            conversation,
            chat_template=plain,
            return_dict=True,
            return_assistant_tokens_mask=True,
        )
        self.assertEqual(sum(theirs["assistant_masks"]), 0)
        episode = Episode(Task("sum", "2+2?", "2+2", "4"))
        episode.say("4")
        record = to_ids(episode.trajectory, world.tokenizer())
        self.assertEqual(
            [*record.prompt_ids, *record.response_ids], theirs["input_ids"]
        )
        self.assertEqual(record.response_mask, [1, 1, 0])  # 4, end of turn, line end

    def test_an_episode_without_a_trainable_token_is_refused(self):
        asked = Episode(Task("sum", "2+2?", "2+2", "4")).trajectory
        with self.assertRaisesRegex(
            BridgeError, "no token of an assistant to train on"
        ):
            bridge.rollout(asked, world.tokenizer())


class AsSampled(unittest.TestCase):
    """Decoding and encoding again gives other ids (trl 5224): sampled ids must stay."""

    def sampled(self) -> tuple[list[int], list[int]]:
        """(a call cut into single characters, as its text would be encoded)."""
        text = GOLDEN["one call"][1].messages[1]["tool_calls"][0]["function"]
        whole = turns_of(to_ids(GOLDEN["one call"][1], world.tokenizer()))[0]
        tokenizer = world.tokenizer()
        self.assertEqual(text["name"], "calculator")
        start = tokenizer.convert_tokens_to_ids("<tool_call>")
        self.assertEqual(whole[0], start)
        cut = [start]
        for token in whole[1:-2]:
            for character in tokenizer.decode([token]):
                cut += tokenizer(character, add_special_tokens=False)["input_ids"]
        return [*cut, *whole[-2:]], whole

    def test_another_cut_of_the_same_text_stays_in_its_loop(self):
        cut, whole = self.sampled()
        tokenizer = world.tokenizer()
        self.assertEqual(tokenizer.decode(cut), tokenizer.decode(whole))
        self.assertNotEqual(cut, whole)  # what encoding again would have trained on
        answer = world.ids_of("Answer: 29842")
        found = play(
            row_of(GOLDEN_TASK),
            [cut, answer],
            tools=trl_worlds.as_functions(ToolMath(GOLDEN_TASK).tools),
        )
        self.assertEqual(found.ids[: len(cut)], cut)
        self.assertEqual(found.mask[: len(cut)], [1] * len(cut))
        self.assertEqual(found.ids[-len(answer) :], answer)

    def test_and_in_ours(self):
        cut, _ = self.sampled()
        turns = iter([cut, world.ids_of("Answer: 29842")])

        def write(trainer, runs, length):
            ids = next(turns)
            return [(list(ids), [-0.1] * len(ids)) for _ in runs]

        loop = OurLoop()
        trainer = loop.trainer([GOLDEN_TASK])
        with mock.patch.object(trl_worlds, "_sample", write):
            told = loop.play([[user(GOLDEN_TASK.question)]], trainer)
        self.assertEqual(told["completion_ids"][0][: len(cut)], cut)
        self.assertEqual(told["env_mask"][0][: len(cut)], [1] * len(cut))
        self.assertEqual(told["reward"], [0.9])
        record = {key: values[0] for key, values in told.items()}
        back = bridge.trajectory_of(record, world.tokenizer())
        self.assertEqual(back.messages, GOLDEN["one call"][1].messages)
        self.assertAlmostEqual(
            back.logprob(back.positions("decision")[0]), -0.1 * len(cut)
        )


class Thinking(unittest.TestCase):
    """A template that drops earlier thoughts breaks the prefix (verl 6854)."""

    CONVERSATION = (
        user("2+2?"),
        {"role": "assistant", "content": "4", "reasoning_content": "easy"},
        user("3+3?"),
    )

    def rendered(self, template: str) -> tuple[list[int], list[int]]:
        """(ids after the first turn, ids of the second turn's prompt)."""
        render = world.tokenizer().apply_chat_template
        conversation = copy.deepcopy(list(self.CONVERSATION))
        first = render(conversation[:2], chat_template=template, return_dict=False)
        second = render(
            conversation,
            chat_template=template,
            return_dict=False,
            add_generation_prompt=True,
        )
        return first, second

    def dropping(self) -> str:
        kept = "{%- if message.reasoning_content %}"
        self.assertIn(kept, tiny_model.CHAT_TEMPLATE)
        return tiny_model.CHAT_TEMPLATE.replace(
            kept, "{%- if message.reasoning_content and loop.last %}"
        )

    def test_ours_keeps_them_so_a_prompt_starts_with_all_that_came_before(self):
        first, second = self.rendered(tiny_model.CHAT_TEMPLATE)
        self.assertEqual(second[: len(first)], first)

    def test_one_that_drops_them_can_not_be_merged_into_one_row(self):
        """Then one row a turn, each sampled id trained on once."""
        first, second = self.rendered(self.dropping())
        self.assertNotEqual(second[: len(first)], first)
        start = len(first) - len(self.written(first))
        turns = [
            {
                "prompt": {"token_ids": first[:start]},
                "response": {"token_ids": first[start:]},
            },
            {
                "prompt": {"token_ids": second},
                "response": {"token_ids": world.ids_of("6")},
            },
        ]
        rows, flags = usable_rows(turns, 1.0)
        self.assertEqual(flags, [])
        self.assertEqual([row["mask"].index(1) for row in rows], [start, len(second)])
        self.assertEqual([sum(row["mask"]) for row in rows], [len(first) - start, 2])

    def written(self, first: list[int]) -> list[int]:
        """What the assistant wrote in the first turn, its end and the line end with it."""
        start = world.tokenizer().convert_tokens_to_ids("<|im_start|>")
        place = len(first) - 1 - first[::-1].index(start)
        return first[place + 3 :]  # start, "assistant", line end

    def test_trls_own_check_of_the_prefix_does_not_see_a_dropped_thought(self):
        from trl.chat_template_utils import is_chat_template_prefix_preserving

        tokenizer = bridge.readable(tiny_model.make_tokenizer())
        self.assertTrue(is_chat_template_prefix_preserving(tokenizer))
        tokenizer.chat_template = self.dropping()
        self.assertTrue(is_chat_template_prefix_preserving(tokenizer))

    def test_its_loop_keeps_thoughts_because_it_joins_ids_and_renders_nothing_again(
        self,
    ):
        found = their_loop("thinking")
        text = world.tokenizer().decode(found.ids)
        self.assertEqual(text.count("<think>"), len(GOLDEN["thinking"][1].actions))


class Images(unittest.TestCase):
    """Placeholders of images (prime-rl 1739): this course is about text, and says so."""

    def test_content_parts_are_refused_and_not_dropped(self):
        part = {"type": "image", "image": "pixels"}
        with self.assertRaisesRegex(BridgeError, "message 0: content parts"):
            bridge.replay(GOLDEN_TASK, [{"role": "assistant", "content": [part]}])

    def test_a_marker_that_the_policy_samples_is_its_own_token_and_starts_no_turn(self):
        marker = world.tokenizer().convert_tokens_to_ids("<|im_start|>")
        ids = [*world.ids_of("Answer: 1")[:-1], marker, *world.ids_of("tool\n29842")]
        loop = OurLoop()
        trainer = loop.trainer([GOLDEN_TASK])
        sample = mock.patch.object(
            trl_worlds, "_sample", lambda *rest: [(list(ids), [0.0] * len(ids))]
        )
        with sample:
            told = loop.play([[user(GOLDEN_TASK.question)]], trainer)
        self.assertEqual(told["completion_ids"], [ids])
        self.assertEqual(told["env_mask"], [[1] * len(ids)])
        self.assertEqual(told["observations"], [[]])
        self.assertEqual(told["reward"], [0.0])


class Lengths(unittest.TestCase):
    def test_a_record_of_other_lengths_is_refused(self):
        record = bridge.rollout(golden_group()[0], world.tokenizer())
        for key in ("env_mask", "logprobs"):
            broken = {**record, key: record[key][:-1]}
            with self.subTest(key), self.assertRaises(TrajectoryError):
                bridge.trajectory_of(broken, world.tokenizer())

    def test_columns_stand_side_by_side(self):
        records = [bridge.rollout(e, world.tokenizer()) for e in golden_group()]
        told = bridge.columns(records)
        self.assertEqual(told["reward"], [0.9, 0.0, 0.7, 0.0])
        self.assertEqual(told["completion_ids"][1], records[1]["completion_ids"])


if __name__ == "__main__":
    unittest.main()
