"""The training half of chapter 04: the engine for a CPU, two steps of main_ppo, the log.

The other programs of the chapter are run by scripts/check_bridges.py; they end with an
error unless they did what they promise.
"""

from __future__ import annotations

from checks.bridges.verl_world import EXAMPLE, SCRATCH, TOKENIZER, torch

# isort: split

import asyncio
import json
import re
import subprocess
import sys
import time
import unittest
from pathlib import Path
from typing import Any

import psutil
import ray_rollout
import train_main_ppo
from cpu_rollout import Generator
from verl.workers.rollout import base

from agentic_rl.bridges.frameworks import VERSIONS
from agentic_rl.bridges.tiny_model import make_model

LOG = EXAMPLE / "runs" / "main_ppo.jsonl"
REWARD = "critic/score/mean"
TURN_TOKENS = 12


def model_folder() -> Path:
    folder = SCRATCH / "training_model"
    if not folder.exists():
        make_model(TOKENIZER, seed=0).save_pretrained(folder)
        TOKENIZER.save_pretrained(folder)
    return folder


def asked(generator: Generator, prompts: list[list[int]], temperature: float) -> Any:
    """What it answers when all of them ask at once."""
    sampling = {"temperature": temperature}

    async def ask() -> Any:
        return await asyncio.gather(
            *(
                generator.generate("id", prompt_ids=prompt, sampling_params=sampling)
                for prompt in prompts
            )
        )

    return asyncio.run(ask())


class TheEngine(unittest.TestCase):
    """cpu_rollout.Generator, which stands where vLLM stands on a GPU."""

    @classmethod
    def setUpClass(cls):
        cls.generator = Generator(str(model_folder()), TURN_TOKENS)
        cls.prompts = [
            TOKENIZER.encode(text, add_special_tokens=False)
            for text in ("What is 3 + 4?", "How much do 12 kettles cost?", "?")
        ]

    def test_the_log_probs_it_reports_are_those_of_the_model(self):
        torch.manual_seed(0)
        for temperature in (1.0, 0.5):
            for prompt, said in zip(
                self.prompts, asked(self.generator, self.prompts, temperature)
            ):
                ids = torch.tensor([[*prompt, *said.token_ids]])
                with torch.no_grad():
                    logits = self.generator.model(input_ids=ids).logits[0]
                logprobs = torch.log_softmax(logits / temperature, dim=-1)
                for place, (token, told) in enumerate(
                    zip(said.token_ids, said.log_probs)
                ):
                    right = float(logprobs[len(prompt) + place - 1, token])
                    self.assertAlmostEqual(told, right, places=4)

    def test_who_asks_beside_it_changes_no_answer(self):
        together = asked(self.generator, self.prompts, 0.0)
        alone = [asked(self.generator, [prompt], 0.0)[0] for prompt in self.prompts]
        self.assertEqual([x.token_ids for x in together], [x.token_ids for x in alone])

    def test_requests_that_wait_are_one_batch(self):
        sizes = []

        class Counts(Generator):
            def answer(self, prompts: Any, temperature: float) -> Any:
                sizes.append(len(prompts))
                return super().answer(prompts, temperature)

        asked(Counts(str(model_folder()), TURN_TOKENS), self.prompts, 0.0)
        self.assertEqual(sizes, [3])

    def test_an_error_reaches_everybody_who_waits(self):
        class Fails(Generator):
            def answer(self, prompts: Any, temperature: float) -> Any:
                raise MemoryError("too much")

        generator = Fails(str(model_folder()), TURN_TOKENS)

        async def ask() -> list[Any]:
            calls = [
                generator.generate("id", prompt_ids=x, sampling_params={})
                for x in self.prompts
            ]
            return await asyncio.wait_for(
                asyncio.gather(*calls, return_exceptions=True), 10
            )

        self.assertEqual([type(x) for x in asyncio.run(ask())], [MemoryError] * 3)

    def test_it_refuses_to_sample_in_a_way_that_it_does_not_know(self):
        for sampling in ({"top_p": 0.9}, {"top_k": 20}):
            with self.assertRaisesRegex(ValueError, "top_p=1"):
                asyncio.run(
                    self.generator.generate(
                        "id", prompt_ids=[1], sampling_params=sampling
                    )
                )

    def test_a_turn_ends_with_the_end_token_or_at_the_limit(self):
        end = TOKENIZER.eos_token_id
        cut = self.generator.one_turn([7, end, 5], [-1.0, -2.0, 0.0], end)
        self.assertEqual((cut.token_ids, cut.log_probs), ([7, end], [-1.0, -2.0]))
        whole = self.generator.one_turn([7, 8, 9], [-1.0, -2.0, -3.0], end)
        self.assertEqual(whole.token_ids, [7, 8, 9])

    def test_weights_are_taken_all_or_not_at_all(self):
        generator = Generator(str(model_folder()), TURN_TOKENS)
        other = make_model(TOKENIZER, seed=1).state_dict()
        generator.load(other.items(), 3)
        prompt = torch.tensor([self.prompts[0]])
        with torch.no_grad():
            mine = generator.model(input_ids=prompt).logits
            theirs = make_model(TOKENIZER, seed=1).eval()(input_ids=prompt).logits
        self.assertTrue(torch.equal(mine, theirs))
        self.assertEqual(generator.version, 3)
        other.popitem()
        with self.assertRaisesRegex(RuntimeError, "Missing key"):
            generator.load(other.items(), 4)


