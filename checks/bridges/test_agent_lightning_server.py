"""The real server, the real controller, an agent in a process of its own; on 127.0.0.1."""

from __future__ import annotations

from checks.bridges.agent_lightning_world import (
    AGENT_CLASS,
    GOLDEN,
    GOLDEN_TASK,
    MODEL,
    ModelServer,
    Vocabulary,
    bridge,
    turns_of,
)

# isort: split

import contextlib
import http.server
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import course_agent
import httpx
import train_grpo
import train_processes
from course_agent import post
from gateway import KEY

CRASHES = "course_agent:Crashes"
AWAY = "course_agent:NoSuchAgent"
WAIT = 60  # seconds
SCRIPT = str(train_processes.HERE / "train_processes.py")


class Finished(unittest.TestCase):
    """One golden episode three times: played, played and crashed, never begun.

    With a proxy in the environment, in both cases of its names.
    """

    @classmethod
    def setUpClass(cls):
        _, trajectory = GOLDEN["one call"]
        cls.vocabulary = Vocabulary()
        said = {2 * place + 1: turn for place, turn in enumerate(turns_of(trajectory))}
        speaker = lambda messages, body: said[len(messages)]  # noqa: E731
        wanted = [
            bridge.rollout(GOLDEN_TASK, 0, name, agent)
            for name, agent in (("a", AGENT_CLASS), ("b", CRASHES), ("c", AWAY))
        ]
        with (
            proxy() as (told, cls.asked),
            mock.patch.dict(os.environ, told),
            ModelServer(speaker, cls.vocabulary) as server,
            train_processes.services() as running,
            httpx.Client(
                base_url=running.address,
                headers={"authorization": f"Bearer {KEY}"},
                trust_env=False,
            ) as api,
        ):
            known = {"model": MODEL, "endpoint": server.endpoint}
            api.post("/api/models", json=[known]).raise_for_status()
            api.post("/api/rollouts", json=wanted).raise_for_status()
            cls.states = finished(api, len(wanted))
            cls.events = {
                name: api.get(
                    f"/api/rollouts/{name}/events", params={"format": "triplet"}
                ).json()
                for name in cls.states
            }
            try:
                post(f"{running.address}/api/rollouts", {}, "another key")
                cls.refused = None
            except urllib.error.HTTPError as error:
                cls.refused = error.code
                error.close()
            cls.programs = list(running.running)

    def test_the_states_are_the_exit_statuses_of_the_agents(self):
        self.assertEqual(self.states, {"a": "succeeded", "b": "failed", "c": "failed"})

    def test_the_episode_comes_back_as_it_was(self):
        back = bridge.from_events(self.events["a"], self.vocabulary)
        self.assertEqual(back, GOLDEN["one call"][1])

    def test_what_a_failed_agent_told_is_kept(self):
        back = bridge.from_events(self.events["b"], self.vocabulary)
        self.assertEqual(back, GOLDEN["one call"][1])
        self.assertEqual(self.events["c"], [])

    def test_a_proxy_is_asked_nothing(self):
        self.assertEqual(self.asked, [])

    def test_another_key_is_refused(self):
        self.assertEqual(self.refused, 401)

    def test_server_and_controller_have_ended(self):
        self.assertEqual(
            [program.poll() is None for program in self.programs], [False] * 2
        )


def finished(api: httpx.Client, count: int) -> dict[str, str]:
    """The states of rollouts once all have ended."""
    began = time.monotonic()
    while time.monotonic() - began < WAIT:
        page = api.get("/api/rollouts/terminal", params={"after": 0}).json()
        if page["total_terminal"] == count:
            return {item["rollout_id"]: item["state"] for item in page["items"]}
        time.sleep(0.05)
    raise AssertionError(f"not {count} after {WAIT} s")


