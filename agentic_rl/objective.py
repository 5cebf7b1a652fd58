"""The objective: ratio, clip, KL and aggregation -> a loss and its gradient.

    ratio   = exp(logprob - old_logprob)                                     (eq. ratio)
    loss    = -min(ratio * A, clip(ratio, 1 - low, 1 + high) * A)            (eq. clip)

Each function gives the derivative beside the value. The gradient is that of the loss
with respect to the log-probs; the policy turns it into a gradient of logits.

Rows may differ in length. What stands at a masked position is never read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from agentic_rl.conventions import COURSE, Convention, check_convention
from agentic_rl.trajectory import check_length
from agentic_rl.values import excerpt, is_finite

Rows = Sequence[Sequence[Any]]  # one row an episode, one number a position


class ObjectiveError(ValueError):
    """Numbers that can't be used; the text names the array, the row and the position."""


class Loss(NamedTuple):
    """A loss, its gradient with respect to the log-probs, and what to watch.

    value       one number, to be made smaller
    gradient    d value / d logprobs, rows of the same lengths; 0.0 where the mask is 0
    metrics     clip fractions by the sign of the advantage, smallest and largest ratio,
                mean KL of new against old (k3) and of new against the reference
    """

    value: float
    gradient: list[list[float]]
    metrics: dict[str, float]


def policy_loss(
    logprobs: Rows,
    old_logprobs: Rows | None,
    advantages: Rows,
    convention: Convention = COURSE,
    mask: Rows | None = None,
    ref_logprobs: Rows | None = None,
) -> Loss:
    """The loss of one batch; all arguments have the shape of ``logprobs``, in nats.

    old_logprobs    of the policy that sampled the batch; required: without it the ratio
                    would be 1 forever and no clip could act
    mask            1 where the position counts; all of them if not given
    ref_logprobs    required if the convention puts a KL into the loss

    Raises TrajectoryError if shapes differ, ObjectiveError for a missing array, a number
    that is not finite, or a ratio too large to compute without a clamp.
    """
    check_convention(convention)
    with_kl = convention.kl_place == "loss"
    _check_shapes(logprobs, old_logprobs, advantages, mask, ref_logprobs, with_kl)
    marks = mask if mask is not None else [[1] * len(row) for row in logprobs]
    weights = row_weights(marks, convention)
    watch = _Watch()
    value, gradient = 0.0, []
    for row in range(len(logprobs)):
        places = [place for place, mark in enumerate(marks[row]) if mark]
        new = _read("logprobs", logprobs, row, places)
        old = _read("old_logprobs", old_logprobs, row, places)
        ref = _read("ref_logprobs", ref_logprobs, row, places) if with_kl else None
        gains = _read("advantages", advantages, row, places)
        try:
            losses, slopes = _row_loss(new, old, ref, gains, convention, watch)
        except ObjectiveError as error:
            raise ObjectiveError(f"row {row}: {error}") from None
        if not all(map(math.isfinite, losses + slopes)):
            raise ObjectiveError(f"row {row}: the loss overflows; set log_ratio_clamp")
        value += weights[row] * _total(row, losses)
        dense = [0.0] * len(logprobs[row])
        for place, slope in zip(places, slopes):
            # Adding 0.0 turns -0.0, which would puzzle a reader, into 0.0.
            dense[place] = weights[row] * slope + 0.0
        gradient.append(dense)
    if not math.isfinite(value):
        raise ObjectiveError("the loss overflows: its rows add up to no number")
    return Loss(value, gradient, watch.summary())


def _total(row: int, losses: list[float]) -> float:
    """The sum of one row's losses. Raises ObjectiveError if no float can hold it."""
    try:
        return math.fsum(losses)
    except OverflowError:
        raise ObjectiveError(
            f"row {row}: the loss overflows: its positions add up to no number"
        ) from None


def _row_loss(
    new: list[float],
    old: list[float],
    ref: list[float] | None,
    advantages: list[float],
    convention: Convention,
    watch: _Watch,
) -> tuple[list[float], list[float]]:
    """(losses, slopes), one number an active position: l_t and d(sum of l) / d logprob_t."""
    ratios = ratios_of(new, old, convention)
    losses, ratio_slopes = [], []
    for ratio, advantage, logprob, old_logprob in zip(
        ratios.values, advantages, new, old
    ):
        loss, slope = clipped_loss(ratio, advantage, convention)
        watch.see(ratio, advantage, slope, logprob, old_logprob)
        losses.append(loss)
        ratio_slopes.append(slope)
    if ref is None:
        return losses, ratios.chain(ratio_slopes)
    kl_slopes = []
    for place, (logprob, ref_logprob) in enumerate(zip(new, ref)):
        kl, slope = kl_term(logprob, ref_logprob, convention)
        watch.see_kl(kl)
        weight = convention.kl_weight
        if convention.kl_ratio:  # d(ratio * kl) = kl * d ratio + ratio * d kl
            losses[place] += weight * ratios.values[place] * kl
            ratio_slopes[place] += weight * kl
            kl_slopes.append(weight * ratios.values[place] * slope)
        else:
            losses[place] += weight * kl
            kl_slopes.append(weight * slope)
    slopes = ratios.chain(ratio_slopes)
    return losses, [slope + extra for slope, extra in zip(slopes, kl_slopes)]


