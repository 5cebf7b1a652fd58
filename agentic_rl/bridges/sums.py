"""Sums of two digits for a model that has never seen one: chapter 03's single turn.

The tokenizer knows sixteen tokens, and an answer is one of them. So a model with random
weights is right about once in sixteen, and there is something to learn from, without any
imitation before.

    What is 4 + 2?Answer:      ->  ["What is ", "4", " + ", "2", "?", "Answer: "]
"""

from __future__ import annotations

from typing import Any

from agentic_rl.tasks import Task
from agentic_rl.tokens import IM_END

PAD = "<|pad|>"
WORDS = ("What is ", " + ", "?", "Answer: ")

# No roles and no headers: the question, and the beginning of the answer.
TEMPLATE = """\
{%- for message in messages %}{{ message.content }}{%- endfor %}
{%- if add_generation_prompt %}{{- 'Answer: ' }}{%- endif %}"""


def sums(largest: int = 9) -> list[Task]:
    """The tasks ``a + b``, a and b from 1, whose answer is one digit and at most this."""
    digits = range(1, largest)
    return [
        Task(f"sum-{a}-{b}", f"What is {a} + {b}?", f"{a} + {b}", f"{a + b}")
        for a in digits
        for b in digits
        if a + b <= largest
    ]


def make_tokenizer() -> Any:
    """A PreTrainedTokenizerFast of sixteen tokens; its ids are their places in a list."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tokens = (PAD, IM_END, *WORDS, *"0123456789")
    vocabulary = {token: place for place, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=PAD))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(
        Regex(r"What is | \+ |Answer: |."), "isolated"
    )
    tokenizer.decoder = decoders.Fuse()  # or decoding puts spaces between tokens
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=IM_END,
        pad_token=PAD,
        padding_side="left",
        clean_up_tokenization_spaces=False,
        chat_template=TEMPLATE,
    )
