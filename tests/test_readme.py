"""The pages say what the programs print, and both languages say the same."""

from __future__ import annotations

import json
import re
import runpy
import statistics
import unittest
from pathlib import Path

from agentic_rl.cli import COMMANDS as OURS
from agentic_rl.cli import render, tour
from agentic_rl.cli.arguments import read_arguments
from agentic_rl.cli.storage import load
from agentic_rl.evaluation import ByKind, as_reports, mean_report
from agentic_rl.golden import GOLDEN_NAMES, golden_group
from agentic_rl.tasks import KINDS
from agentic_rl.variants import EXPERIMENTS
from tests.pages import (
    FULL_WIDTH,
    HAN,
    MACHINE,
    NAMES,
    ROOT,
    SECTION,
    code_blocks,
    headings,
    links,
    printed,
    prose,
    read,
    shapes,
    tables,
    title,
    values,
)

SCRIPTS = {
    "00_toy_mdp": "toy_policy_update.py",
    "01_tool_math_agent": "tool_math_agent.py",
    "02_grpo_tool_agent": "grpo_tool_agent.py",
}
ELECTIVES = {  # need more than the standard library to do what they are for
    "03_grpo_single_turn": "train_grpo_single_turn.py",
    "04_verl_minimal": "rollout.py",
    "05_openrlhf_agent": "rollout.py",
    "06_agent_lightning": "one_group.py",
}
FOLDERS = (ROOT, *(ROOT / "examples" / name for name in SCRIPTS))
PAGES = [
    *(tuple(folder / name for name in NAMES) for folder in FOLDERS),
    *(
        (ROOT / f"{page}.md", ROOT / f"{page}.en.md")
        for page in ("CONTRIBUTING", "CHANGELOG")
    ),
]
COMMANDS = "python3 -m agentic_rl\npython3 -m unittest discover -s tests\n"


def pages() -> list[tuple[Path, str]]:
    """(path, text) of all of them, in both languages."""
    return [(path, read(path)) for pair in PAGES for path in pair]


def pairs() -> list[tuple[str, str]]:
    """(Chinese, English) of each page."""
    return [(read(chinese), read(english)) for chinese, english in PAGES]


def chapter(name: str) -> str:
    """What a chapter's script prints.

    The experiments of chapter 02 are not run again: their stored rows are taken for
    theirs, which scripts/make_results.py --check holds to be the same.
    """
    module = runpy.run_path(str(ROOT / "examples" / name / SCRIPTS[name]))
    if "DONE" in module:
        stored = load("variants.json")
        for experiment, variants in EXPERIMENTS.items():
            for variant in variants:
                rows = stored[experiment][variant.name]
                module["DONE"][variant.reward, variant.config(0)] = as_reports(rows[0])
    return printed(module["main"])


class BothLanguages(unittest.TestCase):
    def test_the_same_headings(self):
        for chinese, english in pairs():
            self.assertEqual(headings(chinese), headings(english), title(english))

    def test_the_same_code(self):
        for chinese, english in pairs():
            self.assertEqual(code_blocks(chinese), code_blocks(english), title(english))

    def test_tables_of_the_same_shape(self):
        for chinese, english in pairs():
            self.assertEqual(shapes(chinese), shapes(english), title(english))

    def test_the_same_lists_and_questions(self):
        for chinese, english in pairs():
            for mark in ("\n- ", "<details>", "</details>", "<summary>"):
                self.assertEqual(
                    chinese.count(mark), english.count(mark), (mark, title(english))
                )

    def test_the_same_numbers_links_and_names_in_code(self):
        for chinese, english in pairs():
            self.assertEqual(values(chinese), values(english), title(english))
            names = [
                re.sub(r"\.en\.(md|ipynb)$", r".\1", link).replace("docs/en/", "docs/")
                for link in links(english)
            ]
            self.assertEqual(links(chinese)[1:], names[1:], title(english))
            found = [
                re.findall(r"`([^`\n]+)`", prose(text)) for text in (chinese, english)
            ]
            self.assertEqual(*map(set, found), title(english))

    def test_each_links_to_the_other_near_the_top(self):
        for pair in PAGES:
            for page, other in (pair, pair[::-1]):
                top = "".join(read(page).splitlines()[:6])
                self.assertIn(f"]({other.name})", top, page)

    def test_a_line_of_chinese_prose_uses_its_own_punctuation(self):
        for chinese, english in PAGES:
            for line in prose(read(chinese)).splitlines():
                self.assertNotRegex(line, rf"{HAN.pattern}[,;:?!()]", line)
                glued = rf"{HAN.pattern}[A-Za-z0-9`]|[A-Za-z0-9`]{HAN.pattern}"
                self.assertNotRegex(line, glued, line)
            lines = read(english).splitlines()
            for line in lines[:2] + lines[3:]:
                if f"({chinese.name})" not in line:
                    self.assertNotRegex(line, FULL_WIDTH)
                    self.assertNotRegex(line, HAN)


