"""What the tiny model is taught and what is taken from it: labels, turns, their log-probs."""

from __future__ import annotations

import unittest
from types import SimpleNamespace
from unittest import mock

from transformers import GenerationConfig

from agentic_rl.agent_loop import Limits
from agentic_rl.bridges import tiny_model, trl_worlds
from agentic_rl.bridges import trl as bridge
from agentic_rl.bridges.token_ids import to_ids
from agentic_rl.golden import GOLDEN_TASK, LOOKUP_TASK, golden_group
from agentic_rl.reward import COURSE_REWARD
from checks.bridges import trl_world as world
from checks.bridges.trl_world import row_of, torch

VOCABULARY = 8
END, PAD = 2, 0


class Model:
    """Says what a script says; the logit of each id is its own number."""

    def __init__(self, rows: list[list[int]]):
        self.rows = rows

    def generate(self, prompts, attention_mask, generation_config):
        new = torch.tensor(self.rows)
        steps = torch.arange(VOCABULARY, dtype=torch.float32).expand(len(new), -1)
        return SimpleNamespace(
            sequences=torch.cat([prompts, new], 1), logits=[steps] * new.shape[1]
        )


def sampled(rows, temperature=1.0, used=(0,), length=6):
    """``_sample`` of runs that have used so many ids, from a model that says these rows."""
    model = Model(rows)
    trainer = SimpleNamespace(
        processing_class=SimpleNamespace(pad_token_id=PAD, eos_token_id=END),
        accelerator=SimpleNamespace(device="cpu"),
        generation_config=GenerationConfig(),
        model_wrapped=model,
        temperature=temperature,
    )
    runs = [SimpleNamespace(prompt_ids=[1], ids=[5] * count) for count in used]
    unwrapped = mock.MagicMock()
    unwrapped.return_value.__enter__.return_value = model
    with mock.patch("trl.models.unwrap_model_for_generation", unwrapped):
        return trl_worlds._sample(trainer, runs, length)


class Sampling(unittest.TestCase):
    def test_a_turn_ends_with_its_end_token_and_what_follows_is_padding(self):
        ((ids, logprobs),) = sampled([[5, 6, END, PAD, PAD, PAD]])
        self.assertEqual(ids, [5, 6, END])
        self.assertEqual(len(logprobs), 3)

    def test_a_turn_without_an_end_fills_its_room(self):
        turns = sampled([[5] * 6, [5] * 6], used=(0, 4))
        self.assertEqual([len(ids) for ids, _ in turns], [6, 2])

    def test_log_probs_are_those_of_the_temperature_that_sampled(self):
        """Logits 0 to 7, divided by it; the log-softmax of the id that was drawn."""
        for temperature in (1.0, 0.7, 2.0):
            ((_, (found, *_)),) = sampled([[5, END]], temperature, length=2)
            logits = torch.arange(VOCABULARY, dtype=torch.float32) / temperature
            expected = float(torch.log_softmax(logits, -1)[5])
            self.assertAlmostEqual(found, expected, places=5)


class Writing(unittest.TestCase):
    def written(self, spare: int) -> trl_worlds._Run:
        """A run that called the calculator, with room for this many ids after its answer."""
        record = bridge.rollout(golden_group()[0], world.tokenizer())
        ids, mask = record["completion_ids"], record["env_mask"]
        call = ids[: mask.index(0)]
        answer = mask.index(1, mask.index(0)) - mask.index(0)
        run = trl_worlds._Run(GOLDEN_TASK, Limits(), world.tokenizer())
        run.write(call, [-0.5] * len(call), len(call) + answer + spare)
        return run

    def test_an_answer_that_fills_the_room_ends_the_episode(self):
        """With no id left there is no turn to come; with one there is."""
        self.assertEqual(self.written(0).episode.trajectory.finish_reason, "length")
        self.assertIsNone(self.written(1).episode.trajectory.finish_reason)


class Labels(unittest.TestCase):
    def test_ids_are_labels_where_the_assistant_wrote_and_padding_is_none(self):
        group = golden_group()
        records = [to_ids(episode, world.tokenizer()) for episode in group[:2]]
        found = tiny_model.padded(records, pad=3)
        width = max(len(r.prompt_ids) + len(r.response_ids) for r in records)
        for row, record in enumerate(records):
            ids = [*record.prompt_ids, *record.response_ids]
            mask = [*[0] * len(record.prompt_ids), *record.response_mask]
            rest = width - len(ids)
            labels = [token if mark else -100 for token, mark in zip(ids, mask)]
            self.assertEqual(found["input_ids"][row].tolist(), ids + [3] * rest)
            self.assertEqual(found["labels"][row].tolist(), labels + [-100] * rest)
            self.assertEqual(
                found["attention_mask"][row].tolist(), [1] * len(ids) + [0] * rest
            )

    def test_the_learning_rate_rises_over_fifty_steps_and_falls_to_nothing(self):
        model = tiny_model.make_model(world.tokenizer(), seed=0, hidden=16, layers=1)
        rates = []
        step = torch.optim.AdamW.step

        def watched(optimizer, *rest):
            rates.append(optimizer.param_groups[0]["lr"])
            return step(optimizer, *rest)

        with mock.patch.object(torch.optim.AdamW, "step", watched):
            list(
                tiny_model.imitate(
                    model, world.tokenizer(), golden_group(), 100, 0, 1, 1e-3
                )
            )
        self.assertAlmostEqual(rates[0], 1e-3 / 50)
        self.assertAlmostEqual(rates[24], 1e-3 * 25 / 50)
        self.assertAlmostEqual(rates[49], 1e-3 * 51 / 100)
        self.assertAlmostEqual(rates[99], 1e-3 / 100)


class Kept(unittest.TestCase):
    def test_a_kept_batch_has_the_row_of_each_rollout(self):
        rows = [row_of(task) for task in (GOLDEN_TASK, LOOKUP_TASK) for _ in range(2)]
        made = world.trainer(
            bridge.reward_function(COURSE_REWARD, world.end()),
            rows,
            per_device_train_batch_size=4,
            num_generations=2,
        )
        made._generate_single_turn = lambda prompts, *rest: (
            [world.ids_of("Answer: 1")] * len(prompts),
            None,
        )
        batch = bridge.keep_batch(made)
        made._generate_and_score_completions([dict(row) for row in rows])
        self.assertEqual(
            [row["task"] for row in batch["rows"]], [row["task"] for row in rows]
        )


class Fingerprint(unittest.TestCase):
    def test_it_changes_with_the_settings_and_with_any_file_of_the_course(self):
        first = tiny_model.fingerprint("a")
        self.assertEqual(first, tiny_model.fingerprint("a"))
        self.assertNotEqual(first, tiny_model.fingerprint("b"))
        names = {source.name for source in tiny_model.SOURCES}
        self.assertLessEqual(
            {"tasks.py", "tokens.py", "scripted.py", "token_ids.py", "train.jsonl"},
            names,
        )
        with mock.patch.object(tiny_model, "SOURCES", tiny_model.SOURCES[1:]):
            self.assertNotEqual(first, tiny_model.fingerprint("a"))


if __name__ == "__main__":
    unittest.main()