# -------------------------------------------------------------------------- the ratio


class Ratios(NamedTuple):
    """The ratios of one row and how they move with its log-probs.

    values      one ratio a position
    slopes      d log(ratio) / d logprob: 1, or 0 where the clamp holds it
    shared      True if the row has one ratio for all its positions (GSPO)
    """

    values: list[float]
    slopes: list[float]
    shared: bool

    def chain(self, ratio_slopes: list[float]) -> list[float]:
        """d/d ratio -> d/d logprob, one number a position."""
        if not self.shared:
            triples = zip(ratio_slopes, self.values, self.slopes)
            return [slope * ratio * log_slope for slope, ratio, log_slope in triples]
        total = math.fsum(ratio_slopes)
        pairs = zip(self.values, self.slopes)
        count = len(self.values)
        return [total * ratio * log_slope / count for ratio, log_slope in pairs]


def ratios_of(
    new: Sequence[float], old: Sequence[float], convention: Convention
) -> Ratios:
    """eq. ratio for each position, or, for ratio="sequence", the length-normalised one.

    exp(mean_t(logprob_t - old_logprob_t))              (GSPO, arXiv 2507.18071, eq. 7)
    """
    logs = [a - b for a, b in zip(new, old)]
    shared = convention.ratio == "sequence"
    if shared and logs:
        logs = [math.fsum(logs) / len(logs)] * len(logs)
    clamp = convention.log_ratio_clamp
    values, slopes = [], []
    for log_ratio in logs:
        held = False
        if clamp is not None and abs(log_ratio) > clamp:
            held, log_ratio = True, math.copysign(clamp, log_ratio)
        try:
            values.append(math.exp(log_ratio))
        except OverflowError:
            raise ObjectiveError(
                f"log-ratio {log_ratio:g} is too large for exp; set log_ratio_clamp"
            ) from None
        slopes.append(0.0 if held else 1.0)
    return Ratios(values, slopes, shared)


# --------------------------------------------------------------------------- the clip


def clipped_loss(
    ratio: float, advantage: float, convention: Convention = COURSE
) -> tuple[float, float]:
    """(loss, d loss / d ratio) of one position; eq. clip.

    "ppo" takes the worse of the two surrogates, so it stops a step that has already gone
    far enough in the good direction and never one that goes back (Schulman et al. 2017,
    eq. 7). "two_sided" clips whatever the sign. ``dual_clip`` bounds the loss of a bad
    action whose ratio ran away: for A < 0 the loss is at most -dual_clip * A (Ye et al.
    2020, eq. 5).
    """
    surrogate, slope = ratio * advantage, advantage
    if convention.clip != "off":
        clipped = min(max(ratio, 1 - convention.clip_low), 1 + convention.clip_high)
        outside = clipped != ratio
        if outside and (
            convention.clip == "two_sided" or clipped * advantage < surrogate
        ):
            surrogate, slope = clipped * advantage, 0.0
    if convention.dual_clip is not None and advantage < 0:
        floor = convention.dual_clip * advantage
        if surrogate < floor:
            surrogate, slope = floor, 0.0
    return 0.0 - surrogate, 0.0 - slope


# ----------------------------------------------------------------------------- the KL


def kl_estimate(
    logprob: float, ref_logprob: float, estimator: str
) -> tuple[float, float]:
    """(estimate, d estimate / d logprob) of KL(policy || reference) from one sample.

    With d = logprob - ref_logprob (Schulman 2020, "Approximating KL divergence"):

        k1 = d                 unbiased, may be negative            slope 1
        k2 = d^2 / 2           its gradient is that of the KL       slope d
        k3 = exp(-d) + d - 1   unbiased, never negative             slope 1 - exp(-d)
    """
    d = logprob - ref_logprob
    if estimator == "k1":
        return d, 1.0
    if estimator == "k2":
        return d * d / 2, d
    if estimator == "k3":
        try:
            inverse = math.exp(-d)
        except OverflowError:
            raise ObjectiveError(
                f"log-ratio {-d:g} is too large for exp in k3; set kl_log_ratio_clamp"
            ) from None
        return inverse + d - 1, 1 - inverse
    raise ObjectiveError(f"KL estimator: expected k1, k2 or k3, got {estimator!r}")


