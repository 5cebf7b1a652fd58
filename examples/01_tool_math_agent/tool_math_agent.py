"""Chapter 01. The Tool-Math agent: trajectories, masks, rewards, advantages, side by side.

    python3 examples/01_tool_math_agent/tool_math_agent.py

Nothing learns here. Scripted agents act well or fail, each in its own way, and every
artefact that training will need is printed.
"""

import json
import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from agentic_rl.advantage import flags, group_advantages
from agentic_rl.agent_loop import Limits
from agentic_rl.cli import render
from agentic_rl.cli.terminal import run
from agentic_rl.conventions import COURSE, TRL, VERL
from agentic_rl.evaluation import training_tasks
from agentic_rl.golden import GOLDEN_NAMES, GOLDEN_TASK, golden_group
from agentic_rl.messages import flags as message_flags
from agentic_rl.messages import to_openai
from agentic_rl.reward import COURSE_REWARD, attach
from agentic_rl.scripted import ACTS_WELL, SCRIPTED, ScriptedAgent, scripted
from agentic_rl.tasks import KINDS, Task, one_of_each
from agentic_rl.tool_math import ACTIONS, ToolMath
from agentic_rl.trajectory import Trajectory, last_trainable, next_token

TASKS = one_of_each(training_tasks())


def play(agent: ScriptedAgent, task: Task, limits: Limits = Limits()) -> Trajectory:
    """One scored and checked episode."""
    episode = agent.run(task, limits)
    attach([episode], [COURSE_REWARD(episode, task)])
    episode.check()
    return episode


def show_tasks() -> None:
    print(render.heading("Three kinds of task, two tools", "01.1"))
    rows = [(kind, task.question, task.answer) for kind, task in TASKS.items()]
    print(render.table(["kind", "question", "answer"], sorted(rows)))
    print(
        "\nThe kind is read from the question's words. The tools, as a model sees them:\n"
    )
    for schema in ToolMath(TASKS["lookup"]).tools.schemas():
        function = schema["function"]
        print(f"{function['name']}: {function['description']}")
        print(f"  {json.dumps(function['parameters']['properties'])}")


def show_actions() -> None:
    print(render.heading("Six actions: what the assistant writes for each", "01.2"))
    world = ToolMath(GOLDEN_TASK)
    print(f"task: {GOLDEN_TASK.question}\n")
    for action in ACTIONS:
        print(f"{action}\n{render.wrapped('  ', world.speak(action))}")


def show_agents(kind: str, section: str) -> None:
    print(render.heading(f"Ten agents on one {kind} task", section))
    task = TASKS[kind]
    print(f"task: {task.question}  (answer {task.answer})")
    print(
        "tok: tokens. mask: tokens with mask 1. right, calls, bad: what each term paid"
    )
    print(
        "(a call that ran costs 0.1, errors and timeouts too; one that could not be run"
    )
    print("0.2; both only on a right answer). seen: what came back.\n")
    rows = []
    for agent in SCRIPTED:
        episode = play(agent, task)
        seen = [observation.kind for observation in episode.observations]
        parts = [render.number(part, 1) for part in episode.breakdown.values()]
        reward = render.number(episode.reward, 1)
        rows.append(
            (
                agent.name,
                f"{len(episode.actions)}",
                f"{len(episode.tokens)}",
                f"{sum(episode.loss_mask)}",
                *parts,
                reward,
                summary(seen),
            )
        )
    head = ["agent", "turns", "tok", "mask", "right", "calls", "bad", "reward", "seen"]
    print(render.table(head, rows, gap=1))


def summary(kinds: list[str]) -> str:
    """Observations in short: 3 result, 1 timeout."""
    short = [kind.replace("tool_", "").replace("_call", "") for kind in kinds]
    counts = {kind: short.count(kind) for kind in short}
    return ", ".join(f"{count} {kind}" for kind, count in counts.items())


def show_conversation(name: str, kind: str) -> None:
    episode = play(scripted(name), TASKS[kind])
    print(f"\n{name}: {scripted(name).about}")
    print(render.messages(episode.messages))
    reward = render.number(episode.reward, 1)
    print(f"finish_reason {episode.finish_reason}, reward {reward}")


def show_conversations() -> None:
    print(render.heading("Failures, in their own words", "01.6"))
    for name, kind in (
        ("broken JSON", "hard"),
        ("unknown tool", "hard"),
        ("parallel calls", "lookup"),
        ("meets a timeout", "lookup"),
        ("thinks aloud", "hard"),
    ):
        show_conversation(name, kind)
    episode = play(scripted("never answers"), TASKS["hard"])
    print(f"\nnever answers; flagged: {'; '.join(message_flags(episode.messages))}")
    print(f"finish_reason {episode.finish_reason}, answer {episode.answer}")


