"""What the checks of OpenRLHF share: a scripted engine, its executor, its settings.

The chapter's scripts play episodes in OpenRLHF; so do the checks, by the same functions.
Stubs must be there before OpenRLHF is imported: a check imports this file first.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "05_openrlhf_agent"
sys.path[:0] = [str(ROOT), str(EXAMPLE)]

import cpu_stubs

cpu_stubs.install()

# isort: split

import playing
import torch
from playing import MAX_LEN, Script, experience_of, maker_of, play, script_of

from agentic_rl.bridges import openrlhf as bridge

__all__ = (
    "EXAMPLE",
    "MAX_LEN",
    "SCRATCH",
    "TOKENIZER",
    "Script",
    "agent_file",
    "bridge",
    "cpu_stubs",
    "experience_of",
    "maker_of",
    "play",
    "playing",
    "said",
    "script_of",
    "settings",
    "torch",
)

_FOLDER = tempfile.TemporaryDirectory()  # gone with the process
SCRATCH = Path(_FOLDER.name)
TOKENIZER = playing.started()


def settings(*flags: str) -> Any:
    """What OpenRLHF's program makes of these flags, with an agent, an engine, groups of 4."""
    return cpu_stubs.parsed([*playing.PLACES, *playing.ENGINES, *flags])


def said(*texts: str) -> list[cpu_stubs.Said]:
    """Turns that a model ends by itself, each with log-prob -0.5 an id."""
    found = []
    for text in texts:
        ids = [
            *TOKENIZER.encode(text, add_special_tokens=False),
            TOKENIZER.eos_token_id,
        ]
        found.append(cpu_stubs.Said(ids, [-0.5] * len(ids), text))
    return found


def agent_file(name: str, body: str) -> str:
    """The path of an agent of one's own: the body of ``step``, whose instance it writes.

    ``self.turns`` counts the turns; ``state`` is what OpenRLHF hands over.
    """
    lines = "\n".join(f"        {line}" for line in body.strip().splitlines())
    path = SCRATCH / f"{name}.py"
    path.write_text(
        "import torch\n"
        "from openrlhf.utils.agent import AgentInstanceBase, MultiTurnAgentExecutor\n"
        "class Instance(AgentInstanceBase):\n"
        "    def __init__(self):\n"
        "        self.turns = 0\n"
        "    async def step(self, state, **_):\n"
        "        self.turns += 1\n"
        f"{lines}\n"
        "class AgentExecutor(MultiTurnAgentExecutor):\n"
        "    def __init__(self):\n"
        "        super().__init__(Instance)\n",
        encoding="utf-8",
    )
    return str(path)


def tokens(texts: Sequence[str]) -> list[int]:
    """The ids of texts, one after the other, special tokens read as such."""
    joined = "".join(texts)
    return list(TOKENIZER(text=joined, add_special_tokens=False)["input_ids"])
