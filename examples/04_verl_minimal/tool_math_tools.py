"""The tools of Tool-Math as verl's BaseTool, named in tool_config.yaml.

verl's agent loop runs ``create``, ``execute`` and ``release`` for each single call. What a
tool is to know of the episode comes with ``create_kwargs`` from the row of data; what is to
be known of the call afterwards goes into ``agent_data.extra_fields``, which reaches the
reward. The calculating is done by the course's own tools.

This folder and the project's root have to be on PYTHONPATH.
"""

from typing import Any
from uuid import uuid4

from verl.tools.base_tool import BaseTool
from verl.tools.schemas import OpenAIFunctionToolSchema, ToolResponse

from agentic_rl.bridges.verl import TOOL_KINDS, toolbox
from agentic_rl.messages import tool_call
from agentic_rl.tools import ToolBox


class ToolMathTool(BaseTool):  # type: ignore[misc]  # it has no types here
    """One tool of the course; its schema, from the YAML file, says which."""

    def __init__(self, config: dict[str, Any], tool_schema: OpenAIFunctionToolSchema):
        super().__init__(config, tool_schema)
        self.boxes: dict[str, ToolBox] = {}

    def box(self, create_kwargs: dict[str, Any]) -> ToolBox:
        """What the calls of one episode are run by."""
        return toolbox(self.name, create_kwargs)

    async def create(
        self, instance_id: str | None = None, **kwargs: Any
    ) -> tuple[str, ToolResponse]:
        instance_id = instance_id or uuid4().hex
        self.boxes[instance_id] = self.box(kwargs.get("create_kwargs") or {})
        return instance_id, ToolResponse()

    async def execute(
        self, instance_id: str, parameters: dict[str, Any], **kwargs: Any
    ) -> tuple[ToolResponse, float, dict[str, Any]]:
        """Run one call. It pays nothing here: only the whole episode is scored."""
        seen = self.boxes[instance_id].call(tool_call("call", self.name, parameters))
        if "agent_data" in kwargs:
            diary = kwargs["agent_data"].extra_fields.setdefault(TOOL_KINDS, [])
            diary.append(seen.kind)
        return ToolResponse(text=seen.content), 0.0, {}

    async def release(self, instance_id: str, **kwargs: Any) -> None:
        del self.boxes[instance_id]


class Calculator(ToolMathTool):
    """Exact arithmetic, the same for every episode."""


class Lookup(ToolMathTool):
    """The price list that stands in the row of data."""
