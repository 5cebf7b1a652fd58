"""Chapter 00, solved."""

from __future__ import annotations

import math


def exact_return(take_in_start: float, take_in_ready: float) -> float:
    """J of the toy world: the mean of what an episode pays, exactly."""
    return take_in_start * 1.0 + (1.0 - take_in_start) * take_in_ready * 3.0


def softmax(logits: list[float]) -> list[float]:
    """pi: exp of each logit, divided by the sum of them all."""
    highest = max(logits)
    weights = [math.exp(logit - highest) for logit in logits]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def log_prob(logits: list[float], action: int) -> float:
    """log pi(action), in nats; finite even where pi(action) is too small for a float."""
    highest = max(logits)
    total = math.fsum(math.exp(logit - highest) for logit in logits)
    return logits[action] - highest - math.log(total)


def score(logits: list[float], action: int) -> list[float]:
    """The gradient of log pi(action) with respect to the logits."""
    return [(a == action) - p for a, p in enumerate(softmax(logits))]


def pick(probabilities: list[float], draw: float) -> int:
    """The action that a random number stands for: inverse-transform sampling."""
    reached = 0.0
    for action, probability in enumerate(probabilities):
        reached += probability
        if draw < reached:
            return action
    return max(action for action, p in enumerate(probabilities) if p > 0)


def returns_to_go(rewards: list[float], discount: float = 1.0) -> list[float]:
    """The return of each step: its own reward and, discounted, all later ones."""
    returns, later = [], 0.0
    for reward in reversed(rewards):
        later = reward + discount * later
        returns.append(later)
    return returns[::-1]


def mean_estimate(
    logits: list[float], pays: list[float], baseline: float
) -> list[float]:
    """What REINFORCE estimates on the mean, in a world of one decision."""
    gradient = [0.0] * len(logits)
    for action, probability in enumerate(softmax(logits)):
        weight = probability * (pays[action] - baseline)
        for place, slope in enumerate(score(logits, action)):
            gradient[place] += weight * slope
    return gradient


def reinforce_step(
    logits: dict[str, list[float]],
    episodes: list[list[tuple[str, int, float]]],
    rate: float,
) -> dict[str, list[float]]:
    """One REINFORCE update: from episodes to new logits."""
    new = {state: list(row) for state, row in logits.items()}
    for episode in episodes:
        returns = returns_to_go([reward for _, _, reward in episode])
        for (state, action, _), value in zip(episode, returns):
            for place, slope in enumerate(score(logits[state], action)):
                new[state][place] += rate * value * slope / len(episodes)
    return new
