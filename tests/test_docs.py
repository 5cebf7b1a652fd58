"""The docs: both languages say the same, every number is computed, every link leads on."""

from __future__ import annotations

import doctest
import re
import unittest
from pathlib import Path

from tests.pages import (
    DISPLAYED,
    FULL_WIDTH,
    HAN,
    INLINE,
    MACHINE,
    NO_BACKTICKS,
    ROOT,
    code_blocks,
    headings,
    links,
    maths,
    prose,
    read,
    shapes,
    values,
)

DOCS = ROOT / "docs"
NAMES = sorted(path.name for path in DOCS.glob("*.md"))
PAIRS = {name: (DOCS / name, DOCS / "en" / name) for name in NAMES}
PAGES = [path for pair in PAIRS.values() for path in pair]

ANCHOR = re.compile(r'<a id="([\w-]+)"></a>')
EQUATION = re.compile(r"\(eq\. ([\w-]+)\)")


def words(text: str) -> str:
    """The prose without maths and without what stands in backticks."""
    return NO_BACKTICKS.sub("", INLINE.sub("", DISPLAYED.sub("", prose(text))))


def _file(page: Path, link: str) -> Path:
    """The file that a link of a page leads to; the page itself for an anchor alone."""
    file = link.partition("#")[0]
    return (page.parent / file).resolve() if file else page


def slug(heading: str) -> str:
    """The anchor that a code host gives a heading."""
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower().replace("`", ""))
    return kept.replace(" ", "-")


def anchors(path: Path) -> set[str]:
    """Where a link into a page may lead."""
    text = read(path)
    titles = re.findall(r"^#+ (.*)$", prose(text), re.MULTILINE)
    return {*map(slug, titles), *ANCHOR.findall(text)}


class BothLanguages(unittest.TestCase):
    def test_the_same_files(self):
        english = sorted(path.name for path in (DOCS / "en").glob("*.md"))
        self.assertEqual(NAMES, english)

    def test_the_same_sections_code_tables_formulas_and_anchors(self):
        for name, pair in PAIRS.items():
            chinese, english = map(read, pair)
            self.assertEqual(headings(chinese), headings(english), name)
            self.assertEqual(code_blocks(chinese), code_blocks(english), name)
            self.assertEqual(shapes(chinese), shapes(english), name)
            self.assertEqual(maths(chinese)[0], maths(english)[0], name)
            self.assertEqual(
                sorted(set(maths(chinese)[1])), sorted(set(maths(english)[1])), name
            )
            self.assertEqual(ANCHOR.findall(chinese), ANCHOR.findall(english), name)

    def test_the_same_numbers_links_and_lists(self):
        for name, pair in PAIRS.items():
            chinese, english = map(read, pair)
            self.assertEqual(values(chinese), values(english), name)
            self.assertEqual(chinese.count("\n- "), english.count("\n- "), name)
            paths = [
                [_file(path, link) for link in links(text)]
                for path, text in zip(pair, (chinese, english))
            ]
            for a, b in zip(*paths, strict=True):
                same = {str(path).replace("/docs/en/", "/docs/") for path in (a, b)}
                same = {re.sub(r"\.en\.(md|ipynb)$", r".\1", path) for path in same}
                self.assertEqual(len(same), 1, (name, a, b))

    def test_each_page_links_to_the_other_language_on_top(self):
        for name, (chinese, english) in PAIRS.items():
            self.assertIn(f"](en/{name})", "".join(read(chinese).splitlines()[:5]))
            self.assertIn(f"](../{name})", "".join(read(english).splitlines()[:5]))

    def test_chinese_prose_has_its_own_punctuation_and_spacing(self):
        for chinese, english in PAIRS.values():
            without_links = re.sub(r"\]\([^)]*\)", "]", read(chinese))
            for line in words(without_links).splitlines():
                self.assertNotRegex(line, rf"{HAN.pattern}[,;:?!()]", chinese)
                glued = rf"{HAN.pattern}[A-Za-z0-9`]|[A-Za-z0-9`]{HAN.pattern}"
                self.assertNotRegex(line, glued, chinese)
            lines = read(english).splitlines()
            for line in lines[:1] + lines[4:]:
                self.assertNotRegex(line, FULL_WIDTH, english)


