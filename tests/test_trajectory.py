"""The record: aligned or refused, masks written once, nothing lost on the way to JSON."""

from __future__ import annotations

import copy
import json
import math
import random
import re
import unittest

from agentic_rl.advantage import returns_to_go
from agentic_rl.evaluation import training_tasks
from agentic_rl.golden import golden_group
from agentic_rl.messages import MessageError
from agentic_rl.reward import COURSE_REWARD, attach
from agentic_rl.scripted import SCRIPTED
from agentic_rl.tasks import KINDS, kind_of
from agentic_rl.trajectory import (
    Trajectory,
    TrajectoryError,
    last_trainable,
    next_token,
    pad,
    usable_rows,
)

TASKS = {kind_of(task.question): task for task in training_tasks()}
ALIGNED = ("tokens", "loss_mask", "logprobs", "decision")


NULL_TOO = (  # where a record may say null instead of what it says
    r"^finish_reason$",
    r"^messages/\d+/reasoning_content$",
    r"^messages/[13579]/content$",  # an assistant's
)


def places(value, path=""):
    """(holder, key, path) of each value at any depth, but for a call's arguments."""
    keys = value if isinstance(value, dict) else range(len(value))
    for key in keys:
        if key == "arguments":  # those are the model's: anything may stand there
            continue
        yield value, key, f"{path}{key}"
        if isinstance(value[key], (dict, list)):
            yield from places(value[key], f"{path}{key}/")


def fits(value, old, path):
    """Whether the value is of a type that may stand in this place."""
    if path.endswith("choice"):
        return value is None or isinstance(value, str)
    if value is None and any(re.search(pattern, path) for pattern in NULL_TOO):
        return True
    if isinstance(old, float):  # a whole number is a number, NaN is none
        return type(value) in (int, float) and value == value
    return type(value) is type(old)


def scored(agent, kind):
    episode = agent.run(TASKS[kind])
    attach([episode], [COURSE_REWARD(episode, TASKS[kind])])
    return episode


class Writing(unittest.TestCase):
    """add_context and add_decision: the mask is written with the token."""

    def test_case_a06_every_array_grows_by_the_tokens_that_were_added(self):
        """Case a06 (trl#5144): 5 of the model's, 2 of a tool, 3 of the model's."""
        record = Trajectory("t")
        record.add_decision(list("abcde"), -1.0)
        record.add_context(["t1", "t2"])
        record.add_decision(list("fgh"), -0.5)
        self.assertEqual(record.loss_mask, [1] * 5 + [0] * 2 + [1] * 3)
        self.assertEqual({len(getattr(record, name)) for name in ALIGNED}, {10})

    def test_case_a05_every_assistant_turn_is_trained(self):
        """Case a05 (GLM-4#803): user 2, assistant 2, user 1, assistant 2 tokens."""
        record = Trajectory("t")
        record.add_context(["u", "u"])
        record.add_decision(["a", "end"], -1.0)
        record.add_context(["u"])
        record.add_decision(["a", "end"], -1.0)
        self.assertEqual(record.loss_mask, [0, 0, 1, 1, 0, 1, 1])

    def test_case_b03_the_header_is_there_and_is_not_trained(self):
        """Case b03 (verifiers#476): U1 A: a1 U2 A: a2."""
        record = Trajectory("t")
        for context, said in ((["U1", "A:"], ["a1"]), (["U2", "A:"], ["a2"])):
            record.add_context(context)
            record.add_decision(said, -1.0)
        self.assertEqual(record.tokens, ["U1", "A:", "a1", "U2", "A:", "a2"])
        self.assertEqual(record.loss_mask, [0, 0, 1, 0, 0, 1])

    def test_the_choice_stands_on_the_first_token_and_the_rest_is_certain(self):
        record = Trajectory("t")
        record.add_decision(["a", "b", "end"], -1.5)
        self.assertEqual(record.decision, [1, 0, 0])
        self.assertEqual(record.logprobs, [-1.5, 0.0, 0.0])

    def test_a_turn_without_a_token_or_without_a_log_prob_is_refused(self):
        record = Trajectory("t")
        with self.assertRaisesRegex(TrajectoryError, "tokens"):
            record.add_decision([], -1.0)
        for logprob in (0.1, math.nan, -math.inf, None, "x", True):
            with self.assertRaisesRegex(TrajectoryError, r"logprobs\[0\]"):
                record.add_decision(["a"], logprob)
        self.assertEqual(record.tokens, [])


