"""``lab``: what is done is said, what is done is not done twice, what fails is explained."""

from __future__ import annotations

import os
import subprocess
import sys
import unittest
from pathlib import Path
from unittest import mock

from agentic_rl.cli import lab
from tests.support import InFolder, command


class Lab(InFolder):
    """A project of two empty maps and a lock file; nothing is really installed."""

    def setUp(self):
        super().setUp()
        for name in (*lab.MAPS.values(), lab.LOCK):
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")
        self.ran: list[list[str]] = []
        self.fails = ""  # a word of the command that ends with 1
        self.lacks = False  # whether something is missing in the environment
        for patch in (
            mock.patch.object(lab, "project", lambda: self.folder),
            mock.patch("subprocess.run", self.run_nothing),
            mock.patch("subprocess.Popen", self.start_nothing),
            mock.patch("venv.create", self.create),
        ):
            patch.start()
            self.addCleanup(patch.stop)

    def create(self, folder: Path, with_pip: bool, symlinks: bool = True) -> None:
        self.assertTrue(with_pip)
        commands = folder / lab.FOLDER
        commands.mkdir(parents=True, exist_ok=True)
        for name in ("python", "python.exe"):
            (commands / name).touch()

    def run_nothing(self, words, **options):
        if words[1] == "-c":  # what is installed is asked
            return subprocess.CompletedProcess(words, int(self.lacks))
        self.ran.append(words)
        failed = self.fails and self.fails in words
        return subprocess.CompletedProcess(
            words, int(bool(failed)), "", "Traceback\n  File\nno such thing\n"
        )

    def start_nothing(self, words, **options):
        self.ran.append(words)
        return mock.Mock(wait=mock.Mock(side_effect=[KeyboardInterrupt, 0]))

    def verbs(self) -> list[str]:
        """Which tools were run, in order."""
        return [words[2] for words in self.ran]


class Steps(Lab):
    def test_environment_kernel_jupyter(self):
        done = command("lab", "--language", "en")
        self.assertEqual((done.status, done.err), (0, ""))
        self.assertEqual(self.verbs(), ["pip", "ipykernel", "jupyterlab"])
        self.assertEqual(self.ran[0][-2:], ["-r", str(self.folder / lab.LOCK)])
        self.assertEqual(
            self.ran[1][-4:], ["--name", lab.KERNEL, "--display-name", lab.TITLE]
        )
        self.assertIn("docs/en/README.md", self.ran[2][-1])
        for word in (
            "virtual environment",
            "requirements.txt",
            lab.TITLE,
            "learning map",
        ):
            self.assertIn(word, done.out)

    def test_ctrl_c_is_left_to_jupyter_and_its_status_is_the_commands(self):
        waiting = mock.Mock(side_effect=[KeyboardInterrupt, KeyboardInterrupt, 3])
        self.assertEqual(lab.wait_for(mock.Mock(wait=waiting)), 3)

    def test_the_second_time_nothing_is_installed_until_the_lock_file_changes(self):
        for lock, installs in (("a", True), ("a", False), ("b", True)):
            (self.folder / lab.LOCK).write_text(lock)
            self.ran.clear()
            self.assertEqual(command("lab", "--no-open").status, 0)
            self.assertEqual("pip" in self.verbs(), installs)
            self.assertNotIn("jupyterlab", self.verbs())

    def test_the_map_is_in_the_language_of_the_terminal(self):
        for spoken, page in (("zh_CN.UTF-8", "zh"), ("en_US.UTF-8", "en"), ("", "en")):
            with mock.patch.dict(os.environ, {"LC_ALL": "", "LANG": spoken}):
                command("lab")
            self.assertIn(f"/{lab.MAPS[page]}?", self.ran[-1][-1])


class Failures(Lab):
    def refused(self, said: str) -> None:
        done = command("lab")
        self.assertEqual(done.status, 1)
        self.assertIn(said, done.err)
        self.assertEqual(len(done.err.splitlines()), 1)

    def test_pip_fails_and_the_same_command_goes_on(self):
        self.fails = "pip"
        self.refused("If that was the network, the same command goes on from here")
        self.fails = ""
        self.assertEqual(command("lab", "--no-open").status, 0)
        self.assertEqual(self.verbs().count("pip"), 2)

    def test_an_environment_that_was_not_finished_is_made_again(self):
        stopped = mock.patch("venv.create", side_effect=KeyboardInterrupt)
        with stopped, self.assertRaises(KeyboardInterrupt):
            lab.make(self.folder / ".venv")
        self.create(
            self.folder / ".venv", with_pip=True
        )  # half of it: a Python, no pip
        (self.folder / ".venv" / "left").touch()
        done = command("lab", "--no-open")
        self.assertEqual(done.status, 0)
        self.assertIn("making a virtual environment", done.out)
        self.assertFalse((self.folder / ".venv" / "left").exists())
        self.assertNotIn("making", command("lab", "--no-open").out)

    def test_an_environment_that_lost_a_package_is_filled_again(self):
        self.assertEqual(command("lab", "--no-open").status, 0)
        self.lacks = True
        self.refused("remove .venv and run it again")
        self.assertEqual(self.verbs().count("pip"), 2)

    def test_something_else_has_the_name(self):
        (self.folder / ".venv").write_text("not a folder")
        self.refused("remove it and run this again")

    def test_a_kernel_that_can_not_be_registered(self):
        self.fails = "ipykernel"
        self.refused("the kernel can't be registered: no such thing")

    def test_a_python_without_venv(self):
        with mock.patch.dict(sys.modules, {"ensurepip": None}):
            self.refused("no venv module. On Debian and Ubuntu: apt install python3.")

    def test_a_folder_that_can_not_be_written(self):
        failing = mock.patch(
            "venv.create", side_effect=OSError(13, "Permission denied")
        )
        with failing:
            self.refused("Permission denied")


class Project(InFolder):
    def test_it_is_found_from_a_folder_below_and_missed_elsewhere(self):
        for name in (*lab.MAPS.values(), lab.LOCK):
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")
        with mock.patch("pathlib.Path.cwd", lambda: self.folder / "docs" / "en"):
            self.assertEqual(lab.project(), self.folder)
        nowhere = mock.patch("pathlib.Path.cwd", lambda: Path(self.folder.anchor))
        installed = mock.patch.object(
            lab, "__file__", str(self.folder / "x" / "y" / "z")
        )
        (self.folder / lab.LOCK).unlink()
        with nowhere, installed:
            done = command("lab")
        self.assertEqual((done.status, done.out), (2, ""))
        self.assertIn("expected to be started in the project's folder", done.err)


if __name__ == "__main__":
    unittest.main()
