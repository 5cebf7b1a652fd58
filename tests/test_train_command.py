"""``train``: a folder that says what happened, and that can go on as if nothing had."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import unittest
from pathlib import Path
from unittest import mock

from agentic_rl.cli import runs, terminal, train
from agentic_rl.cli.runs import METRICS, POLICY, STATE, TASKS, TRAJECTORIES
from agentic_rl.cli.storage import TRAINING, load_tasks
from agentic_rl.conventions import PRESETS
from agentic_rl.grpo import Config
from agentic_rl.grpo import train as grpo_train
from agentic_rl.policy import SoftmaxPolicy
from agentic_rl.reward import COURSE_REWARD, MEASURES, REWARDS
from agentic_rl.tasks import generate, write_tasks
from agentic_rl.trajectory import Trajectory
from tests.support import InFolder, command

ROOT = Path(__file__).resolve().parents[1]


def contents(folder: Path) -> dict[str, bytes]:
    """name -> bytes of every file in a folder."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def lines(path: Path) -> list[dict]:
    """A file of JSON lines."""
    return [json.loads(line) for line in path.read_text().splitlines()]


class Folders(InFolder):
    def setUp(self):
        super().setUp()
        self.out = self.folder / "run"

    def train(self, *arguments: object, out: Path | None = None):
        return command("train", "--out", out or self.out, *arguments)


class WhatIsWritten(Folders):
    def test_the_folder_holds_what_the_loop_computes(self):
        self.assertEqual(self.train("--steps", 4, "--seed", 3).status, 0)
        tasks = load_tasks(TRAINING)
        self.assertEqual(load_tasks(self.out / TASKS), tasks)
        batches = []
        state = grpo_train(
            tasks, Config(updates=4, seed=3), on_update=lambda s, b: batches.append(b)
        )
        written = SoftmaxPolicy.from_dict(json.loads((self.out / POLICY).read_text()))
        self.assertEqual(written.logits, state.policy.logits)
        expected = [{"step": n, **m} for n, m in enumerate(state.metrics, 1)]
        self.assertEqual(lines(self.out / METRICS), expected)
        episodes = iter(lines(self.out / TRAJECTORIES))
        for step, batch in enumerate(batches, 1):
            rows = zip(batch.trajectories, batch.groups, batch.advantages)
            for trajectory, group, advantage in rows:
                line = next(episodes)
                self.assertEqual(
                    (line["step"], line["group"], line["advantage"]),
                    (step, group, advantage),
                )
                self.assertEqual(Trajectory.from_dict(line["trajectory"]), trajectory)
        self.assertEqual(next(episodes, None), None)

    def test_the_same_command_writes_the_same_bytes(self):
        for name in ("a", "b"):
            self.train("--steps", 3, out=self.folder / name)
        self.assertEqual(*(contents(self.folder / name) for name in ("a", "b")))

    def test_every_nth_steps_episodes_are_kept(self):
        for every, kept in ((0, []), (2, [2, 4]), (5, [])):
            out = self.folder / str(every)
            self.train("--steps", 4, "--keep-every", every, out=out)
            steps = {line["step"] for line in lines(out / TRAJECTORIES)}
            self.assertEqual(sorted(steps), kept)

    def test_the_settings_come_back_as_they_were_given(self):
        self.train(
            *("--steps", 1, "--tasks-per-step", 2, "--group-size", 3, "--epochs", 4),
            *("--learning-rate", 0.5, "--max-turns", 3, "--seed", 9),
            *("--convention", "verl", "--clip", "0.1,0.3", "--kl-weight", 0.05),
            *("--kl-place", "loss", "--kl-estimator", "k2", "--set", "std=none"),
            *("--set", "dual_clip=none", "--set", "whiten=true", "--set", "ddof=0"),
            *("--term", "right=2", "--term", "calls=-0.5,if-right,cap=3"),
        )
        settings = runs.open_run(self.out).settings
        config, rule = settings.config, settings.config.convention
        self.assertEqual(
            (config.updates, config.tasks_per_update, config.group_size, config.epochs),
            (1, 2, 3, 4),
        )
        self.assertEqual(
            (config.learning_rate, config.limits.max_turns, config.seed), (0.5, 3, 9)
        )
        turned = PRESETS["verl"].but(
            clip="ppo",
            clip_low=0.1,
            clip_high=0.3,
            kl_weight=0.05,
            kl_place="loss",
            kl_estimator="k2",
            std="none",
            dual_clip=None,
            whiten=True,
            ddof=0,
        )
        self.assertEqual(rule, turned)
        right, calls = settings.reward.terms
        self.assertEqual((right.name, right.weight), ("right", 2.0))
        self.assertEqual(
            (calls.measure, calls.weight, calls.only_if_right, calls.cap),
            (MEASURES["calls"], -0.5, True, 3.0),
        )

    def test_a_clip_range_turns_the_clip_on(self):
        self.train("--steps", 1, "--convention", "rloo", "--clip", 0.3)
        rule = runs.open_run(self.out).settings.config.convention
        self.assertEqual((rule.clip, rule.clip_low, rule.clip_high), ("ppo", 0.3, 0.3))

    def test_a_name_that_the_output_can_not_hold_is_escaped(self):
        done = subprocess.run(
            [
                *(sys.executable, "-m", "agentic_rl", "train", "--steps", "1"),
                *("--out", str(self.folder / "\u8fd0\u884c")),
            ],
            cwd=ROOT,
            capture_output=True,
            env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "1"},
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(b"\\u8fd0\\u884c", done.stdout)

    def test_every_preset_and_every_named_reward_trains(self):
        for name in PRESETS:
            done = self.train(
                "--steps", 1, "--convention", name, out=self.folder / name
            )
            self.assertEqual(done.status, 0, name)
        for name, reward in REWARDS.items():
            out = self.folder / f"reward {name}"
            self.train("--steps", 1, "--reward", name, out=out)
            self.assertEqual(runs.open_run(out).settings.reward, reward)

    def test_without_options_it_is_the_course(self):
        self.train("--steps", 1)
        settings = runs.open_run(self.out).settings
        self.assertEqual(settings, runs.Settings(Config(updates=1), COURSE_REWARD))

    def test_own_tasks_of_one_kind_are_enough(self):
        path = self.folder / "hard.jsonl"
        hard = [t for t in generate(2, seed=5) if t.id.startswith("hard")]
        path.write_text(write_tasks(hard))
        self.assertEqual(self.train(path, "--steps", 2).status, 0)
        self.assertEqual(load_tasks(self.out / TASKS), hard)
        self.assertEqual(command("evaluate", self.out, "--tasks", path).status, 0)