def show_edge() -> None:
    print(
        render.heading(
            "Arguments: an object in this package, a JSON string at OpenAI's edge",
            "01.7",
        )
    )
    episode = play(ACTS_WELL, TASKS["hard"])
    inside = episode.messages[1]["tool_calls"][0]
    edge = to_openai(episode.messages)[1]["tool_calls"][0]
    print(f"inside: {json.dumps(inside['function'])}")
    print(f"edge:   {json.dumps(edge['function'])}")


def show_tokens() -> None:
    print(
        render.heading("Tokens and masks: an error observation is masked too", "01.8")
    )
    episode = play(scripted("broken JSON"), TASKS["hard"])
    print(render.tokens(episode))
    print("\nA script has no other choice: its log-prob is log 1 = 0.")
    inputs, targets, target_mask = next_token(episode.tokens, episode.loss_mask)
    print()
    print(
        f"{len(episode.tokens)} tokens give {len(inputs)} inputs, {len(targets)} targets, "
        f"and a target mask with {sum(target_mask)} ones."
    )
    print(
        f"The reward lands on token {last_trainable(episode.loss_mask)}, the last with mask 1."
    )


def show_truncation() -> None:
    print(render.heading("A turn that is cut off", "01.9"))
    episode = play(ACTS_WELL, TASKS["hard"], Limits(turn_tokens=12))
    print(render.tokens(episode))
    print()
    print(
        render.paragraph(
            f"finish_reason {episode.finish_reason}, truncated {episode.truncated}, answer "
            f"{episode.answer}, {len(episode.observations)} observations. The call was "
            "never finished, so it is no call, and no format error either. The harness "
            "closed the turn: that end token has mask 0."
        )
    )


def show_golden() -> None:
    print(render.heading("The golden group and its advantages", "01.10"))
    group = golden_group()
    rewards = [episode.reward for episode in group]
    names = ["golden"] * len(group)
    conventions = {
        "course": COURSE,
        "no std": COURSE.but(std="none"),
        "leave-one-out": COURSE.but(std="none", baseline="leave_one_out"),
    }
    columns = [group_advantages(rewards, names, c) for c in conventions.values()]
    rows = [
        (name, *episode.breakdown.values(), episode.reward, *values)
        for name, episode, *values in zip(GOLDEN_NAMES, group, *columns)
    ]
    head = ["episode", "right", "calls", "invalid", "reward", *conventions]
    print(render.table(head, rows))
    total = [render.number(math.fsum(column)) for column in columns]
    print(f"\nThe advantages of a group add up to {', '.join(total)}.")


def show_edges() -> None:
    print(render.heading("Groups at the edge", "01.11"))
    cases = {
        "all equal": [0.9, 0.9, 0.9, 0.9],
        "equal but for rounding": [0.1 + 0.2, 0.3],
        "a group of one": [0.7],
        "one unscored": [1.0, None, 0.0],
    }
    rows = []
    for name, rewards in cases.items():
        for convention in (COURSE, TRL, VERL):
            rows.append(
                (name, convention.name, advantages_or_error(rewards, convention))
            )
    print(render.table(["rewards", "convention", "advantages"], rows))
    print()
    for name, rewards in cases.items():
        shown = "  ".join("None" if r is None else f"{r:g}" for r in rewards)
        print(f"{name}: rewards {shown}")
    print()
    for name, rewards in cases.items():
        print("; ".join(flags(rewards, [name] * len(rewards))))
    print()
    print(
        render.paragraph(
            f"verl hands back the raw reward of a group of one (group_of_one="
            f"{VERL.group_of_one!r}). We give 0: nothing was compared. So does TRL, to one "
            "scored sample among unscored ones; it won't be asked for a group of one. An "
            "unscored sample takes no part, and gets 0."
        )
    )


def advantages_or_error(rewards: list[float | None], convention) -> str:
    """The advantages of one group as text, or why the convention refuses."""
    try:
        values = group_advantages(rewards, ["g"] * len(rewards), convention)
    except ValueError as error:
        return f"refused ({str(error).split(':')[0]})"
    return "  ".join(render.number(value) for value in values)


def main() -> None:
    print("Chapter 01: the Tool-Math agent. What an episode leaves behind.")
    show_tasks()
    show_actions()
    for number, kind in enumerate(KINDS, 3):
        show_agents(kind, f"01.{number}")
    show_conversations()
    show_edge()
    show_tokens()
    show_truncation()
    show_golden()
    show_edges()
    print("\nNext: python3 examples/02_grpo_tool_agent/grpo_tool_agent.py")


if __name__ == "__main__":
    run(main, __doc__)