class ThePrivateNames(unittest.TestCase):
    def test_the_plug_in_names_each_of_verls_that_it_touches(self):
        text = (EXAMPLE / "cpu_platform.py").read_text("utf-8")
        docstring, _, code = text[3:].partition('"""')
        used = set(re.findall(r"\b\w+\.(_[A-Z]\w+|initialize_\w+_ray)", code))
        self.assertEqual(
            used, {"_ROLLOUT_REGISTRY", "initialize_global_process_group_ray"}
        )
        for name in used:
            self.assertIn(name, docstring)
        self.assertIn(VERSIONS["verl"], docstring)
        self.assertIsInstance(base._ROLLOUT_REGISTRY, dict)


class TheScriptedServer(unittest.TestCase):
    def test_a_context_that_no_script_knows_is_an_error(self):
        server = ray_rollout.ScriptedServer({(1, 2): [(3,)]})
        said = asyncio.run(server.generate("id", [1, 2]))
        self.assertEqual(said.token_ids, [3])
        with self.assertRaises(KeyError):
            asyncio.run(server.generate("id", [1, 2, 3]))

    def test_the_turns_of_an_episode_are_the_runs_of_ones(self):
        fields = {
            "prompt_ids": [1],
            "response_ids": [2, 3, 4, 5],
            "response_mask": [1, 1, 0, 1],
        }
        self.assertEqual(
            list(ray_rollout.turns(fields)), [((1,), (2, 3)), ((1, 2, 3, 4), (5,))]
        )


