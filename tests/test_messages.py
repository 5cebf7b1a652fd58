"""Messages: what an assistant's text means, and the two forms of arguments."""

from __future__ import annotations

import faulthandler
import json
import random
import unittest

from agentic_rl.messages import (
    MAX_DIGITS,
    MAX_JSON_DEPTH,
    MessageError,
    check,
    flags,
    from_openai,
    parse_assistant,
    parse_json,
    render_assistant,
    render_call,
    to_openai,
    tool,
    tool_call,
    user,
)

CALL = render_call("calculator", {"expression": "2+2"})


def assistant(content=None, *calls, **more):
    message = {"role": "assistant", "content": content, **more}
    return {**message, "tool_calls": list(calls)} if calls else message


def calls_of(text):
    """(name, arguments) of each call that the text makes."""
    made = parse_assistant(text).get("tool_calls", [])
    return [(c["function"]["name"], c["function"]["arguments"]) for c in made]


class ParsingCalls(unittest.TestCase):
    def test_plain_text_is_content(self):
        expected = {"role": "assistant", "content": "Answer: 4"}
        self.assertEqual(parse_assistant("Answer: 4"), expected)

    def test_a_call_has_an_id_a_name_and_an_object(self):
        message = parse_assistant(f"Let me see.{CALL}", first_call=3)
        self.assertEqual(message["content"], "Let me see.")
        expected = tool_call("call_3", "calculator", {"expression": "2+2"})
        self.assertEqual(message["tool_calls"], [expected])

    def test_arguments_written_as_text_are_read_once(self):
        body = '{"name": "f", "arguments": "{\\"a\\": 1}"}'
        self.assertEqual(calls_of(f"<tool_call>{body}</tool_call>"), [("f", {"a": 1})])

    def test_ids_start_at_one_unless_told_otherwise(self):
        self.assertEqual(parse_assistant(CALL)["tool_calls"][0]["id"], "call_1")

    def test_parallel_calls_are_numbered_in_order(self):
        ids = [call["id"] for call in parse_assistant(CALL * 3, 5)["tool_calls"]]
        self.assertEqual(ids, ["call_5", "call_6", "call_7"])

    def test_case_e01_cut_off_arguments_are_kept_and_are_no_object(self):
        """Case e01 (verifiers#1763). They must not become {} or end the episode."""
        broken = '{"name": "calculator", "arguments": {"expression": "3*4"'
        for text in (f"<tool_call>{broken}</tool_call>", f"<tool_call>{broken}"):
            self.assertEqual(calls_of(text), [("calculator", '{"expression": "3*4"')])

    def test_other_ways_to_break_a_call(self):
        for body in ("", "[1]", "null", "no json", "{", '"calculator"'):
            calls = calls_of(f"<tool_call>{body}</tool_call>")
            self.assertEqual(calls, [("", body)])
        listed = '<tool_call>{"name": "f", "arguments": [1]}</tool_call>'
        self.assertEqual(calls_of(listed), [("f", "[1]")])

    def test_what_reads_as_arguments_without_being_a_call_can_not_be_run(self):
        """At OpenAI's edge a bare '{...}' is arguments, so the marker stays on it."""
        for body, name in (
            ('{"name": "calculator", "arguments": {"expression": "3*4"}', "calculator"),
            ('{"expression": "3*4"}', ""),
            ('{"name": 7}', ""),
            ("{}", ""),
        ):
            text = f"<tool_call>{body}</tool_call>"
            self.assertEqual(calls_of(text), [(name, f"<tool_call>{body}")])
            message = parse_assistant(text)
            self.assertEqual(from_openai(to_openai([message])), [message])
            said = 'call call_1: the call is not {"name": ..., "arguments": {...}}'
            self.assertEqual(flags([message])[0], f"message 0: {said}")

    def test_a_call_with_more_than_a_name_and_arguments_keeps_all_of_it(self):
        """Nothing it says is dropped: perhaps the rest was meant as arguments."""
        for body in (
            '{"name": "f", "parameters": {"a": 1}}',
            '{"id": "7", "name": "f", "arguments": {"a": 1}}',
            '{"name": "f", "name": "g", "arguments": {}}',
        ):
            ((name, arguments),) = calls_of(f"<tool_call>{body}</tool_call>")
            self.assertEqual(name, "f")
            self.assertIn(arguments, (body, f"<tool_call>{body}"))

    def test_a_broken_call_keeps_what_stands_before_its_arguments(self):
        for body in (
            '{"id": "7", "name": "f", "arguments": {"a"',
            '{"arguments": {"a": 1, "name": "f"',
        ):
            self.assertEqual(calls_of(f"<tool_call>{body}</tool_call>"), [("f", body)])

    def test_a_call_without_arguments_takes_none(self):
        self.assertEqual(calls_of('<tool_call>{"name": "f"}</tool_call>'), [("f", {})])

    def test_a_call_that_is_never_closed_is_not_run(self):
        text = '<tool_call>{"name": "f", "arguments": {"a": 1}}'
        ((name, arguments),) = calls_of(text)
        self.assertEqual(name, "f")
        self.assertIsInstance(arguments, str)

    def test_a_marker_inside_an_argument_does_not_end_the_call(self):
        arguments = {"expression": "</tool_call> <tool_call> <think>"}
        self.assertEqual(calls_of(render_call("f", arguments)), [("f", arguments)])


