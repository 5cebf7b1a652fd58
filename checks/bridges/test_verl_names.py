"""What the glossary calls verl's is a name that verl has."""

from __future__ import annotations

import unittest

from checks.bridges import glossary


class TheGlossary(glossary.Names):
    column = "verl"
    packages = ("verl",)


if __name__ == "__main__":
    unittest.main()
