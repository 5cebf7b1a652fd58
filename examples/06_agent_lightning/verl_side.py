"""Agent Lightning's adapter for verl, called on our episodes.

What its manager hands to the adapter, what the adapter makes of it, and what its trainer
then computes: rows, advantages, a loss. Each function here calls the real one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentic_rl.bridges import agent_lightning as bridge
from agentic_rl.bridges.token_ids import to_ids
from agentic_rl.conventions import AGENT_LIGHTNING
from agentic_rl.golden import GOLDEN_NAMES, golden_group
from agentic_rl.objective import policy_loss
from agentic_rl.trajectory import Trajectory

PROMPT, RESPONSE = 512, 768  # ids, of the padded rows
OURS = AGENT_LIGHTNING
Calls = Sequence[bridge.Triplet]

# ------------------------------------------------------------------------- its objects


def completed(
    name: str, calls: Calls, reward: float | None, group: str = "task", place: int = 0
) -> Any:
    """A finished rollout, as its manager hands it to the adapter."""
    from agentlightning.verl.agl_rollout_manager import CompletedRollout, Triplet

    found = [
        Triplet(
            prompt={"token_ids": list(call.prompt_ids)},
            response={
                "token_ids": list(call.response_ids),
                "log_probs": None if call.logprobs is None else list(call.logprobs),
            },
        )
        for call in calls
    ]
    return CompletedRollout(
        rollout_id=name,
        data_id=group,
        step=0,
        sample_idx_in_step=place,
        enqueue_time=0.0,
        final_reward=reward,
        triplets=found,
    )


def adapted(
    rollouts: Sequence[Any], level: str = "trajectory", **settings: Any
) -> tuple[Any, dict[str, Any]]:
    """(DataProto, metrics) of the real adapter."""
    import torch
    from agentlightning.verl.rollout_adapter import RolloutAdapter

    chosen = {
        "max_prompt_length": PROMPT,
        "max_response_length": RESPONSE,
        "pad_token_id": 0,
        "reward_fillna_value": 0.0,
        "device": torch.device("cpu"),
        "trace_aggregator_level": level,
        **settings,
    }
    data, metrics = RolloutAdapter(**chosen).get_train_data_batch(list(rollouts))
    return data, dict(metrics)


def rows_of(data: Any) -> list[bridge.Row]:
    """The rows of a batch at level trajectory, without their padding."""
    tensors = data.batch
    width = tensors["prompts"].shape[1]
    found = []
    for row, marks in enumerate(tensors["attention_mask"].bool()):
        before, after = marks[:width], marks[width:]
        told = tensors.get("rollout_log_probs")
        found.append(
            bridge.Row(
                tensors["prompts"][row][before].tolist(),
                tensors["responses"][row][after].tolist(),
                tensors["response_mask"][row][after].tolist(),
                None if told is None else told[row][after].tolist(),
            )
        )
    return found


def calls_of(trajectory: Trajectory, tokenizer: Any) -> list[bridge.Triplet]:
    """The model calls of one of our episodes."""
    return list(bridge.turns(to_ids(trajectory, tokenizer)))


def without_thoughts(trajectory: Trajectory, tokenizer: Any) -> list[bridge.Triplet]:
    """The same calls, from a template that leaves earlier thoughts out of the prompt."""
    spoken = [i for i, m in enumerate(trajectory.messages) if m["role"] == "assistant"]
    plain: list[dict[str, Any]] = [
        {key: x for key, x in message.items() if key != "reasoning_content"}
        for message in trajectory.messages
    ]
    return [
        call._replace(prompt_ids=bridge.prompt_ids(plain[:place], tokenizer))
        for place, call in zip(spoken, calls_of(trajectory, tokenizer))
    ]


def cut_otherwise(calls: Calls, tokenizer: Any) -> list[bridge.Triplet]:
    """The same texts, but the model sampled one piece of its first turn in characters."""
    first, *others = calls
    texts = [tokenizer.decode([token]) for token in first.response_ids]
    place = max(i for i, text in enumerate(texts) if len(text) > 1 and "<" not in text)
    letters = [x for text in texts[place] for x in bridge.ordinary(text, tokenizer)]
    ids = [*first.response_ids[:place], *letters, *first.response_ids[place + 1 :]]
    values = [*(first.logprobs or [])[:1], *[0.0] * (len(ids) - 1)]
    return [first._replace(response_ids=ids, logprobs=values), *others]


def group_data(tokenizer: Any, level: str, exact: bool = False) -> Any:
    """The golden group as its trainer has it before the advantage.

    exact   rewards as float32, which the adapter has cut down to bfloat16
    """
    group = list(zip(GOLDEN_NAMES, golden_group()))
    rollouts = [
        completed(name, calls_of(episode, tokenizer), episode.reward, place=place)
        for place, (name, episode) in enumerate(group)
    ]
    data = prepared(adapted(rollouts, level)[0])
    if exact:
        data.batch["token_level_rewards"] = data.batch["token_level_scores"].float()
    return data


def prepared(data: Any) -> Any:
    """With what its trainer adds: uid, a mask where there is none, the rewards."""
    from verl.trainer.ppo.ray_trainer import compute_response_mask

    data.non_tensor_batch["uid"] = data.non_tensor_batch["data_id_list"]
    if "response_mask" not in data.batch:
        data.batch["response_mask"] = compute_response_mask(data)
    data.batch["token_level_rewards"] = data.batch["token_level_scores"]
    return data


def row_values(data: Any, rollout_level: bool) -> list[float]:
    """The advantage of each row: statistics over rollouts, or verl's own over rows."""
    from agentlightning.verl.rollout_level_advantage import (
        compute_rollout_level_advantage,
    )
    from verl.trainer.ppo.core_algos import AdvantageEstimator
    from verl.trainer.ppo.ray_trainer import compute_advantage

    estimator = {"adv_estimator": AdvantageEstimator.GRPO, "gamma": 1.0, "lam": 1.0}
    if rollout_level:
        data, _ = compute_rollout_level_advantage(data, num_repeat=1, **estimator)
    else:
        data = compute_advantage(data, num_repeat=1, **estimator)
    rows = zip(data.batch["advantages"], data.batch["response_mask"].bool())
    return [float(values[mask][0]) for values, mask in rows]


