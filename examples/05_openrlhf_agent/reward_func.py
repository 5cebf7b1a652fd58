"""The course's reward for one turn, called by OpenRLHF for each answer:

    --reward.remote_url examples/05_openrlhf_agent/reward_func.py

TOOL_MATH_REWARD names the reward, "course" if it is not set. An error in reward_func is
only logged by OpenRLHF, and the sample keeps the reward None; so a name that no reward has
is an error when this file is loaded. The project's root has to be on PYTHONPATH.
"""

from collections.abc import Sequence
from typing import Any

import torch

from agentic_rl.bridges.openrlhf import chosen_reward, score

REWARD = chosen_reward()


def reward_func(
    queries: Sequence[str], prompts: Sequence[str], labels: Sequence[str], **_: Any
) -> dict[str, Any]:
    """Tensors of shape [queries]: rewards, scores, and each term in extra_logs."""
    paid = [score(*each, REWARD) for each in zip(queries, prompts, labels)]
    return {
        "rewards": torch.tensor([one["rewards"] for one in paid]),
        "scores": torch.tensor([one["scores"] for one in paid]),
        "extra_logs": {
            name: torch.tensor([one["extra_logs"][name] for one in paid])
            for name in paid[0]["extra_logs"]
        },
    }
