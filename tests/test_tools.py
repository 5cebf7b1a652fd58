"""Tools: each failure comes back as an observation of its own kind."""

from __future__ import annotations

import faulthandler
import unittest

from agentic_rl.messages import MessageError, tool_call
from agentic_rl.tasks import generate, kind_of
from agentic_rl.tool_math import ACTIONS, CALCULATOR, ToolMath, lookup_tool
from agentic_rl.tools import Tool, ToolBox

BOX = ToolBox([CALCULATOR, lookup_tool({"kettles": "34"})])


def observe(name, arguments, box=BOX):
    return box.call(tool_call("c1", name, arguments))


class Kinds(unittest.TestCase):
    def test_result(self):
        seen = observe("calculator", {"expression": "3*4"})
        self.assertEqual(seen, ("result", "c1", "calculator", "12"))

    def test_case_e01_arguments_that_are_no_json_are_not_run(self):
        """Case e01 (verifiers#1763)."""
        seen = observe("calculator", '{"expression": "3*4"')
        content = "error: arguments are not valid JSON"
        self.assertEqual(seen, ("invalid_call", "c1", "calculator", content))

    def test_an_unknown_tool_lists_the_real_ones(self):
        seen = observe("python", {})
        self.assertEqual(seen.kind, "invalid_call")
        self.assertEqual(
            seen.content, "error: no tool 'python'; the tools are calculator, lookup"
        )

    def test_arguments_that_do_not_fit_the_schema_are_invalid(self):
        for arguments, said in (
            ({}, "'expression' is missing"),
            ({"expression": "1", "x": 1}, "unknown argument 'x'"),
            ({"expression": 12}, "'expression' must be a string"),
            ({"expression": None}, "'expression' must be a string"),
        ):
            seen = observe("calculator", arguments)
            self.assertEqual(seen.kind, "invalid_call")
            self.assertIn(said, seen.content)

    def test_arguments_of_any_other_form_are_invalid_and_say_why(self):
        for arguments, said in (
            ("[1]", "arguments are not a JSON object"),
            ('"{}"', "arguments were encoded twice"),
            ("<tool_call>{}", 'the call is not {"name": ..., "arguments": {...}}'),
            ('{"expression": "1"}', "arguments are text, expected an object"),
            (None, "arguments are not a JSON object"),
            ({"expression": "1", 7: 1, None: 2}, "unknown argument 7"),
            ({"expression": "1", "x" * 10**5: 1}, "unknown argument 'xxx"),
        ):
            seen = observe("calculator", arguments)
            self.assertEqual(seen.kind, "invalid_call")
            self.assertIn(said, seen.content)
            self.assertLess(len(seen.content), 200)

    def test_a_box_without_tools_and_a_tool_without_arguments_say_none(self):
        seen = observe("python", {}, ToolBox([]))
        self.assertEqual(seen.content, "error: no tool 'python'; the tools are none")
        seen = observe("f", {"x": 1}, ToolBox([Tool("f", "", {}, lambda: "ok")]))
        self.assertEqual(seen.content, "error: unknown argument 'x'; f takes none")

    def test_what_is_no_call_at_all_can_not_be_answered(self):
        named = {"name": "calculator", "arguments": {}}
        for call, said in (
            (None, "expected a call with id and function"),
            ({"function": named}, "expected a call with id and function"),
            ({"id": 7, "function": named}, "expected a call with id and function"),
            ({"id": "c1", "function": {"name": ["calculator"]}}, "'c1' has no name"),
        ):
            with self.assertRaisesRegex(MessageError, f"^tools: .*{said}"):
                BOX.call(call)

    def test_a_number_is_finite(self):
        box = ToolBox([Tool("f", "", {"n": "number"}, lambda n: "ok")])
        for number, kind in ((1, "result"), (0.5, "result"), (10**400, "result")):
            self.assertEqual(observe("f", {"n": number}, box).kind, kind)
        for number in (float("nan"), float("inf")):
            self.assertEqual(observe("f", {"n": number}, box).kind, "invalid_call")

    def test_a_number_is_no_boolean_and_a_boolean_no_number(self):
        tool = Tool("f", "", {"n": "integer", "b": "boolean"}, lambda n, b: "ok")
        box = ToolBox([tool])
        self.assertEqual(observe("f", {"n": 1, "b": True}, box).kind, "result")
        self.assertEqual(observe("f", {"n": True, "b": True}, box).kind, "invalid_call")
        self.assertEqual(observe("f", {"n": 1, "b": 1}, box).kind, "invalid_call")

    def test_a_tool_that_says_no_is_a_tool_error(self):
        self.assertEqual(
            observe("calculator", {"expression": "1/0"})[::3],
            ("tool_error", "error: division by zero"),
        )
        self.assertEqual(observe("lookup", {"item": "lamps"}).kind, "tool_error")

    def test_case_e07_work_that_is_too_large_is_a_tool_error(self):
        """Case e07 (strands-agents/samples#296): bounded before it is computed."""
        for expression in ("9**9**9", "(((7**60)**60)**60)**60", "10**1000*10**1000"):
            seen = observe("calculator", {"expression": expression})
            self.assertEqual(seen.kind, "tool_error")
            self.assertIn("too large", seen.content)

    def test_a_tool_that_crashes_or_returns_no_text_is_a_tool_error(self):
        def crash():
            raise KeyError("x")

        for function, name in ((crash, "KeyError"), (lambda: 7, "TypeError")):
            seen = observe("f", {}, ToolBox([Tool("f", "", {}, function)]))
            self.assertEqual(seen.kind, "tool_error")
            self.assertEqual(seen.content, f"error: the tool failed with {name}")


