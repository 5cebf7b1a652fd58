"""What the glossary calls Agent Lightning's is a name that Agent Lightning has."""

from __future__ import annotations

import unittest

from checks.bridges import glossary


class TheGlossary(glossary.Names):
    column = "Agent Lightning"
    packages = ("agentlightning",)


if __name__ == "__main__":
    unittest.main()