def kl_term(
    logprob: float, ref_logprob: float, convention: Convention
) -> tuple[float, float]:
    """``kl_estimate`` with the convention's clamps; a clamp that holds has slope 0."""
    d = logprob - ref_logprob
    clamp = convention.kl_log_ratio_clamp
    held = False
    if clamp is not None and abs(d) > clamp:
        held, logprob = True, ref_logprob + math.copysign(clamp, d)
    bound = convention.kl_clamp
    try:
        value, slope = kl_estimate(logprob, ref_logprob, convention.kl_estimator)
    except ObjectiveError:
        if bound is None:
            raise
        return bound, 0.0  # what overflows is above any bound
    if bound is not None and abs(value) > bound:
        return math.copysign(bound, value), 0.0
    return value, 0.0 if held else slope


# -------------------------------------------------------------------- the aggregation


def row_weights(mask: Rows, convention: Convention = COURSE) -> list[float]:
    """The weight of each position's loss, one number a row: the same within a row.

        episode_sum   1 / B                  sum over an episode, mean over episodes
        episode_mean  1 / (B * n_i)          mean over an episode, mean over episodes
        batch_mean    1 / sum_i n_i          mean over all positions
        batch_sum     1                      sum over all positions
        constant      1 / (B * max_length)   Dr.GRPO's constant

    n_i counts the active positions of row i. B counts rows, with or without those that
    have none (``empty_rows``). A batch with no active position weighs 0.0.
    """
    counts = [sum(1 for mark in row if mark) for row in mask]
    counted = convention.empty_rows == "counted"
    rows = sum(1 for count in counts if count or counted)
    total = sum(counts)
    if total == 0:
        return [0.0] * len(counts)
    kind = convention.aggregation
    if kind == "batch_sum":
        return [1.0] * len(counts)
    if kind == "batch_mean":
        return [1.0 / total] * len(counts)
    if kind == "episode_sum":
        return [1.0 / rows] * len(counts)
    if kind == "constant":
        return [1.0 / (rows * convention.max_length)] * len(counts)
    epsilon = convention.mean_epsilon
    return [1.0 / (rows * (count + epsilon)) if count else 0.0 for count in counts]


# ------------------------------------------------------------------- checking, watching


def _check_shapes(
    logprobs: Rows,
    old_logprobs: Rows | None,
    advantages: Rows,
    mask: Rows | None,
    ref_logprobs: Rows | None,
    with_kl: bool,
) -> None:
    if old_logprobs is None:
        raise ObjectiveError(
            "old_logprobs: missing; store them when the batch is sampled"
        )
    if with_kl and ref_logprobs is None:
        raise ObjectiveError(
            "ref_logprobs: missing, and the convention has a KL in the loss"
        )
    arrays = {"old_logprobs": old_logprobs, "advantages": advantages}
    optional = {"mask": mask, "ref_logprobs": ref_logprobs}
    arrays |= {name: rows for name, rows in optional.items() if rows is not None}
    for name, rows in arrays.items():
        check_length(name, rows, len(logprobs), "rows of logprobs")
        for number, (row, model) in enumerate(zip(rows, logprobs)):
            if not hasattr(row, "__len__") or len(row) != len(model):
                check_length(
                    f"{name}[{number}]", row, len(model), f"logprobs[{number}]"
                )
    for number, row in enumerate(mask or ()):
        if odd := [mark for mark in row if mark not in (0, 1)]:
            raise ObjectiveError(f"mask[{number}]: expected 0 or 1, got {odd[0]!r}")


def _read(name: str, rows: Any, row: int, places: list[int]) -> list[float]:
    """The active numbers of a row; anything else than a finite number raises."""
    values = [rows[row][place] for place in places]
    if not all(map(is_finite, values)):
        place = next(place for place in places if not is_finite(rows[row][place]))
        raise ObjectiveError(
            f"{name}[{row}][{place}]: expected a finite number, "
            f"got {excerpt(rows[row][place])}"
        )
    return values


class _Watch:
    """Counts what a reader of a training log wants to see."""

    def __init__(self) -> None:
        self.positions = {True: 0, False: 0}  # by "advantage > 0"
        self.clipped = {True: 0, False: 0}
        self.ratios: list[float] = []
        self.kl_old: list[float] = []
        self.kl_ref: list[float] = []

    def see(
        self, ratio: float, advantage: float, slope: float, new: float, old: float
    ) -> None:
        self.ratios.append(ratio)
        self.kl_old.append(math.exp(min(old - new, 700.0)) - (old - new) - 1)
        if advantage:
            self.positions[advantage > 0] += 1
            self.clipped[advantage > 0] += slope == 0.0

    def see_kl(self, kl: float) -> None:
        self.kl_ref.append(kl)

    def summary(self) -> dict[str, float]:
        return {
            "clip_fraction_positive": _share(self.clipped[True], self.positions[True]),
            "clip_fraction_negative": _share(
                self.clipped[False], self.positions[False]
            ),
            "smallest_ratio": min(self.ratios, default=1.0),
            "largest_ratio": max(self.ratios, default=1.0),
            "kl_old": _share(math.fsum(self.kl_old), len(self.kl_old)),
            "kl_ref": _share(math.fsum(self.kl_ref), len(self.kl_ref)),
        }


def _share(part: float, whole: int) -> float:
    return part / whole if whole else 0.0