class Promises(unittest.TestCase):
    """What a README names is there."""

    def test_every_link_leads_to_something(self):
        for path, text in pages():
            for link in links(text):
                self.assertNotRegex(link, r"^[a-z]+:", "expected a relative link")
                self.assertTrue(
                    (path.parent / link.split("#")[0]).exists(), (path, link)
                )

    def test_every_command_runs_something_that_is_there(self):
        for path, text in pages():
            for command in re.findall(r"\b(?:python3|bash) [^`|\n]+", text):
                arguments = command.split()[1:]
                if arguments[0] == "-m":
                    self.assertIn(
                        arguments[1],
                        ("agentic_rl", "unittest", "venv"),
                        (path, command),
                    )
                elif arguments[0] != "--version":
                    self.assertTrue((ROOT / arguments[0]).is_file(), (path, command))
                if arguments[:2] == ["-m", "unittest"]:
                    self.assertTrue((ROOT / arguments[-1]).is_dir(), (path, command))

    def test_every_command_of_ours_takes_its_arguments(self):
        for _, text in pages():
            for line in re.findall(r"python3 -m agentic_rl (\w[^`|\n]*)", text):
                name, *arguments = line.split()
                if arguments != ["--help"]:
                    read_arguments(OURS[name], arguments)

    def test_every_file_named_in_code_is_there(self):
        for path, text in pages():
            for name in re.findall(r"`([\w./]+/[\w.]+)`", text):
                self.assertTrue((ROOT / name).exists(), (path, name))

    def test_no_path_of_a_machine_and_no_address(self):
        for path, text in pages():
            for line in text.splitlines():
                self.assertNotRegex(line, MACHINE, path)
                self.assertNotRegex(line, r"https?://|\b[\w.]+@[\w.]+\b", path)

    def test_no_shouting(self):
        for path, text in pages():
            self.assertNotRegex(text.replace("!=", ""), "[!\uff01]", path)

    def test_they_stay_short(self):
        for path, text in pages():
            most = 210 if path.parent == ROOT else 65
            self.assertLessEqual(len(text.splitlines()), most, path)


class TopOfThePage(unittest.TestCase):
    def test_the_two_commands_come_first(self):
        for name in NAMES:
            text = read(ROOT / name)
            self.assertEqual(code_blocks(text)[0], COMMANDS)
            above = text[: text.index("```")]
            self.assertEqual(headings(above), ["#"])
            self.assertLessEqual(len(above.split("\n\n")), 5)
            self.assertIn("`git clone <this repository>`", above)


class Golden(unittest.TestCase):
    """Computed here once more, without the package's advantage."""

    @classmethod
    def setUpClass(cls):
        cls.rewards = [episode.reward for episode in golden_group()]
        cls.mean = statistics.fmean(cls.rewards)
        cls.std = statistics.stdev(cls.rewards)

    def test_the_table(self):
        for name in NAMES:
            rows = tables(read(ROOT / name))[0][1:]
            self.assertEqual([row[0] for row in rows], list(GOLDEN_NAMES))
            for row, reward in zip(rows, self.rewards):
                gap = reward - self.mean
                self.assertEqual(row[2:4], [f"{reward:g}", f"{gap:.4g}"])
                self.assertEqual(row[4], f"{gap / self.std:.4f}")

    def test_the_sums_in_the_text(self):
        mean = f"({' + '.join(f'{r:g}' for r in self.rewards)}) / 4 = {self.mean:.4g}"
        first = self.rewards[0] - self.mean
        sums = mean, f"{first:.4g} / {self.std:.4f} = {first / self.std:.4f}"
        for name in NAMES:
            for line in sums:
                self.assertIn(line, read(ROOT / name))
        self.assertRegex(
            read(ROOT / NAMES[0]), rf"\uff08std\uff09\s*\S+ {self.std:.4f}"
        )
        self.assertRegex(
            read(ROOT / NAMES[1]), rf"standard deviation is {self.std:.4f}"
        )


class HonestTable(unittest.TestCase):
    """data/results.json, written as the README's table writes it."""

    def row(self, exact: ByKind, sampled: ByKind | None = None) -> list[str]:
        cells = []
        for kind in KINDS:
            drawn = f" ({sampled[kind].success:.3f})" if sampled else ""
            cells.append(f"{exact[kind].success:.3f}{drawn}")
        everywhere = mean_report(exact.values())
        cells.append(", ".join(render.number(exact[kind].calls, 2) for kind in KINDS))
        return [*cells, f"{100 * everywhere.invalid:.2f}", f"{everywhere.reward:.3f}"]

    def rows(self) -> list[list[str]]:
        stored = load("results.json")
        plain = [
            self.row(
                as_reports(stored[name]["exact"]), as_reports(stored[name]["sampled"])
            )
            for name in ("untrained", "scripted")
        ]
        seeds = [as_reports(row["exact"]) for row in stored["trained"]]
        drawn = [as_reports(row["sampled"]) for row in stored["trained"]]
        seeds.sort(key=lambda seed: mean_report(seed.values()).reward)
        exact = {kind: mean_report(seed[kind] for seed in seeds) for kind in KINDS}
        sampled = {kind: mean_report(seed[kind] for seed in drawn) for kind in KINDS}
        best = self.row(as_reports(stored["optimum"]["exact"]))
        return [
            *plain,
            self.row(exact, sampled),
            self.row(seeds[0]),
            self.row(seeds[-1]),
            best,
        ]

    def test_every_cell(self):
        for name in NAMES:
            table = tables(read(ROOT / name))[3]
            self.assertEqual([row[1:] for row in table[1:]], self.rows())

    def test_the_number_of_seeds(self):
        self.assertEqual(len(load("results.json")["trained"]), 5)


