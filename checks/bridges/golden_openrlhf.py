"""The golden set in OpenRLHF: its executor with our agent, its estimator group_norm."""

from __future__ import annotations

from checks.bridges.openrlhf_world import TOKENIZER, bridge, said

# isort: split

from checks.bridges import golden
from checks.bridges.test_openrlhf_numbers import estimated
from checks.bridges.test_openrlhf_records import played

HOLDS = {
    "messages": None,
    "ids": "observation_tokens",
    "mask": "action_ranges",
    "log-probs": "rollout_log_probs",
    "states and choices": None,
    "kinds of observations": None,
    "end": "truncated",
    "reward": "reward",
    "breakdown": "extra_logs",
}
FIELDS: set[str] = set()


def theirs(name: str) -> golden.Played:
    more = said("") if name == "truncated" else ()  # its agent is not told of the cut
    _, _, found = played(name, *more)
    FIELDS.update(found)
    return after_the_prompt(found)


def ours(name: str) -> golden.Played:
    task, episode = golden.GOLDEN[name]
    return after_the_prompt(bridge.response(episode, task, TOKENIZER))


def after_the_prompt(response: dict) -> golden.Played:
    ids = response["observation_tokens"]
    mask = bridge.mask_of(response["action_ranges"], len(ids))
    start = mask.index(1)
    return golden.Played(ids[start:], mask[start:], response["reward"])


def compare(rewards: list[float]) -> list[float]:
    ones = [[1]] * len(rewards)
    return [row[0] for row in estimated(rewards, ones, "group_norm", len(rewards))]


if __name__ == "__main__":
    golden.tell(theirs, ours, compare, HOLDS, FIELDS)