class TwoSteps(unittest.TestCase):
    """The real trainer in its own processes; about a minute and a half on two cores."""

    @classmethod
    def setUpClass(cls):
        cls.out = SCRATCH / "two.jsonl"
        before = rays()
        cls.ran = subprocess.run(
            [sys.executable, train_main_ppo.__file__, "--out", str(cls.out)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
        )
        gone_by = time.monotonic() + 30  # the last of them outlive the driver a little
        while (left := rays() - before) and time.monotonic() < gone_by:
            time.sleep(1)
        cls.left = left
        if cls.ran.returncode:
            raise AssertionError(cls.ran.stdout + cls.ran.stderr)
        cls.about, cls.records = train_main_ppo.read(cls.out)

    def test_each_step_is_logged_and_the_held_out_tasks_before_and_after(self):
        steps = train_main_ppo.training_steps(self.records)
        self.assertEqual([x["step"] for x in steps], [1, 2])
        held_out = train_main_ppo.held_out(self.records)
        self.assertEqual([step for step, _ in held_out], [0, 2])

    def test_the_engine_samples_with_the_weights_that_were_just_trained(self):
        key = "training/rollout_probs_diff_max"
        self.assertGreater(self.records[1]["actor/grad_norm"], 0)
        for record in train_main_ppo.training_steps(self.records):
            self.assertLess(record[key], 1e-4)

    def test_calls_are_made_and_some_are_right(self):
        for record in train_main_ppo.training_steps(self.records):
            self.assertGreater(record["num_turns/mean"], 2)
            self.assertGreater(record[REWARD], 0)

    def test_the_log_says_where_its_numbers_are_from(self):
        self.assertEqual(self.about["versions"]["verl"], VERSIONS["verl"])
        self.assertIn("--steps 2", self.about["command"])

    def test_no_process_of_ray_is_left(self):
        self.assertEqual(self.left, set())


def rays() -> set[int]:
    """The ids of Ray's processes on this machine."""
    found = set()
    for process in psutil.process_iter(["name", "cmdline"]):
        words = " ".join([process.info["name"] or "", *(process.info["cmdline"] or [])])
        if re.search(r"\braylet\b|\bgcs_server\b|\bray::", words):
            found.add(process.pid)
    return found


class TheShippedLog(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.about, records = train_main_ppo.read(LOG)
        cls.steps = train_main_ppo.training_steps(records)
        cls.held_out = [reward for _, reward in train_main_ppo.held_out(records)]

    def test_it_says_what_run_it_is_of(self):
        self.assertEqual(self.about["versions"]["verl"], VERSIONS["verl"])
        self.assertEqual(self.about["command"].split()[-1], str(len(self.steps)))
        self.assertRegex(self.about["date"], r"^\d{4}-\d\d-\d\d$")

    def test_it_names_no_place_on_a_machine(self):
        self.assertNotRegex(LOG.read_text("utf-8"), r"/(home|root|tmp|work|usr)\b")

    def test_its_clip_ratio_of_lengths_is_no_share_of_cut_responses(self):
        """As long as the longest of the batch, that is: one always is. See the glossary."""
        limit = 192
        longest = [step["response_length/max"] for step in self.steps]
        shares = [step["response_length/clip_ratio"] for step in self.steps]
        self.assertLess(min(longest), limit)
        self.assertGreaterEqual(min(shares), 1 / 64)  # 64 rollouts a step

    def test_no_step_is_missing(self):
        self.assertEqual(
            [x["step"] for x in self.steps], list(range(1, len(self.steps) + 1))
        )

    def test_the_reward_rose_on_training_and_on_held_out_tasks(self):
        tenth = len(self.steps) // 10
        mean = [
            sum(x[REWARD] for x in part) / tenth
            for part in (self.steps[:tenth], self.steps[-tenth:])
        ]
        self.assertGreater(mean[1], mean[0] + 0.2)
        self.assertGreater(self.held_out[-1], self.held_out[0] + 0.2)

    def test_the_pages_quote_it(self):
        shown = [f"{value:.2f}" for value in (self.held_out[0], self.held_out[-1])]
        for page in ("README.md", "README.en.md"):
            text = (EXAMPLE / page).read_text("utf-8")
            for value in shown:
                self.assertIn(value, text, page)

    def test_the_pages_show_its_table(self):
        shown = train_main_ppo.table(self.steps)
        for page in ("README.md", "README.en.md"):
            self.assertIn(shown, (EXAMPLE / page).read_text("utf-8"), page)

    def test_each_line_is_json_of_numbers(self):
        for line in LOG.read_text("utf-8").splitlines()[1:]:
            data = json.loads(line)["data"]
            self.assertTrue(all(isinstance(x, float) for x in data.values()))


class TheSurprises(unittest.TestCase):
    def test_each_that_is_pinned_has_a_row_in_both_pages(self):
        text = Path(__file__).with_name("test_verl_surprises.py").read_text("utf-8")
        names = re.findall(r"(?m)^    def test_(\w+)\(self\):\n        \"\"\"", text)
        self.assertGreater(len(names), 20)
        for page in ("README.md", "README.en.md"):
            rows = (EXAMPLE / page).read_text("utf-8").splitlines()
            last = [row.split("|")[-2].strip() for row in rows if row.startswith("| ")]
            held = [cell for cell in last if cell.startswith("`test_")]
            self.assertEqual(held, [f"`test_{name}`" for name in names], page)


if __name__ == "__main__":
    unittest.main()
