"""The block of code under "Your own task" in chapter 03, run in TRL's own loop.

And what the section after it says of a real model, as far as no GPU is needed.
"""

from __future__ import annotations

import os
import re
import unittest
from functools import cache
from importlib.metadata import requires
from pathlib import Path
from typing import Any
from unittest import mock

from agentic_rl.bridges import tiny_model
from agentic_rl.bridges import trl as bridge
from checks.bridges import trl_world as world
from checks.bridges.trl_world import ids_of

CHAPTER = Path(__file__).resolve().parents[2] / "examples" / "03_grpo_single_turn"
CALL = '<tool_call>{"name": "due_day", "arguments": {"order": 17}}</tool_call>'


def block(page: str) -> str:
    """The Python that a page tells its reader to write; there is one such block."""
    text = (CHAPTER / page).read_text(encoding="utf-8")
    (found,) = re.findall(r"(?ms)^```python\n(.*?)^```$", text)
    return str(found)


@cache
def own() -> dict[str, Any]:
    """What the block defines."""
    names: dict[str, Any] = {}
    exec(block("README.en.md"), names)
    return names


class OwnTask(unittest.TestCase):
    def test_both_languages_show_the_same(self):
        self.assertEqual(block("README.md"), block("README.en.md"))

    def test_trl_calls_the_tool_and_pays_who_said_what_it_found(self):
        """Both rollouts call; one then says Friday, the other Monday: 1 and 0."""
        made = world.trl.GRPOTrainer(
            world.model_folder(),
            args=world.config(
                per_device_train_batch_size=2,
                num_generations=2,
                max_completion_length=300,
            ),
            processing_class=world.tokenizer(),
            **own()["own"],
        )
        made.model.train()
        script = iter(
            [[ids_of(CALL)] * 2, [ids_of("Friday"), ids_of("Monday")]],
        )
        made._generate_single_turn = lambda prompts, *rest, **named: (
            [list(ids) for ids in next(script)],
            None,
        )
        batch = bridge.keep_batch(made)
        row = own()["own"]["train_dataset"][0]
        made._generate_and_score_completions([dict(row), dict(row)])
        self.assertEqual(made._metrics["train"]["tools/call_frequency"], [1.0])
        self.assertEqual(made._metrics["train"]["tools/failure_frequency"], [0.0])
        (rewards,) = made._logs["rewards"].values()
        self.assertEqual(list(rewards), [1.0, 0.0])
        ids, mask = bridge.completion_of(batch, 0)
        heard = [token for token, mark in zip(ids, mask) if not mark]
        self.assertIn("tool\nFriday", world.tokenizer().decode(heard))

    def test_what_only_a_tool_said_is_not_paid(self):
        told = [{"role": "tool", "name": "due_day", "content": "Friday"}]
        self.assertEqual(own()["reward"]([told], ["Friday"]), [0.0])

    def test_an_order_that_nobody_knows_is_an_answer_and_no_crash(self):
        self.assertRegex(own()["due_day"](order=1), "^error")


class ARealModel(unittest.TestCase):
    def test_silent_keeps_the_hub_off_whatever_was_set_before(self):
        with mock.patch.dict(os.environ, {"HF_HUB_OFFLINE": "0"}):
            bridge.silent()
            self.assertEqual(os.environ["HF_HUB_OFFLINE"], "1")

    def test_what_is_for_a_laptop_only(self):
        told = ("use_cpu", "bf16", "gradient_checkpointing")
        found = tuple(bridge.LAPTOP[name] for name in told)
        self.assertEqual(found, (True, False, False))
        for name in ("report_to", "logging_steps", "save_strategy"):
            self.assertIn(name, bridge.LAPTOP)

    def test_vllm_is_off_by_default_and_shares_the_process(self):
        plain = world.config(per_device_train_batch_size=8)
        self.assertEqual((plain.use_vllm, plain.vllm_mode), (False, "colocate"))

    def test_the_versions_of_vllm_that_it_asks_for(self):
        (asked,) = (x for x in requires("trl") or () if x.startswith("vllm"))
        self.assertIn("<=0.31.0", asked)
        self.assertIn(">=0.22.0", asked)

    def test_a_template_that_it_does_not_know_is_refused_with_tools(self):
        plain = tiny_model.make_tokenizer()
        with self.assertRaisesRegex(ValueError, "Unrecognized chat template"):
            world.trainer(
                world.constant,
                [world.ROW] * 2,
                processing_class=plain,
                tools=[own()["due_day"]],
                per_device_train_batch_size=2,
                num_generations=2,
            )


if __name__ == "__main__":
    unittest.main()
