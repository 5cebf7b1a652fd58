"""The closed loop: sample groups, score them, compare, take a step; again.

What this loop is: GRPO on tasks with a softmax policy, with every switch in a
Convention. What it leaves out of a production trainer: a neural network, minibatches
within an update, dynamic resampling (groups are left out, not drawn again), an optimizer
with state (the step is plain gradient descent).

``reward``, ``advantage`` and ``objective`` are arguments. Pass your own and watch the
curve change.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentic_rl.advantage import group_advantages, informative, kept, spread
from agentic_rl.agent_loop import Limits, run_episode
from agentic_rl.conventions import COURSE, Convention
from agentic_rl.objective import Loss, kl_term, policy_loss
from agentic_rl.policy import Gradient, SoftmaxPolicy, weighted_score
from agentic_rl.reward import COURSE_REWARD, Score, attach, finite_number, right
from agentic_rl.tasks import Task
from agentic_rl.tool_math import ACTIONS, STATES
from agentic_rl.trajectory import Trajectory, check_length
from agentic_rl.values import excerpt, is_finite

RewardFunction = Callable[[Trajectory, Task], "Score | float | None"]
AdvantageFunction = Callable[..., list[float]]
ObjectiveFunction = Callable[..., Loss]


@dataclass(frozen=True)
class Config:
    """How long and how fast to learn.

    updates             batches to sample
    tasks_per_update    tasks a batch
    group_size          episodes a task (G)
    epochs              steps taken on each batch; from the second on, ratios leave 1
    learning_rate       step size on the logits
    seed                of everything random: tasks, actions' order, samples
    """

    updates: int = 60
    tasks_per_update: int = 6
    group_size: int = 8
    epochs: int = 2
    learning_rate: float = 10.0
    seed: int = 0
    limits: Limits = Limits()
    convention: Convention = COURSE

    def __post_init__(self) -> None:
        least = {"updates": 0, "tasks_per_update": 1, "group_size": 1, "epochs": 1}
        for name, lowest in least.items():
            value = getattr(self, name)
            if type(value) is not int or value < lowest:
                raise ValueError(
                    f"{name}: expected a whole number, at least {lowest}, got {value!r}"
                )
        for name, kind in (("limits", Limits), ("convention", Convention)):
            if not isinstance(getattr(self, name), kind):
                raise ValueError(
                    f"{name}: expected a {kind.__name__}, got {getattr(self, name)!r} "
                    "(conventions by name are in conventions.PRESETS)"
                )
        rate = self.learning_rate
        if not is_finite(rate) or rate <= 0:
            raise ValueError(
                f"learning_rate: expected a positive number, got {excerpt(rate)}"
            )


@dataclass
class State:
    """Everything the loop needs to go on: save it, load it, and nothing has changed.

    queue holds the tasks (by their place) that are still to come in this pass over the
    data, and metrics one dict an update.
    """

    policy: SoftmaxPolicy
    reference: SoftmaxPolicy
    rng: random.Random
    queue: list[int] = field(default_factory=list)
    metrics: list[dict[str, float]] = field(default_factory=list)

    @property
    def update(self) -> int:
        """Updates done so far."""
        return len(self.metrics)

    def to_dict(self) -> dict[str, Any]:
        """JSON form, exact."""
        version, internal, gauss = self.rng.getstate()
        return {
            "policy": self.policy.to_dict(),
            "reference": self.reference.to_dict(),
            "rng": [version, list(internal), gauss],
            "queue": list(self.queue),
            "metrics": [dict(update) for update in self.metrics],
        }

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> State:
        """The state that ``to_dict`` wrote. Raises ValueError, naming the field."""
        expected = ("policy", "reference", "rng", "queue", "metrics")
        if not isinstance(record, dict) or set(record) != set(expected):
            raise ValueError(f"state: expected the fields {', '.join(expected)}")
        rng = random.Random()
        try:
            version, internal, gauss = record["rng"]
            rng.setstate((version, tuple(internal), gauss))
        except (TypeError, ValueError, OverflowError):
            raise ValueError("rng: expected what random.getstate() gives") from None
        for name in ("queue", "metrics"):
            if not isinstance(record[name], list):
                raise ValueError(f"{name}: expected a list")
        if not all(isinstance(update, dict) for update in record["metrics"]):
            raise ValueError("metrics: expected an object an update")
        return cls(
            SoftmaxPolicy.from_dict(record["policy"]),
            SoftmaxPolicy.from_dict(record["reference"]),
            rng,
            list(record["queue"]),
            [dict(update) for update in record["metrics"]],
        )


def start(config: Config) -> State:
    """A uniform policy, which is also the reference.

    The actions' order is shuffled, so that being first means nothing.
    """
    rng = random.Random(config.seed)
    actions = list(ACTIONS)
    rng.shuffle(actions)
    policy = SoftmaxPolicy(STATES, actions)
    return State(policy, policy.copy(), rng)


@dataclass
class Batch:
    """One batch of episodes and what was computed from them; all lists have its length.

    groups      the place of each episode's task in the batch
    solved      whether the final answer was right
    advantages  one number an episode
    """

    trajectories: list[Trajectory]
    groups: list[int]
    solved: list[bool]
    advantages: list[float] = field(default_factory=list)


def train(
    tasks: Sequence[Task],
    config: Config = Config(),
    *,
    reward: RewardFunction = COURSE_REWARD,
    advantage: AdvantageFunction = group_advantages,
    objective: ObjectiveFunction = policy_loss,
    state: State | None = None,
    on_update: Callable[[State, Batch], None] | None = None,
) -> State:
    """Run the loop until ``config.updates`` updates are done; the state is the result.

    reward      (trajectory, task) -> Score, number or None
    advantage   (rewards, groups, convention) -> one number an episode
    objective   as objective.policy_loss
    state       where to go on from; changed in place
    on_update   called after each update with the state and its batch

    Raises what these raise: nothing is caught and turned into a reward of 0.
    """
    if not tasks:
        raise ValueError("tasks: expected at least one")
    state = state or start(config)
    for place in state.queue:
        if not isinstance(place, int) or not 0 <= place < len(tasks):
            raise ValueError(f"queue: {place!r} is no place among {len(tasks)} tasks")
    while state.update < config.updates:
        batch = sample_batch(tasks, config, state, reward)
        values = advantage(
            batch_rewards(batch, state.reference, config.convention),
            batch.groups,
            config.convention,
        )
        batch.advantages = _checked_advantages(values, len(batch.trajectories))
        before = state.policy.copy()
        steps = improve(state, batch, config, objective)
        state.metrics.append(measure(state, before, batch, steps))
        if on_update is not None:
            on_update(state, batch)
    return state


def _checked_advantages(values: Any, episodes: int) -> list[float]:
    """One finite number an episode, in their order: a list or a tuple, nothing else."""
    if not isinstance(values, (list, tuple)):
        raise ValueError(f"advantages: expected a list, got {type(values).__name__}")
    check_length("advantages", values, episodes, "episodes")
    return [
        finite_number(f"advantages[{place}]", value)
        for place, value in enumerate(values)
    ]


def sample_batch(
    tasks: Sequence[Task], config: Config, state: State, reward: RewardFunction
) -> Batch:
    """Groups of episodes under the current policy, scored."""
    batch = Batch([], [], [])
    for group in range(config.tasks_per_update):
        if not state.queue:
            state.queue = list(range(len(tasks)))
            state.rng.shuffle(state.queue)
        task = tasks[state.queue.pop()]
        episodes = [
            run_episode(state.policy, task, state.rng, config.limits)
            for _ in range(config.group_size)
        ]
        attach(episodes, [reward(episode, task) for episode in episodes])
        batch.trajectories += episodes
        batch.groups += [group] * len(episodes)
        batch.solved += [right(episode, task) == 1.0 for episode in episodes]
    return batch


def batch_rewards(
    batch: Batch, reference: SoftmaxPolicy, convention: Convention
) -> list[float | None]:
    """The rewards as the advantage sees them: less the KL, if the convention says so."""
    rewards = [episode.reward for episode in batch.trajectories]
    if convention.kl_place != "reward":
        return rewards
    charged: list[float | None] = []
    for reward, episode in zip(rewards, batch.trajectories):
        logprobs = [episode.logprob(place) for place in episode.positions("decision")]
        terms = [
            kl_term(logprob, reference.log_prob(*choice), convention)[0]
            for logprob, choice in zip(logprobs, episode.choices())
        ]
        kl = convention.kl_weight * math.fsum(terms)
        charged.append(None if reward is None else reward - kl)
    return charged


def improve(
    state: State, batch: Batch, config: Config, objective: ObjectiveFunction
) -> list[tuple[Loss, float]]:
    """Take ``epochs`` steps on the batch; (loss, size of the logits' gradient) of each."""
    convention = config.convention
    rewards = [episode.reward for episode in batch.trajectories]
    keep = kept(rewards, batch.groups, batch.solved, convention)
    episodes = [x for x, taken in zip(batch.trajectories, keep) if taken]
    if not episodes:
        return []
    choices = [unit_choices(episode, convention.unit) for episode in episodes]
    advantages = [x for x, taken in zip(batch.advantages, keep) if taken]
    rows = spread(advantages, [len(row) for row in choices], convention)
    old = [
        [episode.logprob(place) for place in episode.positions(convention.unit)]
        for episode in episodes
    ]
    ref = None
    if convention.kl_place == "loss":
        ref = logprob_rows(state.reference, choices)
    steps = []
    for _ in range(config.epochs):
        new = logprob_rows(state.policy, choices)
        loss = objective(new, old, rows, convention, ref_logprobs=ref)
        _check_loss(loss, choices)
        gradient = logit_gradient(state.policy, choices, loss.gradient)
        state.policy.move(gradient, -config.learning_rate)
        steps.append((loss, size(gradient)))
    return steps


def _check_loss(loss: Loss, choices: Sequence[Sequence[Any]]) -> None:
    """An objective of one's own must give a finite number for each log-prob it got."""
    check_length("objective: gradient", loss.gradient, len(choices), "episodes")
    finite_number("objective: value", loss.value)
    for number, (slopes, row) in enumerate(zip(loss.gradient, choices)):
        check_length(f"objective: gradient[{number}]", slopes, len(row), "units")
        for place, slope in enumerate(slopes):
            if not is_finite(slope):  # a library's own number, or none
                finite_number(f"objective: gradient[{number}][{place}]", slope)


def unit_choices(episode: Trajectory, unit: str) -> list[tuple[str, str] | None]:
    """What stands at each unit: a (state, action), or None for a token that follows."""
    choices = iter(episode.choices())
    return [
        next(choices) if episode.decision[place] else None
        for place in episode.positions(unit)
    ]


def logprob_rows(
    policy: SoftmaxPolicy, choices: Sequence[Sequence[tuple[str, str] | None]]
) -> list[list[float]]:
    """log pi of each choice, 0.0 for a token that follows from one."""
    known: dict[tuple[str, str] | None, float] = {None: 0.0}
    for choice in {choice: None for row in choices for choice in row if choice}:
        known[choice] = policy.log_prob(*choice)
    return [[known[choice] for choice in row] for row in choices]


def logit_gradient(
    policy: SoftmaxPolicy,
    choices: Sequence[Sequence[tuple[str, str] | None]],
    slopes: Sequence[Sequence[float]],
) -> Gradient:
    """d loss / d logprobs -> d loss / d logits, by the chain rule.

    Only a unit that carries a choice moves with the logits.
    """
    decisions = [
        (*choice, slope)
        for row, row_slopes in zip(choices, slopes)
        for choice, slope in zip(row, row_slopes)
        if choice
    ]
    return weighted_score(policy, decisions)


def size(gradient: Gradient) -> float:
    """The Euclidean length of a gradient."""
    return math.sqrt(math.fsum(x * x for row in gradient.values() for x in row))


def measure(
    state: State, before: SoftmaxPolicy, batch: Batch, steps: list[tuple[Loss, float]]
) -> dict[str, float]:
    """The metrics of one update.

    reward, success   means over the batch's episodes
    calls, invalid    calls that ran, and calls that could not, an episode
    informative     share of groups whose rewards differ
    entropy         mean over the visited states, in nats, after the update
    kl_reference    KL(policy || reference), mean over the visited states, after it
    kl_old          KL(policy || policy that sampled), the same
    loss, gradient  of the first step on the batch
    clip_fraction_positive, clip_fraction_negative   at the last step: share of positions
                    with that sign of advantage whose gradient the clip has cut
    smallest_ratio, largest_ratio   at the last step
    """
    episodes = batch.trajectories
    rewards = [episode.reward for episode in episodes if episode.reward is not None]
    invalid = [episode.invalid_calls for episode in episodes]
    ran = [
        len(episode.observations) - count for episode, count in zip(episodes, invalid)
    ]
    visited = [state for episode in episodes for state, _ in episode.choices()]
    differs = informative([episode.reward for episode in episodes], batch.groups)
    first, last = (steps[0], steps[-1][0].metrics) if steps else (None, {})
    return {
        "reward": _mean(rewards),
        "success": _mean(batch.solved),
        "calls": _mean(ran),
        "invalid": _mean(invalid),
        "informative": _mean(list(differs.values())),
        "entropy": _mean_over(visited, state.policy.entropy),
        "kl_reference": _mean_over(
            visited, lambda s: state.policy.kl(state.reference, s)
        ),
        "kl_old": _mean_over(visited, lambda s: state.policy.kl(before, s)),
        "loss": first[0].value if first else 0.0,
        "gradient": first[1] if first else 0.0,
        "clip_fraction_positive": last.get("clip_fraction_positive", 0.0),
        "clip_fraction_negative": last.get("clip_fraction_negative", 0.0),
        "smallest_ratio": last.get("smallest_ratio", 1.0),
        "largest_ratio": last.get("largest_ratio", 1.0),
    }


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0


def _mean_over(visited: list[str], value: Callable[[str], float]) -> float:
    """The mean of a function of the state; each state is computed once."""
    seen = {state: value(state) for state in dict.fromkeys(visited)}
    return _mean([seen[state] for state in visited])