class Reading(unittest.TestCase):
    def test_reading_a_null_raises(self):
        episode = golden_group()[0]
        for place, mask in enumerate(episode.loss_mask):
            if mask:
                self.assertLessEqual(episode.logprob(place), 0.0)
            else:
                with self.assertRaisesRegex(TrajectoryError, "the mask is 0"):
                    episode.logprob(place)

    def test_positions_of_decisions_and_of_tokens(self):
        episode = golden_group()[0]
        self.assertEqual(episode.positions("decision"), [14, 44])
        self.assertEqual(len(episode.positions("token")), 24)
        with self.assertRaisesRegex(TrajectoryError, "'word'"):
            episode.positions("word")

    def test_an_answer_is_one_that_the_agent_finished(self):
        record = Trajectory("t", finish_reason="stop")
        self.assertIsNone(record.answer)
        record.actions = [{"type": "final_answer", "content": "Answer: 4"}]
        self.assertEqual(record.answer, "Answer: 4")
        for reason in ("length", "max_turns", "invalid_streak", None):
            record.finish_reason = reason
            self.assertIsNone(record.answer)
            self.assertTrue(record.truncated)


class Json(unittest.TestCase):
    def test_there_and_back_for_every_agent_on_every_kind(self):
        for agent in SCRIPTED:
            for kind in KINDS:
                episode = scored(agent, kind)
                text = json.dumps(episode.to_dict())
                self.assertEqual(Trajectory.from_dict(json.loads(text)), episode)

    def test_one_element_more_or_less_is_refused_by_name(self):
        for change, length in (
            (lambda row: row[:-1], 48),
            (lambda row: [*row, "x"], 50),
        ):
            record = copy.deepcopy(golden_group()[0].to_dict())
            record["tokens"] = change(record["tokens"])
            with self.assertRaisesRegex(
                TrajectoryError, f"loss_mask: 49 values for {length} tokens"
            ):
                Trajectory.from_dict(record)
        for name in ALIGNED[1:]:
            for change in (lambda row: row[:-1], lambda row: [*row, row[-1]]):
                record = copy.deepcopy(golden_group()[0].to_dict())
                record[name] = change(record[name])
                with self.assertRaisesRegex(
                    TrajectoryError, f"{name}: .* for 49 tokens"
                ):
                    Trajectory.from_dict(record)

    def broken(self, said, **changes):
        record = copy.deepcopy(golden_group()[0].to_dict())
        for name, value in changes.items():
            if value is ...:
                del record[name]
            else:
                record[name] = value(record[name]) if callable(value) else value
        with self.assertRaisesRegex(TrajectoryError, said):
            Trajectory.from_dict(record)

    def test_each_rule_has_its_own_words(self):
        def put(place, value):
            return lambda row: [*row[:place], value, *row[place + 1 :]]

        self.broken("'reward' is missing", reward=...)
        self.broken("'extra' is not known", extra=1)
        self.broken(r"logprobs\[0\]: expected null", logprobs=put(0, -1.0))
        self.broken(r"logprobs\[14\]", logprobs=put(14, None))
        self.broken(r"logprobs\[14\]", logprobs=put(14, math.nan))
        self.broken(r"decision\[0\]: 1 where the mask is 0", decision=put(0, 1))
        for value in (2, True, 1.0, "1", None):
            self.broken(r"^loss_mask\[14\]: expected 0 or 1", loss_mask=put(14, value))
            self.broken(r"^decision\[14\]: expected 0 or 1", decision=put(14, value))
        self.broken(r"logprobs\[14\]", logprobs=put(14, -(10**400)))
        self.broken("task_id", task_id=7)
        self.broken(r"tokens\[3\]: expected text", tokens=put(3, 7))
        self.broken("actions: 1 for 2 decisions", actions=lambda row: row[:1])
        self.broken(r"actions\[0\]", actions=put(0, {"type": "dance"}))
        self.broken(r"observations\[0\]: expected", observations=[{}])
        self.broken(
            "unknown kind 'x'", observations=lambda row: [{**row[0], "kind": "x"}]
        )
        self.broken("finish_reason", finish_reason="tired")
        self.broken("adds up to 0.9, the reward is 1", reward=1.0)
        self.broken("the reward is null", reward=None)
        self.broken("^reward: expected a finite", reward=10**400)
        self.broken("more than a float holds", breakdown={"a": 1e308, "b": 1e308})
        self.broken("expected a finite number", breakdown={"right": math.inf})
        self.broken("right: expected a finite number", breakdown={"right": True})

    def test_another_type_in_any_place_is_refused(self):
        """Each value of a record, at any depth, becomes a value of each other type."""
        others = (None, True, 7, -0.5, math.nan, "odd", [], {})
        for episode in (golden_group()[0], scored(SCRIPTED[-1], "lookup")):
            record = json.loads(json.dumps(episode.to_dict()))
            self.assertEqual(Trajectory.from_dict(record), episode)
            for holder, key, path in list(places(record)):
                old = holder[key]
                for value in (x for x in others if not fits(x, old, path)):
                    holder[key] = value
                    errors = (TrajectoryError, MessageError)
                    with self.subTest(path, value=value), self.assertRaises(errors):
                        Trajectory.from_dict(record)
                holder[key] = old
            self.assertEqual(Trajectory.from_dict(record), episode)

    def test_no_field_may_be_missing_and_none_added(self):
        for name in golden_group()[0].to_dict():
            self.broken(f"^field '{name}' is missing", **{name: ...})
        whole = golden_group()[0].to_dict()
        for name in whole["actions"][0]:
            action = {k: v for k, v in whole["actions"][0].items() if k != name}
            self.broken(r"actions\[0\]", actions=[action, whole["actions"][1]])
        for seen in ({"kind": "result"}, {**whole["observations"][0], "more": "x"}):
            self.broken(r"observations\[0\]", observations=[seen])
        with self.assertRaisesRegex(TrajectoryError, "field 5 is not known"):
            Trajectory.from_dict({**whole, "more": 1, 5: 1})

    def test_actions_messages_and_observations_tell_of_the_same_calls(self):
        spam = golden_group()[2].to_dict()
        other = copy.deepcopy(spam)
        other["messages"][1]["tool_calls"][0]["id"] = "call_9"
        other["messages"][2]["tool_call_id"] = "call_9"
        for record, said in (
            ({**spam, "observations": spam["observations"][:1]}, "observations"),
            ({**spam, "messages": []}, "messages: tool calls"),
            (other, "messages: tool calls"),
        ):
            with self.assertRaisesRegex(TrajectoryError, said):
                Trajectory.from_dict(record)

    def test_any_value_in_any_field_raises_our_errors_and_no_others(self):
        values = [None, 0, -1, 1.5, math.nan, "x", "", [], {}, [None], [[]], [{}], True]
        values += [{"a": 1}, ["x"], [1, 2], "1" * 50]
        rng = random.Random(7)
        refused = 0
        for name in golden_group()[0].to_dict():
            for value in values:
                record = copy.deepcopy(golden_group()[2].to_dict())
                if isinstance(record[name], list) and rng.random() < 0.5:
                    record[name][rng.randrange(len(record[name]))] = value
                else:
                    record[name] = value
                try:
                    Trajectory.from_dict(record)
                except (TrajectoryError, MessageError):
                    refused += 1
        self.assertGreater(refused, 120)
        for record in (None, [], "x", 7):
            with self.assertRaises(TrajectoryError):
                Trajectory.from_dict(record)


