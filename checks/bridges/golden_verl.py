"""The golden set in verl: ToolAgentLoop, its reward manager, its estimator grpo."""

from __future__ import annotations

from checks.bridges.verl_world import TOKENIZER, AgentLoopOutput, managed

# isort: split

from agentic_rl.bridges.verl import TOOL_KINDS, output
from checks.bridges import golden
from checks.bridges.test_verl_numbers import Sample, their_advantages
from checks.bridges.test_verl_records import played

HOLDS = {
    "messages": None,
    "ids": "response_ids",
    "mask": "response_mask",
    "log-probs": "response_logprobs",
    "states and choices": None,
    "kinds of observations": f"({TOOL_KINDS})",
    "end": None,
    "reward": "reward_score",
    "breakdown": "reward_extra_info",
}
FIELDS = set(AgentLoopOutput.model_fields)


def theirs(name: str) -> golden.Played:
    found = played(name)
    scored = managed(golden.GOLDEN[name][0], found)
    FIELDS.update(found.extra_fields, scored)
    return golden.Played(
        found.response_ids, found.response_mask, scored["reward_score"]
    )


def ours(name: str) -> golden.Played:
    record = output(golden.GOLDEN[name][1], TOKENIZER)
    return golden.Played(
        record["response_ids"], record["response_mask"], record["reward_score"]
    )


def compare(rewards: list[float]) -> list[float]:
    ones = [[1]] * len(rewards)
    taken = Sample(list(rewards), ["a"] * len(rewards), ones, [], [], [], [])
    return [row[0] for row in their_advantages(taken, "grpo")]


if __name__ == "__main__":
    golden.tell(theirs, ours, compare, HOLDS, FIELDS)
