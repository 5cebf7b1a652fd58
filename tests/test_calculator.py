"""The calculator's specification.

Expected values are worked out by hand, with the reason beside them, or come from an
oracle: a random expression is built as a tree, printed for the calculator, and
evaluated as a tree with Fraction. The oracle shares no code with the calculator.
"""

from __future__ import annotations

import faulthandler
import inspect
import random
import re
import sys
import unittest
from fractions import Fraction

from agentic_rl.calculator import (
    MAX_BITS,
    MAX_DEPTH,
    MAX_LENGTH,
    CalculatorError,
    calculate,
)

HANG_SECONDS = 60


class CalculatorCase(unittest.TestCase):
    """A test that hangs is killed, with a traceback; no test asserts a time."""

    def setUp(self) -> None:
        faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)

    def tearDown(self) -> None:
        faulthandler.cancel_dump_traceback_later()

    def check(self, *pairs: tuple[str, str]) -> None:
        for expression, expected in pairs:
            with self.subTest(expression=expression):
                self.assertEqual(calculate(expression), expected)

    def check_error(self, expression: object, *parts: str) -> None:
        with self.subTest(expression=ascii(expression)[:60]):
            with self.assertRaises(CalculatorError) as caught:
                calculate(expression)
            for part in parts:
                self.assertIn(part, str(caught.exception))


class ValuesTest(CalculatorCase):
    def test_arithmetic_is_exact(self) -> None:
        self.check(
            ("347 * 86", "29842"),  # 347 * 80 + 347 * 6 = 27760 + 2082
            ("0.1+0.2", "0.3"),  # binary floats give 0.30000000000000004
            ("1/3 + 1/6", "0.5"),  # 2/6 + 1/6
            ("1/3*3", "1"),
            ("10**17 + 1 - 10**17", "1"),  # a float loses the 1
            ("2**100", "1267650600228229401496703205376"),
            ("10**1000", "1" + "0" * 1000),
        )

    def test_precedence_and_associativity_are_pythons(self) -> None:
        self.check(
            ("2+3*4", "14"),
            ("(2+3)*4", "20"),
            ("10-4-3", "3"),  # (10 - 4) - 3, not 10 - (4 - 3) = 9
            ("16/4/2", "2"),  # (16 / 4) / 2, not 16 / (4 / 2) = 8
            ("7//2*2", "6"),  # (7 // 2) * 2
            ("2*7%4", "2"),  # (2 * 7) % 4, not 2 * (7 % 4) = 6
            ("2**3**2", "512"),  # 2 ** 9, not 8 ** 2 = 64
            ("-2**2", "-4"),  # -(2 ** 2)
            ("(-2)**2", "4"),
            ("2**-1", "0.5"),
            ("2**-1**2", "0.5"),  # 2 ** -(1 ** 2)
            ("2**-1*4", "2"),  # (2 ** -1) * 4
            ("-7//2", "-4"),  # (-7) // 2, not -(7 // 2) = -3
            ("2--3", "5"),
            ("-+-4", "4"),
            ("3*-2", "-6"),
        )

    def test_floor_division_and_remainder_round_towards_minus_infinity(self) -> None:
        self.check(
            ("7//2", "3"),
            ("-7//2", "-4"),
            ("7//-2", "-4"),
            ("7%3", "1"),
            ("-7%3", "2"),  # -7 = 3 * -3 + 2: the remainder has the divisor's sign
            ("7%-3", "-2"),  # 7 = -3 * -3 - 2
            ("7.5//2", "3"),
            ("7.5%2", "1.5"),
            ("-1/2//1", "-1"),
            ("1%(1/3)", "0"),  # a float remainder is 0.333...
        )

    def test_powers_take_integer_exponents_of_any_form(self) -> None:
        self.check(
            ("0**0", "1"),  # as in Python
            ("2**(4/2)", "4"),
            ("2**2.0", "4"),
            ("(2/3)**2", "4/9"),
            ("(2/3)**-2", "2.25"),  # 9/4
            ("(-2)**-3", "-0.125"),
            ("1**(10**1000)", "1"),  # the exponent is large, the result isn't
            ("(-1)**(10**1000+1)", "-1"),
            ("0**(10**1000)", "0"),
        )

    def test_numbers_and_white_space(self) -> None:
        self.check(
            ("1.50", "1.5"),
            (".5", "0.5"),
            ("2.", "2"),
            ("007", "7"),
            (" \t1 +\t2 ", "3"),
            ("+5", "5"),
        )

    def test_results_are_integers_decimals_or_reduced_fractions(self) -> None:
        self.check(
            ("4/2", "2"),
            ("1/4", "0.25"),
            ("1/3", "1/3"),
            ("2/6", "1/3"),
            ("-1/4", "-0.25"),
            ("-2/6", "-1/3"),
            ("1/80", "0.0125"),  # 80 = 2**4 * 5: four places
            ("1/1024", "0.0009765625"),
            ("1/3125", "0.00032"),  # 5**-5 = 2**5 / 10**5
            ("7/12", "7/12"),  # 12 has the factor 3
            ("100.00", "100"),
            ("-0", "0"),
            ("0*-1.5", "0"),
            ("1.5-1.5", "0"),
        )


