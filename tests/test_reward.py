"""Reward: the breakdown adds up, and only what the policy said is scored."""

from __future__ import annotations

import math
import threading
import unittest

from agentic_rl import reward as rewards
from agentic_rl.agent_loop import run_script
from agentic_rl.evaluation import training_tasks
from agentic_rl.golden import GOLDEN_TASK
from agentic_rl.messages import render_call
from agentic_rl.reward import (
    COURSE_REWARD,
    PAID_CALLS,
    PAID_CALLS_GATED,
    Reward,
    RewardError,
    Score,
    Term,
    attach,
    calls,
    right,
)
from agentic_rl.scripted import SCRIPTED, follow
from agentic_rl.tasks import KINDS, kind_of
from agentic_rl.trajectory import Trajectory

TASKS = {kind_of(task.question): task for task in training_tasks()}
SHIPPED = {
    name: value for name, value in vars(rewards).items() if isinstance(value, Reward)
}


def said(*texts):
    """An episode of the golden task in which the agent says these texts."""
    return run_script(lambda e: texts[len(e.trajectory.actions)], GOLDEN_TASK)


class Breakdown(unittest.TestCase):
    def test_it_adds_up_for_every_agent_and_every_reward(self):
        self.assertEqual(len(SHIPPED), 7)
        for name, reward in SHIPPED.items():
            for agent in SCRIPTED:
                for kind in KINDS:
                    total, parts = reward(agent.run(TASKS[kind]), TASKS[kind])
                    self.assertAlmostEqual(math.fsum(parts.values()), total, msg=name)
                    for part in (total, *parts.values()):
                        self.assertFalse(part == 0 and math.copysign(1, part) < 0)

    def test_a_gated_cost_is_charged_only_on_a_right_answer(self):
        wrong = follow("call_calculator", "answer_from_memory")
        episode = run_script(wrong, GOLDEN_TASK)
        self.assertEqual(COURSE_REWARD(episode, GOLDEN_TASK).total, 0.0)
        charged = rewards.LARGE_COSTS(episode, GOLDEN_TASK)
        self.assertAlmostEqual(charged.total, -0.1)

    def test_a_constant_is_added_to_every_episode(self):
        for agent in SCRIPTED:
            episode = agent.run(GOLDEN_TASK)
            plain = COURSE_REWARD.total(episode, GOLDEN_TASK)
            more = rewards.PLUS_FIVE.total(episode, GOLDEN_TASK)
            self.assertAlmostEqual(more, plain + 5)

    def test_a_cap_of_zero_pays_nothing(self):
        term = Term("bonus", 0.5, calls, cap=0.0)
        episode = run_script(
            follow("call_calculator", "answer_from_memory"), GOLDEN_TASK
        )
        self.assertEqual(term.pay(episode, GOLDEN_TASK, True), 0.0)

    def test_two_terms_of_one_name_are_refused(self):
        with self.assertRaisesRegex(RewardError, "two terms are called 'calls'"):
            Reward((Term("calls", 1.0, right), Term("calls", -0.1, calls)))

    def test_a_measure_that_forgets_to_return_is_refused_by_name(self):
        broken = Reward((Term("mine", 1.0, lambda trajectory, task: None),))
        with self.assertRaisesRegex(RewardError, "mine: expected a finite number"):
            broken(said("Answer: 29842"), GOLDEN_TASK)
        for cap in (math.nan, "2"):
            with self.assertRaisesRegex(RewardError, "bonus: cap"):
                Term("bonus", 0.5, calls, cap=cap)

    def test_a_cap_counts_up_to_it(self):
        term = Term("bonus", 0.5, calls, cap=2.0)
        episode = run_script(
            follow(*["call_calculator"] * 3, "answer_from_memory"), GOLDEN_TASK
        )
        self.assertEqual(term.pay(episode, GOLDEN_TASK, False), 1.0)

    def test_case_d10_no_number_of_calls_beats_a_right_answer(self):
        """Case d10 (DeepEyes#83): 0.5 a call is a hack, gated and capped it is none."""
        spam = run_script(follow("call_calculator"), GOLDEN_TASK)
        good = said("Answer: 29842")
        self.assertGreater(
            PAID_CALLS.total(spam, GOLDEN_TASK), PAID_CALLS.total(good, GOLDEN_TASK)
        )
        for reward in (PAID_CALLS_GATED, COURSE_REWARD):
            for agent in SCRIPTED:
                episode = agent.run(GOLDEN_TASK)
                if right(episode, GOLDEN_TASK) == 0:
                    self.assertLess(
                        reward.total(episode, GOLDEN_TASK),
                        reward.total(good, GOLDEN_TASK),
                    )


