"""Tasks: the kind is read from the question, the answer is exact, faults are named."""

from __future__ import annotations

import faulthandler
import json
import unittest

from agentic_rl.calculator import calculate
from agentic_rl.messages import parse_json
from agentic_rl.tasks import (
    KINDS,
    MAX_PROBLEMS,
    TaskError,
    generate,
    kind_of,
    parse_task,
    read_tasks,
    with_price,
    write_tasks,
)

HARD = {
    "id": "h1",
    "question": "What is 12 * 34?",
    "expression": "12 * 34",
    "answer": "408",
}
LOOKUP = {
    "id": "l1",
    "question": "How much do 12 kettles cost?",
    "expression": "12 * price",
    "answer": "408",
    "item": "kettles",
    "prices": {"kettles": 34, "lamps": "19"},
}


class Kind(unittest.TestCase):
    def test_the_words_decide(self):
        for question, kind in (
            ("What is 3 + 4?", "easy"),
            ("3+4-1=?", "easy"),
            ("What is 347 * 86?", "hard"),
            ("What is 3 * 4?", "hard"),  # a sum of single digits is easy, a product not
            ("Compute 12 + 7.", "hard"),
            ("Compute 3 + 4 * 5.", "hard"),
            ("1.5 + 2?", "hard"),
            ("(3 + 4) ** 2?", "hard"),
            # Readers write in their own words, and punctuate.
            ("Compute 3 + 4.", "easy"),
            ("What is 3 + 4 (in your head)?", "easy"),
            ("(3 + 4)", "easy"),
            ("Quick: 9-5 - no tools!", "easy"),
            ("What is 12 * 3 + 4?", "hard"),  # ends like a small sum, is none
            ("What is 123 + 4 + 5?", "hard"),
            ("2 * (3 + 4)", "hard"),
            ("What is 3 + 4, and what is 12 * 13?", "hard"),
            ("3 + 4.5", "hard"),
            ("What is seven plus eight?", "lookup"),  # names no arithmetic
            ("How much do 12 kettles cost?", "lookup"),
            ("What do 3 lamps cost?", "lookup"),
        ):
            self.assertEqual(kind_of(question), kind, question)

    def test_generated_tasks_read_as_what_they_were_made_to_be(self):
        for task in generate(40, seed=3):
            self.assertEqual(kind_of(task.question), task.id.split("-")[0])


class Generating(unittest.TestCase):
    def test_a_seed_gives_the_same_tasks_and_another_gives_others(self):
        self.assertEqual(generate(10, seed=1), generate(10, seed=1))
        self.assertNotEqual(generate(10, seed=1), generate(10, seed=2))

    def test_as_many_of_each_kind_no_question_twice_none_that_is_avoided(self):
        training = generate(30, seed=0)
        others = generate(30, seed=1, avoid=training)
        questions = [task.question for task in training + others]
        self.assertEqual(len(set(questions)), 2 * 3 * 30)
        for kind in KINDS:
            self.assertEqual(sum(kind_of(t.question) == kind for t in training), 30)

    def test_every_generated_task_is_a_good_task(self):
        for task in generate(40, seed=5):
            self.assertEqual(parse_task(task.to_dict()), task)
            price = task.prices[task.item] if task.item else "0"
            self.assertEqual(calculate(with_price(task.expression, price)), task.answer)

    def test_a_prefix_gives_ids_of_their_own_to_the_same_tasks(self):
        plain, named = generate(3, seed=1), generate(3, seed=1, prefix="held-out-")
        self.assertEqual([f"held-out-{t.id}" for t in plain], [t.id for t in named])
        self.assertEqual([t.question for t in plain], [t.question for t in named])
        for task in generate(2, seed=1, avoid=plain, prefix="new "):
            self.assertRegex(task.id, "^new (easy|hard|lookup)-00[12]$")

    def test_none_and_fewer_than_none(self):
        self.assertEqual(generate(0, seed=0), [])
        with self.assertRaisesRegex(TaskError, "at least 0, got -1"):
            generate(-1, seed=0)

    def test_more_easy_questions_than_there_are(self):
        with self.assertRaisesRegex(TaskError, "easy questions, not 82"):
            generate(82, seed=0)


