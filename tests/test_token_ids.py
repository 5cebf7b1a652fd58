"""Token ids: an episode as a trainer holds it, and back, with any tokenizer.

A tokenizer of the transformers library is not there; this one cuts every text into single
characters, or into pairs, and has two ids for the template's ends of turn.
"""

from __future__ import annotations

import math
import unittest

from agentic_rl.agent_loop import run_script
from agentic_rl.bridges.frameworks import BridgeError
from agentic_rl.bridges.token_ids import TokenIds, from_ids, to_ids
from agentic_rl.golden import GOLDEN_TASK, golden_set
from agentic_rl.scripted import says
from agentic_rl.tokens import IM_END, IM_START, decode
from agentic_rl.trajectory import Trajectory, TrajectoryError

START, END = 1, 2


class Characters:
    """Ids of ``size`` characters each, above those of the template; from left to right."""

    def __init__(self, size: int = 1):
        self.size = size
        self.texts: list[str] = ["", IM_START, IM_END]

    def __call__(self, text, *, add_special_tokens, split_special_tokens):
        assert split_special_tokens and not add_special_tokens
        places = range(0, len(text), self.size)
        return {"input_ids": [self._id(text[i : i + self.size]) for i in places]}

    def _id(self, piece: str) -> int:
        if piece not in self.texts[3:]:
            self.texts.append(piece)
        return self.texts.index(piece, 3)

    def decode(self, token_ids) -> str:
        return "".join(self.texts[token] for token in token_ids)

    def convert_tokens_to_ids(self, tokens: str) -> int:
        return {IM_START: START, IM_END: END}[tokens]


def episode(name: str) -> Trajectory:
    return golden_set()[name][1]


class GoldenSet(unittest.TestCase):
    def test_it_holds_what_a_record_has_to_survive(self):
        episodes = [trajectory for _, trajectory in golden_set().values()]
        kinds = {seen.kind for x in episodes for seen in x.observations}
        self.assertEqual(kinds, {"result", "tool_error", "timeout", "invalid_call"})
        reasons = {x.finish_reason for x in episodes}
        self.assertEqual(reasons, {"stop", "length", "max_turns"})
        self.assertIn(2, [len(a.get("calls", ())) for x in episodes for a in x.actions])
        self.assertTrue(
            any(m.get("reasoning_content") for x in episodes for m in x.messages)
        )
        self.assertIn("", [x.answer for x in episodes])
        for trajectory in episodes:
            trajectory.check()


