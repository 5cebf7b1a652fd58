"""The golden set in Agent Lightning: its gateway, its rollout manager, its adapter, its
statistics of rollouts. It has no agent loop: our agent plays.

In the environment of verl, which has both: the adapter makes batches of verl's. An id is
a token of the course here, so the counts are the course's own.
"""

from __future__ import annotations

from checks.bridges import verl_world  # noqa: F401  (before verl is imported)

# isort: split

from checks.bridges import golden
from checks.bridges.agent_lightning_world import MODEL as NAME
from checks.bridges.agent_lightning_world import (
    Gateway,
    ModelServer,
    Script,
    Vocabulary,
    World,
    bridge,
)
from checks.bridges.test_agent_lightning_surprises import Manager

# isort: split

from verl_side import adapted, completed, prepared, row_values, rows_of

HOLDS = {
    "messages": "request",  # of the last call; as triplets none
    "ids": "token_ids",
    "mask": None,  # merging the calls makes it
    "log-probs": "logprobs",
    "states and choices": "(trajectory_notes)",
    "kinds of observations": "(trajectory_notes)",
    "end": "(trajectory_notes)",
    "reward": "value",
    "breakdown": "(reward_breakdown)",
}
FIELDS: set[str] = set()
VOCABULARY = Vocabulary()


def fields_of(value: object) -> set[str]:
    """All the names in nested events, those of the kinds of event too."""
    if isinstance(value, dict):
        kinds = {value["event_type"]} if "event_type" in value else set()
        return set(value).union(kinds, *map(fields_of, value.values()))
    return set().union(*map(fields_of, value)) if isinstance(value, list) else set()


def theirs(name: str) -> golden.Played:
    with ModelServer(Script([]), VOCABULARY) as server, Gateway(NAME) as gateway:
        gateway.register(NAME, server.endpoint)
        FIELDS.update(fields_of(World(gateway, server).played(name, triplet=False)))
        rollout = Manager(gateway).completed(name)
    (row,) = rows_of(adapted([rollout])[0])
    return golden.Played(row.response_ids, row.response_mask, rollout.final_reward)


def ours(name: str) -> golden.Played:
    episode = golden.GOLDEN[name][1]
    row = bridge.merged(episode, VOCABULARY)
    return golden.Played(row.response_ids, row.response_mask, episode.reward)


def compare(rewards: list[float | None]) -> list[float]:
    call = bridge.Triplet([1], [2], [-0.5])
    rollouts = [
        completed(str(place), [call], reward, place=place)
        for place, reward in enumerate(rewards)
    ]
    return row_values(prepared(adapted(rollouts)[0]), rollout_level=True)


if __name__ == "__main__":
    golden.tell(theirs, ours, compare, HOLDS, FIELDS)