class Timeouts(unittest.TestCase):
    """Case e09 (PraisonAI#2957). The work is bounded; a hang would meet the watchdog."""

    def setUp(self):
        faulthandler.dump_traceback_later(60, exit=True)
        self.addCleanup(faulthandler.cancel_dump_traceback_later)

    def sleeper(self, seconds, max_steps):
        self.closed = False

        def sleep():
            try:
                for _ in range(seconds) if seconds else iter(int, 1):
                    yield
                return "rested"
            finally:
                self.closed = True

        return ToolBox([Tool("sleep", "", {}, sleep, max_steps)])

    def test_ten_steps_of_sleep_and_one_allowed(self):
        seen = observe("sleep", {}, self.sleeper(10, 1))
        self.assertEqual(seen.kind, "timeout")
        self.assertEqual(seen.content, "error: no answer after 1 steps")
        self.assertTrue(self.closed)

    def test_a_tool_that_never_ends_is_ended(self):
        self.assertEqual(observe("sleep", {}, self.sleeper(None, 1000)).kind, "timeout")
        self.assertTrue(self.closed)

    def test_it_is_closed_at_once_and_not_when_nobody_holds_it_any_more(self):
        sleep = self.sleeper(None, 5).tools["sleep"]
        closed = None
        try:
            sleep.run({})
        except Exception:
            closed = self.closed  # the traceback still holds the generator
        self.assertIs(closed, True)

    def test_a_tool_that_makes_it_in_time_gives_its_result(self):
        self.assertEqual(observe("sleep", {}, self.sleeper(3, 4)).content, "rested")
        self.assertEqual(observe("sleep", {}, self.sleeper(3, 3)).kind, "timeout")

    def test_a_bound_that_nothing_would_enforce_is_refused(self):
        with self.assertRaisesRegex(ValueError, "'f'.*max_steps"):
            Tool("f", "", {}, lambda: "x", max_steps=5)
        with self.assertRaisesRegex(ValueError, "'sleep'.*max_steps"):
            self.sleeper(1, None)

    def test_a_bound_is_a_whole_number_of_at_least_one(self):
        for bound in (0, -1, 1.5, True, "5"):
            with self.assertRaisesRegex(ValueError, "'sleep': max_steps: expected"):
                self.sleeper(1, bound)


class Schema(unittest.TestCase):
    def test_it_is_openais_form(self):
        function = CALCULATOR.schema()["function"]
        self.assertEqual(function["name"], "calculator")
        self.assertEqual(function["parameters"]["required"], ["expression"])
        self.assertIs(function["parameters"]["additionalProperties"], False)

    def test_two_tools_of_one_name_are_refused(self):
        with self.assertRaisesRegex(ValueError, "two tools are called 'calculator'"):
            ToolBox([CALCULATOR, CALCULATOR])

    def test_an_unknown_type_is_refused(self):
        with self.assertRaisesRegex(ValueError, "'colour'"):
            Tool("f", "", {"x": "colour"}, lambda x: "")


class Speaking(unittest.TestCase):
    """The six actions, on generated tasks."""

    def test_memory_is_right_on_easy_and_never_elsewhere(self):
        for task in generate(40, seed=2):
            said = ToolMath(task).speak("answer_from_memory").removeprefix("Answer: ")
            self.assertEqual(said == task.answer, kind_of(task.question) == "easy")

    def test_without_an_observation_there_is_nothing_to_answer_from(self):
        world = ToolMath(generate(1, seed=0)[0])
        self.assertEqual(world.speak("answer_from_observation"), "I don't know.")

    def test_an_unknown_action_is_named(self):
        with self.assertRaisesRegex(ValueError, "'dance'.*answer_from_memory"):
            ToolMath(generate(1, seed=0)[0]).speak("dance")
        self.assertEqual(len(ACTIONS), 6)


if __name__ == "__main__":
    unittest.main()
