"""What the glossary calls TRL's is a name that TRL has."""

from __future__ import annotations

import unittest

from checks.bridges import glossary


class TheGlossary(glossary.Names):
    column = "TRL"
    packages = ("trl", "transformers")


if __name__ == "__main__":
    unittest.main()