class Peers(unittest.TestCase):
    """benchmarks/peers.json, written as the README's table writes it."""

    NAMES = (
        "NumPy naive",
        "PyTorch naive",
        "NumPy vectorised",
        "PyTorch vectorised",
    )

    @classmethod
    def setUpClass(cls):
        cls.sizes = json.loads(read(ROOT / "benchmarks" / "peers.json"))["sizes"]

    def test_every_ratio(self):
        medians = [
            [f"{size['times_ours'][name]['median']:g}" for size in self.sizes.values()]
            for name in self.NAMES
        ]
        for name in NAMES:
            table = next(
                table
                for table in tables(read(ROOT / name))
                if table[1][0].startswith("NumPy")
            )
            self.assertEqual([row[1:] for row in table[1:]], medians)
            shapes = [re.findall(r"\d+", cell) for cell in table[0][1:]]
            self.assertEqual(
                shapes,
                [
                    [str(size["tasks_per_update"]), str(size["group_size"])]
                    for size in self.sizes.values()
                ],
            )

    def test_who_wins_and_who_loses_is_beyond_the_spread_of_the_rounds(self):
        for size in self.sizes.values():
            for name, ratio in size["times_ours"].items():
                if "naive" in name:
                    self.assertGreater(ratio["lowest"], 1)
                if "vectorised" in name:
                    self.assertLess(ratio["highest"], 1)


class Package(unittest.TestCase):
    def files(self, name: str) -> list[str]:
        """The files of the README's map of the package, in its order."""
        return [
            re.findall(r"\[(\w+)\.py\]", row[0])[0]
            for row in tables(read(ROOT / name))[2][1:]
        ]

    def test_every_file_is_on_the_map(self):
        there = {path.stem for path in (ROOT / "agentic_rl").glob("[a-z]*.py")}
        for name in NAMES:
            self.assertEqual(sorted(self.files(name)), sorted(there))

    def test_imports_only_go_up(self):
        for name in NAMES:
            above: set[str] = set()
            for file in self.files(name):
                source = read(ROOT / "agentic_rl" / f"{file}.py")
                imported = re.findall(
                    r"^from agentic_rl\.(\w+) import", source, re.MULTILINE
                )
                self.assertLessEqual(set(imported), above, file)
                above.add(file)

    def test_every_chapter_is_on_the_map(self):
        for name in NAMES:
            rows = tables(read(ROOT / name))[1][2:]
            chapters = (SCRIPTS | ELECTIVES).items()
            for row, (folder, script) in zip(rows, chapters, strict=True):
                self.assertEqual(row[0], folder[:2])
                self.assertIn(f"[{folder}](examples/{folder}/{name})", row[1])
                self.assertEqual(row[3], f"`python3 examples/{folder}/{script}`")


class Figures(unittest.TestCase):
    """A number with a decimal point is one that the page's own command prints."""

    @classmethod
    def setUpClass(cls):
        cls.tour = printed(tour.main)
        cls.pages = {folder: chapter(folder) for folder in SCRIPTS}

    def test_the_tour_prints_the_numbers_of_the_front_page(self):
        for name in NAMES:
            text = prose(read(ROOT / name))
            without_ratios = re.sub(r"(?m)^\| (?:NumPy|PyTorch).*$", "", text)
            self.assertLessEqual(values(without_ratios), values(self.tour))

    def test_a_chapter_prints_the_numbers_of_its_page(self):
        for folder, page in self.pages.items():
            for name in NAMES:
                with self.subTest(f"{folder}/{name}"):
                    text = prose(read(ROOT / "examples" / folder / name))
                    self.assertEqual(
                        values(text) - values(page) - values(self.tour), set()
                    )

    def test_a_chapters_page_lists_its_sections_in_order(self):
        for folder, page in self.pages.items():
            printed_ones = re.findall(r" (0\d\.\d+)$", page, re.MULTILINE)
            self.assertGreater(len(printed_ones), 7)
            for name in NAMES:
                text = read(ROOT / "examples" / folder / name)
                listed = re.findall(r"^- (0\d\.\d+)[:\uff1a]", text, re.MULTILINE)
                self.assertEqual(listed, printed_ones)
                self.assertLessEqual(set(SECTION.findall(text)), set(printed_ones))

    def test_a_chapters_page_names_its_command_first(self):
        for folder, script in SCRIPTS.items():
            for name in NAMES:
                blocks = code_blocks(read(ROOT / "examples" / folder / name))
                self.assertEqual(blocks, [f"python3 examples/{folder}/{script}\n"])


if __name__ == "__main__":
    unittest.main()
