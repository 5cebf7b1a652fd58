"""Chapter 04. The golden group in verl's own loop, and its numbers beside ours.

    python3 examples/04_verl_minimal/rollout.py

A server says what the four assistants of chapter 01 said; all the rest is verl's: the
loader of the tools, the agent loop, the reward manager, the estimator. Without verl it
prints the same records in verl's form, and how to install it.

Exit status 1 unless records, rewards and advantages are ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import io
import logging
import os
import sys
import warnings
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from agentic_rl.advantage import group_advantages
from agentic_rl.bridges import frameworks
from agentic_rl.bridges import verl as bridge
from agentic_rl.bridges.token_ids import Tokenizer, to_ids
from agentic_rl.bridges.vocabulary import Vocabulary
from agentic_rl.cli import render
from agentic_rl.cli.terminal import Progress, run
from agentic_rl.conventions import COURSE, VERL
from agentic_rl.golden import GOLDEN_NAMES, GOLDEN_TASK, golden_group
from agentic_rl.tasks import Task
from agentic_rl.trajectory import Trajectory

PROGRESS = Progress()
CLOSE = 1e-9
SETTINGS = (
    "actor_rollout_ref.rollout.name=vllm",  # never started: the server is scripted
    "actor_rollout_ref.model.path=nowhere",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1",
    "actor_rollout_ref.rollout.multi_turn.max_assistant_turns=5",
    "actor_rollout_ref.rollout.multi_turn.max_parallel_calls=2",
    "data.max_prompt_length=96",
    "data.max_response_length=512",
    "data.filter_overlong_prompts_workers=null",
    f"reward.custom_reward_function.path={HERE / 'reward_function.py'}",
    "reward.custom_reward_function.name=compute_score",
)

# --------------------------------------------------------------- without any framework


def show_interface() -> None:
    print(render.heading("A task and a convention in verl's words", "04.1"))
    row = next(bridge.rows([GOLDEN_TASK], "train"))
    extra = row.pop("extra_info")
    cells = [(name, str(value)) for name, value in row.items()]
    cells += [(f"extra_info.{name}", _short(value)) for name, value in extra.items()]
    print("One row of train.parquet:\n")
    print(render.table(("column", "value"), cells))
    print("\nThe preset 'verl' as overrides of its trainer's config:\n")
    for override in bridge.overrides(VERL):
        print(f"  {override}")
    print(
        "\nThe course's own convention can't be said in verl. It would have to become:\n"
    )
    for switch, value in bridge.unsaid(COURSE).items():
        print(f"  {switch:16} {value}")


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 48 else f"{text[:45]}..."


def show_records(tokenizer: Tokenizer) -> None:
    rows = []
    for name, episode in zip(GOLDEN_NAMES, golden_group()):
        fields = bridge.output(episode, tokenizer)
        mask = fields["response_mask"]
        rows.append(
            (
                name,
                f"{len(fields['prompt_ids'])}",
                f"{len(mask)}",
                f"{sum(mask)}",
                f"{fields['num_turns']}",
                render.number(fields["reward_score"], 1),
            )
        )
    head = ("episode", "prompt_ids", "response_ids", "mask 1", "num_turns", "reward")
    print(render.table(head, rows))
    print()
    print(
        render.paragraph(
            "num_turns is verl's count: the prompt, the assistant's turns and the tools' "
            "turns between them. 2 is an answer at once, 4 is one call and an answer."
        )
    )


# -------------------------------------------------------------------------- with verl


class Server:
    """Says what a script says, whatever it is asked: (ids, log-probs) of each turn."""

    def __init__(self, turns: Sequence[tuple[list[int], list[float]]]):
        self.turns = list(turns)
        self.prompts: list[list[int]] = []

    async def generate(
        self, request_id: str, *, prompt_ids: list[int], **_: Any
    ) -> Any:
        from verl.workers.rollout.replica import TokenOutput

        self.prompts.append(list(prompt_ids))
        if len(self.prompts) > len(self.turns):
            raise AssertionError(f"the script has no turn {len(self.prompts)}")
        ids, logprobs = self.turns[len(self.prompts) - 1]
        return TokenOutput(token_ids=ids, log_probs=logprobs, stop_reason="completed")


def turns_of(
    trajectory: Trajectory, tokenizer: Tokenizer
) -> list[tuple[list[int], list[float]]]:
    """What the assistant wrote: (ids, log-probs) of each of its turns."""
    record = to_ids(trajectory, tokenizer)
    turns: list[tuple[list[int], list[float]]] = []
    before = 0
    rows = zip(record.response_ids, record.response_mask, record.logprobs)
    for token, mask, logprob in rows:
        if mask and not before:
            turns.append(([], []))
        if mask:
            turns[-1][0].append(token)
            turns[-1][1].append(logprob)
        before = mask
    return turns


def composed(*overrides: str) -> Any:
    """``ppo_trainer`` as verl's own Hydra files have it, with ours on top."""
    import verl
    from hydra import compose, initialize_config_dir

    folder = Path(verl.__file__).parent / "trainer" / "config"
    with initialize_config_dir(config_dir=str(folder), version_base=None):
        return compose("ppo_trainer", overrides=[*SETTINGS, *overrides])


