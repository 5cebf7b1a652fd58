"""Chapter 05. OpenRLHF's own trainer learns Tool-Math on a CPU.

    python3 examples/05_openrlhf_agent/train_grpo.py

Its PPOTrainer runs from the data file to the last update: data, rollouts by our agent,
experiences, advantages, replay buffer, Actor, PolicyLoss. Ours are the policy, a table of
chapter 02 as a language model (table_model.py), the optimizer where DeepSpeed would be,
and what cpu_stubs.py names.

Exit status 1 unless the mean reward of the last steps is over 0.9.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

import cpu_stubs
import make_data

from agentic_rl.bridges import frameworks
from agentic_rl.cli import render
from agentic_rl.cli.terminal import Progress, run
from agentic_rl.tool_math import ACTIONS, STATES

GOAL = 0.9
WINDOW = 5  # steps, whose mean is a line of the table
REWARD = "small_costs_gated"  # right pays 1, less 0.02 a call: the optimum is 0.98
LEARNING_RATE = 0.2
SHOWN = ("easy/start", "hard/start", "hard/result", "lookup/start", "lookup/price")

# As on GPUs, with other sizes. The first line is what differs from OpenRLHF's defaults in
# what is computed: the advantage, and no KL.
FLAGS = (
    "--algo.advantage.estimator group_norm --algo.kl.init_coef 0"
    " --rollout.batch_size 6 --rollout.n_samples_per_prompt 8"
    " --rollout.micro_batch_size 48 --train.batch_size 24 --train.micro_batch_size 24"
    " --train.num_episodes 3 --train.max_epochs 1 --train.seed 7 --data.max_len 512"
    " --data.input_key input --data.label_key label --data.apply_chat_template"
    " --vllm.num_engines 1 --actor.num_gpus_per_node 1"
)


def settings(folder: Path) -> Any:
    """The settings of a run whose tokenizer and data lie in the folder."""
    return cpu_stubs.parsed(
        [
            *FLAGS.split(),
            *("--actor.model_name_or_path", str(folder)),
            *("--data.prompt_dataset", str(folder / "train.jsonl")),
            *("--train.agent_func_path", str(HERE / "agent_func.py")),
        ]
    )


def cpu_strategy(args: Any, optimizer: Any) -> Any:
    """OpenRLHF's DeepspeedStrategy, with a torch optimizer where DeepSpeed's engine is."""
    import torch
    from openrlhf.utils import get_strategy
    from torch.distributed.device_mesh import init_device_mesh

    def step(*_: Any, **__: Any) -> None:
        optimizer.step()
        optimizer.zero_grad()

    strategy = get_strategy(args)
    torch.manual_seed(args.train.seed)
    if not torch.distributed.is_initialized():  # one process, nobody to talk to
        store = torch.distributed.HashStore()
        torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    strategy.world_size = strategy.accumulated_gradient = 1
    names = ("dp", "sp", "tp")
    strategy.ds_device_mesh = init_device_mesh("cpu", (1, 1, 1), mesh_dim_names=names)
    strategy.print = lambda *_: None
    strategy.backward = lambda loss, *_: loss.backward()
    strategy.optimizer_step = step
    return strategy


def learner(strategy: Any, model: Any, optimizer: Any) -> Any:
    """OpenRLHF's PolicyModelActor with its Actor and its ActorPPOTrainer, in this process."""
    import torch
    from openrlhf.models import Actor
    from openrlhf.trainer.ray.ppo_actor import ActorPPOTrainer, PolicyModelActor

    worker = cpu_stubs.plain(PolicyModelActor)
    worker.strategy, worker.actor = strategy, Actor(model)
    worker.actor.packing_samples = False  # left out if Actor is given a model
    constant = torch.optim.lr_scheduler.ConstantLR(optimizer, 1.0)
    with cpu_stubs.no_cuda(device=0):  # the replay buffer wants a number
        worker.trainer = ActorPPOTrainer(
            strategy,
            worker.actor,
            ema_model=None,
            actor_optim=optimizer,
            actor_scheduler=constant,
            micro_train_batch_size=strategy.args.train.micro_batch_size,
            dataloader_pin_memory=False,
        )
    worker.broadcast_to_vllm = lambda: None  # the engine reads the same table
    return worker