class Thinking(unittest.TestCase):
    def test_case_e05_a_call_drafted_in_a_thought_is_no_call(self):
        """Case e05 (verl#4757): strip the reasoning first, then parse."""
        draft = '<tool_call>{"name":"calculator","arguments":{"expression":"1+1"}}</tool_call>'
        call = draft.replace("1+1", "2+2")
        text = f"<think>try {draft}</think>{call}"
        self.assertEqual(calls_of(text), [("calculator", {"expression": "2+2"})])
        self.assertEqual(parse_assistant(text)["reasoning_content"], f"try {draft}")

    def test_an_unclosed_thought_swallows_the_rest(self):
        message = parse_assistant(f"<think>hm {CALL} Answer: 4")
        self.assertNotIn("tool_calls", message)
        self.assertEqual(message["content"], "")
        self.assertEqual(message["reasoning_content"], f"hm {CALL} Answer: 4")

    def test_a_marker_is_one_that_was_written_in_one_piece(self):
        """Taking the thought out first would leave a call that nobody wrote."""
        call = CALL.replace("<tool_call>", "<tool_<think>hm</think>call>")
        message = parse_assistant(call)
        self.assertEqual(message["content"], CALL)
        self.assertNotIn("tool_calls", message)

    def test_a_thought_inside_a_call_is_part_of_the_call(self):
        ((name, arguments),) = calls_of(CALL.replace("2+2", "<think>"))
        self.assertEqual((name, arguments), ("calculator", {"expression": "<think>"}))
        ((_, arguments),) = calls_of(CALL.replace("{", "{<think>hm</think>"))
        self.assertIn("<think>hm</think>", arguments)

    def test_thoughts_before_and_after_stand_apart_from_the_content(self):
        message = parse_assistant("<think>a</think>Answer: 4<think>b</think>")
        self.assertEqual(message["content"], "Answer: 4")
        self.assertEqual(message["reasoning_content"], "ab")


