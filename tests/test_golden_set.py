"""The page of the golden set: what counts as a difference, and what makes it an error.

The frameworks are not asked here; scripts/make_golden_set.py --check asks them.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import unittest
from unittest import mock

from agentic_rl.golden import GOLDEN_NAMES, golden_set
from tests.pages import ROOT

sys.path.insert(0, str(ROOT / "checks"))
sys.path.insert(0, str(ROOT / "scripts"))

import make_golden_set
from check_bridges import Ran
from make_golden_set import NAMES, PARTS, WHY, PageError

from checks.bridges import golden
from checks.bridges.golden import Played

SAME = {"ids": 7, "trained": 5, "reward": 1.0, "advantage": 0.5, "same": 7, "ours": 7}
OTHER = {**SAME, "same": 6}


def found(rows: dict | None = None) -> dict:
    """What the four frameworks told: the differences that are explained, unless said."""
    why = {pair for pairs, *_ in WHY for pair in pairs}
    told = {}
    for framework in NAMES:
        told[framework] = {
            "rows": {
                name: OTHER if (framework, name) in why else SAME
                for name in golden_set()
            },
            "holds": {part: "field" for part in PARTS} | {"end": None, "mask": "(own)"},
        }
    for (framework, name), row in (rows or {}).items():
        told[framework]["rows"][name] = row
    return told


class Differences(unittest.TestCase):
    def of(self, theirs: Played, ours: Played) -> bool:
        row = {"ids": len(theirs.ids), **golden.differences(theirs, ours)}
        return make_golden_set.differs(row)

    def test_equal_ids_and_masks_are_the_same_record(self):
        self.assertFalse(
            self.of(Played([4, 5], [1, 0], 1.0), Played([4, 5], [1, 0], None))
        )

    def test_another_id_another_mask_or_another_length_is_another_record(self):
        ours = Played([4, 5, 6], [1, 0, 1], 1.0)
        for ids, mask in (
            ([4, 5, 7], [1, 0, 1]),
            ([4, 5, 6], [1, 1, 1]),
            ([4, 5], [1, 0]),
            ([4, 5, 6, 7], [1, 0, 1, 1]),
        ):
            self.assertTrue(self.of(Played(ids, mask, 1.0), ours), (ids, mask))

    def test_a_mask_of_another_length_than_its_ids_is_refused(self):
        with self.assertRaises(ValueError):
            self.of(Played([4, 5], [1], 1.0), Played([4, 5], [1, 0], 1.0))


class Groups(unittest.TestCase):
    def test_the_episodes_of_one_task_are_compared_and_no_others(self):
        heard = []

        def compare(rewards):
            heard.append(list(rewards))
            return [float(place) for place in range(len(rewards))]

        played = {
            name: Played([], [], float(place))
            for place, name in enumerate(golden.GOLDEN)
        }
        values = golden.compared(played, compare)
        self.assertEqual([len(rewards) for rewards in heard], [8, 4, 3])
        self.assertEqual([values[name] for name in GOLDEN_NAMES], [0.0, 1.0, 2.0, 3.0])


class Telling(unittest.TestCase):
    def tell(self, **holds: str | None) -> dict:
        told = io.StringIO()
        named = {part: None for part in golden.PARTS} | holds
        same = lambda name: Played([1], [1], 0.0)  # noqa: E731
        with contextlib.redirect_stdout(told):
            golden.tell(
                same, same, lambda rewards: [0.0] * len(rewards), named, ["ids"]
            )
        return json.loads(told.getvalue())

    def test_every_episode_has_a_row(self):
        self.assertEqual(set(self.tell(ids="ids")["rows"]), set(golden_set()))

    def test_a_field_that_is_not_in_the_record_is_refused(self):
        self.assertEqual(self.tell(ids="(ids)")["holds"]["ids"], "(ids)")
        with self.assertRaises(AssertionError):
            self.tell(ids="nowhere")

    def test_each_part_of_a_trajectory_is_spoken_of(self):
        self.assertEqual(tuple(PARTS), golden.PARTS)
        with self.assertRaises(AssertionError):
            self.tell(another="ids")


class ThePage(unittest.TestCase):
    def test_a_difference_that_nobody_explains_is_an_error(self):
        make_golden_set.page(found(), "en")
        with self.assertRaisesRegex(PageError, r"verl.*guess.*nobody says why"):
            make_golden_set.page(found({("verl", "guess"): OTHER}), "en")

    def test_so_is_an_explanation_without_a_difference(self):
        with self.assertRaisesRegex(PageError, r"trl.*unknown tool.*no such"):
            make_golden_set.page(found({("trl", "unknown tool"): SAME}), "en")

    def test_a_star_stands_at_a_record_that_is_not_ours(self):
        lines = make_golden_set.records(found()).splitlines()
        (broken,) = (line for line in lines if line.startswith("broken JSON"))
        self.assertEqual(broken.split()[2:], ["5/7*", "5/7*", "5/7", "5/7"])

    def test_what_is_dropped_is_a_dash_and_what_is_ours_in_brackets(self):
        rows = make_golden_set.holds(found(), "en")
        self.assertIn("| end | - | - | - | - |", rows)
        self.assertIn("| mask | (`own`) |", rows)

    def test_the_committed_pages_have_every_episode_and_every_framework(self):
        for page in make_golden_set.PAGES.values():
            text = page.read_text(encoding="utf-8")
            for name in (*golden_set(), *NAMES.values()):
                self.assertIn(name, text)


class Asking(unittest.TestCase):
    def told(self, ran: Ran, alone=("true",), watched=False) -> dict:
        with (
            mock.patch.object(make_golden_set, "run", return_value=ran),
            mock.patch.object(make_golden_set, "alone", return_value=alone),
            mock.patch.object(make_golden_set, "python", return_value=sys.executable),
        ):
            return make_golden_set.told(watched)

    def test_the_last_line_is_what_a_framework_told(self):
        told = self.told(Ran(0, 'a warning\n{"rows": {}}\n', 0.1, 1.0, 1.0, ""))
        self.assertEqual(told, {name: {"rows": {}} for name in NAMES})

    def test_a_run_with_a_problem_is_an_error(self):
        good = '{"rows": {}}'
        for ran in (
            Ran(1, good, 0.1, 1.0, 1.0, ""),
            Ran(0, good, 0.1, 1.0, 1.0, "socket.connect 192.0.2.1"),
            Ran(0, "no JSON", 0.1, 1.0, 1.0, ""),
            Ran(0, "", 0.1, 1.0, 1.0, ""),
        ):
            with self.assertRaisesRegex(PageError, "^trl: "):
                self.told(ran)

    def test_without_a_network_of_its_own_it_is_one_too_unless_that_is_asked_for(self):
        good = Ran(0, '{"rows": {}}', 0.1, 1.0, 1.0, "")
        with self.assertRaisesRegex(PageError, "--watched"):
            self.told(good, alone=())
        self.assertEqual(set(self.told(good, alone=(), watched=True)), set(NAMES))

    def test_a_stale_page_fails_the_check(self):
        for words, status in (["--check"], 1), (["--odd"], 2):
            with (
                mock.patch.object(sys, "argv", ["make_golden_set.py", *words]),
                mock.patch.object(make_golden_set, "told", return_value=found()),
                contextlib.redirect_stdout(io.StringIO()),
                contextlib.redirect_stderr(io.StringIO()),
            ):
                self.assertEqual(make_golden_set.main(), status, words)


if __name__ == "__main__":
    unittest.main()