class Numbers(unittest.TestCase):
    def test_every_example_prints_what_it_says(self):
        for _, english in PAIRS.values():
            session = "\n".join(code_blocks(read(english)))
            tests = doctest.DocTestParser().get_doctest(
                session, {}, english.name, str(english), 0
            )
            told: list[str] = []
            runner = doctest.DocTestRunner(verbose=False)
            runner.run(tests, out=told.append)
            self.assertEqual(runner.failures, 0, "".join(told))

    def test_every_number_with_a_point_stands_in_an_output_of_its_page(self):
        for path in PAGES:
            text = read(path)
            shown = values("\n".join(code_blocks(text)))
            said = values(prose(re.sub(r"\]\([^)]*\)", "]", text)))
            self.assertEqual(said - shown, set(), path)


class Maths(unittest.TestCase):
    """What a code host's MathJax renders; the formulas themselves go through MathJax in
    checks/."""

    def test_an_inline_formula_has_a_space_or_an_end_of_line_on_both_sides(self):
        for path in PAGES:
            for line in NO_BACKTICKS.sub("", prose(read(path))).splitlines():
                for found in INLINE.finditer(line):
                    before, after = line[: found.start()], line[found.end() :]
                    self.assertRegex(before, r"(^|[\s|])$", (path, line))
                    self.assertRegex(after, r"^([\s|]|$)", (path, line))
                    self.assertEqual(found[1], found[1].strip(), (path, line))

    def test_nothing_that_a_code_host_does_not_know(self):
        for path in PAGES:
            for formula in [x for kind in maths(read(path)) for x in kind]:
                self.assertNotRegex(
                    formula, r"\\operatorname|\\newcommand|\\def\b", path
                )
                self.assertTrue(formula.isascii(), (path, formula))

    def test_an_equation_that_the_code_names_is_on_the_pages_and_the_other_way(self):
        named = {
            name
            for path in (ROOT / "agentic_rl").glob("*.py")
            for name in EQUATION.findall(read(path))
        }
        for language in (0, 1):
            there = {
                name
                for pair in PAIRS.values()
                for anchor in ANCHOR.findall(read(pair[language]))
                for name in re.findall(r"^eq-(.+)$", anchor)
            }
            self.assertEqual(there, named)


class Links(unittest.TestCase):
    def test_each_leads_to_a_file_and_to_a_place_in_it(self):
        for path in PAGES:
            for link in links(read(path)):
                self.assertNotRegex(link, r"^[a-z]+:", "expected a relative link")
                target, anchor = _file(path, link), link.partition("#")[2]
                self.assertTrue(target.exists(), (path, link))
                if anchor and target.suffix == ".md":
                    self.assertIn(anchor, anchors(target), (path, link))

    def test_a_page_links_within_its_language(self):
        for _, english in PAIRS.values():
            for link in links(read(english))[1:]:
                target = (english.parent / link.split("#")[0]).resolve()
                if target.parent == DOCS and target.suffix == ".md":
                    self.fail(f"{english.name}: {link} leads to the other language")


class Evidence(unittest.TestCase):
    def test_a_test_that_is_named_stands_in_the_file_linked_before_it(self):
        for path in PAGES:
            for line in read(path).splitlines():
                file = None
                for link, name in re.findall(r"\]\(([^)]+\.py)\)|`(test_\w+)`", line):
                    if link:
                        file = (path.parent / link).resolve()
                    elif file is not None and file.name.startswith("test_"):
                        self.assertIn(f"def {name}(", read(file), (path, name))

    def test_a_term_of_the_glossary_exists_in_the_code_it_names(self):
        for path in PAIRS["glossary.md"]:
            row = r"\[\w+\.py\]\(([^)]+\.py)\) `(\w+)"
            found = re.findall(row, read(path))
            self.assertGreater(len(found), 30)
            for link, name in found:
                source = read((path.parent / link).resolve())
                self.assertRegex(source, rf"\b{name}\b", (path, link))


class Manners(unittest.TestCase):
    def test_no_path_of_a_machine_no_shouting_no_address(self):
        for path in PAGES:
            text = read(path)
            self.assertNotRegex(text, MACHINE, path)
            self.assertNotRegex(text, r"https?://", path)
            self.assertNotRegex(
                re.sub(r"!=|n!|!\[", "", words(text)), "[!\uff01]", path
            )

    def test_there_are_pages(self):
        self.assertTrue(NAMES)


if __name__ == "__main__":
    unittest.main()
