"""The notebooks, as they lie in the repository: whole, alike in both languages, true."""

from __future__ import annotations

import json
import re
import runpy
import sys
import unittest
from pathlib import Path
from typing import Any

from tests.pages import (
    FULL_WIDTH,
    HAN,
    MACHINE,
    ROOT,
    notebook_cells,
    page,
    prose,
    read,
    shapes,
    values,
)

CHAPTERS = sorted(path.parent for path in (ROOT / "examples").glob("*/notebook.md"))
NOTEBOOKS = [
    (folder / f"{folder.name}.ipynb", folder / f"{folder.name}.en.ipynb")
    for folder in CHAPTERS
]
ALL = [path for pair in NOTEBOOKS for path in pair]
MEGABYTE = 1 << 20


def notebook(path: Path) -> dict[str, Any]:
    """A notebook as plain data."""
    return json.loads(read(path))


def outputs(path: Path) -> list[dict[str, Any]]:
    """All its outputs, in order."""
    return [
        output for cell in notebook(path)["cells"] for output in cell.get("outputs", ())
    ]


def text_of(output: dict[str, Any]) -> str:
    """What an output says in words: a stream, or what stands for a picture."""
    return "".join(output.get("text") or output["data"]["text/plain"])


class Files(unittest.TestCase):
    def test_each_chapter_has_one_in_each_language(self):
        self.assertTrue(CHAPTERS)
        for path in ALL:
            self.assertTrue(path.exists(), path)

    def test_they_are_whole(self):
        for path in ALL:
            self.assertLess(path.stat().st_size, MEGABYTE, path)
            code = [c for c in notebook(path)["cells"] if c["cell_type"] == "code"]
            counts = [cell["execution_count"] for cell in code]
            self.assertEqual(counts, list(range(1, len(code) + 1)), path)
            kinds = {output["output_type"] for output in outputs(path)}
            self.assertLessEqual(kinds, {"stream", "display_data"}, path)
            for output in outputs(path):
                self.assertNotEqual(output.get("name"), "stderr", path)

    def test_nothing_tells_of_the_machine_that_ran_them(self):
        for path in ALL:
            found = notebook(path)
            self.assertEqual(set(found["metadata"]), {"kernelspec", "language_info"})
            self.assertEqual(found["metadata"]["language_info"], {"name": "python"})
            self.assertEqual(
                found["metadata"]["kernelspec"]["display_name"],
                "Python (agentic-rl-from-scratch)",
            )
            for output in outputs(path):
                self.assertNotRegex(text_of(output), MACHINE, path)
                self.assertNotRegex(text_of(output), r" at 0x[0-9a-f]{6}", path)

    def test_what_is_printed_is_ascii_and_fits_eighty_columns(self):
        for path in ALL:
            for output in outputs(path):
                if output["output_type"] == "stream":
                    text = text_of(output)
                    self.assertTrue(text.isascii(), path)
                    self.assertLessEqual(max(map(len, text.splitlines())), 80, path)
                    self.assertNotRegex(text, r"-0\.0+(?!\d)", path)

    def test_every_picture_says_in_words_what_it_shows(self):
        for path in ALL:
            for output in outputs(path):
                if output["output_type"] == "display_data":
                    alt = output["metadata"]["image/png"]["alt"]
                    self.assertEqual(alt, text_of(output))
                    self.assertGreater(len(alt.split()), 5, path)


class BothLanguages(unittest.TestCase):
    def test_the_same_code_and_the_same_outputs(self):
        for chinese, english in NOTEBOOKS:
            self.assertEqual(
                notebook_cells(chinese, "code"), notebook_cells(english, "code")
            )
            self.assertEqual(outputs(chinese), outputs(english), chinese)

    def test_the_same_sections_tables_questions_and_numbers(self):
        for chinese, english in NOTEBOOKS:
            texts = page(chinese), page(english)
            for pattern in (r"(?m)^#+ ", r"<details>", r"</details>", r"(?m)^- "):
                counts = [len(re.findall(pattern, text)) for text in texts]
                self.assertEqual(*counts, (pattern, chinese))
            self.assertEqual(*map(shapes, texts), chinese)
            self.assertEqual(*map(values, texts), chinese)

    def test_each_links_to_the_other_on_top(self):
        for pair in NOTEBOOKS:
            for path, other in (pair, pair[::-1]):
                self.assertIn(f"]({other.name})", notebook_cells(path, "markdown")[0])

    def test_chinese_prose_has_its_own_punctuation_and_spacing(self):
        for chinese, english in NOTEBOOKS:
            without_links = re.sub(r"\]\([^)]*\)", "]", prose(page(chinese)))
            for line in re.sub(r"`[^`\n]*`", "", without_links).splitlines():
                self.assertNotRegex(line, rf"{HAN.pattern}[,;:?!()]", chinese)
                glued = rf"{HAN.pattern}[A-Za-z0-9]|[A-Za-z0-9]{HAN.pattern}"
                self.assertNotRegex(line, glued, chinese)
            for line in page(english).splitlines()[4:]:
                self.assertNotRegex(line, FULL_WIDTH, english)


class Exercises(unittest.TestCase):
    def test_the_last_section_names_all_that_the_chapters_file_asks_for(self):
        graded = {
            path.name[-5:-3] for path in (ROOT / "exercises").glob("chapter_*.py")
        }
        self.assertEqual(graded, {"00", "01", "02"})
        for path in (path for path in ALL if path.name[:2] in graded):
            chapter = f"chapter_{path.name[:2]}.py"
            asked = re.findall(r"(?m)^def (\w+)", read(ROOT / "exercises" / chapter))
            section = re.split(r"(?m)^## ", page(path))[-1]
            self.assertTrue(section.startswith(("Exercises\n", "练习\n")), path)
            names = re.findall(r"`(\w+)`", section)
            self.assertEqual(names, asked, path)
            self.assertIn(f"agentic_rl check exercises/{chapter}", section)


class Truth(unittest.TestCase):
    def test_every_number_with_a_point_is_in_an_output_or_in_the_code(self):
        for path in ALL:
            shown = "\n".join(
                [*map(text_of, outputs(path)), *notebook_cells(path, "code")]
            )
            claimed = values(re.sub(r"\]\([^)]*\)", "]", page(path)))
            self.assertEqual(claimed - values(shown), set(), path)


class Sources(unittest.TestCase):
    """scripts/build_notebooks.py, which --check holds to the outputs too, but slowly."""

    def test_each_is_what_its_prose_and_the_code_make(self):
        sys.path.insert(0, str(ROOT / "scripts"))
        try:
            built = runpy.run_path(str(ROOT / "scripts" / "build_notebooks.py"))
        finally:
            sys.path.remove(str(ROOT / "scripts"))
        for path in ALL:
            source = "notebook.en.md" if ".en." in path.name else "notebook.md"
            there = [
                (cell["cell_type"], "".join(cell["source"]))
                for cell in notebook(path)["cells"]
            ]
            wanted = [
                (kind if kind == "markdown" else "code", text)
                for kind, text in built["cells"](path.parent / source)
            ]
            self.assertEqual(len(wanted), len(there), path)
            for one, other in zip(wanted, there):
                self.assertEqual(one, other, f"{path}: build the notebooks again")


if __name__ == "__main__":
    unittest.main()
