"""Both languages say the same: paragraph by paragraph, every number, name and link.

Each is written natively, so words may differ. What is compared is what must not.
"""

from __future__ import annotations

import re
import unittest
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.pages import (
    ANCHOR,
    DISPLAYED,
    DOCS,
    INLINE,
    NO_BACKTICKS,
    VERSION,
    both_languages,
    is_english,
    links,
    page,
    prose,
    read,
    tables,
    target,
    twin,
)

PAIRS = both_languages()
PAGES = [path for pair in PAIRS for path in pair]

KIND = re.compile(r"#+ |\||- |\d+\. |</?\w+>")  # what a line of Markdown begins with
OTHER_LANGUAGE = re.compile(r"^(?:English: |中文版\uff1a)\[.*\n", re.MULTILINE)
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e-?\d+)?")

TERM = r"-?(?:\w+\()*\(*-?(?:\d+(?:\.\d+)?|\w+)\)*"
SUM = re.compile(rf"(?<![\w.]){TERM}(?: [-+*/^] {TERM})+")  # 5 + 2, (G - 1) / G
WORD = re.compile(r"[^\W\d_]{2,}|[a-z]")

WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen "
    "fourteen fifteen sixteen seventeen eighteen nineteen twenty"
).split()
ALSO = {  # how else English says a small number
    0: "no|nothing|none|never|zeros|above|below",
    1: "a|an|first|once|single",
    2: "second|twice|both|half",
    3: "third",
    4: "fourth|quarter",
}
NUMERALS = "零一二三四五六七八九十"
COUNTED = "个次种样条项步张份轮行页道列处章"  # what stands between a number and a thing
OTHERS = {0: "没无不", 1: "首", 2: "两半"}  # and Chinese


def paragraphs(path: Path) -> list[str]:
    """The lines of a page but code and displayed formulas: paragraphs, items and rows."""
    text = DISPLAYED.sub("", prose(OTHER_LANGUAGE.sub("", page(path))))
    return [line for line in text.splitlines() if line.strip()]


def kinds(path: Path) -> list[str]:
    """Of each of these, how it begins: a heading's level, a row, an item, or nothing."""
    found = map(KIND.match, paragraphs(path))
    return [match[0] if match else "" for match in found]


def together() -> Iterator[tuple[str, str, str]]:
    """(where, Chinese, English) of each paragraph; of pages that have the same ones."""
    for chinese, english in PAIRS:
        if kinds(chinese) == kinds(english):
            for a, b in zip(paragraphs(chinese), paragraphs(english)):
                yield f"{chinese.name}:\n{a}\n{english.name}:\n{b}\n", a, b


def plain(paragraph: str) -> str:
    """Its words: no code, formula, link target, anchor or version."""
    without_links = re.sub(r"\]\([^)]*\)|<[^<>]*>", " ", paragraph)
    return VERSION.sub("", INLINE.sub("", NO_BACKTICKS.sub("", without_links)))


def numbers(paragraph: str) -> list[str]:
    """All numbers in its words, with their signs."""
    return NUMBER.findall(plain(paragraph))


def small(paragraph: str) -> set[int]:
    """The whole numbers up to ten that stand there in digits."""
    found = (text for text in numbers(paragraph) if text.isdecimal())
    return {int(text) for text in found if int(text) <= 10}


def in_english(number: int, paragraph: str) -> bool:
    """Whether it says a small number, in digits or in words."""
    word = f"{number}|{WORDS[number]}|{ALSO.get(number, WORDS[number])}"
    text = plain(paragraph)
    return re.search(rf"\b(?:{word})\b", text, re.IGNORECASE) is not None


def in_chinese(number: int, paragraph: str) -> bool:
    """The same of Chinese: 3, 三; 12, 十二; 20, 二十."""
    tens, ones = divmod(number, 10)
    ten = "十" if number < 20 else f"{NUMERALS[tens]}十"
    word = NUMERALS[number] if number <= 10 else ten + (NUMERALS[ones] if ones else "")
    either = "|".join([rf"(?<!\d){number}(?!\d)", word, *OTHERS.get(number, "")])
    return re.search(either, plain(paragraph)) is not None


