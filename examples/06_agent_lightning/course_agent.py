"""The course's agent loop as an agent of Agent Lightning.

Its controller makes the class without arguments and calls ``run``. What the agent needs
stands in environment variables: where to ask the model, where to report, a key, and what
the env_map of the rollout takes from its input (TASK, SEED). The loop, the tools and the
reward are those of chapters 01 and 02; the policy is whoever answers over HTTP.

The agent sees messages and never a token: ids and log-probs stay with the gateway.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from agentic_rl.agent_loop import Episode, Limits
from agentic_rl.bridges import agent_lightning as bridge
from agentic_rl.reward import COURSE_REWARD, attach
from agentic_rl.tasks import Task
from agentic_rl.tools import ToolBox
from agentic_rl.trajectory import Trajectory

AGENT_CLASS = "course_agent:ToolMathAgent"  # as the rollout's config names it
SECONDS = 30  # for one answer of the model

Ask = Callable[[dict[str, Any]], Any]  # the body of a chat completion -> the response
Tell = Callable[[dict[str, Any]], Any]  # an event


def play(
    task: Task,
    seed: int,
    ask: Ask,
    tell: Tell,
    limits: Limits = Limits(),
    tools: ToolBox | None = None,
) -> Trajectory:
    """One episode, its reward, and the events that tell of both."""
    episode = Episode(task, limits, tools)
    schemas, longest = episode.world.tools.schemas(), limits.turn_tokens
    record = episode.trajectory
    texts: list[str] = []
    while not episode.done:
        body = bridge.request(record.messages, schemas, seed, longest, texts)
        text, choice = bridge.written(ask(body))
        episode.say(text, choice=choice)
        texts.append(text)
    attach([record], [COURSE_REWARD(record, task)])
    for event in bridge.reports(record):
        tell(event)
    return record


class ToolMathAgent:
    """One episode of the task in TASK, asked and told over HTTP."""

    def run(self) -> None:
        """Play it. What is raised ends the process with 1: a failed rollout."""
        told = os.environ
        chat = f"{told['AGL_OPENAI_BASE_URL']}/chat/completions"
        events, key = told["AGL_EVENT_URL"], told["AGL_KEY"]
        play(
            bridge.task_of(told["TASK"]),
            int(told["SEED"]),
            ask=lambda body: post(chat, body, key),
            tell=lambda event: post(events, event, key),
        )


class Crashes(ToolMathAgent):
    """Plays, reports its reward, and fails: what is then trained on is a surprise."""

    def run(self) -> None:
        super().run()
        raise RuntimeError("after the reward")


# Without a proxy: the gateway is on this machine.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def post(url: str, body: dict[str, Any], key: str) -> Any:
    """The JSON that is answered. Raises urllib.error.URLError."""
    told = {"content-type": "application/json", "authorization": f"Bearer {key}"}
    asked = urllib.request.Request(url, json.dumps(body).encode(), told)
    with OPENER.open(asked, timeout=SECONDS) as response:
        return json.load(response)
