"""The two blocks of code under "Your own task" in chapter 04, run through verl's own code.

Its data set reads the rows, its loader the tool, its agent loop calls it, and its reward
manager calls the reward. Only what the model says is from a script.
"""

from __future__ import annotations

from checks.bridges.verl_world import (
    EXAMPLE,
    SCRATCH,
    TOKENIZER,
    Server,
    config,
    managed,
    play,
    quiet,
    rollout,
    said,
    text_of,
)

# isort: split

import copy
import importlib
import re
import sys
import unittest
from typing import Any
from unittest import mock

import pandas
from verl.tools.tool_registry import load_all_tools
from verl.utils.dataset.rl_dataset import RLHFDataset

from agentic_rl.golden import GOLDEN_TASK

FOLDER = SCRATCH / "own_task"
CALL = '<tool_call>{"name": "due_day", "arguments": {"order": "17"}}</tool_call>'


def block(page: str, language: str) -> str:
    """What a page tells its reader to write; there is one such block in each language."""
    text = (EXAMPLE / page).read_text(encoding="utf-8")
    (found,) = re.findall(rf"(?ms)^```{language}\n(.*?)^```$", text)
    return str(found)


class OwnTask(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        """The files as the reader writes them; the row as verl's data set hands it on."""
        FOLDER.mkdir()
        module, tools = FOLDER / "due_days.py", FOLDER / "tools.yaml"
        module.write_text(block("README.en.md", "python"), encoding="utf-8")
        tools.write_text(block("README.en.md", "yaml"), encoding="utf-8")
        sys.path.insert(0, str(FOLDER))
        cls.due_days = importlib.import_module("due_days")
        data = FOLDER / "train.parquet"
        pandas.DataFrame(cls.due_days.ROWS).to_parquet(data)
        cls.config = config(
            f"actor_rollout_ref.rollout.multi_turn.tool_config_path={tools}",
            f"reward.custom_reward_function.path={module}",
        )
        with quiet():
            cls.tools = load_all_tools(str(tools), None)
            read = RLHFDataset([str(data)], TOKENIZER, cls.config.data)
        item = read[0]
        cls.row = {
            "data_source": item["data_source"],
            "prompt": list(item["raw_prompt"]),
            "reward_model": item["reward_model"],
            "extra_info": {**item["extra_info"], "tools_kwargs": item["tools_kwargs"]},
        }

    @classmethod
    def tearDownClass(cls) -> None:
        sys.path.remove(str(FOLDER))

    def played(self, *turns: str) -> tuple[Any, float]:
        """(verl's record, its reward) of an assistant who says these turns."""
        row = mock.patch.object(rollout, "row_of", lambda task: copy.deepcopy(self.row))
        with row:  # in the place of the task's own row
            output = play(GOLDEN_TASK, Server(said(*turns)), self.config, self.tools)
            found = managed(GOLDEN_TASK, output, self.config)
        return output, found["reward_score"]

    def test_both_languages_show_the_same(self):
        for language in ("python", "yaml"):
            self.assertEqual(
                block("README.md", language), block("README.en.md", language)
            )

    def test_verl_calls_the_tool_and_pays_for_what_it_found(self):
        output, reward = self.played(CALL, "Friday")
        self.assertIn("tool\nFriday", text_of(output, 0)[0])
        self.assertEqual(reward, 1.0)

    def test_what_only_a_tool_said_is_not_paid(self):
        output, reward = self.played(CALL, "Monday")
        self.assertIn("tool\nFriday", text_of(output, 0)[0])
        self.assertEqual(reward, 0.0)

    def test_an_answer_at_once_is_read_too(self):
        self.assertEqual(self.played("Friday")[1], 1.0)

    def test_an_order_that_nobody_knows_is_an_answer_and_no_crash(self):
        output, reward = self.played(CALL.replace("17", "1"), "I don't know.")
        self.assertIn("error: no such order", text_of(output, 0)[0])
        self.assertEqual(reward, 0.0)

    def test_the_settings_that_the_page_names_are_in_the_config_of_all_machines(self):
        lines = (EXAMPLE / "scale_out" / "tool_math.yaml").read_text("utf-8")
        for name in ("train_files", "val_files", "tool_config_path"):
            self.assertEqual(lines.count(f"{name}: "), 1, name)
        self.assertIn("custom_reward_function:\n    path: ", lines)


if __name__ == "__main__":
    unittest.main()
