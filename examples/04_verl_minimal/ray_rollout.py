"""Chapter 04. verl's rollouts on a local Ray cluster, with agents that follow a script.

    python3 examples/04_verl_minimal/ray_rollout.py

Everything between a prompt and an advantage is verl's own and runs in Ray's processes: the
AgentLoopManager and its worker, the load balancer, the RewardLoopManager. Only the language
model is replaced, by an actor that says what our scripted agents say; nothing of verl is
patched and no plug-in is loaded. So what comes back is known beforehand: the masks, the
rewards and the advantages are put beside those of our own trajectories.

Exit status 1 unless they are equal, but for the row that says why it can't be.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))

import cpu_setup

from agentic_rl.advantage import group_advantages
from agentic_rl.bridges.frameworks import BridgeError
from agentic_rl.bridges.tiny_model import make_model, make_tokenizer
from agentic_rl.bridges.verl import output
from agentic_rl.cli import render
from agentic_rl.cli.terminal import complain, run
from agentic_rl.conventions import VERL
from agentic_rl.golden import GOLDEN_NAMES, GOLDEN_TASK, LOOKUP_TASK, golden_group
from agentic_rl.reward import COURSE_REWARD, attach
from agentic_rl.scripted import scripted
from agentic_rl.tasks import Task
from agentic_rl.trajectory import Trajectory

LOOKUP_NAMES = ("acts well", "parallel calls", "ignores the result", "guesses")
STOPS_EARLY = "broken JSON"  # verl drops the call and ends the loop; ours answers it
CLOSE = 1e-5


class Part(NamedTuple):
    """A scripted episode: who plays which task, and what our own loop made of it."""

    name: str
    task: Task
    episode: Trajectory


def parts() -> list[Part]:
    """Two groups of four: the golden group, and four agents that need two tools."""
    golden = zip(GOLDEN_NAMES, golden_group())
    found = [Part(name, GOLDEN_TASK, episode) for name, episode in golden]
    for name in LOOKUP_NAMES:
        episode = scripted(name).run(LOOKUP_TASK)
        attach([episode], [COURSE_REWARD(episode, LOOKUP_TASK)])
        found.append(Part(name, LOOKUP_TASK, episode))
    return found


Ids = tuple[int, ...]


def turns(fields: dict[str, Any]) -> Iterator[tuple[Ids, Ids]]:
    """(all ids before it, its own ids) of each assistant turn of an episode."""
    ids = (*fields["prompt_ids"], *fields["response_ids"])
    start = len(fields["prompt_ids"])
    for mask, same in groupby(fields["response_mask"]):
        stop = start + len(list(same))
        if mask:
            yield ids[:start], ids[start:stop]
        start = stop


class ScriptedServer:
    """Stands where a language model would: all that was said before -> what is said next.

    Where the same ids may be followed by several turns, each is said once; which rollout
    of a group gets which does not matter. Ids that no script knows raise KeyError: then
    verl had put together another context than our loop.
    """

    def __init__(self, following: dict[Ids, list[Ids]]):
        self.following = following

    async def generate(
        self, request_id: str, prompt_ids: list[int], **unused: Any
    ) -> Any:
        from verl.workers.rollout.replica import TokenOutput

        ids = self.following[tuple(prompt_ids)].pop(0)
        return TokenOutput(
            token_ids=ids, log_probs=[-0.5] * len(ids), stop_reason="completed"
        )


def roll_out(config: Any, prompts: Any, following: dict[Ids, list[Ids]]) -> Any:
    """What verl makes of the prompts: a DataProto, one row a rollout."""
    import ray
    from verl.experimental.agent_loop import AgentLoopManager
    from verl.experimental.reward_loop.reward_loop import RewardLoopManager
    from verl.workers.rollout.llm_server import LLMServerClient
    from verl.workers.rollout.router import get_router_handle

    server = ray.remote(ScriptedServer).options(num_cpus=0).remote(following)
    balancer = get_router_handle(
        servers={"scripted": server}, router_config_path=None, full_determinism=False
    )
    manager = AgentLoopManager.create(
        config=config,
        llm_client=LLMServerClient(config=config, load_balancer_handle=balancer),
        reward_loop_worker_handles=RewardLoopManager(config).reward_loop_worker_handles,
    )
    return manager.generate_sequences(prompts)


def prompts_of(config: Any, tasks: list[Task], count: int) -> Any:
    """A DataProto of the tasks, each ``count`` times in a row; uid names the group."""
    import numpy
    from verl import DataProto
    from verl.utils import hf_tokenizer
    from verl.utils.dataset.rl_dataset import RLHFDataset, collate_fn

    dataset = RLHFDataset(
        data_files=config.data.train_files,
        tokenizer=hf_tokenizer(config.actor_rollout_ref.model.path),
        config=config.data,
    )
    rows = [dataset[place] for place in range(len(dataset))]
    batch = DataProto.from_single_dict(collate_fn(rows))
    names = [tasks[row["index"]].id for row in rows]
    batch.non_tensor_batch["uid"] = numpy.array(names, dtype=object)
    return batch.repeat(count, interleave=True)


class Row(NamedTuple):
    """A rollout as verl gave it back."""

    group: str
    ids: list[int]
    mask: list[int]
    reward: float
    advantage: float


def rows_of(batch: Any, prompts: Any) -> list[Row]:
    """The rollouts without padding, with verl's GRPO advantages."""
    from verl.trainer.ppo import core_algos

    groups = prompts.non_tensor_batch["uid"]
    tensors = batch.batch
    mask, rewards = tensors["response_mask"], tensors["rm_scores"]
    estimate = core_algos.get_adv_estimator_fn("grpo")
    advantages, _ = estimate(rewards, mask.float(), groups)
    width = tensors["responses"].shape[1]
    found = []
    for i, group in enumerate(groups):
        length = int(tensors["attention_mask"][i, -width:].sum())
        found.append(
            Row(
                str(group),
                tensors["responses"][i, :length].tolist(),
                mask[i, :length].tolist(),
                float(rewards[i].sum()),
                float(advantages[i, 0]),  # the first id is the assistant's
            )
        )
    return found


