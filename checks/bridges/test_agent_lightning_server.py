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

import signal
import subprocess
import sys
import time
import unittest
import urllib.error

import httpx
import train_processes
from course_agent import post
from gateway import KEY

CRASHES = "course_agent:Crashes"
AWAY = "course_agent:NoSuchAgent"
WAIT = 60  # seconds


class Finished(unittest.TestCase):
    """One golden episode three times: played, played and crashed, never begun."""

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
    def test_ctrl_c_leaves_no_process_behind(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            script = train_processes.HERE / "train_processes.py"
            program = subprocess.Popen(
                [sys.executable, str(script)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            try:
                children = seen_children(program.pid)
                program.send_signal(number)
                self.assertEqual(program.wait(WAIT), 130)
            finally:
                program.kill()
                program.wait()
            self.assertEqual([pid for pid in children if alive(pid)], [])


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
