"""Files: read line by line whatever their size, and written whole or not at all."""

from __future__ import annotations

import io
import json
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from agentic_rl.cli import storage
from agentic_rl.cli.storage import (
    HELD_OUT,
    TRAINING,
    BadLines,
    FileError,
    dump,
    load_tasks,
    read_json,
    read_text,
    stream,
    write,
)
from agentic_rl.tasks import KINDS, kind_of
from tests.support import InFolder


class Folder(InFolder):
    def file(self, content: bytes) -> Path:
        path = self.folder / "file.jsonl"
        path.write_bytes(content)
        return path

    def read(self, content: bytes, read=lambda value: value, first: int = 1):
        """(the lines' values, the bad lines) of a file with this content."""
        path = self.file(content)
        bad = BadLines(path)
        return list(stream(path, read, bad, first)), bad


class Streaming(Folder):
    def test_lines_are_counted_from_one_and_blank_ones_passed_over(self):
        found, bad = self.read(b'1\n\n"a"\r\n  \n[2]')
        self.assertEqual(found, [(1, 1), (3, "a"), (5, [2])])
        self.assertEqual(bad.count, 0)

    def test_a_bad_line_is_noted_and_the_rest_goes_on(self):
        def positive(value):
            if value < 0:
                raise ValueError("expected at least 0")
            return value

        found, bad = self.read(b"1\n-2\n{\n\xff\nNaN\n3\n", positive)
        self.assertEqual(found[0], (1, 1))
        self.assertEqual(found[1:5], [(2, None), (3, None), (4, None), (5, None)])
        self.assertEqual(found[5], (6, 3))
        self.assertEqual(
            bad.summary().replace(str(bad.path), "F"),
            "F:2: expected at least 0\nF:3: not valid JSON\nF:4: not UTF-8 text\n"
            "F:5: NaN is not a JSON number\nF: 4 of 6 lines bad: 2-5",
        )

    def test_a_byte_order_mark_is_no_part_of_the_text(self):
        found, bad = self.read(b"\xef\xbb\xbf1\n")
        self.assertEqual((found, bad.count), ([(1, 1)], 0))
        self.assertEqual(read_text(self.file(b"\xef\xbb\xbfa")), "a")

    def test_a_line_too_long_is_bad_is_never_held_and_hides_no_other(self):
        with mock.patch.object(storage, "MAX_LINE", 8):
            for last in (b"", b"\n", b"\n7", b"\n7\n"):
                found, bad = self.read(b"1\n" + b"2" * 30 + last)
                self.assertEqual(found[:2], [(1, 1), (2, None)])
                self.assertEqual(found[2:], [(3, 7)] if b"7" in last else [])
                self.assertIn(":2: longer than 8 bytes", bad.summary())

    def test_a_line_of_just_the_length_is_read(self):
        with mock.patch.object(storage, "MAX_LINE", 8):
            self.assertEqual(self.read(b"1234567\n2")[0], [(1, 1234567), (2, 2)])

    def test_lines_before_the_first_are_not_even_read(self):
        found, bad = self.read(b"{\n2\n", first=2)
        self.assertEqual((found, bad.count), ([(2, 2)], 0))

    def test_lines_after_the_last_are_not_looked_at(self):
        path = self.file(b"1\n2\n{\n")
        bad = BadLines(path)
        found = list(stream(path, lambda value: value, bad, 2, 2))
        self.assertEqual((found, bad.count), ([(2, 2)], 0))

    def test_a_dash_is_standard_input(self):
        bad = BadLines(Path("-"))
        with mock.patch("sys.stdin", mock.Mock(buffer=io.BytesIO(b"1\n[2]\n"))):
            found = list(stream(Path("-"), lambda value: value, bad))
        self.assertEqual(found, [(1, 1), (2, [2])])

    def test_what_can_not_be_opened_is_named(self):
        for path in (self.folder / "none", self.folder):
            with self.assertRaisesRegex(FileError, path.name):
                list(stream(path, print, BadLines(path)))


