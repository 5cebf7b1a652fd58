"""The prose of a notebook: what becomes a cell, and what is refused instead of built."""

from __future__ import annotations

import sys
import tempfile
import unittest
from pathlib import Path

from tests.pages import ROOT

sys.path.insert(0, str(ROOT / "scripts"))

import notebook_prose
from notebook_prose import BuildError

GOOD = """\
# A title

Opening words.

## A section

```python source
agentic_rl.policy.pick
```

Words between.

```python run
print(1)
```

```bash
python3 -m agentic_rl
```

## Another

Last words.
"""
CHAPTER = ROOT / "examples" / "00_toy_mdp"


class Prose(unittest.TestCase):
    def cells(self, text: str | bytes) -> list[tuple[str, str]]:
        """The cells of a chapter whose prose is this text."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name, CHAPTER.name)
            folder.mkdir()
            readme = (CHAPTER / "README.md").read_text(encoding="utf-8")
            (folder / "README.md").write_text(readme, encoding="utf-8")
            source = folder / "notebook.md"
            source.write_bytes(text if isinstance(text, bytes) else text.encode())
            return list(notebook_prose.cells(source))

    def test_fences_become_code_and_sections_become_cells(self):
        cells = self.cells(GOOD)
        kinds = [kind for kind, _ in cells]
        self.assertEqual(
            kinds,
            [*["markdown", "code"] * 3, "markdown", "markdown"],
        )
        self.assertTrue(cells[1][1].startswith("import sys"))
        self.assertTrue(cells[3][1].startswith("# agentic_rl/policy.py\ndef pick("))
        self.assertEqual(cells[5], ("code", "print(1)"))
        self.assertIn("```bash", cells[6][1])
        self.assertTrue(cells[7][1].startswith("## Another"))

    def test_what_the_source_cells_call_is_there(self):
        self.assertIn("import agentic_rl.policy", self.cells(GOOD)[1][1])

    def refuse(self, told: str, text: str | bytes) -> None:
        with self.assertRaisesRegex(BuildError, rf"notebook\.md: .*{told}"):
            self.cells(text)

    def test_a_fence_that_would_stay_prose_in_silence(self):
        self.refuse("python runs", GOOD.replace("python run\n", "python runs\n"))
        self.refuse("``` python run", GOOD.replace("```python run", "``` python run"))
        self.refuse("not closed", GOOD + "```bash\n")
        self.refuse("no cell", GOOD + "```python run\nprint(2)\n")

    def test_nothing_where_something_is_expected(self):
        self.refuse(
            "an empty source fence", GOOD.replace("agentic_rl.policy.pick\n", "")
        )
        self.refuse("expected a section", "# Only a title\n")
        self.refuse("expected a section", "")

    def test_names_that_lead_nowhere(self):
        self.refuse("no 'peck' in", GOOD.replace("policy.pick", "policy.peck"))
        self.refuse(
            "no file agentic_rl/nowhere.py", GOOD.replace("policy.", "nowhere.")
        )

    def test_code_above_the_first_section(self):
        self.refuse(
            "expected a section before the first code",
            GOOD.replace("Opening words.", "```python run\nprint(0)\n```"),
        )

    def test_a_file_that_is_no_utf8(self):
        self.refuse("utf-8", GOOD.encode() + b"\xff")


if __name__ == "__main__":
    unittest.main()