class ErrorsTest(CalculatorCase):
    def test_division_by_zero(self) -> None:
        for expression in ("1/0", "1//0", "1%0", "0**-1", "1/(2-2)", "1/0.0", "0/0"):
            self.check_error(expression, "division by zero")

    def test_fractional_exponent(self) -> None:
        self.check_error("2**0.5", "exponent", "integer", "0.5")
        self.check_error("2**(1/3)", "exponent", "integer", "1/3")

    def test_unexpected_characters_are_named_with_their_position(self) -> None:
        self.check_error("1,000", "','", "position 2")
        self.check_error("1e5", "'e'", "position 2")
        self.check_error("2 + x", "'x'", "position 5")
        self.check_error("1\x002", "\\x00", "position 2")
        self.check_error("1\n+2", "\\n", "position 2")
        self.check_error("1\u00a0+2", "\\xa0", "position 2")  # no-break space
        self.check_error("\u0663+1", "\\u0663", "position 1")  # Arabic-Indic three
        self.check_error("1+\uff13", "\\uff13", "position 3")  # fullwidth three
        self.check_error("2\u00b2", "\\xb2", "position 2")  # superscript two
        self.check_error("\ud800", "\\ud800", "position 1")  # a lone surrogate
        self.check_error("__import__('os')", "'_'", "position 1")

    def test_malformed_expressions(self) -> None:
        self.check_error("", "expected a number", "end")
        self.check_error("  \t", "expected a number", "end")
        self.check_error("1+", "expected a number", "end")
        self.check_error("*3", "expected a number", "'*'", "position 1")
        self.check_error("2 3", "expected an operator", "'3'", "position 3")
        self.check_error("2(3)", "expected an operator", "'('", "position 2")
        self.check_error("1.2.3", "expected an operator", "'.'", "position 4")
        self.check_error(".", "expected a number", "'.'", "position 1")
        self.check_error("()", "expected a number", "')'", "position 2")
        self.check_error("(1", "'('", "closed")
        self.check_error("1)", "')'", "position 2")
        self.check_error("2***3", "expected a number", "'*'", "position 4")
        self.check_error("1 / / 2", "expected a number", "'/'", "position 5")

    def test_other_types_than_text(self) -> None:
        for value, kind in ((None, "NoneType"), (15, "int"), (b"1", "bytes")):
            self.check_error(value, "text", kind)
        self.check_error(["1"], "text", "list")

    def test_messages_stay_short(self) -> None:
        with self.assertRaises(CalculatorError) as caught:
            calculate("2**(1/2**4000)")  # an exponent of four thousand decimals
        self.assertLess(len(str(caught.exception)), 200)


