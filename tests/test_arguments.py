"""Arguments: what can be given, and what is said of what can't."""

from __future__ import annotations

import re
import shlex
import unittest

from agentic_rl.cli import COMMANDS
from agentic_rl.cli.arguments import (
    Command,
    Operand,
    Option,
    UsageError,
    help_text,
    number,
    one_of,
    positive,
    read_arguments,
    whole,
)
from tests.support import command

COPY = Command(
    "copy",
    "copies",
    "Copies a file.",
    lambda values: 0,
    Operand("FILE", "what to copy", 1, 2),
    (
        Option("--times", "how often", whole(1), "N", 1),
        Option("--scale-by", "by how much", number, "X"),
        Option("--tag", "a word", one_of("a", "b"), "NAME", repeated=True),
        Option("--loud", "say so"),
    ),
)


def read(text: str) -> dict[str, object]:
    return read_arguments(COPY, shlex.split(text))


class Reading(unittest.TestCase):
    def test_defaults(self):
        expected = {"times": 1, "scale_by": None, "tag": [], "loud": False}
        self.assertEqual(read("f"), {**expected, "operands": ["f"], "given": set()})

    def test_a_value_may_follow_or_stand_behind_an_equals_sign(self):
        for text in ("f --times 3", "--times=3 f", "--times 3 -- f"):
            self.assertEqual((read(text)["times"], read(text)["operands"]), (3, ["f"]))

    def test_values_and_operands_may_be_negative_numbers(self):
        values = read("-1 -.5 --scale-by -2.5")
        self.assertEqual(
            (values["scale_by"], values["operands"]), (-2.5, ["-1", "-.5"])
        )

    def test_after_two_dashes_everything_is_an_operand(self):
        self.assertEqual(read("-- --loud -x")["operands"], ["--loud", "-x"])

    def test_what_may_be_repeated_is_a_list_in_order(self):
        self.assertEqual(read("f --tag b --tag a --tag b")["tag"], ["b", "a", "b"])

    def test_each_problem_has_its_own_words(self):
        for text, said in (
            ("", "expected FILE: what to copy"),
            ("a b c", "unknown argument 'c'"),
            ("f --tims 3", "unknown option '--tims'; did you mean '--times'?"),
            ("f -q", "unknown option '-q'; see copy --help"),
            ("f --times", "--times: expected N after it"),
            ("f --times 1 --times 1", "--times: given twice"),
            ("f --loud=yes", "--loud: takes no value, got 'yes'"),
            ("f --tag c", "--tag: expected one of a, b, got 'c'"),
        ):
            with self.assertRaises(UsageError) as raised:
                read(text)
            self.assertEqual(str(raised.exception), said)


class Values(unittest.TestCase):
    def refused(self, reader, *texts: str) -> None:
        for text in texts:
            with self.assertRaisesRegex(ValueError, "expected", msg=text):
                reader(text)

    def test_whole_numbers(self):
        self.assertEqual(whole(0)("007"), 7)
        self.refused(
            whole(1), "0", "-1", "1.0", "1e3", "", " 1", "\u0661", "1_000", "9" * 30
        )

    def test_numbers(self):
        self.assertEqual((number("-1e3"), number("2")), (-1000.0, 2.0))
        self.refused(number, "", "x", "nan", "inf", "1e999", "1,5", "1_0", "\uff11")
        self.refused(positive, "0", "-1")


class Help(unittest.TestCase):
    def test_each_command_explains_every_option_in_eighty_columns(self):
        for name, known in COMMANDS.items():
            for flag in ("--help", "-h"):
                done = command(name, flag)
                self.assertEqual((done.status, done.err), (0, ""))
            for option in known.options:
                self.assertRegex(done.out, rf"(?m)^  {re.escape(option.name)}\b")
            self.assertLessEqual(max(map(len, done.out.splitlines())), 80, name)
            self.assertTrue(done.out.isascii())
            self.assertIn("\nexamples\n", done.out)

    def test_a_folded_example_is_one_a_shell_would_take(self):
        example = "copy f --scale-by 3 " + "--tag a " * 12
        long = Command("copy", "", "", COPY.run, None, (), ((example, ""),))
        text = help_text("program", long).partition("examples\n")[2]
        self.assertGreater(text.count("\\\n"), 0)
        self.assertEqual(
            shlex.split(text.replace("\\\n", "")), ["program", *shlex.split(example)]
        )

    def test_every_example_reads(self):
        for name, known in COMMANDS.items():
            self.assertTrue(known.examples, name)
            for example, _ in known.examples:
                first, *arguments = shlex.split(example.partition("|")[0])
                self.assertEqual(first, name)
                read_arguments(known, arguments)

    def test_usage_names_every_command(self):
        for arguments in (["--help"], ["-h"], ["help"]):
            done = command(*arguments)
            self.assertEqual(done.status, 0)
            for name in COMMANDS:
                self.assertRegex(done.out, rf"(?m)^  {name}\b")

    def test_an_unknown_command_gets_the_nearest_one(self):
        done = command("trian")
        self.assertEqual((done.status, done.out), (2, ""))
        self.assertEqual(
            done.err, "error: unknown argument 'trian'; did you mean 'train'?\n"
        )


if __name__ == "__main__":
    unittest.main()
