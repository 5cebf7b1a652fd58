"""The Tool-Math environment: six things an agent may do, and what the world answers.

Three kinds of task, each teaching one thing. Easy: the agent knows the answer, so a call
only costs. Hard: guessing fails, one calculator call is right. Lookup: a price must be
looked up and then multiplied, two calls that depend on each other.

The policy chooses one of six actions in the state ``kind/event``, where the event is the
last thing that happened. All the rest is real: an action becomes the text an assistant
would write, the text is parsed into tool calls, the tools run, and the answers come back
as messages.
"""

from __future__ import annotations

import copy

from agentic_rl.answers import answers_equal, extract_answer
from agentic_rl.calculator import calculate
from agentic_rl.messages import Message, ToolCall, parse_assistant, render_call
from agentic_rl.tasks import KINDS, Task, TaskError, kind_of, with_price
from agentic_rl.tools import Observation, Tool, ToolBox, ToolError

EVENTS = ("start", "price", "result", "error")
STATES = tuple(f"{kind}/{event}" for kind in KINDS for event in EVENTS)
ACTIONS = (
    "answer_from_memory",
    "answer_from_observation",
    "call_calculator",
    "call_lookup",
    "call_broken",
    "call_unknown",
)


def calculate_expression(expression: str) -> str:
    """``calculate`` under the argument name that the tool's schema shows."""
    return calculate(expression)


CALCULATOR = Tool(
    "calculator", "Exact arithmetic.", {"expression": "string"}, calculate_expression
)


def lookup_tool(prices: dict[str, str]) -> Tool:
    """The price list of one task."""

    def lookup(item: str) -> str:
        if item not in prices:
            raise ToolError(f"no price for {item!r}")
        return prices[item]

    return Tool("lookup", "The price of an item.", {"item": "string"}, lookup)


class ToolMath:
    """The world of one task: it runs tool calls and remembers what happened last."""

    def __init__(self, task: Task, tools: ToolBox | None = None):
        self.task = task
        self.kind = kind_of(task.question)
        self.tools = tools or ToolBox([CALCULATOR, lookup_tool(task.prices or {})])
        self.event = "start"
        self.price: str | None = None
        self.last_content: str | None = None

    @property
    def state(self) -> str:
        """What the policy sees: ``kind/event``."""
        return f"{self.kind}/{self.event}"

    def respond(self, message: Message) -> list[Observation]:
        """Run the calls of an assistant message, in order; one observation a call."""
        return [self._observe(call) for call in message.get("tool_calls", ())]

    def _observe(self, call: ToolCall) -> Observation:
        observation = self.tools.call(call)
        self.last_content = observation.content
        if observation.kind != "result":
            self.event = "error"
        elif observation.name == "lookup":
            self.event, self.price = "price", observation.content
        else:
            self.event = "result"
        return observation

    def speak(self, action: str) -> str:
        """The text an assistant writes when it chooses this action here and now."""
        known = self.task.expression
        if self.price is not None:
            known = with_price(known, self.price)
        if action == "answer_from_memory":
            return f"Answer: {self._from_memory()}"
        if action == "answer_from_observation":
            content = self.last_content
            return "I don't know." if content is None else f"Answer: {content}"
        if action == "call_calculator":
            return render_call("calculator", {"expression": known})
        if action == "call_lookup":
            return render_call(
                "lookup", {"item": self.task.item or self.task.expression}
            )
        if action == "call_broken":
            return render_call("calculator", f'{{"expression": "{known}"')
        if action == "call_unknown":
            return render_call("python", {"code": f"print({known})"})
        raise ValueError(
            f"unknown action {action!r}, expected one of {', '.join(ACTIONS)}"
        )

    def _from_memory(self) -> str:
        """Right where an agent knows by heart; elsewhere a number that is close and wrong."""
        if self.kind == "easy":
            return self.task.answer
        return calculate(f"({self.task.answer}) + 10")

    def fork(self) -> ToolMath:
        """A world that has seen the same and goes on by itself."""
        return copy.copy(self)


def check_fair(task: Task) -> None:
    """Raise TaskError if what a failed call says would pass for the right answer.

    "expected a number at position 5" states 5, and 5 may be the answer.
    """
    for action in ACTIONS:
        world = ToolMath(task)
        for seen in world.respond(parse_assistant(world.speak(action))):
            said = extract_answer(world.speak("answer_from_observation"))
            if seen.kind != "result" and said and answers_equal(task.answer, said):
                raise TaskError(
                    f"task {task.id!r}: field 'answer': {task.answer!r} can be read off "
                    f"a failed call: {seen.content!r}"
                )
