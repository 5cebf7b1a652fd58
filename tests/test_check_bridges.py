"""What counts as a failure when the bridges are checked: scripts/check_bridges.py.

The frameworks are not asked here; what a run of theirs would have left behind is made up.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from agentic_rl.bridges.frameworks import VERSIONS
from tests.pages import ROOT

sys.path.insert(0, str(ROOT / "checks"))
sys.path.insert(0, str(ROOT / "scripts"))

import check_bridges
import environments
import pythons
from check_bridges import MEGABYTES, Ran
from verdicts import Verdicts

GOOD = Ran(0, "Ran 3 tests in 0.1s\n\nOK\n", 0.1, 10.0, 20.0, "")


class ARun(unittest.TestCase):
    def test_one_that_went_well_has_no_problem(self):
        self.assertEqual(GOOD.problems(), [])

    def test_an_exit_status_is_one_and_the_end_of_what_was_said_is_told(self):
        found = GOOD._replace(status=1, output="first\nlast\n").problems()
        self.assertEqual(found, ["exit status 1", "first", "last"])

    def test_an_outside_address_is_one_whatever_the_status(self):
        found = GOOD._replace(outside="socket.connect 192.0.2.1\n").problems()
        self.assertEqual(found, ["outside addresses: ['socket.connect', '192.0.2.1']"])

    def test_so_is_a_process_that_is_too_large(self):
        self.assertEqual(GOOD._replace(megabytes=MEGABYTES).problems(), [])
        (found,) = GOOD._replace(megabytes=MEGABYTES + 1).problems()
        self.assertIn(f"at most {MEGABYTES} MB", found)

    def test_a_script_that_says_it_did_not_run_did_not_pass(self):
        (found,) = GOOD._replace(output="\nNot run: trl is not there").problems()
        self.assertIn("Not run:", found)

    def test_what_it_asks_of_another_machine_is_written_down(self):
        code = (
            "import socket\n"
            "try: socket.socket().connect(('192.0.2.1', 80))\n"
            "except OSError: pass"
        )
        ran = check_bridges.run([sys.executable, "-c", code], ())
        self.assertEqual(ran.outside, "socket.connect 192.0.2.1\n")

    def test_two_gigabytes_are_the_limit_of_a_process(self):
        self.assertEqual(MEGABYTES, 2048)


class TheTests(unittest.TestCase):
    """Passed only with a number of tests and a plain OK."""

    def verdicts(self, ran: Ran) -> Verdicts:
        found = Verdicts()
        with (
            mock.patch.object(check_bridges, "run", return_value=ran),
            contextlib.redirect_stdout(io.StringIO()),
        ):
            check_bridges.check_tests("trl", sys.executable, (), found)
        return found

    def test_each_counts(self):
        found = self.verdicts(GOOD)
        self.assertEqual((found.passed, found.failed), (3, 0))

    def test_anything_but_ok_fails(self):
        for output in (
            "Ran 3 tests in 0.1s\n\nOK (skipped=1)\n",
            "Ran 3 tests in 0.1s\n\nFAILED (failures=1)\n",
            "Ran 0 tests in 0.1s\n\nOK\n",
            "",
        ):
            with self.subTest(output):
                found = self.verdicts(GOOD._replace(output=output))
                self.assertEqual((found.passed, found.failed), (0, 1))

    def test_a_good_verdict_does_not_hide_an_outside_address(self):
        found = self.verdicts(GOOD._replace(outside="socket.connect 192.0.2.1"))
        self.assertEqual((found.passed, found.failed), (0, 1))


class TheProgram(unittest.TestCase):
    def run_main(self, *words: str, alone=("true",), **patches) -> tuple[int, str]:
        out = io.StringIO()
        patches = {"python": mock.Mock(return_value=sys.executable), **patches}
        with contextlib.ExitStack() as stack:
            stack.enter_context(contextlib.redirect_stdout(out))
            stack.enter_context(mock.patch.object(sys, "argv", ["check", *words]))
            alone_is = mock.Mock(return_value=alone)
            stack.enter_context(mock.patch.object(check_bridges, "alone", alone_is))
            for name, value in patches.items():
                stack.enter_context(mock.patch.object(check_bridges, name, value))
            return check_bridges.main(), out.getvalue()

    def test_all_that_passes(self):
        scripts = {"trl": ("one.py", "two.py")}
        status, out = self.run_main(
            "trl", SCRIPTS=scripts, run=mock.Mock(return_value=GOOD)
        )
        self.assertEqual((status, out.splitlines()[-1]), (0, "5 passed, 0 failed"))

    def test_a_script_with_a_problem_is_a_failure(self):
        runs = [GOOD, GOOD._replace(status=1)]
        status, out = self.run_main(
            "trl", SCRIPTS={"trl": ("one.py",)}, run=mock.Mock(side_effect=runs)
        )
        self.assertEqual((status, out.splitlines()[-1]), (1, "3 passed, 1 failed"))

    def test_without_a_name_all_are_checked(self):
        asked = mock.Mock(return_value=sys.executable)
        self.run_main(python=asked, run=mock.Mock(return_value=GOOD))
        self.assertEqual(
            [call.args[0] for call in asked.call_args_list], list(VERSIONS)
        )

    def test_every_script_is_there(self):
        for scripts in check_bridges.SCRIPTS.values():
            for script in scripts:
                self.assertTrue((ROOT / script.split()[0]).exists(), script)

    def test_a_library_that_can_not_be_had_is_a_failure(self):
        for error in (RuntimeError("too old"), OSError("read-only")):
            status, out = self.run_main("trl", python=mock.Mock(side_effect=error))
            self.assertEqual((status, out.splitlines()[-1]), (1, "0 passed, 1 failed"))
            self.assertIn(str(error), out)

    def test_without_a_network_of_its_own_it_fails_unless_that_is_asked_for(self):
        for words, failed in (((), 1), (("--watched",), 0)):
            _, out = self.run_main(
                "trl",
                *words,
                alone=(),
                SCRIPTS={"trl": ()},
                run=mock.Mock(return_value=GOOD),
            )
            self.assertEqual(out.splitlines()[-1], f"3 passed, {failed} failed")

    @unittest.skipUnless(Path("/proc/self/smaps_rollup").exists(), "memory: Linux")
    def test_a_process_that_went_its_own_way_is_measured_too(self):
        child = "import time; held = bytearray(120 << 20); time.sleep(2)"
        code = (
            "import subprocess, sys, time; subprocess.Popen("
            f"[sys.executable, '-c', {child!r}], start_new_session=True); time.sleep(2)"
        )
        ran = check_bridges.run([sys.executable, "-c", code], ())
        self.assertGreater(ran.megabytes, 120)
        self.assertGreater(ran.together, ran.megabytes)


class Environments(unittest.TestCase):
    def test_a_framework_gets_the_oldest_python_that_is_new_enough(self):
        at_hand = {(3, 13): "c", (3, 12): "b", (3, 11): "a"}
        with (
            mock.patch.object(environments, "cpythons", return_value=at_hand),
            mock.patch.object(environments.sys, "version_info", (3, 11, 0)),
        ):
            self.assertEqual(environments.base_of("agent_lightning"), ("3.12", "b"))
            own = environments.base_of("trl")  # this one, which is new enough
            self.assertEqual(own, ("3.11", sys.executable))

    def test_a_command_that_is_no_python_or_fails_has_no_version(self):
        with tempfile.TemporaryDirectory() as folder:
            fails = Path(folder, "fails")
            fails.write_text("#!/bin/sh\necho cpython 3 12\nexit 1\n")
            fails.chmod(0o755)
            self.assertIsNone(pythons.version_of(str(fails)))
            self.assertIsNone(pythons.version_of(str(Path(folder, "nowhere"))))
        self.assertEqual(pythons.version_of(sys.executable), sys.version_info[:2])

    def test_a_root_of_pyenv_that_is_nowhere_has_no_pythons(self):
        for root in ("/nowhere", "~nobody-of-this-name/x"):
            with mock.patch.dict(os.environ, {"PYENV_ROOT": root}):
                self.assertIn(sys.version_info[:2], pythons.cpythons())

    def test_one_whose_python_has_gone_is_made_again(self):
        lock, version = environments.LOCKS["checks"], "{}.{}".format(*sys.version_info)
        with (
            tempfile.TemporaryDirectory() as caches,
            mock.patch.dict(os.environ, {"XDG_CACHE_HOME": caches}),
            mock.patch.object(environments, "install"),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            folder = environments.cache_folder(f"checks-{version}", lock)
            folder.mkdir(parents=True)
            (folder / environments.DONE).touch()

            def make(*command: object, **options: object) -> None:
                folder.mkdir()

            with mock.patch.object(
                environments.subprocess, "run", side_effect=make
            ) as made:
                environments.python("checks")
        self.assertEqual(made.call_args.args[0][1:3], ["-m", "venv"])

    def test_what_can_not_be_made_is_one_line(self):
        for error in (
            OSError("read-only file system"),
            subprocess.CalledProcessError(1, "pip"),
            RuntimeError("no such Python"),
        ):
            told = io.StringIO()
            with (
                mock.patch.object(environments, "python", side_effect=error),
                mock.patch.object(sys, "argv", ["environments.py", "checks"]),
                contextlib.redirect_stderr(told),
            ):
                self.assertEqual(environments.main(), 1)
            self.assertEqual(told.getvalue(), f"checks: {error}\n")

    def test_a_framework_without_a_python_for_it_is_named(self):
        with (
            mock.patch.dict(environments.OLDEST, {"trl": (9, 0)}),
            mock.patch.object(environments, "cpythons", return_value={}),
            self.assertRaisesRegex(RuntimeError, "trl needs Python 9.0 or newer"),
        ):
            environments.base_of("trl")


if __name__ == "__main__":
    unittest.main()
