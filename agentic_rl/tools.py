"""Tools: what an assistant may call, and how each failure comes back.

Four kinds of observation, because four parties may be at fault:

    result        the tool answered
    tool_error    a valid call, and the tool says no (1/0, no such item)
    timeout       a valid call, and the tool did not finish in its steps
    invalid_call  the assistant's own fault: unknown name, arguments it can't read

None of them ends the episode. Each comes back as the content of a tool message.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from agentic_rl.messages import ToolCall, check_call, unreadable
from agentic_rl.values import excerpt

OBSERVATION_KINDS = ("result", "tool_error", "timeout", "invalid_call")

_JSON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}


class Observation(NamedTuple):
    """What came back from one call. ``content`` is the tool message's text."""

    kind: str
    tool_call_id: str
    name: str
    content: str


class ToolError(ValueError):
    """Raised by a tool to say no; its text becomes the observation."""


class _OutOfSteps(Exception):
    pass


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _fits(value: Any, kind: str) -> bool:
    """Whether a value is of a JSON type: a boolean is no number, and NaN is none."""
    if isinstance(value, bool):
        return kind == "boolean"
    if isinstance(value, float) and not math.isfinite(value):
        return False
    return isinstance(value, _JSON_TYPES[kind])


@dataclass(frozen=True)
class Tool:
    """A function the assistant may call by name.

    ``parameters`` maps each argument's name to its JSON type; all are required.
    ``function`` takes them by keyword and returns text. A plain function must be
    bounded by itself. One that may take long is a generator: each ``yield`` is a step,
    and after ``max_steps`` of them it is closed. Steps, unlike seconds, are the same on
    every machine.
    """

    name: str
    description: str
    parameters: dict[str, str]
    function: Callable[..., Any]
    max_steps: int | None = None

    def __post_init__(self) -> None:
        for name, kind in self.parameters.items():
            if kind not in _JSON_TYPES:
                raise ValueError(f"tool {self.name!r}: {name!r}: unknown type {kind!r}")
        if inspect.isgeneratorfunction(self.function) != (self.max_steps is not None):
            raise ValueError(
                f"tool {self.name!r}: a generator needs max_steps, a plain function "
                "can't have it"
            )
        if self.max_steps is not None and not _is_count(self.max_steps):
            raise ValueError(
                f"tool {self.name!r}: max_steps: expected a whole number of at least 1, "
                f"got {excerpt(self.max_steps)}"
            )

    def schema(self) -> dict[str, Any]:
        """The tool as OpenAI's ``tools=`` wants it."""
        parameters = {
            "type": "object",
            "properties": {
                name: {"type": kind} for name, kind in self.parameters.items()
            },
            "required": list(self.parameters),
            "additionalProperties": False,
        }
        function = {"name": self.name, "description": self.description}
        return {"type": "function", "function": {**function, "parameters": parameters}}

    def _text(self, result: Any) -> str:
        if not isinstance(result, str):
            raise TypeError(f"tool {self.name!r} returned no text: {result!r}")
        return result

    def run(self, arguments: dict[str, Any]) -> str:
        """The tool's text. Raises whatever the function raises."""
        result: Any = self.function(**arguments)
        if self.max_steps is None:
            return self._text(result)
        try:
            for _ in range(self.max_steps):
                next(result)
            raise _OutOfSteps
        except StopIteration as finished:
            return self._text(finished.value)
        finally:
            result.close()


class ToolBox:
    """The tools of one episode, by name. Raises ValueError if two share a name."""

    def __init__(self, tools: Iterable[Tool]):
        self.tools: dict[str, Tool] = {}
        for tool in tools:
            if tool.name in self.tools:
                raise ValueError(f"two tools are called {tool.name!r}")
            self.tools[tool.name] = tool

    def schemas(self) -> list[dict[str, Any]]:
        """All tools as OpenAI's ``tools=`` wants them."""
        return [tool.schema() for tool in self.tools.values()]

    def call(self, call: ToolCall) -> Observation:
        """Run one call of an assistant message. Never raises for what the call says.

        A tool that crashes is a tool that failed: the observation names the exception,
        and not its text, which differs between Python versions. Raises MessageError for
        what is no call, with an id and a name to answer.
        """
        check_call(call, "tools")
        name, arguments = call["function"]["name"], call["function"].get("arguments")
        if problem := self._problem(name, arguments):
            return Observation("invalid_call", call["id"], name, f"error: {problem}")
        tool = self.tools[name]
        try:
            kind, content = "result", tool.run(arguments)
        except _OutOfSteps:
            kind, content = "timeout", f"error: no answer after {tool.max_steps} steps"
        except ValueError as error:
            kind, content = "tool_error", f"error: {error}"
        except Exception as error:
            kind, content = (
                "tool_error",
                f"error: the tool failed with {type(error).__name__}",
            )
        return Observation(kind, call["id"], name, content)

    def _problem(self, name: str, arguments: Any) -> str | None:
        """What makes a call invalid, or None."""
        if name not in self.tools:
            tools = ", ".join(sorted(self.tools)) or "none"
            return f"no tool {excerpt(name)}; the tools are {tools}"
        if not isinstance(arguments, dict):
            return unreadable(arguments) or "arguments are text, expected an object"
        expected = self.tools[name].parameters
        if missing := [key for key in expected if key not in arguments]:
            return f"argument {missing[0]!r} is missing"
        if unknown := [key for key in arguments if key not in expected]:
            takes = ", ".join(expected) or "none"
            return f"unknown argument {excerpt(unknown[0])}; {name} takes {takes}"
        for key, value in arguments.items():
            if not _fits(value, expected[key]):
                return f"argument {key!r} must be a {expected[key]}"
        return None
