"""What the glossary calls OpenRLHF's is a name that OpenRLHF has."""

from __future__ import annotations

import unittest

from checks.bridges import glossary


class TheGlossary(glossary.Names):
    column = "OpenRLHF"
    packages = ("openrlhf",)


if __name__ == "__main__":
    unittest.main()
