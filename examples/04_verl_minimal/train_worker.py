"""Chapter 04. verl's own training worker learns Tool-Math on a CPU, without Ray.

    python3 examples/04_verl_minimal/train_worker.py

What verl does is done by verl: its agent loop plays the episodes with our tools, its
reward manager calls our reward, its estimator compares the groups, and its TrainingWorker,
an FSDP2 engine with ppo_loss, takes the step. Ours are the tiny model and its warm start
(cpu_setup.py), the engine that samples (cpu_rollout.py) and the platform (cpu_platform.py).

Exit status 1 unless the worker's log-probs are those of transformers and the reward rises.
"""

from __future__ import annotations

import asyncio
import copy
import os
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import cpu_setup

from agentic_rl.bridges.frameworks import BridgeError
from agentic_rl.cli import render
from agentic_rl.cli.terminal import Progress, complain, run

UPDATES = 80
SEED = 0
CLOSE = 1e-4  # nats: how far two float32 programs may be apart
WINDOW = 10  # updates whose mean reward is compared, at the start and at the end
RISE = 0.1


class Learner:
    """verl's TrainingWorker in this process; padded batches in, padded tensors out."""

    def __init__(self, config: Any):
        from verl.utils.config import omega_conf_to_dataclass
        from verl.workers.config import TrainingWorkerConfig
        from verl.workers.engine_workers import TrainingWorker
        from verl.workers.utils.losses import ppo_loss

        one_process()
        actor = omega_conf_to_dataclass(config.actor_rollout_ref.actor)
        actor.model_config = omega_conf_to_dataclass(config.actor_rollout_ref.model)
        engine = actor.engine
        engine.use_dynamic_bsz = actor.use_dynamic_bsz
        engine.micro_batch_size_per_gpu = actor.ppo_micro_batch_size_per_gpu
        engine.infer_micro_batch_size_per_gpu = actor.ppo_micro_batch_size_per_gpu
        self.worker = TrainingWorker(
            TrainingWorkerConfig(
                model_type="language_model",
                model_config=actor.model_config,
                engine_config=engine,
                optimizer_config=actor.optim,
                checkpoint_config=actor.checkpoint,
            )
        )
        self.worker.reset()
        self.worker.set_loss_fn(partial(ppo_loss, config=actor))

    def _sent(self, batch: Any, **told: Any) -> Any:
        """The batch as the worker takes it: rows of their own length, without padding."""
        from verl.utils import tensordict_utils
        from verl.workers.utils.padding import left_right_2_no_padding

        rows = left_right_2_no_padding(batch.to_tensordict())
        tensordict_utils.assign_non_tensor(rows, temperature=1.0, **told)
        return rows

    def logprobs(self, batch: Any) -> Any:
        """log pi of each response id, [B, R], in nats, under the current weights."""
        from verl.utils import tensordict_utils
        from verl.workers.utils.padding import no_padding_2_padding

        rows = self._sent(batch, calculate_entropy=False, compute_loss=False)
        found = tensordict_utils.get(self.worker.infer_batch(rows), "log_probs")
        return no_padding_2_padding(found, rows).float()

    def update(self, batch: Any) -> dict[str, Any]:
        """One step of the optimizer on the whole batch; the worker's metrics."""
        from verl.utils import tensordict_utils

        rows = self._sent(
            batch,
            calculate_entropy=False,
            global_batch_size=len(batch),
            mini_batch_size=len(batch),
            epochs=1,
            seed=SEED,
            dataloader_kwargs={"shuffle": False},
        )
        return dict(tensordict_utils.get(self.worker.train_mini_batch(rows), "metrics"))

    def weights(self) -> Any:
        """(name, tensor) of the model, as verl hands them to a rollout engine."""
        return self.worker.engine.get_per_tensor_param()[0]


