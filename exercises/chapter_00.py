"""Chapter 00: from logits to a better policy, by hand.

Replace each ``raise NotImplementedError``, from top to bottom; a function may call those
above it. An action is a number, counted from 0. This says what is done, and what is wrong
with the rest:

    python3 -m agentic_rl check exercises/chapter_00.py
"""

from __future__ import annotations


def exact_return(take_in_start: float, take_in_ready: float) -> float:
    """J of the toy world: the mean of what an episode pays, exactly.

        start --take--> 1, end          ready --take--> 3, end
        start --work--> 0, ready        ready --work--> 0, end

    take_in_start   pi(take|start), a probability; the rest is that of work
    take_in_ready   pi(take|ready)

    >>> exact_return(0.5, 0.5)
    1.25
    """
    raise NotImplementedError


def softmax(logits: list[float]) -> list[float]:
    """pi: exp of each logit, divided by the sum of them all.

    logits      one number an action, at least one; 1000 and -1000 are allowed, although
                exp(1000) is more than a float holds
    returns     one probability an action, in the same order

    >>> softmax([0.0, 0.0])
    [0.5, 0.5]
    """
    raise NotImplementedError


def log_prob(logits: list[float], action: int) -> float:
    """log pi(action), in nats; finite even where pi(action) is too small for a float.

    logits      one number an action, from -1000 to 1000

    >>> log_prob([0.0, -1000.0], 1)
    -1000.0
    """
    raise NotImplementedError


def score(logits: list[float], action: int) -> list[float]:
    """The gradient of log pi(action) with respect to the logits.

    logits      one number an action, from -1000 to 1000
    returns     one slope an action: what log pi(action) gains per unit of that logit

    >>> score([0.0, 0.0], 0)
    [0.5, -0.5]
    """
    raise NotImplementedError


def pick(probabilities: list[float], draw: float) -> int:
    """The action that a random number stands for: inverse-transform sampling.

    Cut [0, 1) into shares, one an action, in order: the first action owns the numbers from
    0 to below its probability, the next one those from there on, and so forth.

    probabilities   one an action; their sum may miss 1 by a rounding error
    draw            from 0 to below 1, as random.random() gives it
    returns         the action whose share holds the draw; never one of probability 0

    >>> pick([0.2, 0.5, 0.3], 0.2)
    1
    """
    raise NotImplementedError


def returns_to_go(rewards: list[float], discount: float = 1.0) -> list[float]:
    """The return of each step: its own reward and, discounted, all later ones.

        G[t] = rewards[t] + discount * G[t + 1]

    rewards     one number a step; possibly none
    returns     one number a step

    >>> returns_to_go([0.0, 3.0])
    [3.0, 3.0]
    >>> returns_to_go([0.0, 0.0, 8.0], 0.5)
    [2.0, 4.0, 8.0]
    """
    raise NotImplementedError


def mean_estimate(
    logits: list[float], pays: list[float], baseline: float
) -> list[float]:
    """What REINFORCE estimates on the mean, in a world of one decision.

    One episode gives (return - baseline) * score of the action that was drawn. Nothing is
    drawn here: add up over all actions, each with its probability. Then try baselines.

    logits      one number an action
    pays        the return of each action
    returns     one slope a logit

    >>> mean_estimate([0.0, 0.0], [3.0, 1.0], 0.0)
    [0.5, -0.5]
    """
    raise NotImplementedError


def reinforce_step(
    logits: dict[str, list[float]],
    episodes: list[list[tuple[str, int, float]]],
    rate: float,
) -> dict[str, list[float]]:
    """One REINFORCE update: from episodes to new logits.

    Each step of an episode adds its return times its score to the gradient of its state.
    The gradient is a mean over episodes: divide by how many there are, not by how many
    came through the state. Then go up: new = logit + rate * gradient.

    logits      state -> one number an action: the policy that played the episodes
    episodes    at least one; each a list of steps (state, action, reward)
    returns     new logits for every state, also for those where nobody was

    >>> old = {"start": [0.0, 0.0], "ready": [0.0, 0.0]}
    >>> reinforce_step(old, [[("start", 1, 0.0), ("ready", 0, 3.0)]], 1.0)
    {'start': [-1.5, 1.5], 'ready': [1.5, -1.5]}
    """
    raise NotImplementedError