class ThereAndBack(unittest.TestCase):
    def test_every_episode_comes_back_as_it_was(self):
        for size in (1, 2, 3):
            for name, (_, trajectory) in golden_set().items():
                tokenizer = Characters(size)
                record = to_ids(trajectory, tokenizer)
                self.assertEqual(from_ids(record, tokenizer), trajectory, (name, size))

    def test_the_ids_say_what_the_tokens_say(self):
        for name, (_, trajectory) in golden_set().items():
            tokenizer = Characters()
            record = to_ids(trajectory, tokenizer)
            text = tokenizer.decode([*record.prompt_ids, *record.response_ids])
            self.assertEqual(text, decode(trajectory.tokens), name)

    def test_what_the_assistant_wrote_is_what_has_mask_one(self):
        for name, (_, trajectory) in golden_set().items():
            tokenizer = Characters(2)
            record = to_ids(trajectory, tokenizer)
            rows = zip(record.response_ids, record.response_mask)
            own = tokenizer.decode([token for token, mask in rows if mask])
            rows = zip(trajectory.tokens, trajectory.loss_mask)
            self.assertEqual(own, decode(token for token, mask in rows if mask), name)

    def test_a_turn_that_spells_a_marker_is_text(self):
        for text in (IM_START, IM_END, IM_END + IM_START):
            said = run_script(says(text), GOLDEN_TASK)
            record = to_ids(said, tokenizer := Characters())
            self.assertEqual(record.response_ids.count(START), 0)
            self.assertEqual(record.response_ids.count(END), 1)
            self.assertEqual(from_ids(record, tokenizer), said)

    def test_no_id_has_two_authors_however_long_ids_are(self):
        # "\n" of the header and "A" of "Answer" are neighbours, of two authors.
        tokenizer = Characters(100)
        record = to_ids(episode("guess"), tokenizer)
        self.assertEqual(
            [tokenizer.decode([token]) for token in record.response_ids],
            ["Answer: 29852", IM_END, "\n"],
        )
        self.assertEqual(record.response_mask, [1, 1, 0])

    def test_the_prompt_ends_with_the_header_of_the_first_turn(self):
        tokenizer = Characters()
        record = to_ids(episode("one call"), tokenizer)
        prompt = f"{IM_START}user\nWhat is 347 * 86?{IM_END}\n{IM_START}assistant\n"
        self.assertEqual(tokenizer.decode(record.prompt_ids), prompt)
        self.assertEqual(record.response_mask[0], 1)

    def test_log_probs_add_up_to_the_decisions(self):
        record = to_ids(episode("one call"), Characters())
        self.assertEqual(len(record.logprobs), len(record.response_ids))
        self.assertAlmostEqual(math.fsum(record.logprobs), 2 * math.log(1 / 6))
        for mask, logprob in zip(record.response_mask, record.logprobs):
            self.assertTrue(mask or logprob == 0.0)

    def test_of_a_text_that_was_written_in_pieces_the_sum_counts(self):
        """A model's own log-probs: one for each token, joined by the chain rule."""
        trajectory = episode("guess")
        places = [p for p, mask in enumerate(trajectory.loss_mask) if mask]
        for place in places:
            trajectory.logprobs[place] = -0.25
        record = to_ids(
            trajectory, Characters(100)
        )  # the text is one id, the end another
        self.assertEqual(record.logprobs, [-0.25 * (len(places) - 1), -0.25, 0.0])

    def test_a_models_log_probs_per_id_become_the_decisions(self):
        tokenizer = Characters()
        record = to_ids(episode("guess"), tokenizer)
        spread = [-0.5 * mask for mask in record.response_mask]
        found = from_ids(record._replace(logprobs=spread), tokenizer)
        decision = found.positions("decision")[0]
        self.assertAlmostEqual(
            found.logprob(decision), -0.5 * len("Answer: 29852" + ".")
        )

    def test_case_b01_ids_that_were_sampled_are_not_what_encoding_gives(self):
        # The model wrote "calc" as "ca" and "lc"; the tokenizer would write it as one.
        tokenizer = Characters(4)
        pieces = [tokenizer._id("ca"), tokenizer._id("lc")]
        record = to_ids(episode("empty answer"), tokenizer)
        sampled = record._replace(
            response_ids=[*pieces, *record.response_ids],
            response_mask=[1, 1, *record.response_mask],
            logprobs=[-1.0, -2.0, *record.logprobs],
        )
        again = to_ids(from_ids(sampled, tokenizer), tokenizer)
        self.assertEqual(len(again.response_ids), len(sampled.response_ids) - 1)
        self.assertNotEqual(again.response_ids[:2], pieces)


class ATrainersRecord(unittest.TestCase):
    """It may end where the model stopped; the template's rest is added."""

    def cut(self, name: str, drop: int) -> tuple[TokenIds, Characters]:
        tokenizer = Characters()
        record = to_ids(episode(name), tokenizer)
        short = record._replace(
            response_ids=record.response_ids[:-drop],
            response_mask=record.response_mask[:-drop],
            logprobs=record.logprobs[:-drop],
        )
        return short, tokenizer

    def test_without_the_last_line_end(self):
        self.assertEqual(from_ids(*self.cut("one call", 1)), episode("one call"))

    def test_a_cut_turn_without_the_end_that_nobody_wrote(self):
        self.assertEqual(from_ids(*self.cut("truncated", 2)), episode("truncated"))