class Bad(unittest.TestCase):
    def test_memory_is_bounded_and_what_is_left_out_is_counted(self):
        bad = BadLines(Path("f"))
        for line in range(1, 5001, 2):
            bad.add(line, f"no {line}")
        self.assertEqual((bad.count, len(bad.reasons)), (2500, storage.MAX_REASONS))
        self.assertEqual(len(bad.ranges), storage.MAX_RANGES)
        bad.lines = 5000
        last = " ".join(bad.summary().splitlines()[storage.MAX_REASONS :])
        self.assertTrue(last.startswith("f: 2500 of 5000 lines bad: 1, 3, 5, 7,"))
        self.assertTrue(last.endswith(", 199 and 2400 later ones"))

    def test_a_reason_that_repeats_itself_is_told_once(self):
        bad = BadLines(Path("f"))
        for line, reason in enumerate(["a", "a", "b", "b", "a"], 1):
            bad.add(line, reason)
        self.assertEqual(bad.reasons, ["f:1: a", "f:3: b", "f:5: a"])
        self.assertEqual(bad.ranges, [[1, 5]])


class Whole(Folder):
    def test_what_is_written_is_there_and_nothing_beside_it(self):
        path = self.folder / "a.json"
        for text in ("one\n", "\u4e24\n"):
            write(path, text)
            self.assertEqual(path.read_bytes(), text.encode())
        self.assertEqual([p.name for p in self.folder.iterdir()], ["a.json"])

    def test_a_write_that_fails_leaves_the_old_contents(self):
        path = self.folder / "a.json"
        write(path, "old")
        failing = mock.patch("os.replace", side_effect=OSError(28, "disk full"))
        with failing, self.assertRaisesRegex(FileError, r"a\.json: disk full"):
            write(path, "new")
        self.assertEqual(path.read_text(), "old")

    def test_text_stays_readable_and_any_text_survives(self):
        for value in ("\u7b54\u6848", "\ud800", "a\n\u2028", {"\udfff": [1.5, None]}):
            text = dump(value)
            self.assertNotIn("\n", text)
            self.assertEqual(json.loads(text.encode()), value)
        self.assertIn("\u7b54", dump("\u7b54\u6848"))

    def test_what_is_no_json_or_no_text_is_named(self):
        for content, said in ((b"\xff", "UTF-8"), (b"{", "not valid JSON")):
            with self.assertRaisesRegex(FileError, f"file.jsonl: .*{said}"):
                read_json(self.file(content))
        with self.assertRaisesRegex(FileError, "none: "):
            read_text(self.folder / "none")


class ShippedTasks(unittest.TestCase):
    def test_a_few_hundred_of_each_kind_and_no_question_in_both(self):
        training, held_out = load_tasks(TRAINING), load_tasks(HELD_OUT)
        self.assertGreaterEqual(len(training) + len(held_out), 200)
        for tasks in (training, held_out):
            kinds = [kind_of(task.question) for task in tasks]
            self.assertEqual({kinds.count(kind) for kind in KINDS}, {len(tasks) // 3})
        for field in ("question", "id"):
            seen = [getattr(task, field) for task in training + held_out]
            self.assertEqual(len(set(seen)), len(seen))

    def test_a_task_that_an_error_gives_away_is_refused(self):
        # calculator("2 + price") fails "at position 5", and 5 would be right
        task = {
            "id": "t",
            "question": "How much are a cup for 3 and a bag for 2?",
            "expression": "2 + price",
            "answer": "5",
            "item": "cups",
            "prices": {"cups": "3"},
        }
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch, "tasks.jsonl")
            path.write_text(json.dumps(task))
            with self.assertRaisesRegex(FileError, "'t'.*'answer'.*read off a failed"):
                load_tasks(path)
            path.write_text(json.dumps({**task, "answer": "6"}) + "\n")
            with self.assertRaisesRegex(FileError, r"tasks\.jsonl:1: field 'answer'"):
                load_tasks(path)


if __name__ == "__main__":
    unittest.main()