class BoundsTest(CalculatorCase):
    def test_values_of_4096_bits_are_the_largest(self) -> None:
        self.assertEqual(MAX_BITS, 4096)
        largest = 2**4095 + (2**4095 - 1)
        self.check(
            ("2**4095", str(2**4095)),  # 4096 bits: a one and 4095 zeros
            ("2**4095+(2**4095-1)", str(largest)),
            (f"-{largest}", f"-{largest}"),
            ("2**-4095", calculate("1/2**4095")),
        )
        self.check_error("2**4096", "too large", "4096")
        self.check_error("2**4095+2**4095", "too large", "4096")
        self.check_error("2**-4096", "too large", "4096")
        self.check_error(str(largest + 1), "too large", "4096")

    def test_powers_are_bounded_before_they_are_computed(self) -> None:
        for expression in (
            "9**9**9",
            "9**9**9**9",
            "(((7**60)**60)**60)**60",
            "0.5**10**1000",
            "1.5**-(10**1000)",
            "(-3)**(10**1000)",
            "2**2**2**2**2**2",
        ):
            self.check_error(expression, "too large", "4096")

    def test_products_sums_and_quotients_are_bounded(self) -> None:
        self.check_error("10**1000*10**1000", "too large", "4096")
        self.check_error("1/10**1000/10**1000", "too large", "4096")
        self.check_error("1/3**2000+1/7**1000", "too large", "4096")  # denominators

    def test_literals_are_bounded(self) -> None:
        self.check_error("9" * 1234, "too large", "4096")  # 10**1234 is 4100 bits
        self.check(("9" * 1233, "9" * 1233))
        self.check_error("0." + "0" * 3000 + "1", "too large", "4096")
        self.check_error("." + "3" * 4100, "too large", "4096")
        self.check(("0." + "0" * 1232 + "1", "0." + "0" * 1232 + "1"))
        # A long literal can be a small value: 1 + 4000 zeros after the point.
        self.check(("1." + "0" * 4000, "1"))

    def test_long_expressions_are_refused_by_our_own_message(self) -> None:
        at_limit = "1" + " " * (MAX_LENGTH - 1)
        self.check((at_limit, "1"))
        self.check_error(at_limit + " ", "too long", "4201", "4200")
        self.check_error("1" * 5000, "too long", "5000", "4200")

    def test_nesting_is_bounded(self) -> None:
        for unit in ("(", "-", "+", "2**", "-(", "1-(", "(-"):
            self.check_error(unit * 1000 + "1", "too deep", str(MAX_DEPTH))
        for unit in ("(", "-", "2**", "(-2+"):
            self.check_error(unit * 5000 + "1")
        self.check(
            ("(" * MAX_DEPTH + "7" + ")" * MAX_DEPTH, "7"),
            ("-" * MAX_DEPTH + "7", "7"),  # an even number of signs
            ("1" + "**1" * MAX_DEPTH, "1"),
            # Operators that group to the left wait for an operand, but don't nest.
            ("(1+2*" * MAX_DEPTH + "0" + ")" * MAX_DEPTH, str(2**MAX_DEPTH - 1)),
            ("+".join(["1"] * 1000), "1000"),  # long, but not nested
            ("*".join(["(1)"] * 1000), "1"),
        )
        self.check_error("(" * (MAX_DEPTH + 1) + "7" + ")" * (MAX_DEPTH + 1), "deep")

    def test_a_deep_caller_may_calculate(self) -> None:
        frames_left = 40  # fewer than a parser that recurses needs for 64 levels

        def descend(frames: int) -> str:
            if frames == 0:
                return calculate("(" * MAX_DEPTH + "1/3" + ")" * MAX_DEPTH)
            return descend(frames - 1)

        used = len(inspect.stack(0))
        self.assertEqual(descend(sys.getrecursionlimit() - used - frames_left), "1/3")

    def test_the_longest_results_print_and_fit_back_in(self) -> None:
        longest = "-(2**4095 + (2**4095 - 1)) * 2**-4095"
        result = calculate(longest)
        # Just below 2: a sign, a digit, a point and 4095 decimals.
        self.assertEqual(len(result), 4098)
        self.assertTrue(result.startswith("-1.999"))
        # 5 to an odd power ends in 125, so 2**-4095 does, and 2 less it in 875.
        self.assertTrue(result.endswith("875"))
        for expression in (
            longest,
            "1/2**4095",
            "(10**1000+1)/2**4095",
            "1/5**1763",  # the largest power of five below 2**4096 is 5**1763
            "2**4095/5**1763",
            "1/10**1233",
            "2**4095/3**2583",
            "-3**2583/2**4095",
        ):
            with self.subTest(expression=expression):
                result = calculate(expression)
                self.assertLessEqual(len(result), MAX_LENGTH)
                self.assertEqual(calculate(result), result)


# ------------------------------------------------------------------ the exact oracle


class Refused(Exception):
    """The oracle's verdict on a tree without a value: which error is due."""


LEVELS = {"+": 1, "-": 1, "*": 2, "/": 2, "//": 2, "%": 2, "sign": 3, "**": 4}
ATOM = 5

