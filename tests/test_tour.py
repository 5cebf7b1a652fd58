"""The tour and the command line, as a person at a terminal meets them."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path
from unittest import mock

from agentic_rl import cli
from agentic_rl.cli import render, terminal, tour
from agentic_rl.cli.storage import load
from agentic_rl.evaluation import as_reports
from agentic_rl.golden import golden_group

ROOT = Path(__file__).resolve().parents[1]


def run(*arguments: str, **options) -> subprocess.CompletedProcess:
    """``python -m agentic_rl`` in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "agentic_rl", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        **options,
    )


class Tour(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        done = run()
        cls.text, cls.errors, cls.status = done.stdout, done.stderr, done.returncode
        cls.screens = re.split(r"\n\n(?=.*step \d of \d\n)", cls.text)[1:]

    def test_it_ends_well_and_says_nothing_on_standard_error(self):
        self.assertEqual((self.status, self.errors), (0, ""))

    def test_each_step_is_one_screen(self):
        self.assertEqual(len(self.screens), tour.STEPS)
        for number, screen in enumerate(self.screens, 1):
            lines = screen.rstrip("\n").split("\n")
            self.assertIn(f"step {number} of {tour.STEPS}", lines[0])
            self.assertLessEqual(len(lines), 24, lines[0])

    def test_it_fits_eighty_columns_of_ascii(self):
        self.assertTrue(self.text.isascii())
        self.assertLessEqual(max(map(len, self.text.splitlines())), 80)

    def test_no_number_is_a_negative_zero(self):
        self.assertIsNone(re.search(r"-0\.0+(?!\d)", self.text))

    def test_the_golden_numbers_are_there(self):
        for number in ("-1.7918", "0.4690", "1.0660", "-0.8528", "0.6396", "-0.5330"):
            self.assertIn(number, self.text)

    def test_the_live_seed_equals_its_stored_row(self):
        stored = load("results.json")["trained"][0]
        self.assertEqual(stored["seed"], 0)
        reports = as_reports(stored["exact"]), as_reports(stored["sampled"])
        row = render.honest_row("seed 0, live", *reports)
        self.assertIn(
            " ".join(row).split(), [x.split() for x in self.text.splitlines()]
        )
        self.assertIn("optimum       1.000 1.000 1.000", self.text)

    def test_it_ends_by_naming_something_that_exists(self):
        last = self.text.rstrip().splitlines()[-3:]
        named = re.findall(r"[\w./]+\.(?:py|md)\b", " ".join(last))
        self.assertGreaterEqual(len(named), 2)
        for path in named:
            self.assertTrue((ROOT / path).exists(), path)


class CommandLine(unittest.TestCase):
    def test_help_and_version(self):
        self.assertIn("usage: python3 -m agentic_rl", run("--help").stdout)
        self.assertRegex(run("--version").stdout, r"^agentic_rl \d+\.\d+\.\d+\n$")

    def test_an_unknown_argument_is_named_and_the_status_is_two(self):
        for arguments, named in ((["fly"], "'fly'"), (["tour", "x"], "'x'")):
            done = run(*arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(f"unknown argument {named}", done.stderr)

    def test_without_a_command_and_by_name_it_is_the_tour(self):
        with mock.patch.object(tour, "main", lambda: 7):
            for arguments in ([], ["tour"]):
                self.assertEqual(cli.main(arguments), 7)

    @unittest.skipIf(os.name == "nt", "pipes close differently there")
    def test_a_reader_that_stops_reading_gets_no_traceback(self):
        tour_process = subprocess.Popen(
            [sys.executable, "-m", "agentic_rl"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        tour_process.stdout.readline()
        tour_process.stdout.close()
        errors = tour_process.stderr.read()
        tour_process.stderr.close()
        tour_process.wait()
        self.assertEqual(errors, b"")


class Terminal(unittest.TestCase):
    def test_progress_is_shown_on_a_terminal_only(self):
        for is_terminal in (True, False):
            stream = io.StringIO()
            stream.isatty = lambda answer=is_terminal: answer
            with contextlib.redirect_stderr(stream):
                progress = terminal.Progress()
                progress.show("half")
                progress.clear()
            self.assertEqual("half" in stream.getvalue(), is_terminal)

    def test_control_c_ends_with_130_and_without_a_traceback(self):
        def interrupted():
            raise KeyboardInterrupt

        with self.assertRaises(SystemExit) as ended:
            terminal.run(interrupted)
        self.assertEqual(ended.exception.code, 130)

    def test_a_program_without_arguments_takes_none(self):
        """It would run, for minutes maybe, as if nothing had been asked."""
        calls = []
        for words, status, out, err in (
            ([], 0, "", ""),
            (["--help"], 0, "What it does.\n", ""),
            (["--steps", "3"], 2, "", "'--steps': this program takes no arguments\n"),
        ):
            with (
                mock.patch.object(sys, "argv", ["program", *words]),
                contextlib.redirect_stdout(io.StringIO()) as told,
                contextlib.redirect_stderr(io.StringIO()) as complaint,
                self.assertRaises(SystemExit) as ended,
            ):
                terminal.run(lambda: calls.append(1), "What it does.\n")
            found = (ended.exception.code, told.getvalue(), complaint.getvalue())
            self.assertEqual(found, (status, out, err))
        self.assertEqual(calls, [1])

    def test_a_bar_is_as_wide_at_both_ends(self):
        self.assertEqual(terminal.bar(0, 60, 4), "....")
        self.assertEqual(terminal.bar(30, 60, 4), "##..")
        self.assertEqual(terminal.bar(60, 60, 4), "####")


class Rendering(unittest.TestCase):
    def test_numbers(self):
        self.assertEqual(render.number(-1e-9), "0.0000")
        self.assertEqual(render.number(-0.00006), "-0.0001")
        self.assertEqual(render.number(None), "null")
        self.assertEqual(render.number(2, 1), "2.0")

    def test_a_table_puts_numbers_to_the_right(self):
        text = render.table(["name", "n"], [("a", 1.5), ("long", 10.25)])
        self.assertEqual(text, "name        n\na      1.5000\nlong  10.2500")

    def test_a_table_without_rows_is_its_head(self):
        self.assertEqual(render.table(["name", "n"], []), "name  n")

    def test_what_is_not_ascii_is_escaped_and_never_dropped(self):
        shown = render.messages([{"role": "user", "content": "3 \u00d7 4\u0000"}])
        self.assertEqual(shown.split(), ["user", "3", "\\xd7", "4\\x00"])

    def test_the_token_lines_cover_every_token_once(self):
        for episode in golden_group():
            lines = render.tokens(episode).splitlines()[1:]
            spans = [re.match(r" *(\d+) - (\d+)", line) for line in lines]
            ends = [(int(span[1]), int(span[2])) for span in spans if span]
            self.assertEqual(ends[0][0], 0)
            self.assertEqual(ends[-1][1], len(episode.tokens) - 1)
            for (_, last), (first, _) in itertools.pairwise(ends):
                self.assertEqual(first, last + 1)


if __name__ == "__main__":
    unittest.main()