def one_process() -> None:
    """Tell torch.distributed that nobody else takes part."""
    alone = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    os.environ.update(alone, RAY_LOCAL_WORLD_SIZE="1", MASTER_ADDR="127.0.0.1")
    os.environ["MASTER_PORT"] = str(cpu_setup.free_port())


class Player:
    """verl's AgentLoopWorker in this process, with our engine behind it."""

    def __init__(self, config: Any):
        from cpu_rollout import Generator
        from verl.experimental.agent_loop.agent_loop import AgentLoopWorker
        from verl.trainer.ppo.reward import load_reward_manager
        from verl.utils import hf_tokenizer

        folder = config.actor_rollout_ref.model.path
        turn_tokens = config.actor_rollout_ref.rollout.custom.turn_tokens
        self.generator = Generator(folder, turn_tokens)
        self.manager = load_reward_manager(config, hf_tokenizer(folder))
        # Stands where verl expects the handle of a Ray actor.
        handle = SimpleNamespace(compute_score=SimpleNamespace(remote=self.score))
        self.worker = AgentLoopWorker(
            config, self.generator, reward_loop_worker_handles=[handle]
        )

    async def score(self, data: Any) -> dict[str, Any]:
        """The reward of one rollout. verl's manager writes into the row, which the group
        shares here; Ray would have sent a copy."""
        data.non_tensor_batch["extra_info"] = copy.deepcopy(
            data.non_tensor_batch["extra_info"]
        )
        return dict(await self.manager.run_single(data))

    async def play(self, prompts: Any) -> Any:
        """A DataProto of prompts -> a DataProto of scored rollouts.

        Which rollout of a group drew which turn is chance. They are put in order, for sums
        to be the same on every run.
        """
        import torch

        batch = await self.worker.generate_sequences(prompts)
        groups, ids = prompts.non_tensor_batch["uid"], batch.batch["responses"].tolist()
        first = {name: place for place, name in reversed([*enumerate(groups)])}
        order = sorted(range(len(ids)), key=lambda i: (first[groups[i]], ids[i]))
        batch.reorder(torch.tensor(order))
        return batch


def batches(config: Any) -> Callable[[], Any]:
    """Draws the next batch: train_batch_size tasks, each n times, with the group's id."""
    import numpy
    import torch
    from verl import DataProto
    from verl.utils import hf_tokenizer
    from verl.utils.dataset.rl_dataset import RLHFDataset, collate_fn

    dataset = RLHFDataset(
        data_files=config.data.train_files,
        tokenizer=hf_tokenizer(config.actor_rollout_ref.model.path),
        config=config.data,
    )
    generator = torch.Generator().manual_seed(SEED)

    def draw() -> Any:
        order = torch.randperm(len(dataset), generator=generator).tolist()
        rows = [dataset[place] for place in order[: config.data.train_batch_size]]
        batch = DataProto.from_single_dict(collate_fn(rows))
        names = [str(row["index"]) for row in rows]
        batch.non_tensor_batch["uid"] = numpy.array(names, dtype=object)
        return batch.repeat(config.actor_rollout_ref.rollout.n, interleave=True)

    return draw


def with_advantages(batch: Any, prompts: Any) -> Any:
    """The batch with verl's GRPO advantages, [B, R]: our rewards, compared by group."""
    from verl.trainer.ppo import core_algos

    estimate = core_algos.get_adv_estimator_fn("grpo")
    batch.batch["advantages"], _ = estimate(
        token_level_rewards=batch.batch["rm_scores"],
        response_mask=batch.batch["response_mask"].float(),
        index=prompts.non_tensor_batch["uid"],
    )
    return batch


def transformers_logprobs(model: Any, batch: Any) -> Any:
    """log pi of each response id, [B, R], by transformers alone."""
    import torch

    tensors = batch.batch
    with torch.no_grad():
        logits = model(
            input_ids=tensors["input_ids"],
            attention_mask=tensors["attention_mask"],
            position_ids=tensors["position_ids"],
        ).logits
    width = tensors["responses"].shape[1]
    everything = torch.log_softmax(logits[:, -width - 1 : -1], dim=-1)
    return everything.gather(-1, tensors["responses"][..., None])[..., 0]


