"""The agent loop: policy x environment -> one trajectory.

    observe the state, choose an action, say it, run its tool calls, read what came back

until the agent answers or a limit ends the episode. Every token is written here, at the
moment it is produced, together with its mask.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from agentic_rl.messages import Message, parse_assistant, tool, user
from agentic_rl.policy import SoftmaxPolicy
from agentic_rl.tasks import Task
from agentic_rl.tokens import IM_END, decode, encode, header, turn
from agentic_rl.tool_math import ToolMath
from agentic_rl.tools import ToolBox
from agentic_rl.trajectory import Action, Trajectory, check_logprob


@dataclass(frozen=True)
class Limits:
    """What ends an episode besides an answer. Three lengths that are not one:

    ``turn_tokens`` caps what the assistant writes in one turn, ``episode_tokens`` what
    stands in the whole episode, and ``max_turns`` the number of assistant turns.
    ``invalid_streak`` ends the episode after so many invalid calls in a row.
    """

    max_turns: int = 5
    turn_tokens: int | None = None
    episode_tokens: int | None = None
    invalid_streak: int | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is None and name != "max_turns":
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(
                    f"{name}: expected a whole number of at least 1, got {value!r}"
                )


class Episode:
    """One episode while it runs: the world and the record of what happens in it."""

    def __init__(
        self, task: Task, limits: Limits = Limits(), tools: ToolBox | None = None
    ):
        self.limits = limits
        self.world = ToolMath(task, tools)
        self.trajectory = Trajectory(task.id)
        self.trajectory.messages.append(user(task.question))
        self.trajectory.add_context(turn("user", task.question))
        self.calls = 0
        self.invalid_in_a_row = 0

    @property
    def state(self) -> str:
        """What the policy sees."""
        return self.world.state

    @property
    def done(self) -> bool:
        """True once the trajectory has a finish reason."""
        return self.trajectory.finish_reason is not None

    def act(self, choice: str, logprob: float) -> None:
        """Take one of the six actions; ``logprob`` is log pi(choice|state)."""
        self.say(self.world.speak(choice), logprob, choice)

    def say(self, text: str, logprob: float = 0.0, choice: str | None = None) -> None:
        """One assistant turn, in the assistant's own words, and what the tools answer.

        A scripted agent has no other choice, so its log-prob is log 1 = 0.
        """
        if self.done:
            raise ValueError("the episode has ended")
        if not isinstance(text, str):
            raise ValueError(f"an assistant writes text, got {type(text).__name__}")
        text, finish_reason = self._write(text, logprob)
        if finish_reason == "length":
            message: Message = {"role": "assistant", "content": text}
        else:
            message = parse_assistant(text, self.calls + 1)
        calls = message.get("tool_calls", [])
        action: Action = {
            "type": "tool_call" if calls else "final_answer",
            "state": self.state,
        }
        action["choice"] = choice
        if calls:
            action["calls"] = [call["id"] for call in calls]
        else:
            action["content"] = message["content"]
        action["finish_reason"] = "tool_calls" if calls else finish_reason
        self.trajectory.messages.append(message)
        self.trajectory.actions.append(action)
        if calls:
            self._run_calls(message)
        else:
            self.trajectory.finish_reason = finish_reason

    def _write(self, text: str, logprob: float) -> tuple[str, str]:
        """Write the turn's tokens; (the text as it was written, stop or length)."""
        record, limit = self.trajectory, self.limits.turn_tokens
        check_logprob(logprob, len(record.tokens))  # before anything is written
        record.add_context(header("assistant"))
        written = (*encode(text), IM_END)
        if limit is not None and len(written) > limit:
            record.add_decision(written[:limit], logprob)
            # The harness closes what the agent did not.
            record.add_context((IM_END, "\n"))
            return decode(written[:limit]), "length"
        record.add_decision(written, logprob)
        record.add_context(("\n",))
        return text, "stop"

    def _run_calls(self, message: Message) -> None:
        record, limits = self.trajectory, self.limits
        self.calls += len(message["tool_calls"])
        for observation in self.world.respond(message):
            record.observations.append(observation)
            record.messages.append(tool(observation.tool_call_id, observation.content))
            record.add_context(turn("tool", observation.content))
            invalid = observation.kind == "invalid_call"
            self.invalid_in_a_row = self.invalid_in_a_row + 1 if invalid else 0
            if self.invalid_in_a_row == limits.invalid_streak:
                # The other calls of the turn still run: each call is answered.
                record.finish_reason = "invalid_streak"
        if self.done:
            return
        if len(record.actions) >= limits.max_turns:
            record.finish_reason = "max_turns"
        elif limits.episode_tokens and len(record.tokens) >= limits.episode_tokens:
            record.finish_reason = "length"

    def fork(self) -> Episode:
        """An episode with the same past and a future of its own."""
        twin = Episode.__new__(Episode)
        vars(twin).update(vars(self))
        twin.world = self.world.fork()
        twin.trajectory = self.trajectory.fork()
        return twin


def run_episode(
    policy: SoftmaxPolicy, task: Task, rng: random.Random, limits: Limits = Limits()
) -> Trajectory:
    """Let the policy act until the episode ends; one ``rng.random()`` a decision."""
    episode = Episode(task, limits)
    while not episode.done:
        episode.act(*policy.sample(episode.state, rng))
    return episode.trajectory


def run_script(
    write: Callable[[Episode], str],
    task: Task,
    limits: Limits = Limits(),
    tools: ToolBox | None = None,
) -> Trajectory:
    """Let a script write each assistant turn, looking at the episode so far."""
    episode = Episode(task, limits, tools)
    while not episode.done:
        episode.say(write(episode))
    return episode.trajectory