class Forking(unittest.TestCase):
    def test_a_fork_is_equal_and_shares_no_list(self):
        for episode in golden_group():
            twin = episode.fork()
            self.assertEqual(twin, episode)
            twin.add_decision(["x"], -1.0)
            twin.messages.append({})
            twin.actions.append({})
            twin.observations.clear()
            twin.breakdown["more"] = 1.0
            episode.check()


class TowardsTraining(unittest.TestCase):
    def test_case_a03_shifted_exactly_once(self):
        """Case a03 (verl#3562): EOS is trained and the last prompt token is not."""
        _, targets, mask = next_token(["P1", "P2", "P3", "R1", "EOS"], [0, 0, 0, 1, 1])
        self.assertEqual(targets, ["P2", "P3", "R1", "EOS"])
        self.assertEqual(mask, [0, 0, 1, 1])

    def test_case_g05_a_completion_of_one_token_stays(self):
        """Case g05 (tinker-cookbook#848): it teaches not to stop at once."""
        self.assertEqual(next_token([5, 6, 2], [0, 0, 1]), ([5, 6], [6, 2], [0, 1]))

    def test_what_can_not_be_shifted_is_refused(self):
        with self.assertRaisesRegex(
            TrajectoryError, "loss_mask: 2 values for 3 tokens"
        ):
            next_token([1, 2, 3], [0, 1])
        with self.assertRaisesRegex(TrajectoryError, r"loss_mask\[0\]"):
            next_token([1, 2], [1, 1])

    def test_case_d09_the_reward_lands_on_the_last_trainable_token(self):
        """Case d09 (verl#6392): not on the last attended one."""
        self.assertEqual(last_trainable([0, 1, 1, 0, 1, 0, 0]), 4)
        with self.assertRaisesRegex(TrajectoryError, "no trainable token"):
            last_trainable([0, 0])

    def test_case_g03_a_cut_that_loses_trainable_tokens_is_refused(self):
        """Case g03 (rllm#575): 3 of the model's, 4 of a tool, 2 of the model's."""
        mask = [1, 1, 1, 0, 0, 0, 0, 1, 1]
        self.assertEqual(pad(mask, 11, 0, mask), [*mask, 0, 0])
        self.assertEqual(sum(pad(mask, 9, 0, mask)), 5)
        with self.assertRaisesRegex(TrajectoryError, "lose 2 of 5 trainable"):
            pad(mask, 4, 0, mask)

    def test_case_a08_a_return_goes_through_masked_tokens(self):
        """Case a08 (verl#7278): one decay a trainable step, none for a tool's tokens."""
        returns = returns_to_go([0, 0, 0, 2], [1, 0, 0, 1], 0.9)
        for value, expected in zip(returns, [1.8, 0, 0, 2.0]):
            self.assertAlmostEqual(value, expected)
        longer = returns_to_go([0, 0, 0, 0, 0, 2, 0], [1, 0, 1, 0, 0, 1, 0], 0.5)
        self.assertEqual(longer, [0.5, 0.0, 1.0, 0.0, 0.0, 2.0, 0.0])

    def test_case_g09_rows_that_can_not_be_used_are_said_and_not_filled_in(self):
        """Case g09 (agent-lightning#442)."""
        turns = [
            {"prompt": {"token_ids": []}, "response": {"token_ids": []}},
            {"prompt": {"token_ids": [1, 2]}, "response": {"token_ids": [3]}},
        ]
        rows, found = usable_rows(turns, None)
        self.assertEqual(rows, [{"ids": [1, 2, 3], "mask": [0, 0, 1], "reward": None}])
        self.assertEqual(found, ["turn 0: empty response ids", "final reward missing"])
        self.assertEqual(usable_rows(turns[1:], 1.0)[1], [])
        self.assertEqual(usable_rows(turns[1:], 0.0)[0][0]["reward"], 0.0)
        self.assertEqual(
            usable_rows([], 1.0),
            ([], ["no turns: was the model called through the tracer?"]),
        )
        no_prompt = [{"prompt": {"token_ids": []}, "response": {"token_ids": [3]}}]
        for turn in ({}, None, {"prompt": []}, {"prompt": {"token_ids": "12"}}):
            with self.assertRaisesRegex(TrajectoryError, "turn 0: .*prompt.token_ids"):
                usable_rows([turn], 1.0)
        found = usable_rows(no_prompt, 1.0)
        self.assertEqual(found, ([], ["turn 0: empty prompt ids"]))


if __name__ == "__main__":
    unittest.main()
