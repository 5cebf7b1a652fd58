"""The course's agent loop as OpenRLHF's agent, by its own flag:

    --train.agent_func_path examples/05_openrlhf_agent/agent_func.py

TOOL_MATH_REWARD names the reward, "course" if it is not set. Label and prompt come from
the rows of make_data.py. The project's root has to be on PYTHONPATH.
"""

from typing import Any

import torch
from openrlhf.utils.agent import AgentInstanceBase, MultiTurnAgentExecutor

from agentic_rl.agent_loop import Episode, Limits
from agentic_rl.bridges import openrlhf as bridge
from agentic_rl.tasks import Task
from agentic_rl.tools import ToolBox

LIMITS = Limits(max_turns=5)
REWARD = bridge.chosen_reward()


class ToolMathInstance(AgentInstanceBase):
    """One episode: calls are read, run and answered as in chapter 01."""

    def __init__(self) -> None:
        """OpenRLHF makes one an episode; it begins with reset."""

    async def reset(self, states: dict[str, Any], **_: Any) -> dict[str, Any]:
        """{"observation", "label"} -> {"observation"}; the task is in the label."""
        self.task = bridge.task_of(states["label"])
        self.episode = Episode(self.task, LIMITS, self.tools(self.task))
        return {"observation": states["observation"]}

    def tools(self, task: Task) -> ToolBox | None:
        """Other tools than the course's, if a subclass has some."""
        return None

    async def step(self, states: dict[str, Any], **_: Any) -> dict[str, Any]:
        """What the assistant wrote -> what the tools answer, and what it is paid."""
        before = len(self.episode.trajectory.observations)
        self.episode.say(bridge.written(states["action_text"]))
        record, done = self.episode.trajectory, self.episode.done
        paid = bridge.payment(record, self.task, REWARD)
        return {
            "rewards": torch.tensor(paid["rewards"], dtype=torch.float64),
            "scores": paid["scores"],
            "environment_feedback": (
                "" if done else bridge.feedback(record.observations[before:])
            ),
            "done": done,
            "extra_logs": paid["extra_logs"],
        }


class AgentExecutor(MultiTurnAgentExecutor):
    """What OpenRLHF's loader looks for, and makes without arguments."""

    def __init__(self) -> None:
        super().__init__(ToolMathInstance)
