"""The docs: both languages have one shape, and every number is computed.

See test_languages.py for what the languages say, test_claims.py for what they name.
"""

from __future__ import annotations

import doctest
import re
import unittest

from tests.pages import (
    ANCHOR,
    DISPLAYED,
    DOCS,
    FULL_WIDTH,
    HAN,
    INLINE,
    MACHINE,
    NAMES,
    NO_BACKTICKS,
    ROOT,
    SECTION,
    VERSION,
    code_blocks,
    headings,
    links,
    maths,
    prose,
    read,
    shapes,
    sums,
    tables,
    target,
    values,
)

FILES = sorted(path.name for path in DOCS.glob("*.md"))
PAIRS = {name: (DOCS / name, DOCS / "en" / name) for name in FILES}
PAGES = [path for pair in PAIRS.values() for path in pair]

EQUATION = re.compile(r"\(eq\. ([\w-]+)\)")


def words(text: str) -> str:
    """The prose without maths and without what stands in backticks."""
    return NO_BACKTICKS.sub("", INLINE.sub("", DISPLAYED.sub("", prose(text))))


class BothLanguages(unittest.TestCase):
    def test_the_same_files(self):
        english = sorted(path.name for path in (DOCS / "en").glob("*.md"))
        self.assertEqual(FILES, english)

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

    def test_its_sign_is_that_of_the_output(self):
        """A cost alone, shown as -0.1, may be said without: less 0.1."""
        signed = re.compile(r"(?<![\w.])-?\d+\.\d+")
        for path in PAGES:
            text = read(path)
            shown = set(map(float, signed.findall("\n".join(code_blocks(text)))))
            said = DISPLAYED.sub("", prose(re.sub(r"\]\([^)]*\)", "]", text)))
            for found in sums(text):  # they are worked out in test_claims.py
                said = said.replace(found, "")
            for number in signed.findall(SECTION.sub("", VERSION.sub("", said))):
                if re.fullmatch(r"\d+\.\d\d?", number):
                    self.assertTrue({float(number), -float(number)} & shown, path)
                else:
                    self.assertIn(float(number), shown, path)

    def test_a_whole_number_above_ten_stands_in_code_of_the_page_or_a_linked_one(self):
        digits = re.compile(r"(?<![\w.])\d+(?![\w.]*\d)")
        for path in PAGES:
            if path.name == "README.md":
                continue  # minutes: see Map
            text = read(path)
            shown = set(re.findall(r"\d+", "\n".join(code_blocks(text))))
            for line in DISPLAYED.sub("", prose(text)).splitlines():
                linked = [target(path, link) for link in links(line)]
                texts = [read(x) for x in linked if x.suffix in (".md", ".py")]
                there = {number for x in texts for number in re.findall(r"\d+", x)}
                plain = re.sub(r"\]\([^)]*\)", "]", NO_BACKTICKS.sub("", line))
                for number in digits.findall(VERSION.sub("", plain)):
                    if int(number) > 10:
                        self.assertIn(number, shown | there, (path, line))


class Map(unittest.TestCase):
    """The learning map plans with minutes."""

    @classmethod
    def setUpClass(cls):
        cls.minutes = []  # of each language: number of a page, chapter or nothing -> minutes
        for page in PAIRS["README.md"]:
            found = {}
            for row in tables(read(page))[0][1:]:
                if row[-1]:
                    name = re.search(r"\]\((?:.*examples/)?(\w+)", row[1])
                    chapter = "chapter " * ("examples/" in row[1])
                    found[chapter + name[1][:2] if name else "tour"] = int(row[-1])
            cls.minutes.append(found)

    def test_a_chapter_takes_what_the_readme_says(self):
        for language, name in enumerate(NAMES):
            for row in tables(read(ROOT / name))[1][1:]:
                chapter = f"chapter {row[0]}" if row[0].isdecimal() else "tour"
                minutes = int(row[4].split()[0])
                self.assertEqual(self.minutes[language][chapter], minutes, name)

    def test_the_routes_add_up(self):
        for page, minutes in zip(PAIRS["README.md"], self.minutes):
            first = ("tour", "01", "chapter 00", "chapter 01", "06")
            self.assertIn(f"**{sum(minutes[name] for name in first)} ", read(page))
            left_out = ("ap", *(f"chapter 0{number}" for number in range(3, 7)))
            evening = sum(minutes.values()) - sum(minutes[name] for name in left_out)
            self.assertAlmostEqual(evening / 60, 3, delta=0.2)


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


class Glossary(unittest.TestCase):
    def test_a_term_exists_in_the_code_it_names(self):
        for path in PAIRS["glossary.md"]:
            row = r"\[\w+\.py\]\(([^)]+\.py)\) `(\w+)"
            found = re.findall(row, read(path))
            self.assertGreater(len(found), 30)
            for link, name in found:
                source = read(target(path, link))
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
        self.assertTrue(FILES)


if __name__ == "__main__":
    unittest.main()