class SameNumbers(unittest.TestCase):
    def test_the_same_paragraphs_items_and_rows(self):
        for chinese, english in PAIRS:
            self.assertEqual(kinds(chinese), kinds(english), chinese)

    def test_numbers_with_a_point_in_the_same_order_with_the_same_signs(self):
        for where, *both in together():
            found = [[x for x in numbers(text) if not x.isdecimal()] for text in both]
            self.assertEqual(*found, where)

    def test_whole_numbers_above_ten(self):
        for where, *both in together():
            found = [
                Counter(x for x in numbers(text) if x.isdecimal() and int(x) > 10)
                for text in both
            ]
            self.assertEqual(*found, where)

    def test_a_small_number_in_digits_is_in_the_other_language_too_maybe_as_a_word(
        self,
    ):
        for where, chinese, english in together():
            for number in small(chinese) - small(english):
                self.assertTrue(in_english(number, english), f"{number} in {where}")
            for number in small(english) - small(chinese):
                self.assertTrue(in_chinese(number, chinese), f"{number} in {where}")

    def test_a_number_in_words_is_in_the_other_language_too(self):
        for where, chinese, english in together():
            for number, word in enumerate(WORDS[2:], 2):
                said = rf"(?<!of the )(?<!all )\b{word}\b"  # those point back
                if re.search(said, plain(english), re.IGNORECASE):
                    self.assertTrue(in_chinese(number, chinese), f"{number} in {where}")
            for number, numeral in enumerate(NUMERALS[3:], 3):
                counted = rf"(?<![{NUMERALS}第]){numeral}[{COUNTED}]"
                if re.search(counted, plain(chinese)):
                    self.assertTrue(in_english(number, english), f"{number} in {where}")

    def test_a_cell_that_is_a_number_is_the_same_number(self):
        for chinese, english in PAIRS:
            cells = [
                [
                    [cell if NUMBER.fullmatch(cell) else None for cell in row]
                    for table in tables(page(path))
                    for row in table
                ]
                for path in (chinese, english)
            ]
            self.assertEqual(*cells, chinese)

    def test_sums(self):
        for where, *both in together():
            found = [
                Counter(
                    WORD.sub("word", one)
                    for one in SUM.findall(plain(text))
                    if re.search(r"\d|\b[A-Z]\b", one)
                )
                for text in both
            ]
            self.assertEqual(*found, where)


class SameNames(unittest.TestCase):
    def test_formulas(self):
        for where, *both in together():
            found = [Counter(INLINE.findall(NO_BACKTICKS.sub("", x))) for x in both]
            self.assertEqual(*found, where)

    def test_what_stands_in_backticks(self):
        for where, *both in together():
            found = [
                Counter(
                    x.replace("docs/en/", "docs/") for x in NO_BACKTICKS.findall(text)
                )
                for text in both
            ]
            self.assertEqual(*found, where)

    def test_anchors(self):
        for where, chinese, english in together():
            self.assertEqual(ANCHOR.findall(chinese), ANCHOR.findall(english), where)


class SameLinks(unittest.TestCase):
    def test_to_the_same_place_in_the_same_order(self):
        for chinese, english in PAIRS:
            wanted = [
                (twin(file) or file, link.partition("#")[2])
                for link in links("\n".join(paragraphs(chinese)))
                for file in [target(chinese, link)]
            ]
            found = [
                (target(english, link), link.partition("#")[2])
                for link in links("\n".join(paragraphs(english)))
            ]
            self.assertEqual(wanted, found, chinese)

    def test_a_page_leads_to_pages_of_its_language_and_on_top_to_its_twin(self):
        for path in PAGES:
            for paragraph in paragraphs(path):
                for link in links(paragraph):
                    file = target(path, link)
                    if twin(file) is not None:
                        self.assertEqual(
                            is_english(file), is_english(path), (path, link)
                        )
            self.assertEqual(len(OTHER_LANGUAGE.findall(page(path))), 1, path)


class Glossary(unittest.TestCase):
    """A table of terms and one of the frameworks' names for them, a topic at a time."""

    @classmethod
    def setUpClass(cls):
        chinese, english = (
            tables(read(folder / "glossary.md")) for folder in (DOCS, DOCS / "en")
        )
        cls.terms, cls.names = (
            [
                (a[1:], b[1:])
                for a, b in zip(chinese, english, strict=True)
                if ("TRL" in a[0]) == of_frameworks
            ]
            for of_frameworks in (False, True)
        )

    def test_each_term_is_the_others_translation(self):
        for chinese, english in self.terms:
            for (term, translation, *_), row in zip(chinese, english, strict=True):
                self.assertEqual([translation, term], row[:2])

    def test_the_same_symbol_and_the_same_code(self):
        for chinese, english in self.terms:
            for a, b in zip(chinese, english, strict=True):
                cells = [cell.replace("](../../", "](../") for cell in b[3:]]
                self.assertEqual(a[3:], cells)

    def test_the_same_names_in_the_frameworks(self):
        for chinese, english in self.names:
            for a, b in zip(chinese, english, strict=True):
                self.assertEqual(a[1:], b[1:])

    def test_a_term_is_explained_once_and_before_its_names(self):
        chosen = [{row[0]: row for row in english} for _, english in self.terms]
        every = [row[0] for _, english in self.terms for row in english]
        self.assertEqual(len(every), len(set(every)))
        for chinese, english in self.names:
            topic = next(rows for rows in chosen if english[0][0] in rows)
            for a, b in zip(chinese, english, strict=True):
                self.assertEqual(topic[b[0]][1], a[0])
            order = [row[0] for row in english]
            self.assertEqual(order, [term for term in topic if term in order])


if __name__ == "__main__":
    unittest.main()
