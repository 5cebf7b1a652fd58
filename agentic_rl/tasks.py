"""Tool-Math tasks: what is asked, what is right, and what a call would need.

    {"id": "hard-001", "question": "What is 347 * 86?",
     "expression": "347 * 86", "answer": "29842"}
    {"id": "lookup-001", "question": "How much do 12 kettles cost?",
     "expression": "12 * price", "answer": "408",
     "item": "kettles", "prices": {"kettles": "34", "lamps": "19"}}

The kind of a task is read from its question, as a model would have to. No label says it.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agentic_rl.answers import answers_equal, extract_answer
from agentic_rl.calculator import MAX_BITS, CalculatorError, calculate
from agentic_rl.messages import MessageError, parse_json
from agentic_rl.values import excerpt, remembered

KINDS = ("easy", "hard", "lookup")
_A = {"easy": "an easy", "hard": "a hard", "lookup": "a lookup"}
MAX_PROBLEMS = 10  # of a file, that are told at once
PRICE = "price"  # the name that stands in an expression until the price is known

# Digits and operators. The look behind starts a run of signs once, not at each of them.
_RUN = re.compile(r"(?<![-+(])[-+(]*[0-9][-+*/%().0-9 ]*")
_THOUSANDS = re.compile(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))")  # the comma of 1,200
_SMALL_SUM = re.compile(r"[0-9](?: ?[+-] ?[0-9])+")
_PRICE = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_ARITHMETIC = re.compile(r"[0-9)]\s*(?:\*\*|//|[-+*/%])\s*[(+-]*[0-9.]")

_ITEMS = (
    "kettles",
    "lamps",
    "chairs",
    "radios",
    "clocks",
    "pillows",
    "blankets",
    "baskets",
    "mirrors",
    "ladders",
    "buckets",
    "candles",
)


class TaskError(ValueError):
    """A task that can't be used; the text names the task, the field and the reason."""


@dataclass(frozen=True)
class Task:
    """One question with its exact answer. All numbers are text, so they stay exact."""

    id: str
    question: str
    expression: str
    answer: str
    item: str | None = None
    prices: dict[str, str] | None = None

    def to_dict(self) -> dict[str, Any]:
        """The task as JSON would have it, without the fields it does not use."""
        return {key: value for key, value in asdict(self).items() if value is not None}


@remembered  # asked at the start of each episode
def kind_of(question: str) -> str:
    """easy, hard or lookup, from the words of the question alone.

    A sum of single digits is easy, any other arithmetic is hard, and a question that
    names no arithmetic needs something looked up first.
    """
    sums = _sums(question)
    if not sums:
        return "lookup"
    small = all(_SMALL_SUM.fullmatch(run.strip("() ")) for run in sums)
    return "easy" if small else "hard"


def _sums(question: str) -> list[str]:
    """The arithmetic that stands in a question, each run of it as it is written."""
    plain = _THOUSANDS.sub("", question)
    runs = [run.rstrip(" .(+-*/%") for run in _RUN.findall(plain)]
    return [run for run in runs if _ARITHMETIC.search(run)]


def one_of_each(tasks: Sequence[Task]) -> dict[str, Task]:
    """kind -> the first task of that kind."""
    return {kind_of(task.question): task for task in reversed(tasks)}


def with_price(expression: str, price: str) -> str:
    """The expression with the price in its place; a negative one in parentheses."""
    written = f"({price})" if price.startswith("-") else price
    return re.sub(rf"\b{PRICE}\b", lambda _: written, expression)


def parse_task(record: Any, where: str = "task") -> Task:
    """A checked task from a dict. Raises TaskError, which starts with ``where``.

    Prices may be whole numbers and become text. An item and prices that are both None
    are as good as none.
    """
    if not isinstance(record, dict):
        raise TaskError(f"{where}: expected an object, got {type(record).__name__}")
    if unknown := [key for key in record if key not in Task.__dataclass_fields__]:
        raise TaskError(f"{where}: unknown field {excerpt(unknown[0])}")
    for name in ("id", "question", "expression", "answer"):
        if name not in record:
            raise TaskError(f"{where}: field {name!r} is missing")
        if not isinstance(record[name], str) or not record[name]:
            raise TaskError(
                f"{where}: field {name!r}: expected text, got {excerpt(record[name])}"
            )
    prices = _parse_prices(record, where)
    task = Task(**{**record, "prices": prices})
    _check_answer(task, where)
    return task


def _parse_prices(record: dict[str, Any], where: str) -> dict[str, str] | None:
    item, prices = record.get("item"), record.get("prices")
    if item is None and prices is None:
        return None
    if not isinstance(prices, dict) or not isinstance(item, str):
        raise TaskError(f"{where}: fields 'item' and 'prices' go together")
    if item not in prices:
        raise TaskError(
            f"{where}: field 'prices': no price for the item {excerpt(item)}"
        )
    for name, price in prices.items():
        if not isinstance(name, str):
            raise TaskError(
                f"{where}: field 'prices': expected text as names, got {excerpt(name)}"
            )
        if not _is_price(price):
            raise TaskError(
                f"{where}: field 'prices': {excerpt(name)}: expected a whole number, or "
                f"a decimal number as text, got {excerpt(price)}"
            )
    return {name: str(price) for name, price in prices.items()}


def _is_price(price: Any) -> bool:
    if isinstance(price, int) and not isinstance(price, bool):
        return price.bit_length() <= MAX_BITS
    return isinstance(price, str) and _PRICE.fullmatch(price) is not None


