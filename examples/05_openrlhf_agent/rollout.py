"""Chapter 05. The golden group in OpenRLHF's own executor, and its numbers beside ours.

    python3 examples/05_openrlhf_agent/rollout.py

A script says what the four assistants of chapter 01 said; all the rest is OpenRLHF's: the
loader of the agent, the executor, the experience, the estimators, the losses. Without
OpenRLHF it prints the same records in its form, and how to install it.

Exit status 1 unless records, rewards, advantages and losses are ours.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import cpu_stubs
from comparing import show_advantages, show_losses
from cpu_stubs import Said
from playing import AGENT, Script, experience_of, play, promise, script_of, started

from agentic_rl.bridges import frameworks
from agentic_rl.bridges import openrlhf as bridge
from agentic_rl.bridges.token_ids import Tokenizer, to_ids
from agentic_rl.bridges.vocabulary import Vocabulary
from agentic_rl.cli import render
from agentic_rl.cli.terminal import Progress, run
from agentic_rl.conventions import COURSE, OPENRLHF
from agentic_rl.golden import GOLDEN_NAMES, GOLDEN_TASK, golden_group

PROGRESS = Progress()
REWARD = HERE / "reward_func.py"

# --------------------------------------------------------------- without any framework


def show_interface() -> None:
    print(render.heading("A task and a convention in OpenRLHF's words", "05.1"))
    print("One row of the prompt dataset:\n")
    row = next(bridge.rows([GOLDEN_TASK]))
    print(render.table(("key", "value"), [(k, _short(v)) for k, v in row.items()]))
    print("\nThe preset 'openrlhf' as flags of train_ppo_ray:\n")
    for line in _flag_lines(bridge.flags(OPENRLHF)):
        print(f"  {line}")
    print("\nThe course's own convention can't be said. It would have to become:\n")
    for switch, value in bridge.unsaid(COURSE).items():
        print(f"  {switch:16} {value}")


def _flag_lines(flags: Sequence[str]) -> Iterator[str]:
    """One flag a line, its values behind it."""
    return (f"--{line.strip()}" for line in " ".join(flags).split("--")[1:])


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def show_records(tokenizer: Tokenizer) -> None:
    rows = []
    for name, episode in zip(GOLDEN_NAMES, golden_group()):
        fields = bridge.response(episode, GOLDEN_TASK, tokenizer)
        rows.append(
            (
                name,
                f"{len(fields['observation_tokens'])}",
                " ".join(f"{a}-{b}" for a, b in fields["action_ranges"]),
                render.number(fields["reward"], 1),
                render.number(fields["scores"], 1),
            )
        )
    head = ("episode", "ids", "action_ranges", "reward", "scores")
    print(render.table(head, rows))


# ---------------------------------------------------------------------- with OpenRLHF


def show_loader() -> None:
    print(render.heading("The agent, through OpenRLHF's loader", "05.2"))
    actor = cpu_stubs.rollout_actor(Script([]), agent_func_path=str(AGENT))
    executor = type(actor.executor)
    rows = [
        ("--train.agent_func_path", "examples/05_openrlhf_agent/agent_func.py"),
        ("its executor", f"{executor.__module__}.{executor.__name__}"),
        (
            "which is a",
            f"{executor.__mro__[1].__module__}.{executor.__mro__[1].__name__}",
        ),
        ("one instance an episode", actor.executor.agent_instance_cls.__name__),
        (
            "the engine behind it",
            f"{type(actor.llm).__module__}.{type(actor.llm).__name__}",
        ),
    ]
    print(render.table(("what", "is"), rows))


def show_ranges(response: dict[str, Any], mask: Sequence[int], tokenizer: Any) -> None:
    """Each run of ids by one author: its text, OpenRLHF's ranges and our mask."""
    ids = response["observation_tokens"]
    theirs = bridge.mask_of(response["action_ranges"], len(ids))
    marks = list(zip(theirs, mask))
    rows, start = [], 0
    for place in range(1, len(marks) + 1):
        if place == len(marks) or marks[place] != marks[start]:
            text = tokenizer.decode(ids[start:place])
            own, ours = marks[start]
            rows.append((f"{start}-{place - 1}", f"{own}", f"{ours}", _line(text)))
            start = place
    print(render.table(("ids", "OpenRLHF", "ours", "text"), rows))


def _line(text: str) -> str:
    shown = text.replace("\n", "\\n")
    return shown if len(shown) <= 50 else f"{shown[:26]} ... {shown[-18:]}"


