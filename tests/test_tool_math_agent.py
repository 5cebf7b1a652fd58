"""Chapter 01: scripted agents, their rewards by hand, the golden group, the script."""

from __future__ import annotations

import contextlib
import io
import math
import runpy
import unittest
from pathlib import Path

from agentic_rl.advantage import group_advantages
from agentic_rl.evaluation import training_tasks
from agentic_rl.golden import GOLDEN_ACTIONS, GOLDEN_TASK, golden_group, golden_policy
from agentic_rl.grpo import logit_gradient, logprob_rows, unit_choices
from agentic_rl.objective import policy_loss
from agentic_rl.reward import COURSE_REWARD
from agentic_rl.scripted import SCRIPTED
from agentic_rl.tasks import KINDS, kind_of, parse_task
from agentic_rl.tool_math import ACTIONS

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "examples" / "01_tool_math_agent" / "tool_math_agent.py"
TASKS = {kind_of(task.question): task for task in training_tasks()}

# Reward of the course: right 1 - 0.1 a call - 0.2 an invalid call, wrong 0.
REWARDS = {  # agent: (easy, hard, lookup)
    "acts well": (1.0, 0.9, 0.8),  # 0, 1 and 2 calls
    "spams the tool": (0.7, 0.7, 0.0),  # 3 calls; on lookup all 3 lack the price
    "guesses": (1.0, 0.0, 0.0),
    "ignores the result": (0.9, 0.0, 0.0),  # pays for a call, then guesses
    "broken JSON": (0.8, 0.0, 0.0),  # 1 invalid call, then guesses
    "unknown tool": (0.7, 0.7, 0.0),  # 1 invalid and 1 good call
    "parallel calls": (0.8, 0.8, 0.7),  # 2 calls in a turn; on lookup a third
    "meets a timeout": (0.0, 0.0, 0.0),  # answers with the error's text
    "never answers": (0.0, 0.0, 0.0),
    "thinks aloud": (1.0, 0.9, 0.8),  # as "acts well": a drafted call is no call
}
OBSERVED_ON_HARD = {
    "acts well": ["result"],
    "spams the tool": ["result"] * 3,
    "guesses": [],
    "ignores the result": ["result"],
    "broken JSON": ["invalid_call"],
    "unknown tool": ["invalid_call", "result"],
    "parallel calls": ["tool_error", "result"],
    "meets a timeout": ["timeout"],
    "never answers": ["result"] * 5,
    "thinks aloud": ["result"],
}


class ScriptedAgents(unittest.TestCase):
    def test_every_agent_is_in_the_table(self):
        self.assertEqual([agent.name for agent in SCRIPTED], list(REWARDS))

    def test_rewards_by_hand(self):
        for agent in SCRIPTED:
            for kind, expected in zip(KINDS, REWARDS[agent.name]):
                with self.subTest(agent=agent.name, kind=kind):
                    task = TASKS[kind]
                    score = COURSE_REWARD(agent.run(task), task)
                    self.assertAlmostEqual(score.total, expected)
                    total = math.fsum(score.breakdown.values())
                    self.assertAlmostEqual(total, expected)

    def test_what_each_one_observes(self):
        for agent in SCRIPTED:
            episode = agent.run(TASKS["hard"])
            kinds = [observation.kind for observation in episode.observations]
            self.assertEqual(kinds, OBSERVED_ON_HARD[agent.name], agent.name)

    def test_only_the_one_that_never_answers_is_truncated(self):
        for agent in SCRIPTED:
            expected = "max_turns" if agent.name == "never answers" else "stop"
            self.assertEqual(agent.run(TASKS["hard"]).finish_reason, expected)


class GoldenGroup(unittest.TestCase):
    def setUp(self):
        self.group = golden_group()
        self.rewards = [episode.reward for episode in self.group]

    def test_its_task_is_a_good_task(self):
        self.assertEqual(parse_task(GOLDEN_TASK.to_dict()), GOLDEN_TASK)
        self.assertEqual(kind_of(GOLDEN_TASK.question), "hard")
        self.assertEqual(347 * 86, int(GOLDEN_TASK.answer))

    def test_rewards(self):
        for value, expected in zip(self.rewards, [0.9, 0.0, 0.7, 0.0]):
            self.assertAlmostEqual(value, expected)

    def test_every_decision_has_the_log_prob_of_one_in_six(self):
        for episode, actions in zip(self.group, GOLDEN_ACTIONS):
            episode.check()
            places = episode.positions("decision")
            self.assertEqual(len(places), len(actions))
            for place in places:
                self.assertAlmostEqual(episode.logprob(place), -math.log(6))

    def test_masks_by_counting(self):
        """A call is 20 tokens with its end, an answer 4; nothing else is trainable."""
        trainable = [sum(episode.loss_mask) for episode in self.group]
        self.assertEqual(trainable, [20 + 4, 4, 3 * 20 + 4, 20 + 4])

    def test_advantages_by_hand(self):
        """Mean 0.4; squares 0.25 + 0.16 + 0.09 + 0.16 = 0.66; std sqrt(0.66 / 3)."""
        std = math.sqrt(0.22)
        expected = [0.5 / std, -0.4 / std, 0.3 / std, -0.4 / std]
        for value, target in zip(group_advantages(self.rewards, [0] * 4), expected):
            self.assertAlmostEqual(value, target)

    def test_loss_and_one_logit_by_hand(self):
        """The loss is minus the advantages summed over decisions, divided by 4.

        At hard/start all four choose: call_calculator twice (A1 + A3), memory (A2),
        broken (A4), and the four advantages add up to 0. So the -pi part of the score
        cancels, and the gradient of call_calculator's logit is -(A1 + A3) / 4.
        """
        std = math.sqrt(0.22)
        policy = golden_policy()
        choices = [unit_choices(episode, "decision") for episode in self.group]
        logprobs = logprob_rows(policy, choices)
        advantages = group_advantages(self.rewards, [0] * 4)
        rows = [[a] * len(row) for a, row in zip(advantages, choices)]
        loss = policy_loss(logprobs, logprobs, rows)
        by_hand = -(0.5 * 2 - 0.4 * 1 + 0.3 * 4 - 0.4 * 2) / std / 4
        self.assertAlmostEqual(loss.value, by_hand)
        gradient = logit_gradient(policy, choices, loss.gradient)["hard/start"]
        self.assertAlmostEqual(
            gradient[ACTIONS.index("call_calculator")], -(0.5 + 0.3) / std / 4
        )
        self.assertAlmostEqual(gradient[ACTIONS.index("call_lookup")], 0.0)


class Script(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        module = runpy.run_path(str(SCRIPT))
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            module["main"]()
        cls.text = printed.getvalue()

    def test_it_fits_the_terminal(self):
        self.assertTrue(self.text.isascii())
        self.assertLessEqual(max(map(len, self.text.splitlines())), 80)
        self.assertNotIn("-0.0 ", self.text)
        self.assertNotIn("-0.0000", self.text)

    def test_it_shows_every_agent_and_every_edge(self):
        for name in (*REWARDS, "all equal", "a group of one", "one unscored"):
            self.assertIn(name, self.text)

    def test_the_group_of_one_under_two_conventions(self):
        rows = [line.split() for line in self.text.splitlines()]
        self.assertIn("a group of one course 0.0000".split(), rows)
        self.assertIn("a group of one verl 0.7000".split(), rows)


if __name__ == "__main__":
    unittest.main()
