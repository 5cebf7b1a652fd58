"""A tokenizer and a language model, made on the spot: no hub, no download.

The tokenizer is a real one, byte-level BPE as in Qwen's family, trained on the course's
own episodes; the model is a real Qwen3 with two layers. They know Tool-Math and nothing
else, which is why a laptop can train them. Digits are tokens of their own: a number can be
copied digit by digit, and no product can be known by heart.

Everything here needs transformers, which TRL and verl bring along.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from agentic_rl.agent_loop import Episode
from agentic_rl.bridges.token_ids import TokenIds, to_ids
from agentic_rl.scripted import act_well
from agentic_rl.tasks import Task, generate, kind_of
from agentic_rl.tokens import IM_END, IM_START, decode
from agentic_rl.trajectory import Trajectory

PAD = "<|pad|>"
MARKERS = ("<think>", "</think>", "<tool_call>", "</tool_call>")
VOCABULARY = 384

# Everything that a model imitates is made by these files.
PACKAGE = Path(__file__).resolve().parents[1]
SOURCES = [
    *PACKAGE.glob("*.py"),
    *PACKAGE.glob("bridges/*.py"),
    *PACKAGE.glob("data/*"),
]

# The course's template, in Jinja: the same text as tokens.py and messages.py write.
CHAT_TEMPLATE = """\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' }}
{%- if message.role == 'assistant' %}
{%- generation %}
{%- if message.reasoning_content %}
{{- '<think>' + message.reasoning_content + '</think>' }}
{%- endif %}
{{- message.content or '' }}
{%- for call in message.tool_calls or [] %}
{%- set arguments = call.function.arguments %}
{{- '<tool_call>{"name": ' + call.function.name | tojson + ', "arguments": ' }}
{{- arguments if arguments is string else arguments | tojson }}
{{- '}</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>' }}
{%- endgeneration %}
{{- '\\n' }}
{%- else %}
{{- message.content + '<|im_end|>\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"""


def corpus() -> list[str]:
    """The texts that the tokenizer is trained on: one right episode of many tasks."""
    return [decode(right_episode(task).tokens) for task in generate(60, seed=1)]


def right_episode(task: Task) -> Trajectory:
    """What an agent that acts well leaves behind."""
    episode = Episode(task)
    while not episode.done:
        episode.say(act_well(episode))
    return episode.trajectory


def make_tokenizer() -> Any:
    """A PreTrainedTokenizerFast with the course's chat template; always the same ids."""
    from tokenizers import (
        AddedToken,
        Regex,
        Tokenizer,
        decoders,
        models,
        pre_tokenizers,
        trainers,
    )
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\n|[0-9]"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[PAD, IM_START, IM_END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    plain = corpus()
    for marker in (IM_START, IM_END, *MARKERS):
        plain = [piece for text in plain for piece in text.split(marker)]
    tokenizer.train_from_iterator(plain, trainer)
    # As in Qwen's tokenizers: one id each, and not special, so decoding keeps them.
    tokenizer.add_tokens(
        [AddedToken(m, normalized=False, special=False) for m in MARKERS]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=IM_END,
        pad_token=PAD,
        additional_special_tokens=[IM_START],
        padding_side="left",
        clean_up_tokenization_spaces=False,
        chat_template=CHAT_TEMPLATE,
    )


def make_model(tokenizer: Any, seed: int, hidden: int = 64, layers: int = 2) -> Any:
    """A Qwen3ForCausalLM with random weights, float32; the seed sets them all."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    heads = 4
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        head_dim=hidden // heads,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    return Qwen3ForCausalLM(config)


# ------------------------------------------------------------------ the warm start


def demonstrations(
    tasks: Sequence[Task], right_share: float, rng: random.Random
) -> Iterator[Trajectory]:
    """Episodes to imitate: right ones, and otherwise a guess that is mostly wrong.

    They teach the form of a call and how to copy a number. That calling pays is left for
    the reward to teach.
    """
    for task in tasks:
        if rng.random() < right_share:
            yield right_episode(task)
            continue
        largest = 18 if kind_of(task.question) == "easy" else 50_000
        episode = Episode(task)
        episode.say(f"Answer: {1 + int(rng.random() * largest)}")
        yield episode.trajectory


def fingerprint(*settings: object) -> str:
    """Sixteen hex digits that change with these settings, and with the course's code.

    What was made by another version of it is not to be taken for this one's.
    """
    made = hashlib.sha256(repr(settings).encode())
    for source in sorted(SOURCES):
        made.update(source.read_bytes())
    return made.hexdigest()[:16]


def imitate(
    model: Any,
    tokenizer: Any,
    episodes: Sequence[Trajectory],
    steps: int,
    seed: int,
    batch: int = 32,
    learning_rate: float = 3e-3,
) -> Iterator[float]:
    """Supervised steps on what the assistant wrote; yields the loss of each step.

    The loss is the mean negative log-prob, in nats, of the ids whose mask is 1. The
    learning rate rises over 50 steps and falls to 0 at the end.
    """
    import torch

    rng = random.Random(seed)
    records = [to_ids(episode, tokenizer) for episode in episodes]
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * min((step + 1) / 50, 1 - step / steps)
        inputs = padded(rng.choices(records, k=batch), tokenizer.pad_token_id)
        loss = model(**inputs).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        yield float(loss.detach())


def padded(records: Sequence[TokenIds], pad: int) -> dict[str, Any]:
    """input_ids, attention_mask and labels, [records, longest], padded on the right.

    A label is -100 where nobody is to learn; the model shifts them by one itself.
    """
    import torch

    rows = [[*record.prompt_ids, *record.response_ids] for record in records]
    width = max(map(len, rows))
    labels = [
        [-100] * len(record.prompt_ids)
        + [
            token if mask else -100
            for token, mask in zip(record.response_ids, record.response_mask)
        ]
        for record in records
    ]

    def block(rows: Sequence[Sequence[int]], fill: int) -> Any:
        return torch.tensor([[*row, *[fill] * (width - len(row))] for row in rows])

    return {
        "input_ids": block(rows, pad),
        "attention_mask": block([[1] * len(row) for row in rows], 0),
        "labels": block(labels, -100),
    }
