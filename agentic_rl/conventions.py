"""The switches that make "GRPO" a number.

Two programs that both say GRPO can give different advantages, losses and gradients for
the same episodes. Every place where they may differ is a field here, and each paper or
framework is a preset: one row of the same table.

Where a paper leaves a switch open, the preset's notes say "unstated; we chose ...".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from agentic_rl.values import excerpt, is_finite

CHOICES = {
    "baseline": ("group_mean", "leave_one_out", "batch_mean", "none"),
    "std": ("none", "group", "batch"),
    "ddof": (0, 1),
    "epsilon_place": ("added", "under_root", "floor"),
    "group_of_one": ("zero", "raw", "refuse"),
    "zero_spread": ("zero", "divide"),
    "unscored": ("left_out", "zero", "refuse"),
    "groups": ("all", "informative", "solved"),
    "returns": ("episode", "to_go"),
    "unit": ("decision", "token"),
    "aggregation": (
        "episode_sum",
        "episode_mean",
        "batch_mean",
        "batch_sum",
        "constant",
    ),
    "empty_rows": ("counted", "left_out"),
    "ratio": ("unit", "sequence"),
    "clip": ("off", "ppo", "two_sided"),
    "kl_place": ("none", "loss", "reward"),
    "kl_estimator": ("k1", "k2", "k3"),
}


class ConventionError(ValueError):
    """A switch that is not there or does not fit; the text names it and its values."""


@dataclass(frozen=True)
class Convention:
    """All the switches. The defaults are the course's own convention.

    The advantage
        baseline        what is subtracted: the mean of the group, of the others in it
                        (leave_one_out), of the whole batch, or nothing
        std             what it is divided by: nothing, the group's spread, the batch's
        ddof            1: sample standard deviation, 0: population
        std_epsilon     guards the division
        epsilon_place   added: std + eps; under_root: sqrt(var + eps);
                        floor: sqrt(max(var, eps))
        group_of_one    advantage of an episode without peers: 0, its raw reward, an error
        zero_spread     equal rewards: zero gives exactly 0; divide divides rounding noise
                        by epsilon, as some frameworks do
        unscored        a reward of None: left out of mean and std with advantage 0,
                        taken as a reward of 0, or an error
        groups          which groups take part in the update: all, those whose rewards
                        differ (informative), those with a right answer (solved)
        returns         each position gets the episode's advantage, or its return to go
        discount        decay a position, for returns="to_go"
        whiten          subtract the mean and divide by the std over the batch's positions

    The objective
        unit            the objective acts on decisions, or on tokens
        aggregation     see objective.row_weights
        max_length      the constant of aggregation="constant", in units
        mean_epsilon    added to an episode's count in aggregation="episode_mean"
        empty_rows      whether episodes without an active position count in the mean
        ratio           one a unit, or one a sequence (GSPO)
        clip            off, ppo (one-sided) or two_sided
        clip_low, clip_high   the ratio's range is 1 - clip_low to 1 + clip_high
        dual_clip       bound of a negative advantage's loss, or None
        log_ratio_clamp bound of the log-ratio before exp, or None

    The KL to the reference policy
        kl_place        nowhere, in the loss, or taken off the reward
        kl_weight       its weight (beta)
        kl_estimator    k1, k2 or k3; see objective.kl_estimate
        kl_log_ratio_clamp, kl_clamp   bounds before and after the estimator, or None
        kl_ratio        multiply the KL in the loss by the ratio, for samples of an older
                        policy
    """

    name: str = "course"
    source: str = "this course"
    baseline: str = "group_mean"
    std: str = "group"
    ddof: int = 1
    std_epsilon: float = 0.0
    epsilon_place: str = "added"
    group_of_one: str = "zero"
    zero_spread: str = "zero"
    unscored: str = "left_out"
    groups: str = "all"
    returns: str = "episode"
    discount: float = 1.0
    whiten: bool = False
    unit: str = "decision"
    aggregation: str = "episode_sum"
    max_length: int = 1
    mean_epsilon: float = 0.0
    empty_rows: str = "counted"
    ratio: str = "unit"
    clip: str = "ppo"
    clip_low: float = 0.2
    clip_high: float = 0.2
    dual_clip: float | None = None
    log_ratio_clamp: float | None = 20.0
    kl_place: str = "none"
    kl_weight: float = 0.0
    kl_estimator: str = "k3"
    kl_log_ratio_clamp: float | None = None
    kl_clamp: float | None = None
    kl_ratio: bool = False
    notes: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ConventionError(
                    f"{name}: expected one of {', '.join(map(str, allowed))}, "
                    f"got {getattr(self, name)!r}"
                )
        for name in ("whiten", "kl_ratio"):
            if not isinstance(getattr(self, name), bool):
                raise ConventionError(
                    f"{name}: expected True or False, got {getattr(self, name)!r}"
                )
        for name in (
            "std_epsilon",
            "mean_epsilon",
            "clip_low",
            "clip_high",
            "kl_weight",
        ):
            self._require(name, "at least 0", lambda value: value >= 0)
        for name in ("log_ratio_clamp", "kl_log_ratio_clamp", "kl_clamp"):
            self._require(name, "more than 0, or None", lambda value: value > 0, True)
        self._require(
            "dual_clip", "more than 1, or None", lambda value: value > 1, True
        )
        self._require("max_length", "at least 1", lambda value: value >= 1)
        self._require("discount", "0 to 1", lambda value: 0 <= value <= 1)
        if self.kl_weight and self.kl_place == "none":
            raise ConventionError("kl_weight: other than 0 needs a kl_place")
        if self.discount != 1 and self.returns == "episode":
            raise ConventionError('discount: other than 1 needs returns="to_go"')

    def _require(
        self,
        name: str,
        expected: str,
        fits: Callable[[float], bool],
        optional: bool = False,
    ) -> None:
        """Raise ConventionError unless the switch is a finite number that fits."""
        value = getattr(self, name)
        if optional and value is None:
            return
        if not is_finite(value) or not fits(value):
            raise ConventionError(f"{name}: expected {expected}, got {excerpt(value)}")

    def but(self, **switches: object) -> Convention:
        """The same convention with some switches turned. Raises ConventionError."""
        if unknown := sorted(set(switches) - set(self.__dataclass_fields__)):
            raise ConventionError(f"{unknown[0]!r} is no switch of a convention")
        return replace(self, **switches)  # type: ignore[arg-type]

    def differing(self, switches: Mapping[str, object]) -> dict[str, object]:
        """Those of these values that are not this convention's own."""
        return {
            name: value
            for name, value in switches.items()
            if getattr(self, name) != value
        }