# -------------------------------------------------------------------------- the loss


def their_loss(data: Any, shift: float = 0.0) -> float:
    """per_rollout_mean of a batch with advantages; new log-probs are moved by ``shift``."""
    from agentlightning.verl.per_rollout_loss import normalize_advantages_by_rollout

    batch = data.batch
    advantages = normalize_advantages_by_rollout(
        batch["advantages"],
        batch["response_mask"],
        data.non_tensor_batch["rollout_id_list"],
        num_trained_rows=len(data),
    )
    return per_rollout_loss(advantages, batch["response_mask"], shift)


def per_rollout_loss(advantages: Any, mask: Any, shift: float) -> float:
    """per_rollout_mean of advantages that its trainer has divided."""
    import torch
    from agentlightning.verl.per_rollout_loss import (
        compute_policy_loss_per_rollout_mean,
    )
    from verl.workers.config import ActorConfig

    old = torch.full_like(advantages, -1.0)
    config = ActorConfig(
        strategy="fsdp",
        rollout_n=1,
        ppo_micro_batch_size_per_gpu=1,
        clip_ratio=0.2,
        clip_ratio_low=0.2,
        clip_ratio_high=0.2,
        clip_ratio_c=3.0,
    )
    loss, _ = compute_policy_loss_per_rollout_mean(
        old, old + shift, advantages, mask, config=config
    )
    return float(loss)


def our_loss(data: Any, shift: float = 0.0) -> float:
    """Ours, a row a rollout: the masked places of all its rows together."""
    places: dict[str, list[float]] = {}
    rows = zip(
        data.non_tensor_batch["rollout_id_list"].tolist(),
        data.batch["advantages"],
        data.batch["response_mask"].bool(),
    )
    for name, values, mask in rows:
        places.setdefault(name, []).extend(values[mask].tolist())
    gains = list(places.values())
    old = [[-1.0] * len(row) for row in gains]
    new = [[-1.0 + shift] * len(row) for row in gains]
    return policy_loss(new, old, gains, OURS).value
