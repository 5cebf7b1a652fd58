"""Agents that follow a script: one acts well, each of the others fails in its own way.

A script looks at the episode so far and writes the next assistant turn. None of them
learns anything: they are what a policy is compared with, and what a reward, a mask and a
parser have to cope with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from agentic_rl.agent_loop import Episode, Limits, run_script
from agentic_rl.tasks import Task
from agentic_rl.tool_math import CALCULATOR
from agentic_rl.tools import Tool, ToolBox
from agentic_rl.trajectory import Trajectory


class ScriptedAgent(NamedTuple):
    """A script with a name, what it shows, and the tools it meets (None: the usual)."""

    name: str
    about: str
    write: Callable[[Episode], str]
    tools: Callable[[Task], ToolBox] | None = None

    def run(self, task: Task, limits: Limits = Limits()) -> Trajectory:
        """One episode of this agent."""
        return run_script(self.write, task, limits, self.tools and self.tools(task))


def follow(*actions: str) -> Callable[[Episode], str]:
    """A script that takes these actions in turn and repeats the last one."""

    def write(episode: Episode) -> str:
        turn = min(len(episode.trajectory.actions), len(actions) - 1)
        return episode.world.speak(actions[turn])

    return write


def says(text: str) -> Callable[[Episode], str]:
    """A script that always writes this text."""
    return lambda episode: text


def act_well(episode: Episode) -> str:
    """The fewest calls that lead to a right answer, for each kind of task."""
    kind, event = episode.state.split("/")
    if kind == "easy":
        return episode.world.speak("answer_from_memory")
    if event == "result":
        return episode.world.speak("answer_from_observation")
    needs_price = kind == "lookup" and event == "start"
    return episode.world.speak("call_lookup" if needs_price else "call_calculator")


def call_in_parallel(episode: Episode) -> str:
    """Two calls in one turn. Neither can use what the other finds."""
    speak = episode.world.speak
    if not episode.trajectory.actions:
        return speak("call_lookup") + speak("call_calculator")
    is_result = episode.state.endswith("/result")
    return speak("answer_from_observation" if is_result else "call_calculator")


def think_aloud(episode: Episode) -> str:
    """Drafts a call in its thoughts, which is no call, and then acts well."""
    draft = episode.world.speak("call_broken")
    return f"<think>I could try {draft}, but no.</think>{act_well(episode)}"


def slow_tools(task: Task) -> ToolBox:
    """The usual calculator beside a lookup that never comes back."""

    def wait_forever(item: str) -> Iterator[None]:
        while True:
            yield

    lookup = Tool(
        "lookup", "The price of an item.", {"item": "string"}, wait_forever, 100
    )
    return ToolBox([CALCULATOR, lookup])


ACTS_WELL = ScriptedAgent(
    "acts well", "the fewest calls that lead to the answer", act_well
)
SCRIPTED = (
    ACTS_WELL,
    ScriptedAgent(
        "spams the tool",
        "asks three times for what it knows",
        follow(*["call_calculator"] * 3, "answer_from_observation"),
    ),
    ScriptedAgent("guesses", "answers without a tool", follow("answer_from_memory")),
    ScriptedAgent(
        "ignores the result",
        "calls, then answers from memory",
        follow("call_calculator", "answer_from_memory"),
    ),
    ScriptedAgent(
        "broken JSON",
        "a call nobody can read, then a guess",
        follow("call_broken", "answer_from_memory"),
    ),
    ScriptedAgent(
        "unknown tool",
        "calls a tool that is not there, then the right one",
        follow("call_unknown", "call_calculator", "answer_from_observation"),
    ),
    ScriptedAgent("parallel calls", "two calls in one turn", call_in_parallel),
    ScriptedAgent(
        "meets a timeout",
        "the lookup never comes back",
        follow("call_lookup", "answer_from_observation"),
        slow_tools,
    ),
    ScriptedAgent(
        "never answers", "calls until the turns are over", follow("call_calculator")
    ),
    ScriptedAgent(
        "thinks aloud", "drafts a call in its thoughts, acts well", think_aloud
    ),
)


def scripted(name: str) -> ScriptedAgent:
    """The scripted agent of this name. Raises KeyError."""
    return {agent.name: agent for agent in SCRIPTED}[name]
