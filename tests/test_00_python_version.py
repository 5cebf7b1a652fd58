"""On an old Python, one line says what is needed.

This file's name makes it the first one that unittest imports, and its syntax is one that
an old Python reads: so the line comes instead of a page of syntax errors.
"""

import os
import subprocess
import sys
import unittest

if sys.version_info < (3, 10):
    sys.stderr.write(
        "agentic_rl needs Python 3.10 or newer; this is Python %d.%d.\n"
        % tuple(sys.version_info[:2])
    )
    sys.stderr.flush()
    os._exit(1)  # unittest would catch anything milder and go on

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
AS_IF_OLD = "import sys; sys.version_info = (3, 9, 18); "
RUN = "import runpy; runpy.run_path(%r, run_name='__main__')"
LINE = "agentic_rl needs Python 3.10 or newer; this is Python 3.9.\n"


class OldPython(unittest.TestCase):
    """Checked here on a Python that pretends; checks/same_bytes.py runs real old ones."""

    def said(self, code):
        done = subprocess.run(
            [sys.executable, "-c", AS_IF_OLD + code],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def test_the_tour_says_so(self):
        self.assertEqual(self.said("import agentic_rl"), LINE)

    def test_each_chapter_script_says_so(self):
        for script in (
            "examples/00_toy_mdp/toy_policy_update.py",
            "examples/01_tool_math_agent/tool_math_agent.py",
            "examples/02_grpo_tool_agent/grpo_tool_agent.py",
        ):
            with self.subTest(script):
                self.assertEqual(self.said(RUN % script), LINE)

    def test_the_tests_say_so(self):
        self.assertEqual(self.said(RUN % "tests/test_00_python_version.py"), LINE)


if __name__ == "__main__":
    unittest.main()
