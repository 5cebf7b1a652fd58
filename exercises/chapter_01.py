"""Chapter 01: what an episode leaves behind, and what a trainer makes of it.

Replace each ``raise NotImplementedError``, from top to bottom; a function may call those
above it. This says what is done, and what is wrong with the rest:

    python3 -m agentic_rl check exercises/chapter_01.py
"""

from __future__ import annotations

from typing import Any


def loss_mask(runs: list[tuple[str, int]]) -> list[int]:
    """1 on every token that the assistant wrote, 0 on all others.

    runs        (author, how many tokens), in the order of the episode. The author is
                "assistant", "user", "tool", "template" (headers, newlines) or "harness"
                (the end of turn that is put behind a turn that was cut off)
    returns     one mark a token

    >>> loss_mask([("user", 3), ("assistant", 2), ("template", 1)])
    [0, 0, 0, 1, 1, 0]
    """
    raise NotImplementedError


def next_token(
    tokens: list[str], mask: list[int]
) -> tuple[list[str], list[str], list[int]]:
    """What a model reads, what it is asked for, and where the answer counts.

    It reads a token and is asked for the one that follows. The mask says which tokens
    were the assistant's; it goes where the asked-for token goes.

    mask        as long as the tokens; 0 on the first one, which nothing can predict
    returns     (inputs, targets, mask of the targets), each one shorter than the tokens

    Raises ValueError if tokens and mask differ in length.

    >>> next_token(["P1", "P2", "R1"], [0, 0, 1])
    (['P1', 'P2'], ['P2', 'R1'], [0, 1])
    """
    raise NotImplementedError


def place_reward(reward: float, mask: list[int]) -> list[float]:
    """One number a token: the reward on the last one that is trained, 0.0 elsewhere.

    mask        1 where the assistant wrote; template and padding may follow behind

    Raises ValueError if no token is trained.

    >>> place_reward(0.9, [0, 1, 1, 0])
    [0.0, 0.0, 0.9, 0.0]
    """
    raise NotImplementedError


def episode_log_prob(logprobs: list[float | None], mask: list[int]) -> float:
    """The log of the probability that the policy wrote all that it wrote.

    logprobs    one a token, in nats; None where there is none. A trainer may have computed
                one for a token that the policy did not write: it is not the policy's
    mask        1 where the policy wrote the token

    >>> episode_log_prob([None, -1.5, -0.25, None], [0, 1, 1, 0])
    -1.75
    """
    raise NotImplementedError


def decode_arguments(arguments: Any) -> dict[str, Any] | None:
    """The arguments of a tool call as an object, or None if they can't be run.

    arguments   what the model's message holds: an object, or the JSON text of one, and
                sometimes what is neither
    returns     the object. None for broken JSON, for JSON that is no object, and for an
                object that was encoded twice: nothing is repaired

    >>> decode_arguments('{"expression": "347 * 86"}')
    {'expression': '347 * 86'}
    >>> decode_arguments('{"expression": "347') is None
    True
    """
    raise NotImplementedError


def is_valid_call(name: str, arguments: Any, tools: dict[str, list[str]]) -> bool:
    """Whether a call can be run: if not, it is an invalid call, and costs more.

    name        of the tool that is called
    arguments   an object, or the JSON text of one; see decode_arguments
    tools       tool -> the names of its arguments. All are required, no other is allowed,
                and each value is text

    >>> is_valid_call("calculator", {"expression": "1 + 1"}, {"calculator": ["expression"]})
    True
    """
    raise NotImplementedError


def extract_answer(text: str) -> str | None:
    """The one number that a text states as its answer, as it is written, or None.

    A number is digits, perhaps with a minus sign before and decimals behind: 7, -5, 0.25.

    - If the text has "Answer:" in it, only what follows the last one counts.
    - A text with no number states no answer, and neither does one with several different
      ones. The same number twice is one.

    >>> extract_answer("347 * 86 is 29842. Answer: 29842.")
    '29842'
    >>> extract_answer("14, 15 or 16") is None
    True
    """
    raise NotImplementedError


def reward(
    is_right: bool, calls: int, invalid_calls: int
) -> tuple[float, dict[str, float]]:
    """The reward of the course, and the parts it is made of.

    A right answer pays 1. Each call that ran costs 0.1, each that could not be run 0.2;
    both are charged on a right answer only, however many there are.

    calls           that ran
    invalid_calls   that could not be run
    returns         (total, breakdown). The breakdown has what "right", "calls" and
                    "invalid_calls" paid, all three, and adds up to the total

    >>> total, breakdown = reward(False, 2, 0)
    >>> total, sorted(breakdown)
    (0.0, ['calls', 'invalid_calls', 'right'])
    """
    raise NotImplementedError