OPERATIONS = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": lambda left, right: left / right,
    "//": lambda left, right: Fraction((left / right).__floor__()),
    "%": lambda left, right: left - right * (left / right).__floor__(),
    "**": lambda left, right: left ** int(right),
}


def random_tree(rng: random.Random, depth: int) -> tuple:
    if depth == 0 or rng.random() < 0.15:
        whole = str(rng.choice((0, 1, 2, 3, 7, 10, 64, 99, 1000003)))
        return ("literal", whole + rng.choice(("", "", "", ".", ".5", ".25", ".03")))
    kind = rng.choice(("+", "-", "*", "*", "/", "/", "//", "%", "sign", "**"))
    if kind == "sign":
        return ("sign", rng.choice("+--"), random_tree(rng, depth - 1))
    if kind == "**":
        return ("**", random_tree(rng, depth - 1), random_exponent(rng))
    return (kind, random_tree(rng, depth - 1), random_tree(rng, depth - 1))


def random_exponent(rng: random.Random) -> tuple:
    small = ("literal", str(rng.randrange(4)))
    return rng.choice(
        (
            small,
            ("literal", rng.choice(("2", "3", "4", "400"))),
            ("sign", "-", small),
            ("**", small, ("literal", "3")),
            ("sign", "-", ("**", ("literal", "2"), small)),
            ("/", small, ("literal", "2")),
        )
    )


def evaluate(tree: tuple) -> Fraction:
    """The value of a tree, left operand first; every value is held to MAX_BITS."""
    kind = tree[0]
    if kind == "literal":
        return Fraction(tree[1] + "0" if tree[1].endswith(".") else tree[1])
    if kind == "sign":
        value = evaluate(tree[2])
        return -value if tree[1] == "-" else value
    left, right = evaluate(tree[1]), evaluate(tree[2])
    if kind == "**" and right.denominator != 1:
        raise Refused("exponent")
    divides = kind in ("/", "//", "%")
    if (divides and right == 0) or (kind == "**" and left == 0 and right < 0):
        raise Refused("division by zero")
    value = OPERATIONS[kind](left, right)
    if max(abs(value.numerator), value.denominator) >= 2**MAX_BITS:
        raise Refused("too large")
    return value


def to_text(tree: tuple, rng: random.Random, lowest: int = 0) -> str:
    """Print a tree that must bind at least at level ``lowest``, or in parentheses."""
    kind = tree[0]
    space = rng.choice(("", "", " ", "\t"))
    if kind == "literal":
        level, text = ATOM, tree[1]
    elif kind == "sign":
        level, text = 3, tree[1] + space + to_text(tree[2], rng, 3)
    else:
        level = LEVELS[kind]
        # The side to which an operator groups takes its equals without parentheses;
        # the exponent of ** may also start with a sign.
        left_lowest, right_lowest = (ATOM, 3) if kind == "**" else (level, level + 1)
        left = to_text(tree[1], rng, left_lowest)
        right = to_text(tree[2], rng, right_lowest)
        text = left + space + kind + space + right
    if level < lowest or rng.random() < 0.05:
        return "(" + text + ")"
    return text