class Stopped(unittest.TestCase):
    def test_whatever_tells_it_to_end_leaves_no_process_behind(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with started() as program:
                children = seen_children(program.pid)
                program.send_signal(number)
                self.assertEqual(program.wait(WAIT), 130)
            self.assertEqual([pid for pid in children if alive(pid)], [], number)

    def test_nor_does_one_who_can_not_wait(self):
        with started() as program:
            children = seen_children(program.pid)
            for number in (signal.SIGINT, signal.SIGINT, signal.SIGTERM):
                program.send_signal(number)
                time.sleep(0.05)
            program.wait(WAIT)
        self.assertEqual([pid for pid in children if alive(pid)], [])

    def test_no_second_signal_ends_the_ending(self):
        """Whether it runs by then, or a first one came while it was starting."""
        for early in (False, True):
            ended = []

            def start(running, *_, early=early):
                running.address_of_the_server = lambda: "http://127.0.0.1"
                if early:
                    os.kill(os.getpid(), signal.SIGTERM)

            def end(*_, ended=ended):
                os.kill(os.getpid(), signal.SIGINT)
                ended.append(True)

            with (
                mock.patch.object(train_processes.Services, "start", start),
                mock.patch.object(train_processes.Services, "__exit__", end),
            ):
                try:
                    with train_processes.services():
                        self.assertFalse(early)
                except KeyboardInterrupt:
                    self.assertTrue(early)
            self.assertEqual(ended, [True])

    def test_a_server_that_was_killed_is_named(self):
        with started() as program:
            children = seen_children(program.pid)
            os.kill(program_of("agentlightning.server", children), signal.SIGKILL)
            _, told = program.communicate(timeout=WAIT)
        self.assertEqual(program.returncode, 1)
        self.assertIn("the server ended with -9", told)
        self.assertNotIn("Traceback", told)
        self.assertEqual([pid for pid in children if alive(pid)], [])


class Refused(unittest.TestCase):
    """What ends train_processes.py with an error."""

    def test_a_log_that_can_not_be_written_is_told_before_the_run(self):
        done = subprocess.run(
            [sys.executable, SCRIPT, "--log", "/nowhere/at all.jsonl"],
            capture_output=True,
            text=True,
            timeout=WAIT / 6,
        )
        self.assertEqual(done.returncode, 2)
        self.assertEqual(
            done.stderr,
            "/nowhere/at all.jsonl: can't be written: No such file or directory\n",
        )

    def test_a_rollout_that_failed(self):
        page = {
            "next_after": 1,
            "items": [{"rollout_id": "0-0-0", "state": "failed"}],
        }
        with (
            tempfile.TemporaryDirectory() as name,
            mock.patch("agentlightning.client.AgentLightningSyncClient") as client,
        ):
            folder = Path(name)
            (folder / "controller.log").write_text("why")
            client.return_value.get.return_value.json.return_value = page
            running = mock.Mock(address="", folder=folder)
            server = mock.Mock(endpoint="")
            job = train_grpo.Job(GOLDEN_TASK, 0, {"rollout_id": "0-0-0"})
            with self.assertRaisesRegex(SystemExit, "rollout 0-0-0 failed:\nwhy"):
                train_processes.by_processes(running, server)([job], 0)

    def test_rewards_that_are_not_what_was_promised(self):
        for rewards, long, fine in (
            ([0.1, 0.2, 0.3], False, True),
            ([0.1, 0.3, 0.2], False, False),
            ([0.1, 0.1, 0.2], False, False),
            ([0.1, 0.91, 0.91, 0.91, 0.91], True, True),
            ([0.99, 0.9, 0.9, 0.9, 0.9], True, False),
        ):
            state = SimpleNamespace(metrics=[{"reward": x} for x in rewards])
            with contextlib.redirect_stdout(None):
                if fine:
                    train_processes.judge(state, long)
                    continue
                with self.assertRaisesRegex(SystemExit, "not as it was promised"):
                    train_processes.judge(state, long)


class TheAgent(unittest.TestCase):
    def test_it_takes_its_seed_and_its_addresses_from_the_environment(self):
        asked = []

        def answer(url, body, key):
            asked.append((url, key, body.get("seed")))
            message = {"role": "assistant", "content": "Answer: 1"}
            return {"choices": [{"message": message, "finish_reason": "stop"}]}

        told = {
            "AGL_OPENAI_BASE_URL": "http://model",
            "AGL_EVENT_URL": "http://events",
            "AGL_KEY": "k",
            "TASK": json.dumps(GOLDEN_TASK.to_dict()),
            "SEED": "7",
        }
        with (
            mock.patch.dict(os.environ, told),
            mock.patch.object(course_agent, "post", answer),
        ):
            course_agent.ToolMathAgent().run()
        first, *rest = asked
        self.assertEqual(first, ("http://model/chat/completions", "k", 7))
        self.assertEqual(set(rest), {("http://events", "k", None)})


class Proxies(unittest.TestCase):
    def test_the_first_program_asks_none_either(self):
        with proxy() as (told, asked):
            done = subprocess.run(
                [sys.executable, str(train_processes.HERE / "one_group.py")],
                env={**os.environ, **told},
                capture_output=True,
                text=True,
                timeout=WAIT,
            )
        self.assertEqual((done.returncode, done.stderr, asked), (0, "", []))
        self.assertIn("Next: train_grpo.py", done.stdout)


@contextlib.contextmanager
def proxy() -> Iterator[tuple[dict[str, str], list[str]]]:
    """(the variables that name it, what it was asked); it answers with an error."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_) -> None:
            pass

        def do_POST(self) -> None:
            asked.append(self.path)
            self.send_error(502)

        do_GET = do_CONNECT = do_POST

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        told = {"http_proxy": address, "no_proxy": "example.com"}
        yield {**told, **{name.upper(): value for name, value in told.items()}}, asked
        server.shutdown()


@contextlib.contextmanager
def started() -> Iterator[subprocess.Popen[str]]:
    """train_processes.py, which is killed where a check fails."""
    program = subprocess.Popen(
        [sys.executable, SCRIPT],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heard,
    )
    with program:
        try:
            yield program
        finally:
            program.kill()


def heard() -> None:
    """No signal is ignored, as it would be in a check that nohup or a shell's & started."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def program_of(module: str, pids: list[int]) -> int:
    """The process among these that runs a module."""
    (found,) = [
        pid
        for pid in pids
        if module in Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    ]
    return found


def seen_children(pid: int) -> list[int]:
    """The processes below this one, once the controller is among them and an agent."""
    began = time.monotonic()
    while time.monotonic() - began < WAIT:
        found = below(pid)
        if len(found) >= 3:
            return found
        time.sleep(0.1)
    raise AssertionError("no agent was started")


def below(pid: int) -> list[int]:
    """Children, and theirs, as Linux lists them."""
    found = []
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as page:
            children = [int(word) for word in page.read().split()]
    except OSError:
        return found
    for child in children:
        found += [child, *below(child)]
    return found


def alive(pid: int) -> bool:
    """Whether a process is there and more than a zombie."""
    try:
        with open(f"/proc/{pid}/stat") as page:
            return page.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


if __name__ == "__main__":
    unittest.main()