class Reading(unittest.TestCase):
    def fault(self, **changes):
        record = {**LOOKUP, **changes}
        record = {key: value for key, value in record.items() if value is not ...}
        with self.assertRaises(TaskError) as caught:
            read_tasks(["\n", json.dumps(record)], "mine.jsonl")
        return str(caught.exception)

    def test_there_and_back(self):
        tasks = generate(5, seed=0)
        self.assertEqual(read_tasks(write_tasks(tasks).splitlines()), tasks)

    def test_prices_may_be_whole_numbers(self):
        self.assertEqual(parse_task(LOOKUP).prices, {"kettles": "34", "lamps": "19"})

    def test_a_price_may_have_decimals_and_then_it_is_text(self):
        changed = {**LOOKUP, "prices": {"kettles": "2.50"}, "answer": "30"}
        self.assertEqual(parse_task(changed).prices, {"kettles": "2.50"})

    def test_the_price_is_put_in_as_it_stands(self):
        self.assertEqual(with_price("12 * price", "34"), "12 * 34")
        self.assertEqual(with_price("12 * price", r"\1"), r"12 * \1")
        self.assertEqual(with_price("prices", "34"), "prices")

    def test_each_fault_names_file_line_and_field(self):
        for changes, named in (
            ({"id": ""}, "'id'"),
            ({"question": ...}, "'question'"),
            ({"question": "What is 3 + 4?"}, "'question'"),
            ({"answer": "409"}, "'answer': expected '408', got '409'"),
            ({"answer": 408}, "'answer'"),
            ({"expression": "12 * "}, "'expression'"),
            ({"expression": "12 * 34"}, "'expression': expected the word 'price'"),
            ({"item": "clocks"}, "'prices': no price for the item 'clocks'"),
            ({"item": ...}, "'item' and 'prices' go together"),
            ({"prices": []}, "'item' and 'prices' go together"),
            ({"prices": {"kettles": 3.4}}, "'prices': 'kettles'"),
            ({"prices": {"kettles": True}}, "'prices': 'kettles'"),
            ({"prices": {"kettles": "cheap"}}, "'prices': 'kettles'"),
            ({"prices": {"kettles": "30 + 4"}}, "'prices': 'kettles'"),  # 12 * 30 + 4
            ({"prices": {"kettles": "\\1"}}, "'prices': 'kettles'"),
            ({"prices": {"kettles": 34, "lamps": None}}, "'prices': 'lamps'"),
            ({"prices": ...}, "'item' and 'prices' go together"),
            ({"item": 7}, "'item' and 'prices' go together"),
            ({"id": ...}, "'id'"),
            ({"question": 7}, "'question'"),
            ({"expression": ...}, "'expression'"),
            ({"expression": "12 * price / 0"}, "'expression': division by zero"),
            ({"answer": ...}, "'answer'"),
            ({"price": 1}, "unknown field 'price'"),
            ({"prices": {"kettles": 10**2000}}, "got 1000"),  # beyond the calculator
            ({"answer": "4" * 10**5}, "got '4444"),
        ):
            message = self.fault(**changes)
            self.assertTrue(message.startswith("mine.jsonl:2: "), message)
            self.assertIn(named, message)

    def test_fields_of_other_types_than_text_are_named_too(self):
        """JSON has none, but a record that a program made may."""
        for changes, named in (
            ({7: 1, "x": 2, None: 3}, "unknown field 7"),
            ({"x": 2, 7: 1}, "unknown field 'x'"),
            ({"prices": {"kettles": 34, 7: 1}}, "expected text as names, got 7"),
            ({"prices": {"kettles": 10**5000}}, "'kettles': .*got <int>"),
        ):
            with self.assertRaisesRegex(TaskError, f"^task: .*{named}"):
                parse_task({**LOOKUP, **changes})

    def test_an_item_and_prices_may_both_be_null(self):
        task = parse_task({**HARD, "item": None, "prices": None})
        self.assertEqual(task.to_dict(), HARD)

    def test_an_error_stays_short_whatever_it_quotes(self):
        for changes in (
            {"id": ["x"] * 10**5},
            {"question": "3 + 4 " * 10**4},
            {"answer": "4" * 10**5},
            {"x" * 10**5: 1},
        ):
            self.assertLess(len(self.fault(**changes)), 400)

    def test_the_work_grows_with_the_question_and_not_with_its_square(self):
        """Every sign here could open a number; a square would meet the watchdog."""
        faulthandler.dump_traceback_later(60, exit=True)
        self.addCleanup(faulthandler.cancel_dump_traceback_later)
        for sign in "-+( ":
            self.assertEqual(kind_of(sign * 500_000 + "?"), "lookup")

    def task(self, question, expression, answer, **more):
        record = {"id": "t", "question": question, "expression": expression}
        return parse_task({**record, "answer": answer, **more})

    def test_a_question_and_its_expression_must_agree(self):
        with self.assertRaisesRegex(TaskError, "'question': '3 \\+ 4' is 7"):
            self.task("What is 3 + 4?", "347 * 86", "29842")
        for question in ("What is (3 + 4) * 2?", "(3 + 4) * 2 = ?", "Try 2 * (3 + 4)."):
            self.assertEqual(self.task(question, "2 * (3 + 4)", "14").answer, "14")

    def test_an_answer_that_could_be_copied_is_refused(self):
        prices = {"item": "kettle", "prices": {"kettle": "34"}}
        with self.assertRaisesRegex(TaskError, "'34' can be copied"):
            self.task("How much does 1 kettle cost?", "1 * price", "34", **prices)
        with self.assertRaisesRegex(TaskError, "'1/3' can be copied"):
            self.task("What is 1 / 3?", "1/3", "1/3")

    def test_an_answer_too_long_to_be_recognised_is_refused(self):
        power = calculate("2 ** 4000")
        with self.assertRaisesRegex(TaskError, "too long to be recognised"):
            self.task("What is 2 ** 4000?", "2 ** 4000", power)

    def test_a_negative_price_keeps_its_sign_under_any_operator(self):
        prices = {"item": "debts", "prices": {"debts": "-3"}}
        task = self.task("What do the squared debts cost?", "price ** 2", "9", **prices)
        self.assertEqual(with_price(task.expression, "-3"), "(-3) ** 2")

    def test_all_faults_are_told_at_once_and_a_flood_of_them_is_not(self):
        with self.assertRaises(TaskError) as raised:
            read_tasks(["{", "{}", ""], "f")
        said = "f:1: not valid JSON\nf:2: field 'id' is missing"
        self.assertEqual(str(raised.exception), said)
        with self.assertRaises(TaskError) as raised:
            read_tasks(["{"] * 1000, "f")
        self.assertEqual(len(str(raised.exception).splitlines()), MAX_PROBLEMS)

    def test_a_comma_of_thousands_is_no_border_of_a_number(self):
        record = {
            "id": "t",
            "question": "What is 1,200 * 3?",
            "expression": "1200 * 3",
            "answer": "3600",
        }
        self.assertEqual(parse_task(record).answer, "3600")
        for question, kind in (("Is it 1,200,300 + 4?", "hard"), ("3, 4 + 5?", "easy")):
            self.assertEqual(kind_of(question), kind)

    def test_what_is_no_list_of_lines_or_has_a_byte_order_mark(self):
        with self.assertRaisesRegex(TaskError, "tasks.jsonl: expected lines"):
            read_tasks("tasks.jsonl", "tasks.jsonl")
        with self.assertRaisesRegex(TaskError, "mine:2: expected text, got bytes"):
            read_tasks([json.dumps(HARD), json.dumps(HARD).encode()], "mine")
        with self.assertRaisesRegex(TaskError, "mine:1: .*byte order mark"):
            read_tasks(["\ufeff" + json.dumps(HARD)], "mine")

    def test_what_is_no_json_no_object_or_no_task_at_all(self):
        for lines, said in (
            (["{"], "mine:1: not valid JSON"),
            (["[]"], "mine:1: expected an object, got list"),
            (
                [json.dumps(HARD), "", json.dumps(HARD)],
                "mine:3: field 'id': 'h1' stands twice",
            ),
            (["", " "], "mine: expected at least one task"),
        ):
            with self.assertRaises(TaskError) as caught:
                read_tasks(lines, "mine")
            self.assertEqual(str(caught.exception), said)

    def test_json_written_by_others_is_read_strictly(self):
        self.assertEqual(parse_task(parse_json(json.dumps(HARD))).answer, "408")


if __name__ == "__main__":
    unittest.main()
