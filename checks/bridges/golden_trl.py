"""The golden set in TRL: GRPOTrainer's own tool loop, reward call and advantages."""

from __future__ import annotations

from agentic_rl.bridges import trl as bridge
from agentic_rl.reward import COURSE_REWARD
from checks.bridges import golden
from checks.bridges import trl_world as world
from checks.bridges.test_trl_numbers import their_advantages
from checks.bridges.test_trl_records import their_loop, tools_of

HOLDS = {
    "messages": "completions",
    "ids": "completion_ids",
    "mask": "tool_mask",
    "log-probs": None,  # with one update a batch they are not kept
    "states and choices": None,
    "kinds of observations": None,
    "end": None,  # the last id tells
    "reward": "advantages",  # what it is made into
    "breakdown": "log_extra",
}
FIELDS: set[str] = set()


def theirs(name: str) -> golden.Played:
    task, _ = golden.GOLDEN[name]
    found = their_loop(name)
    FIELDS.update(found.fields)
    reward = bridge.reward_function(
        COURSE_REWARD, world.end(), tools=tools_of(name, task)
    )
    (score,) = reward(
        completions=[found.messages],
        completion_ids=[found.ids],
        task=[world.row_of(task)["task"]],
        log_extra=lambda *column: None,
        log_metric=lambda *mean: None,
    )
    return golden.Played(found.ids, found.mask, score)


def ours(name: str) -> golden.Played:
    episode = golden.GOLDEN[name][1]
    record = bridge.rollout(episode, world.tokenizer())
    return golden.Played(record["completion_ids"], record["env_mask"], episode.reward)


def compare(rewards: list[float | None]) -> list[float]:
    return their_advantages(rewards, len(rewards), exact=False)


if __name__ == "__main__":
    golden.tell(theirs, ours, compare, HOLDS, FIELDS)