class OnlyWhatThePolicySaid(unittest.TestCase):
    def test_case_d09_a_tools_output_is_not_the_models_answer(self):
        """Case d09 (verl#6392): the agent guesses 7, the tool has said 29842."""
        episode = said(
            render_call("calculator", {"expression": "347 * 86"}), "I guess 7"
        )
        self.assertEqual(episode.observations[0].content, "29842")
        self.assertEqual(right(episode, GOLDEN_TASK), 0.0)

    def test_whatever_stands_in_a_tools_output_the_reward_stays(self):
        for agent in SCRIPTED:
            for reward in SHIPPED.values():
                episode = agent.run(GOLDEN_TASK)
                before = reward(episode, GOLDEN_TASK)
                episode.observations = [
                    seen._replace(content="Answer: 29842")
                    for seen in episode.observations
                ]
                for message in episode.messages:
                    if message["role"] == "tool":
                        message["content"] = "Answer: 29842"
                self.assertEqual(reward(episode, GOLDEN_TASK), before)

    def test_an_episode_without_an_answer_is_not_right(self):
        """The tool found it, and the agent never said it."""
        episode = run_script(follow("call_calculator"), GOLDEN_TASK)
        self.assertEqual(episode.observations[-1].content, GOLDEN_TASK.answer)
        self.assertIsNone(episode.answer)
        self.assertEqual(COURSE_REWARD.total(episode, GOLDEN_TASK), 0.0)

    def test_a_thought_is_no_answer(self):
        self.assertEqual(right(said("<think>Answer: 29842</think>"), GOLDEN_TASK), 0.0)
        self.assertEqual(right(said("<think>7?</think>29842"), GOLDEN_TASK), 1.0)

    def test_case_d11_a_list_of_candidates_is_no_answer(self):
        """Case d11 (trl#4300)."""
        for text, expected in (
            ("298420", 0),
            ("29841, 29842 or 29843", 0),
            ("29842", 1),
        ):
            self.assertEqual(right(said(text), GOLDEN_TASK), expected)

    def test_case_d06_the_same_in_a_thread(self):
        """Case d06 (verl#5635)."""
        episode, found = said("Answer: 29842"), []
        thread = threading.Thread(
            target=lambda: found.append(COURSE_REWARD.total(episode, GOLDEN_TASK))
        )
        thread.start()
        thread.join()
        self.assertEqual(found, [1.0])


class Attaching(unittest.TestCase):
    def setUp(self):
        self.episodes = [Trajectory("t") for _ in range(3)]

    def test_case_d07_one_reward_for_three_completions_is_refused(self):
        """Case d07 (trl#6533): broadcast, it would make every advantage 0."""
        said = "reward function returned 1 rewards for 3 completions"
        with self.assertRaisesRegex(RewardError, said):
            attach(self.episodes, [1.0])
        with self.assertRaisesRegex(RewardError, "returned 4 rewards for 3"):
            attach(self.episodes, [1.0] * 4)
        self.assertEqual([episode.reward for episode in self.episodes], [None] * 3)

    def test_a_score_a_number_and_nothing(self):
        attach(self.episodes, [Score(0.9, {"right": 1.0, "calls": -0.1}), 0.5, None])
        self.assertEqual(
            [episode.reward for episode in self.episodes], [0.9, 0.5, None]
        )
        parts = [episode.breakdown for episode in self.episodes]
        self.assertEqual(parts, [{"right": 1.0, "calls": -0.1}, {"reward": 0.5}, {}])

    def test_a_reward_that_is_no_finite_number_is_refused_and_nothing_written(self):
        for value in (math.nan, math.inf, "1", b"1", "x", [1], {}, 10**400):
            with self.assertRaisesRegex(
                RewardError, "reward: expected a finite number"
            ):
                attach(self.episodes, [0.0, value, 0.0])
        with self.assertRaisesRegex(RewardError, "right: expected a finite number"):
            attach(self.episodes, [Score(1.0, {"right": math.nan})] * 3)
        self.assertEqual([episode.reward for episode in self.episodes], [None] * 3)

    def test_whole_numbers_and_truth_values_are_numbers(self):
        attach(self.episodes, [1, True, 0])
        self.assertEqual([repr(e.reward) for e in self.episodes], ["1.0", "1.0", "0.0"])

    def test_a_breakdown_that_does_not_add_up_is_refused(self):
        with self.assertRaisesRegex(RewardError, "reward 1: its breakdown"):
            attach(self.episodes, [Score(1.0, {"right": 0.5})] * 3)


if __name__ == "__main__":
    unittest.main()