def compare(parts: list[Part], tokenizer: Any, rollouts: list[Row]) -> bool:
    """Print each rollout beside our own episode; whether all is as it has to be."""
    rewards = [part.episode.reward for part in parts]
    ours = group_advantages(rewards, [part.task.id for part in parts], VERL)
    table, good = [], True
    for part, advantage in zip(parts, ours):
        fields = output(part.episode, tokenizer)
        row = match(part, fields, rollouts)
        equal = (
            row.ids == fields["response_ids"] and row.mask == fields["response_mask"]
        )
        mask = (
            "equal"
            if equal
            else f"{len(row.mask)} of our {len(fields['response_mask'])}"
        )
        good &= equal or part.name == STOPS_EARLY
        good &= abs(row.reward - part.episode.reward) < CLOSE
        good &= abs(row.advantage - advantage) < CLOSE
        table.append(
            (
                part.name,
                f"{sum(row.mask)} / {row.mask.count(0)}",
                mask,
                row.reward,
                part.episode.reward,
                row.advantage,
                advantage,
            )
        )
    head = ["agent", "1s / 0s", "ids, mask", "reward", "ours", "advantage", "ours"]
    print(render.table(head, table))
    return good


def match(part: Part, fields: dict[str, Any], rollouts: list[Row]) -> Row:
    """Take the rollout of a script out of the list: two scripts never get the same one.

    They may come back in any order, and end early.
    """
    for row in rollouts:
        same_start = row.ids == fields["response_ids"][: len(row.ids)]
        if row.group == part.task.id and same_start:
            rollouts.remove(row)
            return row
    raise ValueError(f"{part.name}: no rollout says what its script says")


def narrate(config: Any, folder: Path, tokenizer: Any) -> bool:
    """Play the two groups in a cluster of their own, and compare."""
    import ray
    from make_data import write

    played = parts()
    tasks = [GOLDEN_TASK, LOOKUP_TASK]
    write(tasks, folder / "train.parquet")
    following: dict[Ids, list[Ids]] = {}
    for part in played:
        for before, turn in turns(output(part.episode, tokenizer)):
            following.setdefault(before, []).append(turn)
    with cpu_setup.quietly():
        prompts = prompts_of(config, tasks, len(played) // len(tasks))
        ray.init(
            address="local",
            num_cpus=8,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
        )
        try:
            rollouts = rows_of(roll_out(config, prompts, following), prompts)
        finally:
            ray.shutdown()
    print(render.heading("Eight rollouts on a local Ray cluster", "04.6"))
    print("1s / 0s: ids with mask 1 and with mask 0. ours: our loop, our estimator.\n")
    good = compare(played, tokenizer, rollouts)
    print()
    print(render.paragraph(f"{STOPS_EARLY}: {WHY}"))
    return good


WHY = """\
verl drops a call that it can't parse, takes the turn for the
last one and ends the episode. Our loop answers the call with an error, and the agent
goes on. Both get the reward 0."""


def main() -> int:
    began = time.monotonic()
    warnings.filterwarnings("ignore")
    try:
        cpu_setup.surround(platform=False)
    except BridgeError as error:
        complain(render.wrapped("", str(error)))
        return 1
    tokenizer = make_tokenizer()
    with TemporaryDirectory() as name:
        folder = Path(name)
        tokenizer.save_pretrained(folder)
        make_model(tokenizer, seed=0).save_pretrained(folder)  # its config is asked for
        os.environ.update(TOOL_MATH_DATA=name, TOOL_MATH_MODEL=name)
        os.environ["TOOL_MATH_CODE"] = str(cpu_setup.HERE)
        config = cpu_setup.compose("cpu", ["actor_rollout_ref.rollout.name=vllm"])
        good = narrate(config, folder, tokenizer)
    print(f"\n{cpu_setup.cost(began)}")
    if good:
        print("\nNext: train_worker.py, verl's own training worker on this machine.")
    return 0 if good else 1


if __name__ == "__main__":
    run(main, __doc__)