class Rendering(unittest.TestCase):
    def meaning(self, message):
        calls = [call["function"] for call in message.get("tool_calls") or []]
        thought = message.get("reasoning_content") or ""
        return message.get("content") or "", thought, calls

    def test_case_b06_a_call_without_content_is_still_rendered(self):
        """Case b06 (ART#527): content may be null, empty or missing."""
        call = tool_call("c1", "calculator", {"expression": "3*4"})
        for message in (assistant(None, call), assistant("", call)):
            self.assertIn("calculator", render_assistant(message))
        missing = {"role": "assistant", "tool_calls": [call]}
        self.assertEqual(
            render_assistant(missing), render_assistant(assistant(None, call))
        )

    def test_what_is_rendered_is_read_back(self):
        for message in (
            assistant("Answer: 4"),
            assistant("", tool_call("c1", "f", {})),
            assistant(" see\n", tool_call("c1", "f", {"a": 'quote " and \u00e9'})),
            assistant("x", tool_call("c1", "f", '{"a": 1'), reasoning_content="hm"),
        ):
            back = parse_assistant(render_assistant(message))
            self.assertEqual(self.meaning(back), self.meaning(message))

    def test_what_no_text_can_mean_is_refused(self):
        for message in (
            assistant("a <tool_call> in the content"),
            assistant("<think>"),
            assistant("", tool_call("c1", "f", "{}}")),  # a brace more is valid JSON
            assistant("", reasoning_content="</think>"),
        ):
            with self.assertRaises(MessageError):
                render_assistant(message)

    def test_what_is_no_message_of_an_assistant_is_refused_by_name(self):
        call = tool_call("c1", "f", {})
        for message, said in (
            (None, "expected an assistant's message, got None"),
            (user("x"), "expected an assistant's message, got {'role': 'user'"),
            (assistant(7), "expected text as content, got 7"),
            ({**assistant(""), "tool_calls": [{}]}, "a call with id and function"),
            (assistant("", {**call, "function": {"name": "f"}}), "has no arguments"),
        ):
            with self.assertRaisesRegex(MessageError, said):
                render_assistant(message)

    def test_hostile_text_never_raises_and_never_changes_silently(self):
        rng = random.Random(20)
        parts = ["<think>", "</think>", "<tool_call>", "</tool_call>", CALL, CALL[:30]]
        parts += [
            '{"name": "f"',
            '"arguments": ',
            "{",
            "}",
            '"',
            "\\",
            "\x00",
            "\n",
            "9",
        ]
        parts += ["\u4f60", "[" * 80, "NaN", " ", "a", "</tool_call", "\ud800"]
        parts += ["{}", '"name": "f", ', '{"a": 1}', "<|im_end|>", "<tool_"]
        read_back = 0
        for _ in range(5000):
            text = "".join(rng.choices(parts, k=rng.randint(0, 8)))
            message = parse_assistant(text)
            self.assertEqual(from_openai(to_openai([message])), [message])
            try:
                again = parse_assistant(render_assistant(message))
            except MessageError:
                continue
            read_back += 1
            self.assertEqual(self.meaning(again), self.meaning(message))
        self.assertGreater(read_back, 1000)


class StrictJson(unittest.TestCase):
    def test_what_python_would_accept_and_json_would_not(self):
        for text in ("NaN", "[Infinity]", "-Infinity", "1e999", '{"a": 1, "a": 2}'):
            with self.assertRaises(MessageError):
                parse_json(text)

    def test_a_key_that_stands_twice_is_named(self):
        with self.assertRaisesRegex(MessageError, "the key 'a' twice"):
            parse_json('{"a": 1, "b": 2, "a": 1}')

    def test_whole_numbers_are_as_long_as_every_python_reads_them(self):
        self.assertEqual(parse_json("9" * MAX_DIGITS), 10**MAX_DIGITS - 1)
        for text in ("9" * (MAX_DIGITS + 1), "[-" + "9" * 10**6 + "]"):
            with self.assertRaisesRegex(MessageError, "more than 4000 digits"):
                parse_json(text)

    def test_nesting_is_bounded_and_brackets_in_strings_do_not_nest(self):
        deep = "[" * MAX_JSON_DEPTH + "]" * MAX_JSON_DEPTH
        self.assertIsInstance(parse_json(deep), list)
        for text in (f"[{deep}]", "[" * 100_000):
            with self.assertRaisesRegex(MessageError, "nested deeper"):
                parse_json(text)
        self.assertEqual(parse_json(json.dumps("[" * 1000)), "[" * 1000)
        self.assertEqual(len(parse_json(f"[{'{},' * 99}{{}}]")), 100)

    def test_the_work_grows_with_the_text_and_not_with_its_square(self):
        """Every quote here could open a string; a square would meet the watchdog."""
        faulthandler.dump_traceback_later(60, exit=True)
        self.addCleanup(faulthandler.cancel_dump_traceback_later)
        for end in ("", "\\", '"', "]"):
            text = "[" * 65 + '"' + '\\"' * 500_000 + end
            with self.assertRaisesRegex(MessageError, "nested deeper"):
                parse_json(text)

    def test_the_words_are_ours_whatever_python_says(self):
        for text in ("{", "", "nul", '{"a" 1}', "01", "'a'"):
            with self.assertRaisesRegex(MessageError, "^not valid JSON$"):
                parse_json(text)