class Log:
    """Stands where OpenRLHF has a TensorBoard writer: keeps what is logged."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []

    def log_train(self, step: int, status: dict[str, Any]) -> None:
        self.records.append(status)

    def close(self) -> None:
        pass


def train(folder: Path) -> tuple[list[dict[str, Any]], Any]:
    """(what was logged of each update, the model)."""
    import datasets
    import torch
    from openrlhf.trainer.ppo_trainer import PPOTrainer
    from table_model import Reader, Table, TableModel

    from agentic_rl.bridges.tiny_model import make_tokenizer

    os.environ["TOOL_MATH_REWARD"] = REWARD
    datasets.config.HF_DATASETS_CACHE = folder / "cache"  # not in the reader's home
    tokenizer = make_tokenizer()
    tokenizer.save_pretrained(folder)
    make_data.write(folder / "train.jsonl", make_data.TRAIN, None)
    args = settings(folder)
    cpu_stubs.without_ray()
    model = TableModel(Reader(tokenizer, make_data.TRAIN), len(tokenizer))
    optimizer = torch.optim.Adam(model.parameters(), LEARNING_RATE)
    strategy = cpu_strategy(args, optimizer)
    engine = cpu_stubs.rollout_actor(
        Table(model, args.train.seed), agent_func_path=args.train.agent_func_path
    )
    trainer = cpu_stubs.plain(PPOTrainer)
    trainer.__init__(
        pretrain=args.actor.model_name_or_path,
        strategy=strategy,
        actor_model_group=cpu_stubs.Group(learner(strategy, model, optimizer)),
        critic_model_group=None,
        reward_model_group=None,
        reference_model_group=None,
        vllm_engines=[cpu_stubs.Handle(engine)],
        max_len=args.data.max_len,
        max_new_tokens=args.rollout.max_new_tokens,
        temperature=args.rollout.temperature,
        top_p=args.rollout.top_p,
    )
    log = trainer.tensorboard_logger = Log()
    with cpu_stubs.no_cuda():
        trainer.fit()
    return log.records, model


def show_log(log: Sequence[dict[str, Any]]) -> float:
    """The table of a run; the mean reward of its last window."""
    print(render.heading("GRPO by OpenRLHF's PPOTrainer, on one CPU", "05.8"))
    names = ("reward", "right", "calls", "response_length", "ppo_clip_ratio")
    rows = []
    for begin in range(0, len(log), WINDOW):
        part = log[begin : begin + WINDOW]
        means = [sum(float(x[name]) for x in part) / len(part) for name in names]
        rows.append((f"{begin + 1}-{begin + len(part)}", *means))
    print(render.table(["steps", *names], rows))
    return rows[-1][1]


def show_policy(model: Any) -> None:
    """What was learnt: the probability of each action in the states that matter."""
    print(render.heading("What the table says now", "05.9"))
    chances = model.table.detach().softmax(dim=-1).tolist()
    rows = []
    for state in SHOWN:
        row = chances[STATES.index(state)]
        best = max(range(len(ACTIONS)), key=row.__getitem__)
        rows.append((state, ACTIONS[best], render.number(row[best], 2)))
    print(render.table(("state", "likeliest action", "probability"), rows))


def judge(reached: float) -> int:
    """The exit status for the mean reward of the last steps; says what it means."""
    print()
    if not reached > GOAL:
        print(f"not as it was promised: reward {reached:.3f}, expected over {GOAL}")
        return 1
    print(f"Mean reward of the last steps: over {GOAL}.", end=" ")
    print("The optimum of the three kinds is 0.98.")
    return 0


def main() -> int:
    print("Chapter 05: OpenRLHF's trainer, our agent, a table as the language model.")
    if problem := frameworks.missing("openrlhf"):
        print()
        print(render.wrapped("", f"Not run: {problem}."))
        return 0
    progress = Progress()
    progress.show("importing OpenRLHF, and 30 steps of its trainer: half a minute ...")
    cpu_stubs.install()
    with tempfile.TemporaryDirectory() as folder, cpu_stubs.hushed():
        log, model = train(Path(folder))
    progress.clear()
    reached = show_log(log)
    show_policy(model)
    return judge(reached)


if __name__ == "__main__":
    run(main, __doc__)