def _check_answer(task: Task, where: str) -> None:
    kind = kind_of(task.question)
    needs_lookup = task.prices is not None
    if needs_lookup != (kind == "lookup"):
        raise TaskError(
            f"{where}: field 'question': {excerpt(task.question)} reads as {_A[kind]} "
            f"task, but the task has {'prices' if needs_lookup else 'no prices'}"
        )
    expression = task.expression
    if task.prices is not None and task.item is not None:
        expression = with_price(expression, task.prices[task.item])
        if expression == task.expression:
            raise TaskError(
                f"{where}: field 'expression': expected the word {PRICE!r} in it"
            )
    try:
        right = calculate(expression)
    except CalculatorError as error:
        raise TaskError(f"{where}: field 'expression': {error}") from None
    if task.answer != right:
        raise TaskError(
            f"{where}: field 'answer': expected {excerpt(right)}, "
            f"got {excerpt(task.answer)}"
        )
    _check_question(task, where)
    _check_fair(task, where)


def _check_question(task: Task, where: str) -> None:
    """What the question asks, where it is one sum alone, is what the expression says."""
    sums = _sums(task.question)
    if len(sums) != 1:
        return
    try:
        asked = calculate(sums[0])
    except CalculatorError:
        return
    if asked != task.answer:
        raise TaskError(
            f"{where}: field 'question': {excerpt(sums[0])} is {asked:.100}, but the "
            f"expression {excerpt(task.expression)} is {task.answer:.100}"
        )


def _check_fair(task: Task, where: str) -> None:
    """A right answer can be recognised, and copying what is no result is not one."""
    if extract_answer(f"Answer: {task.answer}") != task.answer:
        raise TaskError(f"{where}: field 'answer': too long to be recognised")
    copied = [task.expression]
    if task.prices is not None and task.item is not None:
        copied = [task.prices[task.item]]
    if any(answers_equal(task.answer, text) for text in copied):
        raise TaskError(
            f"{where}: field 'answer': {excerpt(task.answer)} can be copied, from the "
            "question or the price list, without calculating"
        )


def read_tasks(lines: Iterable[str], name: str = "tasks") -> list[Task]:
    """Tasks from JSON lines; blank lines are passed over.

    Raises TaskError naming the file (``name``), the line and the field of each problem,
    MAX_PROBLEMS of them at most.
    """
    if isinstance(lines, (str, bytes)):
        raise TaskError(
            f"{name}: expected lines of text, got one {type(lines).__name__}"
        )
    tasks: dict[str, Task] = {}
    problems: list[str] = []
    for number, line in enumerate(lines, 1):
        where = f"{name}:{number}"
        if isinstance(line, str) and not line.strip():
            continue
        try:
            task = _read_line(line, where)
            if task.id in tasks:
                raise TaskError(f"{where}: field 'id': {excerpt(task.id)} stands twice")
            tasks[task.id] = task
        except TaskError as error:
            problems.append(str(error))
            if len(problems) == MAX_PROBLEMS:
                break
    if problems:
        raise TaskError("\n".join(problems))
    if not tasks:
        raise TaskError(f"{name}: expected at least one task")
    return list(tasks.values())


def _read_line(line: Any, where: str) -> Task:
    if not isinstance(line, str):
        raise TaskError(f"{where}: expected text, got {type(line).__name__}")
    if line.startswith("\ufeff"):
        raise TaskError(f"{where}: starts with a byte order mark; save it without")
    try:
        record = parse_json(line)
    except MessageError as error:
        raise TaskError(f"{where}: {error}") from None
    return parse_task(record, where)


def write_tasks(tasks: Iterable[Task]) -> str:
    """Tasks as JSON lines."""
    return "".join(json.dumps(task.to_dict()) + "\n" for task in tasks)


def generate(
    count: int, seed: int, avoid: Iterable[Task] = (), prefix: str = ""
) -> list[Task]:
    """``count`` tasks of each kind, mixed, with no question twice.

    ``avoid`` holds tasks whose questions must not come back: held-out tasks are made
    by avoiding the training tasks, and ``prefix`` gives them ids of their own. There
    are 81 easy questions; TaskError if asked for more than are left.
    """
    if count < 0:
        raise TaskError(f"generate: expected a count of at least 0, got {count}")
    rng = random.Random(seed)
    asked = {task.question for task in avoid}
    tasks = []
    for kind, make in (("easy", _easy), ("hard", _hard), ("lookup", _lookup)):
        made = 0
        for _ in range(100 * count + 1000):
            if made == count:
                break
            task = make(rng, f"{prefix}{kind}-{made + 1:03d}")
            if task.question not in asked:
                asked.add(task.question)
                tasks.append(task)
                made += 1
        if made < count:
            raise TaskError(
                f"generate: found only {made} new {kind} questions, not {count}"
            )
    rng.shuffle(tasks)
    return tasks


def _easy(rng: random.Random, name: str) -> Task:
    return _arithmetic(name, f"{rng.randint(1, 9)} + {rng.randint(1, 9)}")


def _hard(rng: random.Random, name: str) -> Task:
    return _arithmetic(name, f"{rng.randint(101, 999)} * {rng.randint(12, 99)}")


def _arithmetic(name: str, expression: str) -> Task:
    return Task(name, f"What is {expression}?", expression, calculate(expression))


def _lookup(rng: random.Random, name: str) -> Task:
    shelf = rng.sample(_ITEMS, 3)
    prices = {item: str(rng.randint(12, 98)) for item in shelf}
    item, count = shelf[0], rng.randint(3, 39)
    expression = f"{count} * {PRICE}"
    answer = calculate(with_price(expression, prices[item]))
    return Task(
        name, f"How much do {count} {item} cost?", expression, answer, item, prices
    )