# What can be turned; the other fields say where a convention comes from.
SWITCHES = tuple(
    name
    for name in Convention.__dataclass_fields__
    if name not in ("name", "source", "notes")
)


def check_convention(value: object) -> None:
    """Raise ConventionError unless this is a Convention: a name is not one."""
    if not isinstance(value, Convention):
        raise ConventionError(
            f"expected a Convention, got {value!r}; those with a name are in PRESETS"
        )


COURSE = Convention()

GRPO_PAPER = Convention(
    name="grpo",
    source="DeepSeekMath, arXiv 2402.03300, eq. 3 and 4",
    unit="token",
    aggregation="episode_mean",
    log_ratio_clamp=None,
    kl_place="loss",
    kl_weight=0.04,
    kl_estimator="k3",
    notes=(
        ("ddof", "unstated; we chose 1"),
        ("std_epsilon", "unstated; we chose 0"),
        ("group_of_one", "unstated; we chose zero"),
        ("zero_spread", "unstated; we chose zero"),
        ("clip_low", "the value of epsilon is unstated; we chose 0.2"),
        ("clip_high", "the value of epsilon is unstated; we chose 0.2"),
    ),
)

DR_GRPO = GRPO_PAPER.but(
    name="dr_grpo",
    source="Understanding R1-Zero-Like Training, arXiv 2503.20783",
    std="none",
    aggregation="episode_sum",
    kl_place="none",
    kl_weight=0.0,
    notes=(
        ("group_of_one", "unstated; we chose zero"),
        ("aggregation", "the equation sums; the authors' code divides by a constant"),
        ("clip_low", "the value of epsilon is unstated; we chose 0.2"),
        ("clip_high", "the value of epsilon is unstated; we chose 0.2"),
    ),
)

DAPO = GRPO_PAPER.but(
    name="dapo",
    source="DAPO, arXiv 2503.14476, eq. 8",
    aggregation="batch_mean",
    clip_high=0.28,
    groups="informative",
    kl_place="none",
    kl_weight=0.0,
    notes=(
        ("ddof", "unstated; we chose 1"),
        ("std_epsilon", "unstated; we chose 0"),
        ("groups", "the paper samples again until the batch is full; we leave out"),
        ("unscored", "overlong filtering and shaping belong to the reward, not here"),
    ),
)

GSPO = GRPO_PAPER.but(
    name="gspo",
    source="GSPO, arXiv 2507.18071, eq. 5 to 7",
    ratio="sequence",
    clip_low=3e-4,
    clip_high=4e-4,
    kl_place="none",
    kl_weight=0.0,
    notes=(
        ("ddof", "unstated; we chose 1"),
        ("std_epsilon", "unstated; we chose 0"),
        ("kl_place", "left out of the paper's equation"),
    ),
)

