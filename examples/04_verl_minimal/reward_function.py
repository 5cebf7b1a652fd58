"""The course's reward as verl's compute_score, by its own reward manager:

    reward.custom_reward_function.path=examples/04_verl_minimal/reward_function.py
    reward.custom_reward_function.name=compute_score
    +reward.custom_reward_function.reward_kwargs.reward=course

The project's root has to be on PYTHONPATH.
"""

from collections.abc import Mapping
from typing import Any

from agentic_rl.bridges.verl import score
from agentic_rl.reward import REWARDS


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: Mapping[str, Any],
    reward: str = "course",
) -> dict[str, float]:
    """The reward of this name: "score", each of its terms, and whether all was clear."""
    return score(data_source, solution_str, ground_truth, extra_info, REWARDS[reward])
