"""One id for each token of the course: a tokenizer for where none is installed.

It has what the bridges use of a tokenizer of the transformers library. The ids are given
out as the tokens turn up, so they mean something within one program only.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from agentic_rl.tokens import IM_END, IM_START, encode


class Vocabulary:
    """The tokens seen so far, the template's two first; threads may share it."""

    def __init__(self) -> None:
        self.texts = [IM_START, IM_END]
        self._ids: dict[str, int] = {}  # of text; the template's two are no text
        self._lock = threading.Lock()

    def __call__(
        self, text: str, *, add_special_tokens: bool, split_special_tokens: bool
    ) -> dict[str, list[int]]:
        with self._lock:
            for token in encode(text):
                if token not in self._ids:
                    self._ids[token] = len(self.texts)
                    self.texts.append(token)
            return {"input_ids": [self._ids[token] for token in encode(text)]}

    def decode(self, token_ids: Sequence[int]) -> str:
        return "".join(self.texts[token] for token in token_ids)

    def convert_tokens_to_ids(self, tokens: str) -> int:
        return (IM_START, IM_END).index(tokens)