RLOO = Convention(
    name="rloo",
    source="Back to Basics, arXiv 2402.14740",
    baseline="leave_one_out",
    std="none",
    unit="token",
    clip="off",
    log_ratio_clamp=None,
    kl_place="reward",
    kl_weight=0.03,
    kl_estimator="k1",
    notes=(
        ("group_of_one", "undefined for one sample; we chose zero"),
        ("kl_weight", "differs by data set; we chose 0.03"),
        (
            "ratio",
            "the paper has none: at the first step on a batch the gradient is the same",
        ),
    ),
)

REINFORCE_PLUS_PLUS = Convention(
    name="reinforce++",
    source="REINFORCE++, arXiv 2501.03262",
    baseline="none",
    std="none",
    unscored="refuse",
    returns="to_go",
    whiten=True,
    ddof=1,
    std_epsilon=1e-8,
    epsilon_place="under_root",
    unit="token",
    aggregation="batch_mean",
    log_ratio_clamp=None,
    kl_place="reward",
    kl_weight=0.001,
    kl_estimator="k1",
    notes=(
        ("ddof", "unstated; we chose 1"),
        ("std_epsilon", "unstated; we chose 1e-8, under the root"),
        ("unscored", "unstated; we chose refuse: whitening would give it an advantage"),
        ("kl_weight", "differs by experiment; we chose 0.001"),
        ("kl_place", "the paper charges each token; here the episode's sum is charged"),
    ),
)

TRL = Convention(
    name="trl",
    source="TRL 1.16.0, GRPOTrainer with its default GRPOConfig",
    std_epsilon=1e-4,
    zero_spread="divide",
    unit="token",
    aggregation="batch_mean",
    log_ratio_clamp=None,
    kl_ratio=True,
    notes=(
        (
            "group_of_one",
            "of one scored rollout among unscored ones; num_generations is at least 2",
        ),
        ("aggregation", 'loss_type="dapo"'),
        ("kl_weight", "beta is 0 by default; the estimator is k3 once it is not"),
    ),
)

VERL = Convention(
    name="verl",
    source="verl 0.9.1, adv_estimator=grpo with the Hydra defaults",
    std_epsilon=1e-6,
    group_of_one="raw",
    zero_spread="divide",
    unscored="refuse",
    unit="token",
    aggregation="batch_mean",
    mean_epsilon=1e-8,
    empty_rows="left_out",
    dual_clip=3.0,
    kl_log_ratio_clamp=20.0,
    kl_clamp=10.0,
    notes=(
        ("aggregation", "loss_agg_mode=token-mean"),
        (
            "mean_epsilon",
            "of agg_loss; its trainer's mask is bool, and float32 loses it",
        ),
        (
            "empty_rows",
            "of agg_loss; given the batch's size it counts them, as it is in training",
        ),
        ("unscored", "rewards are tensors: there is no unscored sample"),
    ),
)

OPENRLHF = Convention(
    name="openrlhf",
    source="OpenRLHF 0.11.2, estimator group_norm, PolicyLoss",
    std_epsilon=1e-9,
    group_of_one="refuse",
    zero_spread="divide",
    unscored="refuse",
    unit="token",
    aggregation="batch_mean",
    kl_clamp=10.0,
    notes=(
        ("group_of_one", "its command line asks for at least 2 samples; else NaN"),
        ("kl_weight", "set to 0 here; by default a little k1 is taken off the reward"),
        ("unscored", "its single-turn executor only logs it, then the batch fails"),
    ),
)

AGENT_LIGHTNING = VERL.but(
    name="agent_lightning",
    source="Agent Lightning 1.0.2, its verl config with adv_estimator=grpo",
    unscored="zero",
    aggregation="episode_mean",
    mean_epsilon=0.0,
    empty_rows="left_out",
    notes=(
        ("unscored", "reward_fillna_value, 0.0 by default"),
        (
            "aggregation",
            "per_rollout_mean; divides by all rows of the batch, not rollouts",
        ),
        ("kl_weight", "a KL in the loss does not go with per_rollout_mean"),
        ("empty_rows", "its adapter drops rows with nothing to train on"),
    ),
)

PRESETS = {
    preset.name: preset
    for preset in (
        COURSE,
        GRPO_PAPER,
        DR_GRPO,
        DAPO,
        GSPO,
        RLOO,
        REINFORCE_PLUS_PLUS,
        TRL,
        VERL,
        OPENRLHF,
        AGENT_LIGHTNING,
    )
}