def loaded_tools() -> list[Any]:
    """The tools of tool_config.yaml through verl's loader, which prints their schemas."""
    from verl.tools.tool_registry import load_all_tools

    with contextlib.redirect_stdout(io.StringIO()):
        return list(load_all_tools(str(HERE / "tool_config.yaml"), None))


def row_of(task: Task) -> dict[str, Any]:
    """One row of data, a copy of its own: verl writes into extra_info."""
    return copy.deepcopy(next(bridge.rows([task], "train")))


def play(
    task: Task, server: Any, config: Any, tools: Sequence[Any], tokenizer: Any
) -> Any:
    """One episode of the task in verl's ToolAgentLoop: an AgentLoopOutput."""
    from verl.experimental.agent_loop.agent_loop import DictConfigWrap, ToolListWrap
    from verl.experimental.agent_loop.tool_agent_loop import ToolAgentLoop
    from verl.utils.dataset.rl_dataset import RLHFDataset

    row = row_of(task)

    async def played() -> Any:
        loop = ToolAgentLoop(
            trainer_config=DictConfigWrap(config),
            server_manager=server,
            tokenizer=tokenizer,
            processor=None,
            dataset_cls=RLHFDataset,
            data_config=DictConfigWrap(config.data),
            hf_model_type="qwen3",
            tools=ToolListWrap(list(tools)),
        )
        return await loop.run(
            {},
            raw_prompt=row["prompt"],
            tools_kwargs=row["extra_info"]["tools_kwargs"],
            extra_info=row["extra_info"],
        )

    return finished(played())


def managed(task: Task, output: Any, config: Any, tokenizer: Any) -> dict[str, Any]:
    """{"reward_score", "reward_extra_info"} of verl's own reward manager.

    The data are put together as ``AgentLoopWorker._compute_score`` does.
    """
    import torch
    from verl import DataProto
    from verl.trainer.ppo.reward import load_reward_manager

    ids = [*output.prompt_ids, *output.response_ids]
    data = DataProto.from_dict(
        tensors={
            "prompts": torch.tensor([output.prompt_ids]),
            "responses": torch.tensor([output.response_ids]),
            "attention_mask": torch.ones(1, len(ids), dtype=torch.int64),
        },
        non_tensors={
            **{name: objects([value]) for name, value in row_of(task).items()},
            "__num_turns__": objects([output.num_turns]),
            "tool_extra_fields": objects([output.extra_fields]),
        },
    )

    async def scored() -> dict[str, Any]:
        return dict(await load_reward_manager(config, tokenizer).run_single(data))

    return finished(scored())