class OracleTest(CalculatorCase):
    EXPRESSIONS = 30_000

    def test_random_expressions_match_the_oracle_exactly(self) -> None:
        rng = random.Random(20240501)
        seen = {"value": 0, "division by zero": 0, "exponent": 0, "too large": 0}
        for _ in range(self.EXPRESSIONS):
            tree = random_tree(rng, rng.randrange(1, 6))
            text = to_text(tree, rng)
            try:
                expected = evaluate(tree)
            except Refused as refusal:
                seen[str(refusal)] += 1
                with self.assertRaisesRegex(CalculatorError, str(refusal), msg=text):
                    calculate(text)
                continue
            seen["value"] += 1
            result = calculate(text)
            self.assertEqual(Fraction(result), expected, text)
            self.assert_canonical(result)
        # The generator really reaches every kind of outcome.
        self.assertGreater(seen["value"], self.EXPRESSIONS // 2)
        self.assertGreater(min(seen.values()), 20, seen)

    def assert_canonical(self, result: str) -> None:
        """One text for each value: idempotent, and in one of the three forms."""
        self.assertEqual(calculate(result), result)
        integer, decimal = r"-?(0|[1-9]\d*)", r"-?(0|[1-9]\d*)\.\d*[1-9]"
        if re.fullmatch(integer, result) or re.fullmatch(decimal, result):
            self.assertNotEqual(result, "-0")
            return
        numerator, denominator = map(int, result.split("/"))
        self.assertEqual(str(Fraction(numerator, denominator)), result)
        self.assertNotEqual(10 ** denominator.bit_length() % denominator, 0, result)

    def test_identities(self) -> None:
        rng = random.Random(7)
        for _ in range(1000):
            a = f"({rng.randint(-99, 99)}/{rng.randint(1, 99)})"
            b = f"({rng.randint(-99, 99)}/{rng.randint(1, 99)})"
            n = rng.randint(1, 9)
            self.assertEqual(calculate(f"{a}+{b}-{b}"), calculate(a))
            self.assertEqual(calculate(f"({a}+{b})*{n}"), calculate(f"{a}*{n}+{b}*{n}"))
            self.assertEqual(calculate(f"{a}**{n}*{a}"), calculate(f"{a}**({n}+1)"))
            if calculate(b) != "0":
                self.assertEqual(calculate(f"{a}/{b}*{b}"), calculate(a))
                self.assertEqual(calculate(f"{a}//{b}*{b}+{a}%{b}"), calculate(a))


# ------------------------------------------------------------------- hostile strings


class HostileTest(CalculatorCase):
    STRINGS = 20_000
    ALPHABET = (
        "0123456789.+-*/%() \t" * 2 + "eE_,xj\x00\n\u0663\uff13\u00b2\u2212\ud800'"
    )

    def assert_value_or_error(self, expression: str) -> bool:
        """True for a value; anything but a value or a CalculatorError fails."""
        try:
            result = calculate(expression)
        except CalculatorError as error:
            self.assertTrue(str(error))
            self.assertLess(len(str(error)), 200)
            return False
        except Exception as error:  # the point of the test, so it names the input
            self.fail(f"{type(error).__name__} for {ascii(expression)[:100]}")
        self.assertEqual(calculate(result), result, ascii(expression)[:100])
        return True

    def test_random_characters(self) -> None:
        rng = random.Random(1)
        outcomes = [
            self.assert_value_or_error(
                "".join(rng.choices(self.ALPHABET, k=rng.randrange(1, 12)))
            )
            for _ in range(self.STRINGS // 2)
        ]
        self.assertEqual(set(outcomes), {True, False})

    def test_mutated_expressions(self) -> None:
        rng = random.Random(2)
        outcomes = []
        for _ in range(self.STRINGS // 2):
            text = list(to_text(random_tree(rng, 4), rng))
            for _ in range(rng.randrange(1, 4)):
                place = rng.randrange(len(text) + 1)
                cut = rng.randrange(3)
                text[place : place + cut] = rng.choices(
                    self.ALPHABET, k=rng.randrange(3)
                )
            outcomes.append(self.assert_value_or_error("".join(text)))
        self.assertEqual(set(outcomes), {True, False})

    def test_repeated_pieces(self) -> None:
        pieces = (
            "(",
            ")",
            "-",
            "+",
            "*",
            "**",
            "/",
            "//",
            "%",
            ".",
            "0",
            "9",
            "1.1",
            "()",
        )
        pieces += (
            "2**",
            "-2**",
            "(2**",
            "2**-",
            "9**9",
            "(-",
            "1/",
            "1/3+",
            "\x00",
            "e",
        )
        for piece in pieces:
            for other in ("", "1", "1)", "**9", ".5", "/3"):
                for count in (1, 2, 63, 64, 65, 500, 1300, 2000, 4199, 5000):
                    self.assert_value_or_error(piece * count + other)
                    self.assert_value_or_error(other + piece * count)

    def test_long_chains_of_large_values(self) -> None:
        large = (
            "3**2500/2**4000",
            "2**2000/3**1200",
            "1/7**1400",
            "2**4095",
            "9" * 1200,
        )
        for start in large:
            for step in ("*1.1/1.1", "+1/3-1/3", "%1.7", "//1.7", "-1", "*5/5", "**1"):
                self.assert_value_or_error(start + step * (2500 // len(step)))


if __name__ == "__main__":
    unittest.main()
