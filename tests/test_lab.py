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
        for patch in (
            mock.patch.object(lab, "project", lambda: self.folder),
            mock.patch("subprocess.run", self.run_nothing),
            mock.patch("venv.create", self.create),
        ):
            patch.start()
            self.addCleanup(patch.stop)

    def create(self, folder: Path, with_pip: bool) -> None:
        self.assertTrue(with_pip)
        commands = folder / lab.FOLDER
        commands.mkdir(parents=True)
        for name in ("python", "python.exe"):
            (commands / name).touch()

    def run_nothing(self, words, **options):
        self.ran.append(words)
        failed = self.fails and self.fails in words
        return subprocess.CompletedProcess(
            words, int(bool(failed)), "", "no such thing"
        )

    def verbs(self) -> list[str]:
        """Which tools were run, in order."""
        return [words[2] for words in self.ran]


class Steps(Lab):
    def test_environment_kernel_jupyter(self):
        done = command("lab", "--language", "en")
        self.assertEqual((done.status, done.err), (0, ""))
        self.assertEqual(self.verbs(), ["pip", "ipykernel", "jupyter"])
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

    def test_the_second_time_nothing_is_installed_until_the_lock_file_changes(self):
        for lock, installs in (("a", True), ("a", False), ("b", True)):
            (self.folder / lab.LOCK).write_text(lock)
            self.ran.clear()
            self.assertEqual(command("lab", "--no-open").status, 0)
            self.assertEqual("pip" in self.verbs(), installs)
            self.assertNotIn("jupyter", self.verbs())

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

    def test_no_network(self):
        self.fails = "pip"
        self.refused("Without a network nothing can be installed")
        self.fails = ""
        self.assertEqual(command("lab", "--no-open").status, 0, "it goes on")
        self.assertEqual(self.verbs().count("pip"), 2)

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