class OpenAIEdge(unittest.TestCase):
    def log(self, arguments):
        call = tool_call("c1", "calculator", arguments)
        return [user("6*7?"), assistant(None, call), tool("c1", "42"), assistant("42")]

    def test_case_e03_an_object_inside_and_a_string_at_the_edge(self):
        """Case e03 (Qwen3#1894): encode once, at the edge only."""
        at_edge = self.log('{"expression": "6*7"}')
        inside = from_openai(at_edge)
        arguments = inside[1]["tool_calls"][0]["function"]["arguments"]
        self.assertEqual(arguments, {"expression": "6*7"})
        self.assertEqual(to_openai(inside), at_edge)
        self.assertIn('"arguments": {"expression": "6*7"}', render_assistant(inside[1]))

    def test_arguments_that_were_encoded_twice_are_flagged_and_kept(self):
        twice = json.dumps(json.dumps({"expression": "6*7"}))
        inside = from_openai(self.log(twice))
        self.assertEqual(inside[1]["tool_calls"][0]["function"]["arguments"], twice)
        found = flags(inside)
        self.assertEqual(found, ["message 1: call c1: arguments were encoded twice"])

    def test_there_and_back_for_every_kind_of_arguments(self):
        for arguments in ({}, {"a": [1, {"b": None}]}, '{"a": 1', "[1]", '"x"', ""):
            log = self.log(arguments)
            self.assertEqual(from_openai(to_openai(log)), log)

    def test_both_directions_refuse_what_is_not_well_formed(self):
        for messages, said in (
            (None, "expected a list"),
            ([None], "message 0: expected a role"),
            ([{**assistant(""), "tool_calls": [None]}], "message 0: expected a call"),
            ([{**user("x"), "tool_calls": 7}], "message 0: expected a list of tool"),
        ):
            for convert in (from_openai, to_openai):
                with self.assertRaisesRegex(MessageError, said):
                    convert(messages)

    def test_arguments_are_what_json_gives_back_unchanged(self):
        nested = []
        for _ in range(10**5):
            nested = [nested]
        for value in (float("nan"), {1: 2}, (1, 2), {1}, 10**5000, nested):
            with self.assertRaisesRegex(MessageError, "'c1': expected arguments that"):
                to_openai(self.log({"a": value}))

    def test_the_given_messages_are_not_changed(self):
        log = self.log({"expression": "6*7"})
        before = json.dumps(log)
        to_openai(log), from_openai(log)
        self.assertEqual(json.dumps(log), before)