def show_executor(tokenizer: Any) -> list[dict[str, Any]]:
    print(render.heading("The golden group in MultiTurnAgentExecutor", "05.3"))
    responses, rows = [], []
    fields = ("observation_tokens", "action_ranges", "rollout_log_probs")
    paid = ("reward", "scores", "extra_logs")
    for name, episode in zip(GOLDEN_NAMES, golden_group()):
        found = play(GOLDEN_TASK, script_of(episode, tokenizer), tokenizer)
        ours = bridge.response(episode, GOLDEN_TASK, tokenizer)
        same = all(found[field] == ours[field] for field in (*fields, *paid))
        promise(same, f"the record of {name!r} is ours")
        ranges = " ".join(f"{a}-{b}" for a, b in found["action_ranges"])
        length = len(found["observation_tokens"])
        reward = render.number(found["reward"], 1)
        rows.append(
            (name, f"{length}", ranges, reward, "equal" if same else "not equal")
        )
        responses.append(found)
    print(f"{GOLDEN_NAMES[0]}: who wrote which ids, by its ranges and by our mask\n")
    first = golden_group()[0]
    record = to_ids(first, tokenizer)
    mask = [*[0] * len(record.prompt_ids), *record.response_mask]
    show_ranges(responses[0], mask, tokenizer)
    print("\nIds, ranges, log-probs, reward and breakdown of all four:\n")
    head = ("episode", "ids", "action_ranges", "reward", "the records")
    print(render.table(head, rows))
    return responses


def show_experience(responses: Sequence[dict[str, Any]]) -> list[Any]:
    print(render.heading("One Experience of each", "05.4"))
    experiences, rows = [], []
    for name, response in zip(GOLDEN_NAMES, responses):
        made = experience_of(response)
        mask = bridge.mask_of(
            response["action_ranges"], len(response["observation_tokens"])
        )
        promise(made.action_mask[0].tolist() == mask[1:], f"the mask of {name!r}")
        rows.append(
            (
                name,
                f"{made.sequences.shape[1]}",
                f"{made.action_mask.shape[1]}",
                f"{int(made.action_mask.sum())}",
                f"{int(made.response_length)}",
                str(made.rewards.dtype).rpartition(".")[2],
            )
        )
        experiences.append(made)
    head = ("episode", "sequences", "action_mask", "ones", "response_length", "rewards")
    print(render.table(head, rows))
    print()
    print(
        render.paragraph(
            "action_mask is our mask without its first place: place t speaks of id t + 1. "
            "response_length counts from the first id of the assistant to its last, what "
            "tools said in between included."
        )
    )
    return experiences


def show_reward(tokenizer: Any) -> None:
    print(render.heading("Our reward as reward_func, for one turn", "05.5"))
    rows = []
    for text in ("Answer: 29842", "Answer: 1", "The result is 29842.", ""):
        ids = [*tokenizer(text=text, add_special_tokens=False)["input_ids"]]
        ids.append(tokenizer.eos_token_id)
        script = Script([Said(ids, [0.0] * len(ids), text)])
        found = play(GOLDEN_TASK, script, tokenizer, remote_rm_url=str(REWARD))
        parts = {name: float(x) for name, x in found["extra_logs"].items()}
        rows.append(
            (
                text or "(nothing)",
                float(found["reward"]),
                float(found["scores"]),
                parts["right"],
            )
        )
    promise([row[1] for row in rows] == [1.0, 0.0, 1.0, 0.0], "rewards of one turn")
    print(render.table(("answer", "reward", "scores", "right"), rows))


def main() -> None:
    print(
        "Chapter 05: the agent, the reward and the records of the course in OpenRLHF."
    )
    show_interface()
    if problem := frameworks.missing("openrlhf"):
        print(render.heading("The golden group as an executor returns it", "05.3"))
        print("One id for each token of the course; in OpenRLHF a tokenizer's own.\n")
        show_records(Vocabulary())
        print()
        print(render.wrapped("", f"Not run: {problem}."))
        return
    PROGRESS.show("importing OpenRLHF takes some seconds ...")
    tokenizer = started()
    PROGRESS.clear()
    show_loader()
    responses = show_executor(tokenizer)
    experiences = show_experience(responses)
    show_reward(tokenizer)
    show_advantages(experiences)
    show_losses(experiences)
    print("\nNext: train_grpo.py, OpenRLHF's own trainer on this machine.")


if __name__ == "__main__":
    run(main, __doc__)