class GoingOn(Folders):
    """Stopped anywhere, the run ends with the bytes of one that was never stopped."""

    def setUp(self):
        super().setUp()
        self.whole = self.folder / "whole"
        self.train("--steps", 5, out=self.whole)
        self.expected = contents(self.whole)

    def stopped_at(self, where: str, step: int) -> None:
        """Ctrl-C in the midst of a step: before, between or after what it writes."""
        written = runs.Recorder.on_update
        append = runs.Recorder._append

        def on_update(recorder, state, batch):
            if state.update == step and where == "before":
                raise KeyboardInterrupt
            written(recorder, state, batch)
            if state.update == step and where == "after":
                raise KeyboardInterrupt

        def half(recorder, name, records):
            if len(recorder.seen) == 2 * (step - 1) + (where == "metrics"):
                recorder.files[name].write(b'{"step": ')
                recorder.files[name].flush()
                raise KeyboardInterrupt
            recorder.seen.append(name)
            append(recorder, name, records)

        with contextlib.ExitStack() as stack:
            if where in (TRAJECTORIES, "metrics"):
                stack.enter_context(mock.patch.object(runs.Recorder, "_append", half))
                stack.enter_context(
                    mock.patch.object(runs.Recorder, "seen", [], create=True)
                )
            else:
                stack.enter_context(
                    mock.patch.object(runs.Recorder, "on_update", on_update)
                )
            done = self.train("--steps", 5)
        self.assertEqual(done.status, 130)
        is_done = (where, step) == ("after", 5)
        self.assertEqual(f"train --resume {self.out}" in done.out, not is_done)
        steps = runs.load_state(runs.open_run(self.out)).update
        self.assertEqual(len(lines(self.out / METRICS)), steps)
        self.assertEqual(len(lines(self.out / TRAJECTORIES)), 48 * steps)
        self.assertTrue((self.out / POLICY).exists())

    def test_from_wherever_it_was_stopped(self):
        for where in ("before", TRAJECTORIES, "metrics", "after"):
            for step in (1, 3, 5):
                with self.subTest(f"{where}, step {step}"):
                    self.out = self.folder / f"{where}-{step}"
                    self.stopped_at(where, step)
                    done = command("train", "--resume", self.out)
                    self.assertEqual(done.status, 0)
                    self.assertEqual(contents(self.out), self.expected)

    def test_more_steps_later_are_the_same_as_at_once(self):
        self.train("--steps", 2)
        done = command("train", "--resume", self.out, "--steps", 5)
        self.assertEqual(done.status, 0)
        self.assertEqual(contents(self.out), self.expected)

    def test_a_run_that_was_killed_at_birth_is_no_run(self):
        for left in (
            {},
            {TASKS: "x"},
            {TASKS + ".part": "x"},
            {"config.json.part": ""},
        ):
            out = self.folder / f"born {len(left)} {'-'.join(left)}"
            out.mkdir()
            for name, text in left.items():
                (out / name).write_text(text)
            self.assertEqual(self.train("--steps", 5, out=out).status, 0)
            written = {n: b for n, b in contents(out).items() if n in self.expected}
            self.assertEqual(written, self.expected)

    def test_two_processes_do_not_write_one_run(self):
        with runs.Recorder(runs.open_run(self.whole)):
            done = command("train", "--resume", self.whole, "--steps", 6)
        self.assertEqual(done.status, 2)
        self.assertIn("another process is writing this run", done.err)
        done = command("train", "--resume", self.whole, "--steps", 5)
        self.assertEqual(contents(self.whole)[METRICS], self.expected[METRICS])

    def test_a_finished_run_has_nothing_to_do(self):
        self.assertEqual(command("train", "--resume", self.whole).status, 0)
        self.assertEqual(contents(self.whole), self.expected)

    def test_what_is_settled_can_not_be_said_anew(self):
        for arguments, said in (
            (["--seed", 3], "--seed: is settled"),
            (["--seed", 0], "--seed: is settled"),  # though it was so before
            (["--set", "std=none"], "--set: is settled"),
            (["--out", "x"], "--out: is settled"),
            ([TRAINING], "TASKS: are settled"),
            (["--steps", 4], "--steps: 4, but 5 are done already"),
        ):
            done = command("train", "--resume", self.whole, *arguments)
            self.assertEqual(done.status, 2)
            self.assertIn(said, done.err)
            self.assertEqual(contents(self.whole), self.expected)

    def test_a_folder_that_was_tampered_with_is_refused_by_file(self):
        def shorter(data):
            return data[:-1]

        def swapped(data):
            first, second, *rest = data.splitlines(keepends=True)
            return b"".join([second, first, *rest])

        for name, damage, said in (
            (METRICS, shorter, "metrics.jsonl: expected"),
            (METRICS, swapped, "metrics.jsonl: expected a line a step"),
            (STATE, shorter, ""),
            (STATE, lambda data: b"{}", "state.json: expected the state"),
            (STATE, lambda data: b"[1]", "state.json: expected the state"),
            (
                STATE,
                lambda data: data.replace(b'"sizes": {"m', b'"sizes": {"n'),
                "state",
            ),
            (STATE, lambda data: data.replace(b'l": ', b'l": -'), "sizes: expected a"),
            ("config.json", lambda data: b"{}", "config.json: expected the settings"),
            (
                "config.json",
                lambda data: data.replace(b'"k3"', b'"k9"'),
                "kl_estimator",
            ),
            (TASKS, lambda data: b"", "tasks.jsonl: expected at least one task"),
            (TRAJECTORIES, lambda data: b"", "trajectories.jsonl: expected"),
        ):
            path = self.whole / name
            damaged = damage(self.expected[name])
            if damaged == shorter(self.expected[STATE]):
                damaged = damaged[:-1]  # the last brace too
            path.write_bytes(damaged)
            done = command("train", "--resume", self.whole, "--steps", 6)
            self.assertEqual((done.status, done.out), (2, ""), name)
            self.assertIn(said, done.err)
            self.assertEqual(contents(self.whole), {**self.expected, name: damaged})
            path.write_bytes(self.expected[name])
        (self.whole / TRAJECTORIES).unlink()
        done = command("train", "--resume", self.whole, "--steps", 6)
        self.assertEqual((done.status, done.out), (2, ""))
        self.assertFalse((self.whole / TRAJECTORIES).exists())

    @unittest.skipIf(os.name == "nt", "there is no ulimit there")
    def test_a_full_disk_is_told_and_the_run_goes_on_later(self):
        program = f"{sys.executable} -m agentic_rl train --steps 5 --out '{self.out}'"
        limited = f"ulimit -f 300; exec {program}"  # blocks of 512 bytes or of 1024
        done = subprocess.run(
            ["/bin/sh", "-c", limited], cwd=ROOT, capture_output=True, text=True
        )
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        last = done.stderr.splitlines()[-1]
        self.assertEqual(last, f"error: {self.out / TRAJECTORIES}: File too large")
        self.assertEqual(command("train", "--resume", self.out).status, 0)
        self.assertEqual(contents(self.out), self.expected)

    @unittest.skipIf(os.name == "nt", "signals differ there")
    def test_control_c_for_real(self):
        program = [sys.executable, "-m", "agentic_rl", "train", "--steps", "100000"]
        process = subprocess.Popen(
            [*program, "--out", str(self.out)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A program in the background is born deaf to it.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        process.stderr.readline()  # the first step is done
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.assertNotIn("Traceback", err)
        self.assertIn(f"--resume {self.out}", out)
        self.assertGreater(runs.load_state(runs.open_run(self.out)).update, 0)


class BadInput(Folders):
    def refused(self, *arguments: object, said: str) -> None:
        done = self.train(*arguments)
        self.assertEqual((done.status, done.out), (2, ""))
        self.assertIn(said, done.err)
        self.assertEqual(len(done.err.splitlines()), 1)
        self.assertFalse(self.out.exists(), "nothing is written")

    def test_tasks_are_refused_with_file_line_and_field(self):
        good = write_tasks(generate(1, seed=0))
        path = self.folder / "mine.jsonl"
        for line, said in (
            ("{", "mine.jsonl:4: not valid JSON"),
            ('{"id": 1}', "mine.jsonl:4: field 'id': expected text, got 1"),
            (good.splitlines()[0], "mine.jsonl:4: field 'id':"),
        ):
            path.write_text(good + line + "\n")
            self.refused(path, said=said)
        path.write_bytes(b"\xff\xfe")
        self.refused(path, said="mine.jsonl: expected UTF-8 text")
        self.refused(self.folder / "none.jsonl", said="none.jsonl: No such file")
        self.refused(self.folder, said=f"{self.folder}: ")

    def test_options_are_refused_by_name(self):
        for arguments, said in (
            (("--group-size", 0), "--group-size: expected a whole number, at least 1"),
            (("--learning-rate", "nan"), "--learning-rate: expected a number"),
            (("--learning-rate", 0), "--learning-rate: expected a number above 0"),
            (("--convention", "ppo"), "--convention: expected one of course, grpo"),
            (("--clip", "wide"), "--clip: expected"),
            (("--clip", "0.2,-1"), "--clip: expected"),
            (("--kl-weight", 0.1), "--kl-weight: above 0 and a --kl-place go together"),
            (("--kl-place", "loss"), "--kl-weight: above 0 and a --kl-place go toget"),
            (("--clip", 0.3, "--set", "clip_low=0.1"), "--set: clip_low: is set twice"),
            (("--set", "std"), "--set: expected SWITCH=VALUE, got 'std'"),
            (("--set", "colour=red"), "--set: 'colour' is no switch"),
            (("--set", "std=wide"), "convention: std: expected one of none, group"),
            (("--set", "whiten=yes"), "convention: whiten: expected True or False"),
            (("--set", "std_epsilon=x"), "--set: expected a number"),
            (("--term", "luck=1"), "--term: expected one of right, calls"),
            (("--term", "right"), "--term: expected MEASURE=WEIGHT, got 'right'"),
            (("--term", "right="), "--term: expected a number, got ''"),
            (("--term", "right=1,twice"), "--term: expected if-right or cap=N"),
            (("--term", "right=1", "--term", "right=2"), "two terms are called"),
            (("--reward", "course", "--term", "right=1"), "--reward: "),
            (("--term", "right=1,cap=-5"), "--term: expected a number above 0"),
            (("--resume=",), "--resume: expected something, got an empty text"),
            (("",), "expected no empty argument"),
            (("--learning-rate", "1e308"), "step 1: "),
            (("--term", "calls=1e308"), "step 1: "),
        ):
            self.refused(*arguments, said=said)

    def test_a_run_is_never_written_over(self):
        self.train("--steps", 1)
        before = contents(self.out)
        done = self.train("--steps", 2)
        self.assertEqual(done.status, 2)
        self.assertIn("holds a run already", done.err)
        self.assertEqual(contents(self.out), before)

    def test_a_folder_of_something_else_is_left_alone(self):
        self.out.mkdir()
        (self.out / "letter.txt").write_text("dear")
        done = self.train("--steps", 1)
        self.assertEqual(done.status, 2)
        self.assertIn("expected a new or an empty folder", done.err)
        self.assertEqual(contents(self.out), {"letter.txt": b"dear"})

    def test_a_convention_that_refuses_the_batch_is_told_in_a_line(self):
        done = self.train("--convention", "openrlhf", "--group-size", 1)
        self.assertEqual(done.status, 2)
        self.assertIn("one episode has no peers", done.err)
        self.assertFalse(self.out.exists(), "nothing is left of it")
        self.assertEqual(len(done.err.splitlines()), 1)


class Progress(Folders):
    def test_plain_lines_elsewhere_and_the_summary_as_json(self):
        done = self.train("--steps", 30, "--json")
        self.assertEqual(len(done.err.splitlines()), 11)
        self.assertRegex(
            done.err, r"^step 1/30  reward -?\d\.\d{3}  success \d\.\d{3}\n"
        )
        summary = json.loads(done.out)
        self.assertEqual((summary["steps"], summary["of_steps"]), (30, 30))
        self.assertEqual(
            summary["metrics"], runs.load_state(runs.open_run(self.out)).metrics[-1]
        )

    def test_rate_and_remaining_time_on_a_terminal(self):
        state = mock.Mock(update=30, metrics=[{"reward": 0.5, "success": 0.25}])
        shown = []
        line = mock.Mock(shown=True, show=shown.append)
        clock = mock.patch("time.monotonic", side_effect=[100.0, 102.0])
        with mock.patch.object(train, "Progress", lambda: line), clock:
            train.TrainingProgress(10, 90).show(state)
        self.assertEqual(
            shown,
            [
                "[######..............] 30/90  reward 0.500  success 0.250  10/s  0:06 left"
            ],
        )

    def test_what_a_reader_of_the_log_should_know(self):
        for arguments, said in (
            (["--convention", "trl"], "steps are shorter"),
            (["--group-size", 1], "nothing to compare with"),
            ([], None),
        ):
            out = self.train("--steps", 1, *arguments, out=self.folder / str(said)).out
            for note in ("steps are shorter", "nothing to compare with"):
                self.assertEqual(note in " ".join(out.split()), note == said)
            self.assertLessEqual(len(out.splitlines()[-1]), 80 + len(str(self.folder)))

    def test_a_folder_with_a_space_is_quoted_in_what_to_run_next(self):
        out = self.train("--steps", 1, out=self.folder / "my run").out
        self.assertIn(f"evaluate '{self.folder / 'my run'}'", out)

    def test_a_clock(self):
        for seconds, text in ((0.4, "0:00"), (61, "1:01"), (3600, "1:00:00")):
            self.assertEqual(train.clock(seconds), text)

    def test_milestones_begin_and_end_and_are_few(self):
        self.assertEqual(train.milestones(3), [1, 2, 3])
        for steps in (20, 60, 999):
            found = train.milestones(steps)
            self.assertEqual((found[0], found[-1], len(found)), (1, steps, 11))
            self.assertEqual(found, sorted(set(found)))

    def test_a_command_names_how_it_was_started(self):
        for started, name in (
            ("/x/bin/agentic-rl", "agentic-rl"),
            ("/x/agentic_rl/__main__.py", "python3 -m agentic_rl"),
        ):
            with mock.patch.object(sys, "argv", [started]):
                self.assertEqual(terminal.program(), name)


if __name__ == "__main__":
    unittest.main()
