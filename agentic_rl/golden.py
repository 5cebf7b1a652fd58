"""The golden group: four fixed episodes of one hard task, the sheet that checks the course.

    right with one call   0.9
    a guess               0
    three calls, right    0.7
    broken JSON, wrong    0

They are played under the uniform policy, so each choice has log-prob -log 6.
"""

from __future__ import annotations

from agentic_rl.agent_loop import Episode
from agentic_rl.policy import SoftmaxPolicy
from agentic_rl.reward import COURSE_REWARD, attach
from agentic_rl.tasks import Task
from agentic_rl.tool_math import ACTIONS, STATES
from agentic_rl.trajectory import Trajectory

GOLDEN_TASK = Task("golden", "What is 347 * 86?", "347 * 86", "29842")
GOLDEN_NAMES = ("one call", "guess", "spam", "broken JSON")
GOLDEN_ACTIONS = (
    ("call_calculator", "answer_from_observation"),
    ("answer_from_memory",),
    (
        "call_calculator",
        "call_calculator",
        "call_calculator",
        "answer_from_observation",
    ),
    ("call_broken", "answer_from_memory"),
)


def golden_policy() -> SoftmaxPolicy:
    """The policy that plays the group: uniform, its actions in the order of the table."""
    return SoftmaxPolicy(STATES, ACTIONS)


def golden_group() -> list[Trajectory]:
    """The four episodes, scored with the reward of the course."""
    policy, episodes = golden_policy(), []
    for actions in GOLDEN_ACTIONS:
        episode = Episode(GOLDEN_TASK)
        for action in actions:
            episode.act(action, policy.log_prob(episode.state, action))
        episodes.append(episode.trajectory)
    attach(episodes, [COURSE_REWARD(episode, GOLDEN_TASK) for episode in episodes])
    return episodes
