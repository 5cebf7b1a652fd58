"""The policy of chapter 02 as a language model over token ids.

The policy chooses one of six texts. A language model chooses id after id. The chain rule
joins the two: at each place, the probability of the next id is the share of those texts
that go on with it, among those that fit so far.

    p(id | ids so far) = sum of pi(text) over texts that go on with id
                       / sum of pi(text) over texts that begin with the ids so far

The log-probs of a turn add up to log pi(text): two or three ids decide, the others have
probability one. ``TableModel`` is a torch module that OpenRLHF's Actor wraps; ``Table``
samples from it as an engine would.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from cpu_stubs import Said

from agentic_rl.agent_loop import Episode, Limits
from agentic_rl.policy import pick
from agentic_rl.tasks import Task
from agentic_rl.tokens import IM_END
from agentic_rl.tool_math import ACTIONS, STATES

IMPOSSIBLE = -1e9


class Turn(NamedTuple):
    """A place where the policy writes: its first id's place, its state, its six texts.

    texts       the ids of each action's text, end token included, in the order of ACTIONS
    """

    start: int
    state: int
    texts: tuple[tuple[int, ...], ...]


class Reader:
    """Reads ids back into an episode, to know what the policy sees at each turn."""

    def __init__(self, tokenizer: Any, tasks: Sequence[Task]):
        self.tokenizer = tokenizer
        self.tasks = {task.question: task for task in tasks}
        self.start, self.end = tokenizer.convert_tokens_to_ids(["<|im_start|>", IM_END])
        self.header = self._ids("assistant\n")
        self._known: dict[tuple[int, ...], list[Turn]] = {}

    def _ids(self, text: str) -> list[int]:
        return list(self.tokenizer(text=text, add_special_tokens=False)["input_ids"])

    def turns(self, ids: Sequence[int]) -> list[Turn]:
        """The turns of the assistant in these ids; the last one may be still to come."""
        key = tuple(ids)
        if key not in self._known:
            self._known[key] = self._read(key)
        return self._known[key]

    def _read(self, ids: tuple[int, ...]) -> list[Turn]:
        question = self.tokenizer.decode(ids[: ids.index(self.end)]).partition("\n")[2]
        episode = Episode(self.tasks[question], Limits(max_turns=5))
        found = []
        for place in range(len(ids)):
            first = place + 1 + len(self.header)
            opens = (
                ids[place] == self.start and list(ids[place + 1 : first]) == self.header
            )
            if not opens:
                continue
            spoken = [self._ids(episode.world.speak(action)) for action in ACTIONS]
            texts = tuple((*text, self.end) for text in spoken)
            found.append(Turn(first, STATES.index(episode.state), texts))
            if self.end in ids[first:]:
                last = ids.index(self.end, first)
                episode.say(self.tokenizer.decode(ids[first:last]))
        return found


class TableModel(torch.nn.Module):
    """Logits [states, actions] as a causal language model: ids in, logits of ids out."""

    def __init__(self, reader: Reader, vocabulary: int):
        super().__init__()
        self.table = torch.nn.Parameter(torch.zeros(len(STATES), len(ACTIONS)))
        self.reader, self.vocabulary = reader, vocabulary

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, **_: Any
    ) -> dict[str, torch.Tensor]:
        """{"logits": [rows, ids, vocabulary]}; place t holds those of the id at t + 1."""
        places, tokens, states, fitting = [], [], [], []
        for row, (ids, marks) in enumerate(zip(input_ids, attention_mask)):
            for place, token, state, fits in self._branches(ids[marks.bool()].tolist()):
                places.append((row, place))
                tokens.append(token)
                states.append(state)
                fitting.append(fits)
        logits = torch.full((*input_ids.shape, self.vocabulary), IMPOSSIBLE)
        if places:
            hidden = torch.where(torch.tensor(fitting), 0.0, -torch.inf)
            values = torch.logsumexp(self.table[states] + hidden, dim=-1)
            rows, columns = zip(*places)
            where = tuple(map(torch.tensor, (rows, columns, tokens)))
            logits = logits.index_put(where, values)
        return {"logits": logits}

    def _branches(self, ids: list[int]) -> list[tuple[int, int, int, list[bool]]]:
        """(place, next id, state, which actions write it) of every possible next id."""
        found = []
        for turn in self.reader.turns(ids):
            written = ids[turn.start :]
            for offset in range(len(written)):
                fitting: dict[int, list[bool]] = {}  # next id -> which actions write it
                for action, text in enumerate(turn.texts):
                    if list(text[:offset]) == written[:offset] and offset < len(text):
                        marks = fitting.setdefault(text[offset], [False] * len(ACTIONS))
                        marks[action] = True
                if not fitting:  # the turn is over
                    break
                place = turn.start + offset - 1
                found += [(place, x, turn.state, fits) for x, fits in fitting.items()]
        return found


class Table:
    """A speaker: draws a text for the state it reads in the ids, from the model's table."""

    def __init__(self, model: TableModel, seed: int):
        self.model, self.rng = model, random.Random(seed)

    def speak(self, prompt_ids: list[int], params: Any) -> Said:
        """One turn, with the log-prob of each id."""
        turn = self.model.reader.turns(prompt_ids)[-1]
        logits = self.model.table[turn.state].detach().double()
        chances = torch.softmax(logits, dim=-1).tolist()
        ids = list(turn.texts[pick(chances, self.rng.random())])
        return Said(ids, self._logprobs(ids, turn, chances), self._text(ids))

    def _text(self, ids: list[int]) -> str:
        return str(self.model.reader.tokenizer.decode(ids[:-1]))

    @staticmethod
    def _logprobs(ids: list[int], turn: Turn, chances: list[float]) -> list[float]:
        def mass(length: int) -> float:
            begun = tuple(ids[:length])
            texts = zip(turn.texts, chances)
            return math.fsum(chance for text, chance in texts if text[:length] == begun)

        return [math.log(mass(n + 1) / mass(n)) for n in range(len(ids))]
