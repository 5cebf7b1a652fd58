"""OpenRLHF's numbers for the golden group beside ours: advantages, losses, KL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from playing import maker_of, promise, settings_of

from agentic_rl.advantage import group_advantages, spread
from agentic_rl.bridges import openrlhf as bridge
from agentic_rl.cli import render
from agentic_rl.conventions import OPENRLHF
from agentic_rl.golden import GOLDEN_NAMES, golden_group
from agentic_rl.objective import kl_term, policy_loss

SINGLE = 1e-6  # OpenRLHF keeps rewards, and computes a KL, in float32
CLOSE = 1e-9
SHIFTS = (-0.6, -0.1, 0.0, 0.05, 0.3, 1.5)  # of the log-probs since they were sampled
CONVENTIONS = {
    "token-mean": OPENRLHF,
    "seq-mean": OPENRLHF.but(
        aggregation="episode_mean", mean_epsilon=1e-8, empty_rows="left_out"
    ),
    "clip higher": OPENRLHF.but(clip_high=0.28),
    "dual clip": OPENRLHF.but(dual_clip=3.0),
    "gspo": OPENRLHF.but(
        ratio="sequence",
        aggregation="episode_mean",
        mean_epsilon=1e-8,
        empty_rows="left_out",
        log_ratio_clamp=None,
    ),
}


def show_advantages(experiences: Sequence[Any]) -> None:
    import torch

    print(
        render.heading("The advantages, by OpenRLHF's estimators and by ours", "05.6")
    )
    maker_args = settings_of(OPENRLHF)
    maker_args.rollout.micro_batch_size = len(experiences)
    conventions = {
        name: OPENRLHF.but(**switches) for name, switches in bridge.ESTIMATORS.items()
    }
    rewards = [float(made.rewards) for made in experiences]
    masks = [made.action_mask[0].tolist() for made in experiences]
    columns = []
    for name, convention in conventions.items():
        maker_args.algo.advantage.estimator = name
        maker = maker_of(maker_args)
        batch = maker.split_rollout_samples([*experiences])[0]
        batch.kl = torch.zeros(batch.action_mask.shape, dtype=torch.float64)
        done = maker.compute_advantages_and_returns([batch])[0]
        values = group_advantages(rewards, ["golden"] * len(rewards), convention)
        ours = [row[0] for row in spread(values, [sum(m) for m in masks], convention)]
        theirs = [
            float(row[marks.index(1)]) for row, marks in zip(done.advantages, masks)
        ]
        apart = max(abs(a - b) for a, b in zip(theirs, ours))
        promise(apart < SINGLE, f"the advantages of {name}")
        columns.append((name, *(render.number(x, 4) for x in theirs), "yes"))
    head = ("estimator", *GOLDEN_NAMES, "ours within 1e-6")
    print(render.table(head, columns))


def show_losses(experiences: Sequence[Any]) -> None:
    import torch
    from openrlhf.models import PolicyLoss
    from openrlhf.models.utils import compute_approx_kl

    print(render.heading("PolicyLoss and KL, by OpenRLHF and by ours", "05.7"))
    old, mask, gains = golden_rows(experiences)
    new = [[x + SHIFTS[i % 6] for i, x in enumerate(row)] for row in old]
    doubles = [torch.tensor(x, dtype=torch.float64) for x in (new, old, gains, mask)]
    rows = []
    for name, convention in CONVENTIONS.items():
        actor = settings_of(convention).actor
        loss = PolicyLoss(
            *actor.eps_clip_low_high,
            actor.dual_clip,
            actor.loss_agg_mode == "token-mean",
            actor.policy_loss_type,
        )
        value, clipped, *_ = loss(*doubles)
        ours = policy_loss(new, old, gains, convention, mask).value
        promise(abs(float(value) - ours) < CLOSE, f"the loss {name}")
        rows.append(
            (name, *(render.number(x, 7) for x in (float(value), ours)), float(clipped))
        )
    print(render.table(("loss", "OpenRLHF", "ours", "its clip ratio"), rows))
    print("\nThe KL of log-probs -1 and -1 - d, by estimator:\n")
    gaps, cells = (0.5, -0.5, 3.0, -12.0), []
    for estimator in ("k1", "k2", "k3"):
        convention = OPENRLHF.but(
            kl_place="loss", kl_weight=1.0, kl_estimator=estimator
        )
        base = torch.tensor([[-1.0 - gap for gap in gaps]])
        theirs = compute_approx_kl(torch.full_like(base, -1.0), base, None, estimator)
        ours = [kl_term(-1.0, -1.0 - gap, convention)[0] for gap in gaps]
        promise(
            all(abs(a - b) < SINGLE for a, b in zip(theirs[0].tolist(), ours)),
            estimator,
        )
        cells.append((estimator, *theirs[0].tolist()))
    print(render.table(("estimator", *(f"d = {gap:g}" for gap in gaps)), cells))
    print("\nOurs are the same within 1e-6. Both hold every estimate within 10.")


def golden_rows(experiences: Sequence[Any]) -> tuple[Any, Any, Any]:
    """(old log-probs, mask, advantages) of the golden group, padded to one width."""
    width = max(made.action_mask.shape[1] for made in experiences)
    group = golden_group()
    names = ["golden"] * len(group)
    values = group_advantages([x.reward for x in group], names, OPENRLHF)

    def wide(row: list[float]) -> list[float]:
        return [*row, *[0] * (width - len(row))]

    old = [wide(made.rollout_log_probs[0].double().tolist()) for made in experiences]
    mask = [wide(made.action_mask[0].tolist()) for made in experiences]
    return old, mask, [[value] * width for value in values]
