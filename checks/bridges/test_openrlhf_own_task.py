"""The block of code under "Your own task" in chapter 05, run through OpenRLHF's own code.

Its data set reads the row, its loader the agent, its executor plays. Only what the model
says is from a script.
"""

from __future__ import annotations

from checks.bridges.openrlhf_world import (
    EXAMPLE,
    MAX_LEN,
    SCRATCH,
    TOKENIZER,
    Script,
    bridge,
    cpu_stubs,
    said,
)

# isort: split

import re
import unittest
from types import SimpleNamespace
from typing import Any

from openrlhf.datasets import PromptDataset


def block(page: str) -> str:
    """What a page tells its reader to write; there is one such block in each language."""
    text = (EXAMPLE / page).read_text(encoding="utf-8")
    (found,) = re.findall(r"(?ms)^```python\n(.*?)^```$", text)
    return str(found)


class OwnTask(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        """The file as the reader writes it, and its row as OpenRLHF's data set hands it on."""
        cls.agent = SCRATCH / "due_day.py"
        cls.agent.write_text(block("README.en.md"), encoding="utf-8")
        written: dict[str, Any] = {}
        exec(block("README.en.md"), written)
        keys = {"input_key": "input", "label_key": "label", "apply_chat_template": True}
        args = SimpleNamespace(data=SimpleNamespace(**keys))
        strategy = SimpleNamespace(args=args, is_rank_0=lambda: False)
        row = PromptDataset(written["ROWS"], TOKENIZER, strategy)[0]
        _, cls.prompt, cls.label, _ = row

    def played(self, *texts: str) -> dict[str, Any]:
        """What the executor returns if the assistant says these turns."""
        actor = cpu_stubs.rollout_actor(
            Script(said(*texts)), agent_func_path=str(self.agent)
        )
        params = SimpleNamespace(max_tokens=None, logprobs=1)
        asked = (self.prompt, self.label, params, MAX_LEN, TOKENIZER)
        return dict(cpu_stubs.finished(actor.generate_responses(*asked))[0])

    def test_both_pages_have_the_same_one(self):
        self.assertEqual(block("README.md"), block("README.en.md"))

    def test_the_tool_answers_and_the_answer_is_paid(self):
        for answer, reward in (("Friday", 1.0), ("Monday", 0.0)):
            found = self.played("DUE 17", answer)
            self.assertEqual((found["reward"], found["scores"]), (reward, reward))
            ids = found["observation_tokens"]
            mask = bridge.mask_of(found["action_ranges"], len(ids))
            own = TOKENIZER.decode([x for x, mark in zip(ids, mask) if mark])
            self.assertEqual(own, f"DUE 17<|im_end|>{answer}<|im_end|>")
            rest = TOKENIZER.decode([x for x, mark in zip(ids, mask) if not mark])
            self.assertIn("<|im_start|>tool\nFriday<|im_end|>\n", rest)

    def test_an_unknown_order_is_answered_as_text(self):
        found = self.played("DUE 99", "Friday")
        text = TOKENIZER.decode(found["observation_tokens"])
        self.assertIn("error: no such order", text)

    def test_what_the_tool_said_is_not_paid_and_three_turns_are_all(self):
        found = self.played("DUE 17", "DUE 17", "DUE 17")
        self.assertEqual((len(found["action_ranges"]), found["reward"]), (3, 0.0))


if __name__ == "__main__":
    unittest.main()