class WellFormed(unittest.TestCase):
    def test_each_fault_names_the_message(self):
        call = tool_call("c1", "f", {})
        cases = {
            "message 0: expected a role": [{"role": "robot", "content": "x"}],
            "message 0: expected text": [user(None)],
            "message 1: answers call 'c9'": [assistant("", call), tool("c9", "x")],
            "message 2: answers call 'c1'": [
                assistant("", call),
                tool("c1", "x"),
                tool("c1", "x"),
            ],
            "message 0: call id 'c1' is used twice": [assistant("", call, call)],
            "message 0: only an assistant": [{**user("x"), "tool_calls": [call]}],
            "message 0: call 'c1' has no name": [
                assistant("", {"id": "c1", "function": {"arguments": {}}})
            ],
            "message 0: call 'c1' has no arguments": [
                assistant("", {"id": "c1", "function": {"name": "f"}})
            ],
            "message 0: expected a call with id": [assistant("", {"function": {}})],
            "message 0: call 'c1' is no function": [
                assistant("", {**call, "type": "custom"})
            ],
            "message 0: expected a list of tool_calls": [
                {**assistant(""), "tool_calls": {}}
            ],
            "message 0: expected text as reasoning": [
                assistant("", reasoning_content=7)
            ],
            "message 1: answers call \\[\\]": [assistant("", call), tool([], "x")],
            "message 1: only an assistant": [
                assistant("", call),
                {**tool("c1", "x"), "tool_calls": [call]},
            ],
        }
        for expected, messages in cases.items():
            with self.subTest(expected), self.assertRaisesRegex(MessageError, expected):
                check(messages)
        with self.assertRaisesRegex(MessageError, "expected a list"):
            check({"role": "user"})

    def test_every_field_is_what_json_gives_back_unchanged(self):
        """Fields of others are kept, so they have to survive a file."""
        call = tool_call("c1", "f", {})
        check([{**user("x"), "name": "Ann", "meta": {"seen": [1, 2.5, None]}}])
        for message, field in (
            ({**user("x"), 7: "x"}, "7: .*got 'x'"),
            ({**user("x"), "meta": float("nan")}, "'meta': .*got nan"),
            ({**user("x"), "meta": [(1, 2)]}, "'meta'"),
            (assistant("", {**call, "index": float("inf")}), "'tool_calls'"),
            (assistant("", {**call, 7: "x"}), "'tool_calls'"),
        ):
            with self.assertRaisesRegex(MessageError, f"message 0: field {field}"):
                check([message])

    def test_an_error_is_one_short_line_whatever_it_quotes(self):
        deep = []
        for _ in range(10**5):
            deep = [deep]
        for odd in ("x\n" * 10**5, 10**5000, deep):
            for messages in (
                [user([odd])],
                [{"role": "user", "content": {"a": odd}}],
                [assistant("", reasoning_content=[odd])],
                [{**assistant(""), "tool_calls": {"a": odd}}],
                [tool([odd], "x")],
                [assistant("", tool_call("c1", "f", {1: odd}))],
            ):
                with self.assertRaises(MessageError) as caught:
                    check(messages)
                self.assertLess(len(str(caught.exception)), 300)
                self.assertNotIn("\n", str(caught.exception))

    def test_an_id_is_used_once_in_the_whole_conversation(self):
        call = tool_call("c1", "f", {})
        log = [assistant("", call), tool("c1", "x"), assistant("", call)]
        with self.assertRaisesRegex(MessageError, "message 2: .*'c1' is used twice"):
            check(log)

    def test_a_tool_answers_the_calls_made_just_before(self):
        """In any order; once another turn began, the calls before it are closed."""
        two = [tool_call("a", "f", {}), tool_call("b", "f", {})]
        check([assistant("", *two), tool("b", "2"), tool("a", "1")])
        with self.assertRaisesRegex(MessageError, "message 2: answers call 'a'"):
            check([assistant("", *two), user("well?"), tool("a", "1")])

    def test_content_parts_are_refused_and_not_dropped(self):
        parts = [{"type": "text", "text": "look"}, {"type": "image_url"}]
        for role in ("system", "developer", "user", "assistant", "tool"):
            for content in (parts, parts[:1], ["x"], []):
                with self.assertRaisesRegex(MessageError, "message 0: content parts"):
                    check([{"role": role, "content": content}])
        with self.assertRaisesRegex(
            MessageError, "image_url.*not supported, only text"
        ):
            check([{"role": "user", "content": parts}])

    def test_case_g08_a_log_may_end_on_tool_messages_and_says_so(self):
        """Case g08 (LlamaFactory#9630): valid, four messages, and no final answer."""
        two = [tool_call("a", "f", {}), tool_call("b", "f", {})]
        log = [user("x"), assistant(None, *two), tool("a", "1"), tool("b", "2")]
        self.assertEqual(flags(log), ["ends on tool message: no final answer"])
        self.assertEqual(flags([*log, assistant("3")]), [])

    def test_a_call_that_got_no_answer_is_flagged(self):
        two = [tool_call("a", "f", {}), tool_call("b", "f", {})]
        log = [user("x"), assistant(None, *two), tool("b", "2"), assistant("3")]
        self.assertEqual(flags(log), ["message 1: call a was never answered"])
        self.assertEqual(
            flags(log[:2]),
            [f"message 1: call {name} was never answered" for name in "ab"],
        )

    def test_a_log_without_an_assistant_has_nothing_to_train_on(self):
        self.assertEqual(
            flags([user("x")]), ["no assistant message: nothing to train on"]
        )


if __name__ == "__main__":
    unittest.main()
