"""``show``: trajectories and chat logs, with who wrote each token."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import tracemalloc
import unittest
from unittest import mock

from agentic_rl import cli
from agentic_rl.chat_log import read_log
from agentic_rl.cli import show, terminal
from agentic_rl.cli.records import RecordError, read_record
from agentic_rl.golden import golden_group
from agentic_rl.messages import MessageError, to_openai
from agentic_rl.scripted import SCRIPTED
from agentic_rl.tasks import generate
from agentic_rl.trajectory import TrajectoryError
from tests.support import InFolder, command

GOLDEN = golden_group()
WEATHER = [
    {"role": "system", "content": "\u7b80\u77ed\u56de\u7b54\u3002"},
    {"role": "user", "content": "\u5929\u6c14?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "call_0123456789abcdef",
                "type": "function",
                "function": {
                    "name": "weather",
                    "arguments": '{"city": "\u4e0a\u6d77"}',
                },
            }
        ],
    },
    {"role": "tool", "tool_call_id": "call_0123456789abcdef", "content": "18\nC"},
    {"role": "assistant", "content": "18 \u5ea6\u3002"},
]


class Files(InFolder):
    def setUp(self):
        super().setUp()
        self.path = self.folder / "episodes.jsonl"

    def write(self, *records: object) -> None:
        """One line a record; text is written as it is."""
        texts = [x if isinstance(x, str) else json.dumps(x) for x in records]
        self.path.write_text("".join(text + "\n" for text in texts), encoding="utf-8")

    def golden(self) -> None:
        """The golden group as train would write it."""
        self.write(
            *(
                {
                    "step": 3,
                    "group": 0,
                    "advantage": advantage,
                    "trajectory": episode.to_dict(),
                }
                for episode, advantage in zip(GOLDEN, (1.066, -0.8528, 0.6396, -0.8528))
            )
        )


class Reading(unittest.TestCase):
    """A line of a file, whatever form it has."""

    def test_a_trajectory_is_the_same_alone_and_with_what_stands_around_it(self):
        for episode in GOLDEN:
            alone = read_record(episode.to_dict())
            around = {"step": 3, "group": "g", "advantage": -0.5}
            record = read_record({**around, "trajectory": episode.to_dict()})
            for name in ("tokens", "loss_mask", "decision", "logprobs", "messages"):
                self.assertEqual(getattr(record, name), getattr(episode, name))
                self.assertEqual(getattr(alone, name), getattr(episode, name))
            self.assertEqual(
                (record.step, record.group, record.advantage, record.reward),
                (3, "g", -0.5, episode.reward),
            )
            self.assertEqual((alone.step, alone.peers), (None, None))

    def test_a_chat_log_has_the_mask_of_its_messages_and_no_log_probs(self):
        for value in ({"messages": WEATHER}, WEATHER):
            record = read_record(value)
            log = read_log(WEATHER)
            for name in ("messages", "tokens", "loss_mask", "decision"):
                self.assertEqual(getattr(record, name), getattr(log, name))
            self.assertEqual(record.logprobs, [None] * len(record.tokens))

    def test_every_agents_episode_reads_the_same_as_a_log_of_it(self):
        for task in generate(1, seed=0):
            for agent in SCRIPTED:
                episode = agent.run(task)
                log = read_record({"messages": to_openai(episode.messages)})
                ours = read_record(episode.to_dict())
                self.assertEqual(log.messages, ours.messages, agent.name)
                self.assertEqual(log.loss_mask, ours.loss_mask, agent.name)

    def test_what_a_log_says_besides_is_kept_or_named(self):
        log = {"messages": WEATHER, "id": 7, "reward": 1, "group": 2, "model": "m"}
        record = read_record(log)
        self.assertEqual((record.task_id, record.reward, record.group), ("7", 1, 2))
        self.assertEqual(record.unused, ("model",))

    def test_each_problem_has_its_own_words(self):
        golden = GOLDEN[0].to_dict()
        for value, error, said in (
            (3, RecordError, "expected an object, got int"),
            ({}, RecordError, "expected a trajectory, or a chat log with 'messages'"),
            ({"trajectory": golden, "x": 1}, RecordError, "field 'x' is not known"),
            ({"trajectory": golden, "step": True}, RecordError, "step: expected"),
            ({"trajectory": golden, "group": []}, RecordError, "group: expected"),
            ({"trajectory": golden, "advantage": "1"}, RecordError, "advantage: expec"),
            ({"messages": WEATHER, "reward": True}, RecordError, "reward: expected"),
            ({"messages": {}}, MessageError, "expected a list"),
            ({"messages": WEATHER[3:]}, MessageError, "message 0: answers call"),
            ({**golden, "decision": []}, TrajectoryError, "decision: 0 values for"),
        ):
            with self.assertRaisesRegex(error, said):
                read_record(value)


class List(Files):
    def test_a_row_an_episode(self):
        self.golden()
        done = command("show", self.path)
        self.assertEqual((done.status, done.err), (0, ""))
        rows = [line.split() for line in done.out.splitlines()]
        self.assertEqual(rows[0], list(show.HEAD))
        first = ["1", "golden", "3", "0", "2", "24/49", "0.9000", "1.0660", "stop"]
        self.assertEqual(rows[1], first)
        self.assertEqual(len(rows), 5)
        self.assertLessEqual(max(map(len, done.out.splitlines())), 80)

    def test_bad_lines_are_counted_and_named_and_the_rest_is_shown(self):
        self.write(GOLDEN[0].to_dict(), "{", {"messages": 1}, WEATHER)
        done = command("show", self.path)
        self.assertEqual(done.status, 1)
        self.assertEqual(len(done.out.splitlines()), 3)
        self.assertIn("episodes.jsonl:2: not valid JSON", done.err)
        self.assertIn("episodes.jsonl:3: messages: expected a list", done.err)
        self.assertIn("2 of 4 lines bad: 2-3", done.err)

    def test_only_those_asked_for(self):
        self.golden()
        for arguments, count in (
            (["--task", "golden"], 4),
            (["--task", "other"], 0),
            (["--training-step", 3], 4),
            (["--training-step", 2], 0),
        ):
            done = command("show", self.path, *arguments)
            self.assertEqual(len(done.out.splitlines()), count and 1 + count)
        self.assertEqual(done.status, 1)
        self.assertIn("no such episode", done.err)

    def test_all_lines_are_counted_whatever_was_asked_for(self):
        self.write(GOLDEN[0].to_dict(), "{", WEATHER, WEATHER)
        done = command("show", self.path, "--task", "golden")
        self.assertIn("1 of 4 lines bad: 2", done.err)

    def test_a_line_that_was_not_asked_for_is_not_blamed(self):
        self.write(WEATHER, "{")
        done = command("show", self.path, "--line", 1)
        self.assertEqual((done.status, done.err), (0, ""))

    def test_null_fields_of_a_log_say_nothing(self):
        message = {"role": "user", "content": "q", "tool_call_id": None, "name": None}
        self.write([message])
        done = command("show", self.path, "--full")
        self.assertEqual((done.status, done.err), (0, ""))

    def test_json_says_everything(self):
        self.golden()
        done = command("show", self.path, "--json")
        for line, (text, episode) in enumerate(zip(done.out.splitlines(), GOLDEN), 1):
            shown = json.loads(text)
            self.assertEqual((shown["line"], shown["step"]), (line, 3))
            for name, value in episode.to_dict().items():
                self.assertEqual(shown[name], value)

    def test_a_file_that_is_not_there(self):
        done = command("show", self.folder / "none.jsonl")
        self.assertEqual((done.status, done.out), (2, ""))
        self.assertIn("none.jsonl: No such file or directory", done.err)

    def test_closed_ends_are_no_reason_for_a_traceback(self):
        self.golden()
        for arguments in (["--full"], ["--line", "1", "--step"], []):
            with mock.patch("sys.stdout", None), mock.patch("sys.stdin", None):
                status = cli.main(["show", str(self.path), *arguments])
            self.assertEqual(status, 0)

    def test_memory_does_not_grow_with_the_file(self):
        self.golden()
        lines = self.path.read_text()

        def peak(copies: int) -> int:
            self.path.write_text((lines + "{\n") * copies)
            tracemalloc.start()
            with (
                open(os.devnull, "w") as sink,
                contextlib.redirect_stdout(sink),
                contextlib.redirect_stderr(sink),
            ):
                for name in ("show", "evaluate"):
                    self.assertEqual(cli.main([name, str(self.path)]), 1)
            highest = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            return highest

        peak(1)  # what is made once and kept
        self.assertLess(peak(600), 1.1 * peak(200))  # a hundred bad lines are listed


class Full(Files):
    def test_an_episode_with_its_rows_its_reward_and_its_group(self):
        self.golden()
        out = command("show", self.path, "--line", 3).out
        self.assertIn("line 3: golden", out.splitlines()[1])
        self.assertIn("step 3, group 0", out.splitlines()[1])
        for part in (
            "reward: 0.7 = right 1 + calls -0.3 + invalid_calls 0",
            "advantage: 0.6396",
            "end: stop",
            'calculator({"expression": "347 * 86"})',
            " 14 - 33      1  -1.7918  <tool_call>",
            "4 decisions",
            "its group: step 3, group 0",
        ):
            self.assertIn(part, out)
        group = out.partition("its group")[2]
        rewards = re.findall(r"(?m)^ +[1-4] +(\d\.\d{4}) ", group)
        self.assertEqual(rewards, ["0.9000", "0.0000", "0.7000", "0.0000"])
        self.assertLessEqual(max(map(len, out.splitlines())), 80)

    def test_a_large_group_is_cut_and_says_so(self):
        line = {"group": "g", "trajectory": GOLDEN[0].to_dict()}
        self.write(*[line] * (show.MAX_PEERS + 3))
        out = command("show", self.path, "--line", 1).out
        self.assertTrue(out.endswith("\nand 3 more\n"), out[-200:])

    def test_lines_from_to_and_all(self):
        self.golden()
        for arguments, count in ((["--line", "2-3"], 2), (["--full"], 4)):
            out = command("show", self.path, *arguments).out
            self.assertEqual(out.count("=" * 80), count)
            self.assertNotIn("its group", out)
        for text in ("0", "3-2", "x", "-1", "1-"):
            done = command("show", self.path, f"--line={text}")
            self.assertEqual(done.status, 2)
            self.assertIn("--line: expected a line, or FIRST-LAST", done.err)

    def test_text_in_any_language_is_shown_as_it_is_and_folded_by_its_width(self):
        long = "\u5f88\u957f\u7684\u6587\u5b57" * 40
        self.write({"messages": [*WEATHER, {"role": "user", "content": long}]})
        with mock.patch.object(show, "encoding", lambda: "utf-8"):
            out = command("show", self.path, "--full").out
        self.assertIn("\u7b80\u77ed\u56de\u7b54\u3002", out)
        self.assertIn('call_..bcdef  weather({"city": "\u4e0a\u6d77"})', out)
        self.assertIn("18\n" + " " * 25 + "C\n", out)
        for line in out.splitlines():
            columns = sum(1 + (character > "\u2e80") for character in line)
            self.assertLessEqual(columns, 80)
        self.assertEqual(
            out.replace("\n", "").replace(" ", "").count("\u5f88\u957f"), 80
        )

    def test_what_the_output_can_not_hold_or_would_obey_is_escaped(self):
        said = "\u7b54 \x1b[31m \x07 \u202e \ue000\u3000\u7b54"
        self.write({"messages": [{"role": "user", "content": said}]})
        for encoding, shown in (("ascii", "\\u7b54"), ("utf-8", "\u7b54")):
            with mock.patch.object(show, "encoding", lambda name=encoding: name):
                out = command("show", self.path, "--full").out
            self.assertIn(f"{shown} \\x1b[31m \\x07 \\u202e \\ue000", out)
            space = "\u3000" if encoding == "utf-8" else "\\u3000"
            self.assertIn(f"\\ue000{space}{shown}", out)

    def test_what_is_odd_is_said(self):
        log = {"messages": WEATHER[:4], "model": "m"}
        self.write(log)
        out = command("show", self.path, "--full").out
        self.assertIn("odd: ends on tool message: no final answer", out)
        self.assertIn("fields not used: model", out)
        self.assertIn("nobody scored it", out)


class Walk(Files):
    def test_the_turns_are_the_whole_episode_in_order(self):
        for agent in SCRIPTED:
            for task in generate(1, seed=0):
                record = read_record(agent.run(task).to_dict())
                turns = show.turns(record)
                messages = [m for turn in turns for m in turn.messages]
                self.assertEqual(messages, record.messages)
                places = [(turn.first, turn.last) for turn in turns]
                self.assertEqual(places[0][0], 0)
                self.assertEqual(places[-1][1], len(record.tokens))
                ends, begins = (list(column) for column in zip(*places))
                self.assertEqual(ends[1:], begins[:-1])
                decisions = [
                    sum(record.decision[turn.first : turn.last]) for turn in turns
                ]
                self.assertEqual(decisions, [0] + [1] * len(record.trajectory.actions))

    def test_a_log_that_opens_with_the_assistant(self):
        record = read_record([{"role": "assistant", "content": "Hello."}, *WEATHER])
        turns = show.turns(record)
        self.assertEqual([len(turn.messages) for turn in turns], [3, 2, 1])

    def test_tokens_of_another_template_are_one_stretch(self):
        record = GOLDEN[0].to_dict()
        record["tokens"] = ["x" for _ in record["tokens"]]
        turns = show.turns(read_record(record))
        self.assertEqual([(t.first, t.last) for t in turns], [(0, 49)])

    def test_each_turn_says_what_was_chosen_where(self):
        self.golden()
        out = command("show", self.path, "--line", 1, "--step").out
        self.assertIn("turn 1: in hard/start, call_calculator (log pi -1.7918)", out)
        self.assertIn("turn 2: in hard/result, answer_from_observation", out)

    def test_on_a_terminal_enter_goes_on_and_q_stops(self):
        self.golden()
        for answers, shown in (([""] * 3, 2), (["", "q"], 1), ([EOFError], 0)):
            asked = iter(answers)

            def answer(prompt: str, asked=asked) -> str:
                reply = next(asked)
                if reply is EOFError:
                    raise EOFError
                return reply

            terminal_out = io.StringIO()
            terminal_out.isatty = lambda: True
            stdin = mock.Mock(isatty=lambda: True)
            with (
                mock.patch("builtins.input", answer),
                mock.patch("sys.stdin", stdin),
                mock.patch("sys.stdout", terminal_out),
            ):
                cli.main(["show", str(self.path), "--line", "1", "--step"])
            self.assertEqual(terminal_out.getvalue().count("turn "), shown)


class Colour(Files):
    def painted(self, **environment: str) -> bool:
        stream = io.StringIO()
        stream.isatty = lambda: True
        clean = {"TERM": "xterm", "WT_SESSION": "1", **environment}
        with (
            mock.patch("sys.stdout", stream),
            mock.patch.dict("os.environ", clean, clear=True),
        ):
            cli.main(["show", str(self.path), "--full"])
        return "\x1b[" in stream.getvalue()

    def test_only_on_a_terminal_that_wants_it(self):
        self.golden()
        self.assertTrue(self.painted())
        self.assertTrue(self.painted(NO_COLOR=""))
        self.assertFalse(self.painted(NO_COLOR="1"))
        self.assertFalse(self.painted(TERM="dumb"))
        self.assertNotIn("\x1b", command("show", self.path, "--full").out)

    def test_a_painted_text_ends_its_colour(self):
        with mock.patch.object(terminal, "has_colour", lambda: True):
            self.assertEqual(terminal.paint("x", "green"), "\x1b[32mx\x1b[0m")


if __name__ == "__main__":
    unittest.main()
