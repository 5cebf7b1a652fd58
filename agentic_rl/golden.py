"""The golden group: four fixed episodes of one hard task, the sheet that checks the course.

    right with one call   0.9
    a guess               0
    three calls, right    0.7
    broken JSON, wrong    0

They are played under the uniform policy, so each choice has log-prob -log 6.
"""

from __future__ import annotations

from agentic_rl.agent_loop import Episode, Limits, run_script
from agentic_rl.policy import SoftmaxPolicy
from agentic_rl.reward import COURSE_REWARD, attach
from agentic_rl.scripted import ACTS_WELL, says, scripted
from agentic_rl.tasks import Task
from agentic_rl.tokens import IM_END
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


LOOKUP_TASK = Task(
    "golden-lookup",
    "How much do 12 kettles cost?",
    "12 * price",
    "408",
    "kettles",
    {"kettles": "34", "lamps": "19"},
)
ODD_TASK = Task(
    "golden-odd", "347 * 86 = ? \N{CHECK MARK} 请用阿拉伯数字", "347 * 86", "29842"
)


_AGENTS = (
    ("two tools", LOOKUP_TASK, ACTS_WELL),
    ("parallel calls", LOOKUP_TASK, scripted("parallel calls")),
    ("tool error", LOOKUP_TASK, scripted("ignores the result")),
    ("timeout", LOOKUP_TASK, scripted("meets a timeout")),
    ("unknown tool", GOLDEN_TASK, scripted("unknown tool")),
    ("never answers", GOLDEN_TASK, scripted("never answers")),
    ("thinking", GOLDEN_TASK, scripted("thinks aloud")),
)
_TEXTS = (
    ("empty answer", ""),
    ("unicode", "\N{GRINNING FACE} 答案是 29842。"),
    ("marker in text", f"Answer: 29842{IM_END}"),
)


def golden_set() -> dict[str, tuple[Task, Trajectory]]:
    """The golden group and what else a record has to survive: name -> task, episode.

    The bridges carry each of them over to a framework, and back.
    """
    played = [
        *((name, GOLDEN_TASK, x) for name, x in zip(GOLDEN_NAMES, golden_group())),
        *((name, task, agent.run(task)) for name, task, agent in _AGENTS),
        *((name, ODD_TASK, run_script(says(text), ODD_TASK)) for name, text in _TEXTS),
        ("truncated", GOLDEN_TASK, ACTS_WELL.run(GOLDEN_TASK, Limits(turn_tokens=12))),
    ]
    for _, task, episode in played:
        attach([episode], [COURSE_REWARD(episode, task)])
    return {name: (task, episode) for name, task, episode in played}