def finished(work: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine returns; in a thread, for a notebook's own loop runs already."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def objects(values: Sequence[Any]) -> Any:
    """A numpy array of objects, whatever they are."""
    import numpy as np

    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def promise(holds: bool, what: str) -> None:
    """End with an error unless verl's numbers are ours."""
    if not holds:
        raise SystemExit(f"not as it was promised: {what}")


def show_tools(tools: Sequence[Any]) -> None:
    print(render.heading("The tools, through verl's loader", "04.2"))
    rows = [
        (
            tool.name,
            f"{type(tool).__module__}.{type(tool).__name__}",
            ", ".join(tool.tool_schema.function.parameters.properties),
        )
        for tool in tools
    ]
    print(render.table(("tool", "class", "arguments"), rows))


def show_tokens(output: Any, ours: dict[str, Any], tokenizer: Any) -> None:
    """Each run of ids by one author: its text, verl's mask and ours."""
    rows = []
    start = 0
    marks = list(zip(output.response_mask, ours["response_mask"]))
    for place in range(1, len(marks) + 1):
        if place == len(marks) or marks[place] != marks[start]:
            text = tokenizer.decode(output.response_ids[start:place])
            theirs, mine = marks[start]
            rows.append((f"{start}-{place - 1}", f"{theirs}", f"{mine}", _line(text)))
            start = place
    print(render.table(("ids", "verl", "ours", "text"), rows))


def _line(text: str) -> str:
    shown = text.replace("\n", "\\n")
    return shown if len(shown) <= 56 else f"{shown[:30]} ... {shown[-20:]}"


def show_loop(config: Any, tools: Sequence[Any], tokenizer: Any) -> list[Any]:
    print(render.heading("The golden group in verl's ToolAgentLoop", "04.3"))
    outputs, rows = [], []
    for name, episode in zip(GOLDEN_NAMES, golden_group()):
        server = Server(turns_of(episode, tokenizer))
        output = play(GOLDEN_TASK, server, config, tools, tokenizer)
        ours = bridge.output(episode, tokenizer)
        same = [
            getattr(output, field) == ours[field]
            for field in ("response_ids", "response_mask", "response_logprobs")
        ]
        rows.append(
            (
                name,
                f"{len(output.response_ids)}",
                f"{sum(output.response_mask)}",
                f"{len(ours['response_ids'])}",
                f"{sum(ours['response_mask'])}",
                "equal" if all(same) else "not equal",
            )
        )
        outputs.append(output)
        length = len(output.response_ids)
        begins = ours["response_ids"][:length] == output.response_ids
        promise(begins, f"the record of {name!r} begins as ours")
        promise(all(same) or name == "broken JSON", f"the record of {name!r} is ours")
    print(f"{GOLDEN_NAMES[0]}: who wrote which ids, in verl's record and in ours\n")
    first = bridge.output(golden_group()[0], tokenizer)
    show_tokens(outputs[0], first, tokenizer)
    print("\nIds, mask and log-probs of all four:\n")
    head = ("episode", "verl ids", "mask 1", "our ids", "mask 1", "the records")
    print(render.table(head, rows))
    print()
    print(
        render.paragraph(
            "verl drops a call that is no JSON, and the episode is over; in our loop it is "
            "answered and the agent goes on. Up to there the two records are equal."
        )
    )
    return outputs


def show_rewards(outputs: Sequence[Any], config: Any, tokenizer: Any) -> list[float]:
    print(render.heading("Our reward, called by verl's reward manager", "04.4"))
    rewards, rows = [], []
    for name, episode, output in zip(GOLDEN_NAMES, golden_group(), outputs):
        result = managed(GOLDEN_TASK, output, config, tokenizer)
        parts = result["reward_extra_info"]
        rewards.append(result["reward_score"])
        promise(result["reward_score"] == episode.reward, f"the reward of {name!r}")
        shown = [render.number(parts[term], 1) for term in episode.breakdown]
        total = render.number(result["reward_score"], 1)
        rows.append((name, *shown, total, render.number(episode.reward, 1)))
    terms = tuple(golden_group()[0].breakdown)
    print(render.table(("episode", *terms, "verl", "ours"), rows))
    return rewards


def show_advantages(outputs: Sequence[Any], rewards: Sequence[float]) -> None:
    import torch
    from verl.trainer.ppo.core_algos import get_adv_estimator_fn

    print(render.heading("The advantages, by verl's estimator and by ours", "04.5"))
    width = max(len(output.response_ids) for output in outputs)
    scores = torch.zeros(len(outputs), width, dtype=torch.float64)
    mask = torch.zeros(len(outputs), width, dtype=torch.int64)
    for row, (output, reward) in enumerate(zip(outputs, rewards)):
        scores[row, len(output.response_ids) - 1] = reward
        mask[row, : len(output.response_mask)] = torch.tensor(output.response_mask)
    group = objects(["golden"] * len(outputs))
    values, _ = get_adv_estimator_fn("grpo")(scores, mask, group)
    # Every id with mask 1 of an episode carries the same advantage: their mean is it.
    theirs = [float(value) for value in values.sum(dim=-1) / mask.sum(dim=-1)]
    names = ["golden"] * len(outputs)
    columns = [
        theirs,
        group_advantages(rewards, names, VERL),
        group_advantages(rewards, names, COURSE),
    ]
    apart = max(abs(a - b) for a, b in zip(columns[0], columns[1]))
    promise(apart < CLOSE, "the advantages are those of our preset")
    rows = [
        (name, render.number(reward, 1), *(render.number(value, 7) for value in line))
        for name, reward, *line in zip(GOLDEN_NAMES, rewards, *columns)
    ]
    head = ("episode", "reward", "verl's grpo", "our preset verl", "the course")
    print(render.table(head, rows))
    print()
    print(
        render.paragraph(
            "verl adds 1e-6 to the standard deviation, the course adds nothing: the two "
            "part in the sixth decimal."
        )
    )


def quiet() -> None:
    """verl's warnings, of engines that are not there and of calls it drops, stay unsaid."""
    warnings.simplefilter("ignore")
    os.environ.setdefault("VERL_LOGGING_LEVEL", "CRITICAL")
    logging.disable(logging.CRITICAL)


def main() -> None:
    print("Chapter 04: the tools, the reward and the records of the course in verl.")
    show_interface()
    if problem := frameworks.missing("verl"):
        print(render.heading("The golden group as AgentLoopOutput", "04.3"))
        print("One id for each token of the course; in verl a tokenizer's own.\n")
        show_records(Vocabulary())
        print()
        print(render.wrapped("", f"Not run: {problem}."))
        return
    quiet()
    PROGRESS.show("importing verl takes some seconds ...")
    frameworks.require("verl")
    from agentic_rl.bridges.tiny_model import make_tokenizer

    config, tools, tokenizer = composed(), loaded_tools(), make_tokenizer()
    PROGRESS.clear()
    show_tools(tools)
    outputs = show_loop(config, tools, tokenizer)
    rewards = show_rewards(outputs, config, tokenizer)
    show_advantages(outputs, rewards)
    print("\nNext: ray_rollout.py, the same through a local Ray cluster.")


if __name__ == "__main__":
    run(main, __doc__)