class Refused(unittest.TestCase):
    def refuse(self, told: str, name: str = "one call", **changes) -> None:
        tokenizer = Characters()
        record = to_ids(episode(name), tokenizer)
        changed = {key: change(getattr(record, key)) for key, change in changes.items()}
        with self.assertRaisesRegex((BridgeError, TrajectoryError), told):
            from_ids(record._replace(**changed), tokenizer)

    def test_lengths_that_differ(self):
        self.refuse("response_mask: ", response_mask=lambda mask: mask[:-1])
        self.refuse("logprobs: ", logprobs=lambda values: [*values, 0.0])

    def test_something_else_than_a_line_end_between_turns(self):
        def joined(ids):
            end = ids.index(END)
            return [*ids[: end + 1], START, *ids[end + 2 :]]

        self.refuse("expected a line end after a turn", prompt_ids=joined)

    def test_ids_that_are_no_turns(self):
        self.refuse("expected the start of a turn", prompt_ids=lambda ids: ids[1:])
        self.refuse("without a header", prompt_ids=lambda ids: [START, END])

    def test_a_mask_that_gives_a_tools_text_to_the_assistant(self):
        record = to_ids(episode("one call"), tokenizer := Characters())
        text = tokenizer.decode(record.response_ids[: record.response_ids.index(START)])
        header = len(text) - len(IM_END) + 1 + len("_tool\n")

        def with_the_answer(mask):
            return [*mask[:header], *[1] * len("29842"), *mask[header + 5 :]]

        self.refuse("mask 1 in a turn of role 'tool'", response_mask=with_the_answer)
        self.refuse("without a header", response_mask=lambda mask: [1] * len(mask))

    def test_a_mask_with_a_hole(self):
        self.refuse(
            "two authors in one turn", response_mask=lambda mask: [1, 0, *mask[2:]]
        )

    def test_more_turns_than_decisions(self):
        self.refuse(
            "decision 1: nothing is noted of it",
            notes=lambda notes: notes._replace(
                choices=notes.choices[:1], turn_ends=notes.turn_ends[:1]
            ),
        )

    def test_fewer_turns_or_observations_than_are_noted(self):
        self.refuse(
            "2 decisions in the ids, noted 3",
            notes=lambda notes: notes._replace(
                choices=[*notes.choices, ("start", None)],
                turn_ends=[*notes.turn_ends, "stop"],
            ),
        )
        self.refuse(
            "1 observations in the ids, noted 2",
            notes=lambda notes: notes._replace(observations=["result", "result"]),
        )
        self.refuse(
            "turn_ends: 1 values for 2 turns",
            notes=lambda notes: notes._replace(turn_ends=["stop"]),
        )

    def test_a_record_cut_anywhere_is_no_finished_episode(self):
        """A trainer cuts at its length, in a call, a tool's answer, or the last answer.

        Only what the template writes after the last end of turn may be missing.
        """
        record = to_ids(episode("one call"), tokenizer := Characters())
        for length in range(len(record.response_ids) - 1):
            short = record._replace(
                response_ids=record.response_ids[:length],
                response_mask=record.response_mask[:length],
                logprobs=record.logprobs[:length],
            )
            with self.subTest(length), self.assertRaises(BridgeError):
                from_ids(short, tokenizer)

    def test_a_tokenizer_without_the_ends_of_turns(self):
        class Without(Characters):
            def __init__(self, unknown):
                super().__init__()
                self.unknown = unknown

            def convert_tokens_to_ids(self, tokens):
                return self.unknown

        for unknown in (None, 0):  # 0: the id of what it does not know
            with self.assertRaisesRegex(BridgeError, r"<\|im_start\|>, it has none"):
                to_ids(episode("guess"), Without(unknown))
            with self.assertRaisesRegex(BridgeError, r"<\|im_start\|>, it has none"):
                from_ids(to_ids(episode("guess"), Characters()), Without(unknown))

    def test_half_of_a_surrogate_pair(self):
        said = run_script(says("\ud83d"), GOLDEN_TASK)
        with self.assertRaisesRegex(BridgeError, "half of a pair"):
            to_ids(said, Characters())

    def test_an_answer_to_a_call_that_nobody_made(self):
        self.refuse(
            "observation 0: ",
            notes=lambda notes: notes._replace(observations=[]),
        )

    def test_an_episode_without_an_assistant(self):
        trajectory = episode("guess")
        trajectory.loss_mask = [0] * len(trajectory.tokens)
        trajectory.logprobs = [None] * len(trajectory.tokens)
        trajectory.decision = [0] * len(trajectory.tokens)
        trajectory.actions, trajectory.messages = [], trajectory.messages[:1]
        with self.assertRaisesRegex(BridgeError, "golden: no token of an assistant"):
            to_ids(trajectory, Characters())


if __name__ == "__main__":
    unittest.main()