def show_agreement(learner: Learner, player: Player, batch: Any) -> float:
    """Three programs on the same ids; the largest difference where the mask is 1."""
    mask = batch.batch["response_mask"].bool()
    ours = learner.logprobs(batch)[mask]
    print(render.heading("Three programs, the same ids", "04.7"))
    print(f"{len(mask)} rollouts, {int(mask.sum())} ids that the model wrote\n")
    others = {
        "transformers, without verl": transformers_logprobs(
            player.generator.model, batch
        )[mask],
        "the engine, as it sampled them": batch.batch["rollout_log_probs"][mask],
    }
    largest = {name: float((ours - x).abs().max()) for name, x in others.items()}
    rows = [(name, f"{value:.1e}") for name, value in largest.items()]
    print(render.table(["largest |difference| to the worker, in nats", ""], rows))
    return max(largest.values())


async def train(config: Any) -> tuple[float, list[dict[str, float]]]:
    """(largest difference of log-probs, a record of each update)."""
    import torch

    torch.manual_seed(SEED)
    with cpu_setup.quietly():
        learner, player, draw = Learner(config), Player(config), batches(config)
    progress, log, difference = Progress(), [], 0.0
    for update in range(1, UPDATES + 1):
        prompts = draw()
        batch = await player.play(prompts)
        if update == 1:
            difference = show_agreement(learner, player, batch)
        batch.batch["old_log_probs"] = learner.logprobs(batch)
        learner.update(with_advantages(batch, prompts))
        player.generator.load(learner.weights(), update)
        log.append(record(batch))
        progress.show(f"update {update} of {UPDATES}: {log[-1]['reward']:.2f}")
    progress.clear()
    return difference, log


def record(batch: Any) -> dict[str, float]:
    """What a batch earned: means over its rollouts, from the breakdown of our reward."""
    notes = batch.non_tensor_batch
    return {
        "reward": float(batch.batch["rm_scores"].sum(dim=-1).mean()),
        "right": float(notes["right"].astype(float).mean()),
        "calls": float(sum(map(len, notes["tool_rewards"])) / len(batch)),
    }


def show_log(log: list[dict[str, float]]) -> float:
    """The table of a run; how much the reward rose from its first to its last window."""
    print(render.heading("GRPO by verl's worker: FSDP2, ppo_loss, one CPU", "04.8"))
    means = [
        {key: sum(x[key] for x in part) / len(part) for key in part[0]}
        for part in (log[i : i + WINDOW] for i in range(0, len(log), WINDOW))
    ]
    rows = [
        (f"{i * WINDOW + 1}-{(i + 1) * WINDOW}", *mean.values())
        for i, mean in enumerate(means)
    ]
    print(render.table(["updates", *means[0]], rows))
    return means[-1]["reward"] - means[0]["reward"]


def main() -> int:
    began = time.monotonic()
    warnings.filterwarnings("ignore")
    os.environ["VERL_LOGGING_LEVEL"] = "CRITICAL"  # a call that is no JSON is an error
    try:
        cpu_setup.surround()
    except BridgeError as error:
        complain(render.wrapped("", str(error)))
        return 1
    config = cpu_setup.cpu_config([f"trainer.total_training_steps={UPDATES}"])
    difference, log = asyncio.run(train(config))
    rise = show_log(log)
    print(f"\n{cpu_setup.cost(began)}")
    if difference > CLOSE:
        print(f"the log-probs differ by {difference:.1e}, expected {CLOSE:g} at most")
    if rise < RISE:
        print(f"the reward rose by {rise:.2f}, expected {RISE:g} at least")
    if difference > CLOSE or rise < RISE:
        return 1
    print("\nNext: train_main_ppo.py, verl's main program from end to end.")
    return 0


if __name__ == "__main__":
    run(main, __doc__)
