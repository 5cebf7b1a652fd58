"""What the checks of Agent Lightning share: a gateway in this process, a model server.

The chapter's scripts are used as they are; a check imports this file first.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "06_agent_lightning"
sys.path[:0] = [str(ROOT), str(EXAMPLE)]

import agentlightning
import gateway as chapter
from course_agent import AGENT_CLASS, play
from gateway import Gateway, Refused
from model_server import MODEL, ModelServer, Said, Script, Table
from one_group import turns_of

from agentic_rl.agent_loop import Limits
from agentic_rl.bridges import agent_lightning as bridge
from agentic_rl.bridges.vocabulary import Vocabulary
from agentic_rl.golden import GOLDEN_TASK, golden_set
from agentic_rl.scripted import slow_tools
from agentic_rl.tasks import Task

__all__ = (
    "AGENT_CLASS",
    "CONFIG",
    "EXAMPLE",
    "GOLDEN",
    "GOLDEN_TASK",
    "MODEL",
    "Gateway",
    "ModelServer",
    "Refused",
    "Said",
    "Script",
    "Table",
    "Vocabulary",
    "bridge",
    "play",
    "turns_of",
)

chapter.quiet()
CONFIG = (
    Path(agentlightning.__file__).parent / "config"
)  # its server's, its controller's
GOLDEN = golden_set()
CHAT = "/proxy/rollout/{}/attempt/0/mode/{}/openai/v1/chat/completions"
EVENTS = "/api/rollouts/{}/attempt/0/events"


class World(NamedTuple):
    """A gateway with a model server behind it, and rollouts in it."""

    gateway: Gateway
    server: ModelServer

    def rollout(self, name: str = "r", task: Task = GOLDEN_TASK, **fields: Any) -> str:
        """A rollout that waits; its name."""
        wanted = {**bridge.rollout(task, 0, name, AGENT_CLASS), **fields}
        self.gateway("POST", "/api/rollouts", [wanted])
        return name

    def ask(self, name: str, text: str = "What is 347 * 86?", **more: Any) -> Any:
        """One model call of this rollout, in the mode train unless ``mode`` says other."""
        mode = more.pop("mode", "train")
        body = {"messages": [{"role": "user", "content": text}], **more}
        return self.gateway("POST", CHAT.format(name, mode), body)

    def tell(self, name: str, kind: str, **data: Any) -> None:
        """One event of this rollout."""
        self.gateway("POST", EVENTS.format(name), {"event_type": kind, "data": data})

    def says(self, *texts: str) -> None:
        """What the model will say, each with log-prob -0.5."""
        self.server.speaker = Script([Said(text, None, -0.5) for text in texts])

    def played(self, name: str, triplet: bool = True) -> list[dict[str, Any]]:
        """The events of a golden episode, played by the chapter's agent."""
        task, trajectory = GOLDEN[name]
        self.server.speaker = Script(turns_of(trajectory))
        fields = bridge.rollout(task, 0, name, AGENT_CLASS)
        self.gateway.attempt(
            fields, lambda ask, tell: play(task, 0, ask, tell, *circumstances(name))
        )
        assert self.gateway.state(name) == "succeeded", name
        return self.gateway.events(name, triplet)


def circumstances(name: str) -> tuple[Limits, Any]:
    """The limits and the tools that a golden episode met."""
    limits = Limits(turn_tokens=12) if name == "truncated" else Limits()
    return limits, slow_tools(GOLDEN[name][0]) if name == "timeout" else None


@contextlib.contextmanager
def world(texts: Sequence[str] = (), **proxy: Any) -> Iterator[World]:
    """A gateway in this process; the model says these texts."""
    with ModelServer(Script([]), Vocabulary()) as server, Gateway(MODEL, **proxy) as it:
        it.register(MODEL, server.endpoint)
        made = World(it, server)
        made.says(*texts)
        yield made
