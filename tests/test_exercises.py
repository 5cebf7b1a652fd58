"""The exercises: the solutions pass, wrong answers fail for their own reason.

A wrong answer below is what somebody could well write. It names the property that has to
catch it, so every property is held to catch something, and to be the first that does.
"""

from __future__ import annotations

import ast
import bisect
import dataclasses
import doctest
import functools
import inspect
import itertools
import json
import math
import operator
import os
import re
import runpy
import statistics
import subprocess
import sys
import time
import unittest
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from agentic_rl.cli import COMMANDS, check
from agentic_rl.cli.arguments import read_arguments
from agentic_rl.conventions import VERL
from agentic_rl.exercises import CHAPTERS, chapter_02
from agentic_rl.exercises.grading import (
    DONE,
    FAILED,
    NOT_YET,
    UNCHANGED,
    apart,
    judge,
    kind,
)
from agentic_rl.exercises.isolated import (
    ENDS,
    LIVES,
    MISSING,
    NO_TEXT,
    Unreadable,
    decoded,
    results_in,
    understood,
    uses,
)
from tests.pages import (
    FULL_WIDTH,
    HAN,
    MACHINE,
    NAMES,
    ROOT,
    code_blocks,
    headings,
    links,
    prose,
    read,
    shapes,
    tables,
    values,
)
from tests.support import InFolder, command
from tests.test_architecture import imported

FOLDER = ROOT / "exercises"
EXERCISES = {one.name: one for chapter in CHAPTERS.values() for one in chapter}


@functools.cache
def functions(folder: Path) -> dict[str, Callable[..., Any]]:
    """The functions of all the chapters in a folder, by name."""
    found: dict[str, Callable[..., Any]] = {}
    for path in sorted(folder.glob("chapter_*.py")):
        found |= {
            name: value
            for name, value in runpy.run_path(str(path)).items()
            if name in EXERCISES
        }
    return found


SOLUTIONS = functions(FOLDER / "solutions")
softmax, score = SOLUTIONS["softmax"], SOLUTIONS["score"]
decode, scaled = SOLUTIONS["decode_arguments"], SOLUTIONS["group_advantages"]


class Attempt(NamedTuple):
    """A wrong answer to an exercise, and how the property that catches it begins."""

    exercise: str
    must: str
    function: Callable[..., Any]


ATTEMPTS: list[Attempt] = []


def fails(exercise: str, must: str) -> Callable[..., Callable[..., Any]]:
    """A decorator: the function is a wrong answer, caught by "it must ..."."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        ATTEMPTS.append(Attempt(exercise, must, function))
        return function

    return add


# ------------------------------------------------------------------ chapter 00


@fails("exact_return", "agree with the only episode")
def adds_both_states(p, q):
    return p * 1.0 + q * 3.0


@fails("exact_return", "agree with the only episode")
def always_takes_when_ready(p, q):
    return p * 1.0 + (1 - p) * 3.0


@fails("exact_return", "agree with the only episode")
def the_better_plan(p, q):
    return max(1.0, 3.0 * q)


@fails("exact_return", "be the mean over the three episodes")
def made_greedy(p, q):
    return 1.0 if p >= 0.5 else 3.0 * round(q)


@fails("softmax", "give positive numbers that add up to 1")
def not_divided(logits):
    return [math.exp(logit) for logit in logits]


@fails("softmax", "give positive numbers that add up to 1")
def divided_by_the_plain_sum(logits):
    return [logit / sum(logits) for logit in logits]


@fails("softmax", "turn a difference of logits into odds")
def base_two(logits):
    weights = [2**logit for logit in logits]
    return [weight / sum(weights) for weight in weights]


@fails("softmax", "see only differences")
def held_below_twenty(logits):
    weights = [math.exp(min(logit, 20.0)) for logit in logits]
    return [weight / sum(weights) for weight in weights]


@fails("softmax", "work where exp of a logit")
def without_a_shift(logits):
    weights = [math.exp(logit) for logit in logits]
    return [weight / sum(weights) for weight in weights]


@fails("softmax", "work where exp of a logit")
def shifted_by_the_mean(logits):
    middle = sum(logits) / len(logits)
    return without_a_shift([logit - middle for logit in logits])


@fails("softmax", "work where exp of a logit")
def shifted_by_the_first(logits):
    return without_a_shift([logit - logits[0] for logit in logits])


@fails("log_prob", "be the natural logarithm")
def the_probability_itself(logits, action):
    return softmax(logits)[action]


@fails("log_prob", "be the natural logarithm")
def in_bits(logits, action):
    return math.log2(softmax(logits)[action])


@fails("log_prob", "be the natural logarithm")
def never_normalised(logits, action):
    return logits[action] - max(logits)


@fails("log_prob", "stay exact where the probability itself rounds to 0")
def log_of_softmax(logits, action):
    return math.log(softmax(logits)[action])


@fails("log_prob", "stay exact where the probability itself rounds to 0")
def log_of_softmax_and_a_little(logits, action):
    return math.log(softmax(logits)[action] + 1e-12)


@fails("log_prob", "stay exact where the probability itself rounds to 0")
def log_of_softmax_or_else_the_gap(logits, action):
    chance = softmax(logits)[action]
    return math.log(chance) if chance else logits[action] - max(logits)


@fails("log_prob", "stay exact where the probability itself rounds to 0")
def the_gap_where_logits_are_high(logits, action):
    if max(logits) >= 700:
        return logits[action] - max(logits)
    return logits[action] - math.log(sum(map(math.exp, logits)))


@fails("log_prob", "stay exact where the probability itself rounds to 0")
def shifted_by_its_own_or_else_the_gap(logits, action):
    gap = logits[action] - max(logits)
    own = [math.exp(min(logit - logits[action], 700.0)) for logit in logits]
    return gap if gap < -500 else -math.log(sum(own))


@fails("score", "add up to 0")
def chosen_alone(logits, action):
    return [float(place == action) for place in range(len(logits))]


@fails("score", "be the slope of log pi")
def turned_round(logits, action):
    return [-slope for slope in score(logits, action)]


@fails("score", "be the slope of log pi")
def gradient_of_the_probability(logits, action):
    chance = softmax(logits)[action]
    return [chance * slope for slope in score(logits, action)]


@fails("score", "be the slope of log pi")
def as_if_uniform(logits, action):
    return [float(a == action) - 1 / len(logits) for a in range(len(logits))]


@fails("score", "work where exp of a logit")
def with_its_own_exp(logits, action):
    return [float(a == action) - p for a, p in enumerate(without_a_shift(logits))]


@fails("score", "work where exp of a logit")
def with_the_first_logit_as_the_highest(logits, action):
    return [float(a == action) - p for a, p in enumerate(shifted_by_the_first(logits))]


@fails("pick", "give each action its share")
def the_likeliest(probabilities, draw):
    return probabilities.index(max(probabilities))


@fails("pick", "give each action its share")
def counted_from_one(probabilities, draw):
    return SOLUTIONS["pick"](probabilities, draw) + 1


@fails("pick", "cut right")
def up_to_and_with_the_end(probabilities, draw):
    sums = itertools.accumulate(probabilities)
    return next(action for action, end in enumerate(sums) if draw <= end)


@fails("pick", "give an action even where the shares end a hair below 1")
def falls_through(probabilities, draw):
    for action, end in enumerate(itertools.accumulate(probabilities)):
        if draw < end:
            return action


@fails("pick", "give an action even where the shares end a hair below 1")
def last_one_whatever_it_has(probabilities, draw):
    found = falls_through(probabilities, draw)
    return len(probabilities) - 1 if found is None else found


@fails("pick", "give an action even where the shares end a hair below 1")
def last_one_or_the_one_before(probabilities, draw):
    found = falls_through(probabilities, draw)
    last = len(probabilities) - 1
    return last - (probabilities[last] == 0) if found is None else found


@fails("returns_to_go", "add to each reward all that came after it")
def sums_so_far(rewards, discount=1.0):
    return list(itertools.accumulate(rewards))


@fails("returns_to_go", "add to each reward all that came after it")
def the_total_everywhere(rewards, discount=1.0):
    return [math.fsum(rewards)] * len(rewards)


@fails("returns_to_go", "add to each reward all that came after it")
def rounded_for_the_eye(rewards, discount=1.0):
    return [round(r, 6) for r in SOLUTIONS["returns_to_go"](rewards, discount)]


@fails("returns_to_go", "shrink a reward once for every step")
def never_discounted(rewards, discount=1.0):
    return [math.fsum(rewards[place:]) for place in range(len(rewards))]


@fails("returns_to_go", "shrink a reward once for every step")
def discounted_from_the_start(rewards, discount=1.0):
    return never_discounted([r * discount**t for t, r in enumerate(rewards)])


@fails("returns_to_go", "give an empty list for an empty episode")
def starts_from_the_last(rewards, discount=1.0):
    returns = [rewards[-1]]
    for reward in rewards[-2::-1]:
        returns.insert(0, reward + discount * returns[0])
    return returns


@fails("returns_to_go", "leave its arguments as they were")
def in_place(rewards, discount=1.0):
    for place in range(len(rewards) - 2, -1, -1):
        rewards[place] += discount * rewards[place + 1]
    return rewards


def estimate(logits, pays, weigh):
    """sum over the actions of weigh(probability, pay) * score."""
    rows = [
        [weigh(p, pay) * slope for slope in score(logits, action)]
        for action, (p, pay) in enumerate(zip(softmax(logits), pays))
    ]
    return [math.fsum(column) for column in zip(*rows)]


@fails("mean_estimate", "be the slope of the mean return")
def every_action_once(logits, pays, baseline):
    return estimate(logits, pays, lambda p, pay: pay - baseline)


@fails("mean_estimate", "be the slope of the mean return")
def downhill(logits, pays, baseline):
    return estimate(logits, pays, lambda p, pay: -p * (pay - baseline))


@fails("mean_estimate", "be the same for every baseline")
def baseline_off_the_gradient(logits, pays, baseline):
    return [x - baseline for x in estimate(logits, pays, lambda p, pay: p * pay)]


@fails("mean_estimate", "be the same for every baseline")
def only_what_was_better(logits, pays, baseline):
    return estimate(logits, pays, lambda p, pay: p * max(pay - baseline, 0.0))


def update(logits, episodes, rate, slopes=score, share=None, value=None, fresh=False):
    """reinforce_step with one thing changed."""
    new = {state: list(row) for state, row in logits.items()}
    returns_of = value or SOLUTIONS["returns_to_go"]
    for episode in episodes:
        returns = returns_of([reward for _, _, reward in episode])
        for (state, action, _), weight in zip(episode, returns):
            policy = new if fresh else logits
            divisor = share(state, episodes) if share else len(episodes)
            for place, slope in enumerate(slopes(policy[state], action)):
                new[state][place] += rate * weight * slope / divisor
    return new


@fails("reinforce_step", "move the uniform policy as four episodes")
def paid_by_the_reward(logits, episodes, rate):
    return update(logits, episodes, rate, value=lambda rewards: rewards)


@fails("reinforce_step", "move the uniform policy as four episodes")
def a_sum_and_no_mean(logits, episodes, rate):
    return update(logits, episodes, rate * len(episodes))


@fails("reinforce_step", "move the uniform policy as four episodes")
def divided_by_visits(logits, episodes, rate):
    def visits(state, episodes):
        return sum(step[0] == state for episode in episodes for step in episode)

    return update(logits, episodes, rate, share=visits)


@fails("reinforce_step", "move the uniform policy as four episodes")
def with_a_policy_that_moves(logits, episodes, rate):
    return update(logits, episodes, rate, fresh=True)


@fails("reinforce_step", "move the uniform policy as four episodes")
def goes_down(logits, episodes, rate):
    return update(logits, episodes, -rate)


@fails("reinforce_step", "add up all steps of an episode")
def paid_by_the_total(logits, episodes, rate):
    return update(logits, episodes, rate, value=the_total_everywhere)


def told_once(first):
    """An episode in which a state's first, or last, visit alone counts."""

    def shorter(logits, episodes, rate):
        new = {state: list(row) for state, row in logits.items()}
        for episode in episodes:
            returns = SOLUTIONS["returns_to_go"]([step[2] for step in episode])
            steps = [*zip(episode, returns)]
            visits = {
                step[0]: (step, back) for step, back in steps[:: -1 if first else 1]
            }
            for (state, action, _), back in visits.values():
                for place, slope in enumerate(score(logits[state], action)):
                    new[state][place] += rate * back * slope / len(episodes)
        return new

    return shorter


fails("reinforce_step", "add up all steps of an episode")(told_once(first=True))
fails("reinforce_step", "add up all steps of an episode")(told_once(first=False))


@fails("reinforce_step", "add up all steps of an episode")
def two_actions_alone(logits, episodes, rate):
    return update(logits, episodes, rate, slopes=lambda *told: score(*told)[:2])


@fails("reinforce_step", "add up all steps of an episode")
def two_steps_alone(logits, episodes, rate):
    def first_two(rewards):
        return SOLUTIONS["returns_to_go"](rewards)[:2]

    return update(logits, episodes, rate, value=first_two)


@fails("reinforce_step", "climb the exact return")
def score_as_if_uniform(logits, episodes, rate):
    return update(logits, episodes, rate, slopes=as_if_uniform)


@fails("reinforce_step", "give back every state")
def only_where_somebody_was(logits, episodes, rate):
    visited = {state for episode in episodes for state, _, _ in episode}
    return {s: row for s, row in update(logits, episodes, rate).items() if s in visited}


@fails("reinforce_step", "leave its arguments as they were")
def moves_the_policy_it_was_given(logits, episodes, rate):
    logits.update(update(logits, episodes, rate))
    return logits


# ------------------------------------------------------------------ chapter 01


@fails("loss_mask", "have one mark a token")
def one_mark_a_run(runs):
    return [int(author == "assistant") for author, _ in runs]


@fails("loss_mask", "be 1 on every turn of the assistant")
def all_behind_the_first_turn(runs):
    marks = [m for author, n in runs for m in [int(author == "assistant")] * n]
    return list(itertools.accumulate(marks, max))


@fails("loss_mask", "be 1 on every turn of the assistant")
def the_last_turn_alone(runs):
    last = max(i for i, (author, _) in enumerate(runs) if author == "assistant")
    return [int(i == last) for i, (_, n) in enumerate(runs) for _ in range(n)]


@fails("loss_mask", "be 0 on the template")
def template_beside_the_assistant(runs):
    trained = ("assistant", "template")
    return [int(author in trained) for author, n in runs for _ in range(n)]


@fails("loss_mask", "be 0 on the template")
def newline_behind_the_turn(runs):
    before = ["", *(author for author, _ in runs)]
    return [
        int(author == "assistant" or (author, n, last) == ("template", 1, "assistant"))
        for (author, n), last in zip(runs, before)
        for _ in range(n)
    ]


@fails("loss_mask", "be 0 on the end of turn that the harness put")
def whoever_is_not_known(runs):
    others = ("user", "tool", "template")
    return [int(author not in others) for author, n in runs for _ in range(n)]


@fails("loss_mask", "give a list of 0s and 1s")
def yes_and_no(runs):
    return [author == "assistant" for author, n in runs for _ in range(n)]


@fails("next_token", "ask, after each token, for the one that follows")
def not_shifted(tokens, mask):
    return tokens, tokens, mask


@fails("next_token", "ask, after each token, for the one that follows")
def as_long_as_before(tokens, mask):
    return tokens, [*tokens[1:], ""], [*mask[1:], 0]


@fails("next_token", "carry each target's own mark along")
def mask_of_the_inputs(tokens, mask):
    return tokens[:-1], tokens[1:], mask[:-1]


@fails("next_token", "carry each target's own mark along")
def mask_shifted_twice(tokens, mask):
    return tokens[:-1], tokens[1:], [*mask[2:], 0]


@fails("next_token", "give three lists")
def marks_to_multiply_with(tokens, mask):
    return tokens[:-1], tokens[1:], [float(mark) for mark in mask[1:]]


@fails("next_token", "refuse a mask of another length")
def silently_shorter(tokens, mask):
    pairs = list(zip(tokens, mask))
    targets = [list(column) for column in zip(*pairs[1:])]
    return [token for token, _ in pairs[:-1]], *targets


@fails("place_reward", "put the whole reward on one token")
def on_every_trained_token(reward, mask):
    return [reward * mark for mark in mask]


@fails("place_reward", "put the whole reward on one token")
def on_the_first_trained_token(reward, mask):
    return [reward * (place == mask.index(1)) for place in range(len(mask))]


@fails("place_reward", "put the whole reward on one token")
def spread_evenly(reward, mask):
    return [reward * mark / sum(mask) for mark in mask]


@fails("place_reward", "put the whole reward on one token")
def nothing_if_there_is_nothing(reward, mask):
    return SOLUTIONS["place_reward"](reward, mask) if reward else []


@fails("place_reward", "pass over template and padding")
def on_the_very_last_token(reward, mask):
    return [0.0] * (len(mask) - 1) + [reward]


@fails("place_reward", "refuse an episode in which nothing is trained")
def lost_without_a_word(reward, mask):
    rewards = [0.0] * len(mask)
    for place in reversed(range(len(mask))):
        if mask[place]:
            rewards[place] = reward
            break
    return rewards


@fails("episode_log_prob", "add up the log-probs")
def mean_log_prob(logprobs, mask):
    return SOLUTIONS["episode_log_prob"](logprobs, mask) / sum(mask)


@fails("episode_log_prob", "add up the log-probs")
def probability_of_the_episode(logprobs, mask):
    return math.exp(SOLUTIONS["episode_log_prob"](logprobs, mask))


@fails("episode_log_prob", "never read what stands where the mask is 0")
def all_that_is_not_none(logprobs, mask):
    return math.fsum(value for value in logprobs if value is not None)


@fails("episode_log_prob", "never read what stands where the mask is 0")
def multiplied_with_the_mask(logprobs, mask):
    return sum((value or 0.0) * mark for value, mark in zip(logprobs, mask))


@fails("episode_log_prob", "stay exact where the probability itself rounds to 0")
def log_of_a_product(logprobs, mask):
    chances = (math.exp(value) for value, mark in zip(logprobs, mask) if mark)
    return math.log(math.prod(chances))


@fails("decode_arguments", "take an object as it is")
def always_loads(arguments):
    return json.loads(arguments)


@fails("decode_arguments", "read the JSON text of an object")
def as_python_writes_it(arguments):
    if isinstance(arguments, dict):
        return arguments
    try:
        return ast.literal_eval(arguments)
    except ValueError:
        return None


@fails("decode_arguments", "give None for text that is no JSON")
def empty_if_broken(arguments):
    try:
        return arguments if isinstance(arguments, dict) else json.loads(arguments)
    except ValueError:
        return {}


@fails("decode_arguments", "give None for text that is no JSON")
def raises_if_broken(arguments):
    return arguments if isinstance(arguments, dict) else json.loads(arguments)


def repaired(loads):
    """decode_arguments with another reader of text."""

    def read(arguments):
        try:
            found = loads(arguments) if isinstance(arguments, str) else arguments
        except ValueError:
            return None
        return found if isinstance(found, dict) else None

    return read


def closed_for_the_model(text):
    try:
        return json.loads(text)
    except ValueError:
        return json.loads(text + "}")


for _loads in (
    lambda text: json.loads((re.findall(r"(?s)\{.*\}", text) or [text])[0]),
    lambda text: json.loads(re.sub(r"^```\w*\n|\n```$", "", text)),
    lambda text: json.loads(re.sub(r",\s*\}", "}", text)),
    lambda text: json.JSONDecoder().raw_decode(text)[0],
    closed_for_the_model,
    functools.partial(json.loads, strict=False),
):
    fails("decode_arguments", "give None for text that is no JSON")(repaired(_loads))


@fails("decode_arguments", "give None for JSON that is no object")
def whatever_it_is(arguments):
    try:
        return arguments if isinstance(arguments, dict) else json.loads(arguments)
    except ValueError:
        return None


@fails("decode_arguments", "give None for JSON that is no object")
def decoded_until_it_fits(arguments):
    while isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return None
    return arguments if isinstance(arguments, dict) else None


@fails("is_valid_call", "accept a known tool with its arguments")
def objects_alone(name, arguments, tools):
    return isinstance(arguments, dict) and SOLUTIONS["is_valid_call"](
        name, arguments, tools
    )


@fails("is_valid_call", "accept a known tool with its arguments")
def empty_is_nothing(name, arguments, tools):
    return bool(decode(arguments)) and name in tools


@fails("is_valid_call", "reject a tool that isn't there")
def looks_it_up(name, arguments, tools):
    found = decode(arguments)
    return found is not None and set(tools[name]) == set(found)


@fails("is_valid_call", "reject arguments that can't be read")
def the_name_alone(name, arguments, tools):
    return name in tools


@fails("is_valid_call", "reject an argument that is missing")
def at_least_the_required(name, arguments, tools):
    found = decode(arguments)
    return name in tools and found is not None and set(tools[name]) <= set(found)


@fails("is_valid_call", "reject an argument that is missing")
def at_most_the_known(name, arguments, tools):
    found = decode(arguments)
    return name in tools and found is not None and set(found) <= set(tools[name])


@fails("is_valid_call", "reject an argument that is missing")
def whatever_the_values_are(name, arguments, tools):
    found = decode(arguments)
    return name in tools and found is not None and set(found) == set(tools[name])


def valued(fit):
    """is_valid_call, where ``fit`` says so of the list of values."""

    def valid(name, arguments, tools):
        fits = whatever_the_values_are(name, arguments, tools)
        return fits and fit([*decode(arguments).values()])

    return valid


def is_text(value):
    return isinstance(value, str)


for _fit in (
    lambda values: all(map(is_text, values[:1])),
    lambda values: not values or any(map(is_text, values)),
    lambda values: not any(v is None or isinstance(v, (int, float)) for v in values),
):
    fails("is_valid_call", "reject an argument that is missing")(valued(_fit))
fails("is_valid_call", "accept a known tool with its arguments")(
    valued(lambda values: all(is_text(value) and value for value in values))
)


@fails("is_valid_call", "reject a tool that isn't there")
def the_name_without_its_spaces(name, arguments, tools):
    return SOLUTIONS["is_valid_call"](name.strip(), arguments, tools)


@fails("extract_answer", "find the one number, as it is written")
def without_its_sign(text):
    found = re.findall(r"\d+(?:\.\d+)?", text.rpartition("Answer:")[2])
    return found[0] if len(set(found)) == 1 else None


@fails("extract_answer", "find the one number, as it is written")
def all_that_follows_the_mark(text):
    return text.rpartition("Answer:")[2].strip() or None


def stated(find, said=lambda text: text.rpartition("Answer:")[2], key=Fraction):
    """extract_answer with one thing changed: what is found, where, what is the same."""

    def extract(text):
        found = find(said(text))
        return found[0] if len(set(map(key, found))) == 1 else None

    return extract


SIGNED = re.compile(r"-?\d+(?:\.\d+)?")


def words_that_are_floats(text):
    words = [word.strip(".,") for word in text.split()]
    return [word for word in words if re.fullmatch(NUMBER_OR_WORD, word)]


# What float() takes.
NUMBER_OR_WORD = r"(?i)[-+]?(\d+(\.\d*)?|\.\d+)(e[-+]?\d+)?|[-+]?(inf|infinity|nan)"
_one = "find the one number, as it is written"
_several = "find no answer where there is no number, or several"
_behind = 'read only what follows the last "Answer:"'
for _must, _extract in (
    (_one, stated(re.compile(r"-?\d+(?:\.\d\d?)?").findall)),
    (_one, stated(words_that_are_floats, key=str)),
    (_several, stated(re.compile(r"-?[\d.]*\d").findall, key=str)),
    (_several, stated(SIGNED.findall, key=lambda number: abs(float(number)))),
    (_behind, stated(SIGNED.findall, lambda t: t.rpartition("Answer:")[2] or t)),
    (_behind, stated(SIGNED.findall, lambda t: re.split("(?i)answer:", t)[-1])),
    (_behind, stated(SIGNED.findall, lambda t: t.rpartition("Answer")[2])),
    (_behind, stated(SIGNED.findall, lambda t: re.split("Answer:(.*)", t)[-2:][0])),
):
    fails("extract_answer", _must)(_extract)


@fails("extract_answer", "find no answer where there is no number, or several")
def the_first_number(text):
    found = SIGNED.findall(text.rpartition("Answer:")[2])
    return found[0] if found else None


@fails("extract_answer", "find no answer where there is no number, or several")
def the_last_number(text):
    found = SIGNED.findall(text)
    return found[-1] if found else None


@fails("extract_answer", 'read only what follows the last "Answer:"')
def the_whole_text(text):
    found = set(SIGNED.findall(text))
    return found.pop() if len(found) == 1 else None


@fails("extract_answer", 'read only what follows the last "Answer:"')
def behind_the_first_mark(text):
    found = set(SIGNED.findall(text.split("Answer:", 1)[-1]))
    return found.pop() if len(found) == 1 else None


@fails("extract_answer", "take a number that is said twice as one")
def counted_as_often_as_said(text):
    found = SIGNED.findall(text.rpartition("Answer:")[2])
    return found[0] if len(found) == 1 else None


fails("extract_answer", "take a number that is said twice as one")(
    stated(SIGNED.findall, key=str)
)


@fails("extract_answer", "give text or None")
def as_a_number(text):
    return float(SOLUTIONS["extract_answer"](text))


def parts_of(right, calls, invalid):
    return {"right": right, "calls": calls, "invalid_calls": invalid}


@fails("reward", "pay 1 for a right answer")
def prices_swapped(is_right, calls, invalid):
    parts = parts_of(1.0, -0.2 * calls, -0.1 * invalid)
    return sum(parts.values()) * is_right, parts


@fails("reward", "be what its breakdown adds up to")
def parts_that_count(is_right, calls, invalid):
    total, _ = SOLUTIONS["reward"](is_right, calls, invalid)
    return total, parts_of(int(is_right), calls, invalid)


@fails("reward", "be what its breakdown adds up to")
def silent_about_zeros(is_right, calls, invalid):
    total, parts = SOLUTIONS["reward"](is_right, calls, invalid)
    return total, {name: part for name, part in parts.items() if part}


@fails("reward", "charge nothing on a wrong answer")
def without_a_gate(is_right, calls, invalid):
    parts = parts_of(float(is_right), -0.1 * calls, -0.2 * invalid)
    return sum(parts.values()), parts


@fails("reward", "charge each further call the same")
def never_below_zero(is_right, calls, invalid):
    total, parts = SOLUTIONS["reward"](is_right, calls, invalid)
    return max(total, 0.0), parts


@fails("reward", "charge each further call the same")
def at_most_five_are_charged(is_right, calls, invalid):
    return SOLUTIONS["reward"](is_right, min(calls, 5), min(invalid, 5))


def bounded(least=-math.inf, calls_at_most=1000, invalid_at_most=1000):
    """reward with a floor, or with at most so many calls of each kind charged."""

    def reward(is_right, calls, invalid):
        told = is_right, min(calls, calls_at_most), min(invalid, invalid_at_most)
        total, parts = SOLUTIONS["reward"](*told)
        return max(total, least), parts

    return reward


for _reward in (
    bounded(least=-0.5),
    bounded(least=-1.0),
    bounded(calls_at_most=12),
    bounded(invalid_at_most=7),
    lambda is_right, calls, invalid: (
        SOLUTIONS["reward"](is_right, calls, invalid)[0],
        SOLUTIONS["reward"](is_right, min(calls, 5), min(invalid, 5))[1],
    ),
):
    fails("reward", "charge each further call the same")(_reward)


# ------------------------------------------------------------------ chapter 02


@fails("leave_one_out", "rise by exactly as much")
def mean_of_all(rewards):
    return [reward - statistics.fmean(rewards) for reward in rewards]


@fails("leave_one_out", "rise by exactly as much")
def the_others_less_mine(rewards):
    return [-advantage for advantage in SOLUTIONS["leave_one_out"](rewards)]


@fails("leave_one_out", "subtract the mean of the others")
def divided_by_all(rewards):
    total = math.fsum(rewards)
    return [reward - (total - reward) / len(rewards) for reward in rewards]


@fails("leave_one_out", "give 0.0 for an episode that has no others")
def divided_by_no_others(rewards):
    total, others = math.fsum(rewards), len(rewards) - 1
    return [reward - (total - reward) / others for reward in rewards]


@fails("leave_one_out", "give 0.0 for an episode that has no others")
def raw_if_alone(rewards):
    return SOLUTIONS["leave_one_out"](rewards) if len(rewards) > 1 else rewards


def grpo(rewards, std=statistics.stdev, epsilon=0.0):
    """(r - mean) / (std + epsilon), with none of the edges."""
    scale = std(rewards) + epsilon
    return [(reward - statistics.fmean(rewards)) / scale for reward in rewards]


@fails("group_advantages", "have the mean 0")
def divided_but_not_centred(rewards):
    return [reward / statistics.stdev(rewards) for reward in rewards]


@fails("group_advantages", "have a sample standard deviation")
def of_the_population(rewards):
    return grpo(rewards, statistics.pstdev)


@fails("group_advantages", "have a sample standard deviation")
def with_an_epsilon(rewards):
    return grpo(rewards, epsilon=1e-4)


@fails("group_advantages", "have a sample standard deviation")
def centred_but_not_divided(rewards):
    return mean_of_all(rewards)


@fails("group_advantages", "have a sample standard deviation")
def by_the_variance(rewards):
    return grpo(rewards, statistics.variance)


@fails("group_advantages", "be largest for the best episode")
def mean_less_reward(rewards):
    return [-advantage for advantage in grpo(rewards)]


@fails("group_advantages", "be largest for the best episode")
def never_above_two(rewards):
    found = SOLUTIONS["group_advantages"](rewards)
    return [min(max(advantage, -2.0), 2.0) for advantage in found]


@fails("group_advantages", "be 0.0 where all rewards are equal")
def divided_by_zero(rewards):
    return grpo(rewards)


@fails("group_advantages", "be 0.0 where all rewards are equal")
def noise_made_loud(rewards):
    return grpo(rewards) if len(set(rewards)) > 1 else [0.0] * len(rewards)


def unless(equal):
    """grpo, and 0.0 where ``equal`` says so of the rewards."""
    return lambda rewards: [0.0] * len(rewards) if equal(rewards) else grpo(rewards)


def spread(rewards):
    return max(rewards) - min(rewards)


for _equal in (
    lambda rewards: spread(rewards) < 5e-3,
    lambda rewards: spread(rewards) < 1e-15,
    lambda rewards: statistics.stdev(rewards) < 1e-3,
):
    fails("group_advantages", "be 0.0 where all rewards are equal")(unless(_equal))


# grpo, and 0.0 for rewards that are equal up to rounding.
if_they_differ = unless(lambda rewards: spread(rewards) < 1e-9)


@fails("group_advantages", "leave an unscored episode out")
def none_as_zero(rewards):
    return if_they_differ([reward or 0.0 for reward in rewards])


@fails("group_advantages", "leave an unscored episode out")
def a_shorter_list(rewards):
    return if_they_differ([reward for reward in rewards if reward is not None])


@fails("group_advantages", "leave an unscored episode out")
def no_place_for_none(rewards):
    return if_they_differ(rewards)


@fails("group_advantages", "be 0.0 where fewer than two episodes were scored")
def raw_for_a_group_of_one(rewards):
    scored = [reward for reward in rewards if reward is not None]
    if len(scored) == 1:
        return [reward or 0.0 for reward in rewards]
    return scaled(rewards)


@fails("group_advantages", "be 0.0 where fewer than two episodes were scored")
def no_score_at_all(rewards):
    scored = [reward for reward in rewards if reward is not None]
    low, high = min(scored), max(scored)
    return scaled(rewards) if high > low else [0.0] * len(rewards)


@fails("batch_advantages", "compare each episode with its own group")
def one_large_group(rewards, groups):
    return scaled(rewards)


@fails("batch_advantages", "take groups of any size")
def reshaped(rewards, groups):
    size = len(rewards) // len(set(groups))
    pieces = [rewards[i : i + size] for i in range(0, len(rewards), size)]
    return [advantage for piece in pieces for advantage in scaled(piece)]


@fails("batch_advantages", "go by the id")
def neighbours(rewards, groups):
    runs = itertools.groupby(zip(groups, rewards), lambda pair: pair[0])
    rows = [scaled([reward for _, reward in run]) for _, run in runs]
    return [advantage for row in rows for advantage in row]


@fails("batch_advantages", "go by the id")
def group_after_group(rewards, groups):
    found = []
    for group in dict.fromkeys(groups):
        found += scaled([r for r, name in zip(rewards, groups) if name == group])
    return found


def differs(decide):
    """keep_informative, where ``decide`` says so of a group's rewards."""

    def keep(rewards, groups):
        return [
            decide([r for r, name in zip(rewards, groups) if name == group])
            for group in groups
        ]

    return keep


@fails("keep_informative", "keep a group whose rewards differ, as a whole")
def where_the_advantage_is_not_zero(rewards, groups):
    return [a != 0 for a in SOLUTIONS["batch_advantages"](rewards, groups)]


@fails("keep_informative", "leave out a group whose rewards are all equal")
def one_group_for_all(rewards, groups):
    return [max(rewards) - min(rewards) >= 1e-9] * len(rewards)


fails("keep_informative", "leave out a group whose rewards are all equal")(differs(any))
fails("keep_informative", "keep a group whose rewards differ, as a whole")(
    differs(lambda mine: mine[0] != mine[-1])
)
fails("keep_informative", "keep a group whose rewards differ, as a whole")(
    differs(lambda mine: spread(mine) >= 1e-9 and sum(mine) > 0)
)
for _differ in (
    lambda mine: len(set(mine)) > 1,
    lambda mine: spread(mine) > 1e-5,
    lambda mine: spread(mine) > 1e-12,
    lambda mine: len({round(reward, 4) for reward in mine}) > 1,
):
    fails("keep_informative", "take rounding for no difference")(differs(_differ))
fails("keep_informative", "take an unscored episode for no difference")(
    differs(
        lambda mine: max(r or 0.0 for r in mine) - min(r or 0.0 for r in mine) > 1e-9
    )
)
fails("keep_informative", "take an unscored episode for no difference")(
    differs(lambda mine: max(mine) - min(mine) > 1e-9)
)


@fails("informative_share", "be 0 where nothing can differ")
def at_least_one_right(success, size):
    return 1 - (1 - success) ** size


@fails("informative_share", "be 0 where nothing can differ")
def not_all_right(success, size):
    return 1 - success**size


@fails("informative_share", "be 0 where nothing can differ")
def the_opposite(success, size):
    return success**size + (1 - success) ** size


@fails("informative_share", "stay the same if right and wrong change places")
def a_power_forgotten(success, size):
    return 1 - success**size - (1 - success)


@fails("informative_share", "be the share found by listing every outcome")
def a_pair_as_good_as_any(success, size):
    return 2 * success * (1 - success) if size > 1 else 0.0


@fails("informative_share", "be the share found by listing every outcome")
def sure_above_eight(success, size):
    sure = size > 8 and 0 < success < 1
    return 1.0 if sure else SOLUTIONS["informative_share"](success, size)


def ppo(ratio, advantage, low, high, better=min):
    clipped = min(max(ratio, 1 - low), 1 + high)
    return -better(ratio * advantage, clipped * advantage)


def with_slope(loss):
    """A clipped loss with the slope of the right one."""
    return lambda *told: (loss(*told), SOLUTIONS["clipped_loss"](*told)[1])


fails("clipped_loss", "be -ratio * A inside of the range")(
    with_slope(lambda *told: -ppo(*told))
)
fails("clipped_loss", "stop where the step has gone far enough")(
    with_slope(lambda *told: ppo(*told, better=max))
)
fails("clipped_loss", "stop where the step has gone far enough")(
    with_slope(lambda ratio, a, low, high: ppo(ratio, a, high, low))
)
fails("clipped_loss", "stop where the step has gone far enough")(
    with_slope(lambda ratio, a, low, high: -ratio * a)
)
fails("clipped_loss", "stop where the step has gone far enough")(
    with_slope(lambda ratio, a, low, high: ppo(ratio, a, 0.2, 0.28))
)
fails("clipped_loss", "never hold back a step that goes back")(
    with_slope(lambda ratio, a, low, high: -min(max(ratio, 1 - low), 1 + high) * a)
)


@fails("clipped_loss", "give the slope of its own loss")
def slope_that_never_stops(ratio, advantage, low, high):
    return ppo(ratio, advantage, low, high), -advantage


@fails("clipped_loss", "give the slope of its own loss")
def slope_by_the_log_prob(ratio, advantage, low, high):
    loss, slope = SOLUTIONS["clipped_loss"](ratio, advantage, low, high)
    return loss, slope * ratio


@fails("clipped_loss", "give the slope of its own loss")
def slope_with_low_on_both_sides(ratio, advantage, low, high):
    _, slope = SOLUTIONS["clipped_loss"](ratio, advantage, low, low)
    return ppo(ratio, advantage, low, high), slope


@fails("clipped_loss", "give the slope of its own loss")
def slope_within_the_usual_range(ratio, advantage, low, high):
    _, slope = SOLUTIONS["clipped_loss"](ratio, advantage, 0.2, 0.2)
    return ppo(ratio, advantage, low, high), slope


@fails("k3", "be 0 for equal log-probs and never negative")
def k1(logprob, ref_logprob):
    return logprob - ref_logprob


@fails("k3", "be 0 for equal log-probs and never negative")
def without_the_one(logprob, ref_logprob):
    d = logprob - ref_logprob
    return math.exp(-d) + d


@fails("k3", "have the KL as its mean")
def k2(logprob, ref_logprob):
    return (logprob - ref_logprob) ** 2 / 2


@fails("k3", "have the KL as its mean")
def with_the_sign_turned(logprob, ref_logprob):
    return SOLUTIONS["k3"](ref_logprob, logprob)


for _most in (2.0, 5.0):
    fails("k3", "have the KL as its mean")(
        lambda p, q, most=_most: SOLUTIONS["k3"](min(max(p - q, -most), most), 0.0)
    )
fails("k3", "have the KL as its mean")(lambda p, q: min(SOLUTIONS["k3"](p, q), 10.0))


def weights(lengths, rule):
    return SOLUTIONS["aggregation_weights"](lengths, rule)


@fails("aggregation_weights", "turn a loss of 1 on every token into 1")
def a_sum_that_is_no_mean(lengths, rule):
    return [1.0] * len(lengths) if rule == "episode_sum" else weights(lengths, rule)


@fails("aggregation_weights", "turn a loss of 1 on every token into 1")
def per_episode_and_no_more(lengths, rule):
    return weights(lengths, "episode_sum")


@fails("aggregation_weights", "give episodes the same say under episode_mean")
def means_mixed_up(lengths, rule):
    other = {"episode_mean": "batch_mean", "batch_mean": "episode_mean"}
    return weights(lengths, other.get(rule, rule))


@fails("aggregation_weights", "count an episode without tokens")
def divided_by_no_tokens(lengths, rule):
    if rule == "episode_mean":
        return [1 / (len(lengths) * length) for length in lengths]
    return weights(lengths, rule)


@fails("aggregation_weights", "count an episode without tokens")
def empty_ones_do_not_count(lengths, rule):
    filled = iter(weights([length for length in lengths if length], rule))
    return [next(filled) if length else 0.0 for length in lengths]


@fails("aggregation_weights", "refuse a rule that it does not know")
def anything_else_is_a_batch_mean(lengths, rule):
    known = ("episode_sum", "episode_mean")
    return weights(lengths, rule if rule in known else "batch_mean")


@fails("aggregation_weights", "refuse a rule that it does not know")
def whatever_begins_with_batch(lengths, rule):
    return weights(lengths, "batch_mean" if rule.startswith("batch") else rule)


@fails("aggregation_weights", "refuse a rule that it does not know")
def whatever_ends_in_sum(lengths, rule):
    return weights(lengths, "episode_sum" if rule.endswith("sum") else rule)


@fails("aggregation_weights", "refuse a rule that it does not know")
def a_constant_too(lengths, rule):
    return weights(lengths, "episode_sum" if rule == "constant" else rule)


def turned(**switches):
    """A convention that differs from the solution in these switches."""
    return lambda: SOLUTIONS["trainer_convention"]().but(**switches)


_no_such = "turn only switches that there are"
_elsewhere = "leave all other switches as in COURSE"
for _switches, _must in (
    ({"kl_wieght": 0.04}, _no_such),
    ({"kl_place": "none"}, _no_such),  # with a weight
    ({"aggregation": "token_mean"}, _no_such),
    ({"zero_spread": "zero"}, "divide also where rewards are equal"),
    ({"ddof": 1}, "compare a group as the trainer's first line"),
    ({"std_epsilon": 1e-4}, "compare a group as the trainer's first line"),
    ({"epsilon_place": "under_root"}, "compare a group as the trainer's first line"),
    ({"std": "none"}, "compare a group as the trainer's first line"),
    ({"baseline": "leave_one_out"}, "compare a group as the trainer's first line"),
    ({"clip_high": 0.2}, "form and clip the ratio"),
    ({"clip_high": 1.28}, "form and clip the ratio"),
    ({"clip": "two_sided"}, "form and clip the ratio"),
    ({"dual_clip": 3.0}, "form and clip the ratio"),
    ({"log_ratio_clamp": None}, "form and clip the ratio"),
    ({"unit": "decision"}, "add up the tokens as the trainer's last line"),
    ({"aggregation": "episode_mean"}, "add up the tokens as the trainer's last line"),
    ({"kl_place": "none", "kl_weight": 0.0}, "charge the KL as the trainer does"),
    ({"kl_place": "reward"}, "charge the KL as the trainer does"),
    ({"kl_weight": 0.4}, "charge the KL as the trainer does"),
    ({"kl_estimator": "k2"}, "charge the KL as the trainer does"),
    ({"ratio": "sequence"}, "charge the KL as the trainer does"),
    ({"baseline": "batch_mean"}, "compare a group as the trainer's first line"),
    ({"std": "batch"}, "compare a group as the trainer's first line"),
    (
        {"baseline": "batch_mean", "std": "batch"},
        "compare a group as the trainer's first line",
    ),
    ({"group_of_one": "raw"}, "compare a group as the trainer's first line"),
    ({"group_of_one": "refuse"}, "compare a group as the trainer's first line"),
    ({"whiten": True}, _elsewhere),
    ({"returns": "to_go"}, _elsewhere),
    ({"groups": "solved"}, _elsewhere),
    ({"groups": "informative"}, _elsewhere),
    ({"unscored": "zero"}, _elsewhere),
    ({"unscored": "refuse"}, _elsewhere),
    ({"dual_clip": 10.0}, _elsewhere),
    ({"kl_clamp": 10.0}, _elsewhere),
    ({"kl_log_ratio_clamp": 10.0}, _elsewhere),
    ({"kl_ratio": True}, "charge the KL as the trainer does"),
):
    fails("trainer_convention", _must)(turned(**_switches))


# ------------------------------------------------------------------ right, another way


def bisected(probabilities, draw):
    sums = list(itertools.accumulate(probabilities))
    last = max(action for action, p in enumerate(probabilities) if p > 0)
    return min(bisect.bisect_right(sums, draw), last)


def from_squares(rewards):
    """The std by way of the mean of squares: the rounding is another one."""
    scored = [reward for reward in rewards if reward is not None]
    if len(scored) < 2 or statistics.pstdev(scored) < 1e-9:
        return [0.0] * len(rewards)
    count, mean = len(scored), sum(scored) / len(scored)
    variance = (sum(r * r for r in scored) / count - mean**2) * count / (count - 1)
    return [0.0 if r is None else (r - mean) / variance**0.5 for r in rewards]


def loaded_or_none(arguments):
    try:
        found = json.loads(arguments)
    except TypeError:
        found = arguments
    except json.JSONDecodeError:
        return None
    return found if type(found) is dict else None


def piecewise(ratio, advantage, low, high):
    too_good = advantage > 0 and ratio > 1 + high
    too_bad = advantage < 0 and ratio < 1 - low
    bound = 1 + high if too_good else 1 - low if too_bad else ratio
    return (-bound * advantage, 0 if too_good or too_bad else -advantage)


RIGHT: dict[str, Callable[..., Any]] = {
    "exact_return": lambda p, q: 0.5 * (2 * p + 6 * (1 - p) * q),
    "softmax": lambda logits: tuple(1 / sum(exps(logits, z)) for z in logits),
    "log_prob": lambda logits, a: logits[a] - functools.reduce(log_of_sum, logits),
    "score": lambda logits, action: [
        (a == action) - math.exp(SOLUTIONS["log_prob"](logits, a))
        for a in range(len(logits))
    ],
    "pick": bisected,
    "returns_to_go": lambda rewards, discount=1.0: [
        sum(r * discount**k for k, r in enumerate(rewards[t:]))
        for t in range(len(rewards))
    ],
    "mean_estimate": lambda logits, pays, baseline: [
        p * (pay - sum(q * other for q, other in zip(softmax(logits), pays)))
        for p, pay in zip(softmax(logits), pays)
    ],
    "reward": lambda is_right, calls, invalid: (
        (1 - calls / 10 - invalid / 5) * is_right,
        parts_of(is_right * 1, is_right * calls / -10, is_right * invalid / -5),
    ),
    "decode_arguments": loaded_or_none,
    "leave_one_out": lambda rewards: [
        (r - sum(rewards) / len(rewards)) * len(rewards) / max(len(rewards) - 1, 1)
        for r in rewards
    ],
    "group_advantages": from_squares,
    "clipped_loss": piecewise,
    "k3": lambda logprob, ref_logprob: (
        math.expm1(ref_logprob - logprob) + logprob - ref_logprob
    ),
    "informative_share": lambda p, size: sum(
        math.comb(size, k) * p**k * (1 - p) ** (size - k) for k in range(1, size)
    ),
    "trainer_convention": lambda: VERL.but(
        ddof=0,
        group_of_one="zero",
        unscored="left_out",
        clip_high=0.28,
        dual_clip=None,
        kl_place="loss",
        kl_weight=0.04,
        kl_clamp=None,
        kl_log_ratio_clamp=None,
    ),
}


def log_of_sum(a, b):
    """log(exp(a) + exp(b))"""
    return max(a, b) + math.log1p(math.exp(-abs(a - b)))


def exps(logits, less):
    return [math.exp(min(z - less, 700.0)) for z in logits]


# ------------------------------------------------------------------ grading them


def entries(paragraphs):
    """What a statement explains: arguments, returns, rules by name, errors."""
    text = "\n".join(paragraphs)
    return re.findall(r'(?m)^ *(?:(\w+|"\w+") {3,}|(Raises \w+)|(- ))', text)


def statement(function):
    """(English paragraphs, Chinese ones, examples) of what a learner reads."""
    said, _, example = inspect.getdoc(function).partition(">>> ")
    parts = said.strip().split("\n\n")
    chinese = [part for part in parts if HAN.search(part)]
    return [part for part in parts if part not in chinese], chinese, example


_NUMBER = r"(?<![\w.])\d+(?:\.\d+)?(?:e-?\d+)?"
_NAME = r'"[!#-~]+"|\w+_\w+|\w+=\w+|\w+\[[^\]]*\]|\b[a-z]+\.[a-z]+\b|\bG\b'
CODE = re.compile(rf"{_NAME}|{_NUMBER}", re.ASCII)
_ARGUMENTS = {
    name for one in SOLUTIONS.values() for name in inspect.signature(one).parameters
}
_TERM = rf"(?:[A-Za-z]|\d+(?:\.\d+)?|\w+_\w+|{'|'.join(sorted(_ARGUMENTS))})\b"
FORMULA = re.compile(rf"(?<![\w.])(?=({_TERM} ?(?:[-+*/<]|<=) ?{_TERM}))", re.ASCII)


def code_in(text):
    """How often each number, name of code and pair in a formula occurs in a text."""
    text = re.sub("[\u201c\u201d]", '"', text)
    return Counter(CODE.findall(text)) + Counter(FORMULA.findall(text))


TRAINERS = ("reward", "logprob", "old_logprob", "ref_logprob", "mask")


class Vector(list):
    """As much of an array as the trainer's code needs."""

    def mean(self):
        return math.fsum(self) / len(self)

    def std(self, unbiased):
        squares = math.fsum((x - self.mean()) ** 2 for x in self)
        return math.sqrt(squares / (len(self) - unbiased))

    def sum(self):
        return math.fsum(self)

    def __neg__(self):
        return Vector(-x for x in self)


def by_item(function):
    """A function of numbers, for vectors of them, or numbers among vectors."""

    def of_vectors(*values):
        count = max(len(value) for value in values if isinstance(value, Vector))
        rows = [v if isinstance(v, Vector) else [v] * count for v in values]
        return Vector(function(*column) for column in zip(*rows))

    return of_vectors


for _name in ("add", "sub", "mul", "truediv"):
    _by_item = by_item(getattr(operator, _name))
    setattr(Vector, f"__{_name}__", _by_item)
    setattr(Vector, f"__r{_name}__", lambda a, b, do=_by_item: do(b, a))
Vector.__iadd__ = Vector.__add__
VECTORS = {
    "exp": by_item(math.exp),
    "min": by_item(min),
    "clip": by_item(lambda x, low, high: min(max(x, low), high)),
    "clamp": by_item(lambda x, low, high: min(max(x, low), high)),
}


class Solutions(unittest.TestCase):
    def test_every_solution_is_accepted(self):
        for name, exercise in EXERCISES.items():
            result = judge(exercise, SOLUTIONS[name])
            self.assertEqual(result.status, DONE, (name, result.problem))

    def test_so_is_a_right_answer_written_another_way(self):
        for name, function in RIGHT.items():
            result = judge(EXERCISES[name], function)
            self.assertEqual(result.status, DONE, (name, result.problem))

    def test_they_have_the_learners_signatures_and_first_lines(self):
        given = functions(FOLDER)
        self.assertEqual(list(given), list(EXERCISES))
        self.assertEqual(list(SOLUTIONS), list(EXERCISES))
        for name, solution in SOLUTIONS.items():
            self.assertEqual(
                inspect.signature(given[name]), inspect.signature(solution), name
            )
            self.assertEqual(given[name].__doc__.split("\n")[0], solution.__doc__, name)

    def test_a_statement_is_in_both_languages_with_the_same_entries(self):
        for name, function in functions(FOLDER).items():
            english, chinese, example = statement(function)
            self.assertTrue(english and chinese, name)
            self.assertTrue(HAN.search(chinese[0].split("\n")[0]), name)
            self.assertEqual(*map(entries, (english, chinese)), name)
            self.assertNotRegex("".join(english), FULL_WIDTH, name)
            self.assertNotRegex(example, f"{HAN.pattern}|{FULL_WIDTH.pattern}", name)
            text = "\n".join(chinese)
            self.assertNotRegex(text, rf"{HAN.pattern}[,;:?!()]", name)
            glued = rf"{HAN.pattern}[A-Za-z0-9]|[A-Za-z0-9]{HAN.pattern}"
            self.assertNotRegex(text, glued, name)

    def test_a_statement_has_the_same_numbers_and_code_in_both_languages(self):
        for name, function in functions(FOLDER).items():
            english, chinese, _ = statement(function)
            said, told = "\n".join(english), "\n".join(chinese)
            if "在上面" in told or "上面的图" in told:  # a formula stands there once
                english = [part for part in english if not part.startswith("    ")]
            self.assertFalse(code_in("\n".join(english)) - code_in(told), name)
            self.assertFalse(code_in(told) - code_in(said), name)

    def test_the_trainers_code_is_what_an_answer_is_compared_with(self):
        english, _, _ = statement(functions(FOLDER)["trainer_convention"])
        (code,) = (part for part in english if part.startswith("    "))
        code = inspect.cleandoc(f"\n{code}").replace("return", "value =")
        new, mask = [-3.0, -1.5, -0.1, -1.0], [0, 1, 1, 1]
        ref, golden = [-1.5, -0.2, -1.5, -1.0], [0.9, 0.0, 0.7, 0.0]
        for rewards, last in (
            (golden, -1.5),
            (golden, -40.0),  # so far apart that the ratio's logarithm is held
            ([0.3, 0.1 + 0.2, 0.3, 0.3], -1.5),
        ):
            old = [-1.0, -2.0, -0.5, last]
            given = dict(zip(TRAINERS, map(Vector, (rewards, new, old, ref, mask))))
            found = {**VECTORS, **given}
            exec(code, found)
            expected = chapter_02.trainers_advantages(rewards)
            self.assertEqual(list(found["advantage"]), expected)
            arrays = ([row] for row in (new, old, ref, expected, mask))
            value = chapter_02.trainers_loss(*arrays)
            self.assertAlmostEqual(found["value"] / value, 1.0)

    def test_a_file_says_how_it_is_graded_in_both_languages(self):
        for path in sorted(FOLDER.glob("chapter_*.py")):
            said = ast.get_docstring(ast.parse(read(path)))
            asked = f"python3 -m agentic_rl check exercises/{path.name}"
            self.assertEqual(
                re.findall(r"python3 .*", said), [asked, f"{asked} --language zh"]
            )
            english, _, chinese = said.partition(asked)
            self.assertRegex(chinese, HAN)
            self.assertNotRegex(english, HAN)

    def test_they_are_short(self):
        for name, solution in SOLUTIONS.items():
            self.assertLess(len(inspect.getsource(solution).splitlines()), 17, name)

    def test_the_examples_of_the_learners_files_are_right(self):
        for name, function in functions(FOLDER).items():
            found = doctest.DocTestFinder(recurse=False).find(
                function, name, globs=dict(SOLUTIONS)
            )
            self.assertTrue(found[0].examples, name)
            told: list[str] = []
            runner = doctest.DocTestRunner(verbose=False)
            runner.run(found[0], out=told.append)
            self.assertEqual(runner.failures, 0, "".join(told))

    def test_the_learners_files_are_all_still_to_do(self):
        for name, function in functions(FOLDER).items():
            self.assertEqual(judge(EXERCISES[name], function).status, NOT_YET)


class WrongAnswers(unittest.TestCase):
    def test_each_is_rejected_by_the_property_that_is_meant_for_it(self):
        for name, must, function in ATTEMPTS:
            with self.subTest(f"{name}: {function.__name__}"):
                result = judge(EXERCISES[name], function)
                self.assertEqual(result.status, FAILED)
                self.assertTrue(
                    result.problem.property["en"].startswith(must), result.problem
                )

    def test_each_exercise_has_three_and_each_property_rejects_one(self):
        for name, exercise in EXERCISES.items():
            mine = [one.must for one in ATTEMPTS if one.exercise == name]
            self.assertGreaterEqual(len(mine), 3, name)
            for one in exercise.properties:
                self.assertTrue(any(map(one.name["en"].startswith, mine)), one.name)

    def test_what_is_told_names_the_call_and_differs_from_what_was_expected(self):
        for name, _, function in ATTEMPTS:
            problem = judge(EXERCISES[name], function).problem
            self.assertTrue(problem.given.startswith(f"{name}("), problem)
            self.assertNotEqual(problem.expected, problem.got)
            self.assertTrue(problem.got)


class Judging(unittest.TestCase):
    """Whatever comes back, a verdict comes out of it."""

    def problem(self, name: str, function: Callable[..., Any]):
        result = judge(EXERCISES[name], function)
        self.assertEqual(result.status, FAILED)
        return result.problem

    def test_values_that_nobody_expects(self):
        class Odd(list):
            def __repr__(self):
                raise RuntimeError

            def __eq__(self, other):
                raise RuntimeError

            __hash__ = None

        endless: list[Any] = []
        endless.append(endless)
        for value, said in (
            (None, "None"),
            ([math.nan, 1.0], "[nan, 1.0]"),
            (itertools.count(), "count(0)"),
            (endless, "[[...]]"),
            (Odd(), "<Odd>"),
            ({1.0: "x"}, "{1.0: 'x'}"),
            ("y" * 999, "'yyyy"),
            ([0] * 999, "[0, 0, "),
        ):
            problem = self.problem("softmax", lambda logits, value=value: value)
            self.assertTrue(problem.got.startswith(said), problem.got)
            self.assertLessEqual(len(problem.got), 400)

    def test_an_exception_is_told_with_the_line_that_it_came_through(self):
        def deeper():
            raise ZeroDivisionError("by\nzero")

        def above(logits):
            return deeper()

        line = inspect.getsourcelines(deeper)[1] + 1
        told = f"ZeroDivisionError in line {line}: by zero"
        self.assertEqual(self.problem("softmax", above).got, told)
        self.assertEqual(
            self.problem("softmax", lambda: None).got.partition(":")[0], "TypeError"
        )

    def test_an_exception_that_cannot_be_printed(self):
        class Mute(Exception):
            def __str__(self):
                raise RuntimeError

        def softmax(logits):
            raise Mute

        self.assertRegex(self.problem("softmax", softmax).got, r"^Mute in line \d+$")

    def test_an_answer_that_a_check_trips_over_is_a_wrong_one(self):
        class Heavy(float):
            def __sub__(self, other):
                raise RuntimeError("too heavy")

        problem = self.problem("leave_one_out", lambda rewards: [Heavy(), Heavy()])
        self.assertTrue(problem.property["en"].startswith("rise by exactly"))

    def test_six_digits_are_told_and_more_where_only_they_differ(self):
        self.assertEqual(self.problem("log_prob", lambda row, a: 1 / 3).got, "0.333333")
        problem = self.problem("k3", lambda a, b: 1e-8 * (a == b))
        self.assertEqual((problem.expected, problem.got), ("0", "1e-08"))
        nearly = self.problem("log_prob", lambda row, a: math.log(1 / len(row)) + 1e-8)
        self.assertEqual(nearly.expected, f"{math.log(1 / 2)} (log(1/2))")
        self.assertEqual(nearly.got, f"{math.log(1 / 2) + 1e-8}")

    def test_what_looks_the_same_is_told_with_all_its_digits(self):
        self.assertEqual(apart(-1.8000000000001, -1.8), ("-1.8000000000001", "-1.8"))
        self.assertEqual(
            apart([1.0, -0.0], [1.00000001, 0]), ("[1.0, 0.0]", "[1.00000001, 0]")
        )
        self.assertEqual(apart((1 / 3,), (0.5,)), ("(0.333333,)", "(0.5,)"))

    def test_a_tiny_error_is_seen_in_what_is_told(self):
        def moved(value):
            if isinstance(value, float):
                return value + math.copysign(3e-8, value)
            if isinstance(value, (list, tuple)):
                return type(value)(map(moved, value))
            if isinstance(value, dict):
                return {key: moved(one) for key, one in value.items()}
            return value

        number = re.compile(r"-?\d[\d.]*(?:e-?\d+)?")
        graded = set()
        for name in set(EXERCISES) - {"decode_arguments", "extract_answer"}:
            for start in range(len(EXERCISES[name].properties)):
                one = EXERCISES[name].properties[start]
                exercise = dataclasses.replace(EXERCISES[name], properties=[one])
                function = SOLUTIONS[name]
                result = judge(exercise, lambda *told, f=function: moved(f(*told)))
                if result.status == FAILED:
                    graded.add(name)
                    told, said = result.problem.got, result.problem.expected
                    if said[0] in "[({":
                        self.assertFalse(said.startswith(told), said)
                    else:
                        last = number.findall(told.partition(", in ")[0])[-1]
                        self.assertNotIn(
                            last, number.findall(said.split(" (")[0]), told
                        )
        self.assertGreater(len(graded), 12)

    def test_a_value_of_another_kind_does_not_look_like_the_right_one(self):
        for name, value, told in (
            ("pick", 0.0, "0.0"),
            ("pick", True, "True"),
            ("loss_mask", [0.0, 1.0], "[0.0, 1.0]"),
            ("extract_answer", 7, "7"),
        ):
            self.assertEqual(self.problem(name, lambda *_, v=value: v).got, told)

        class Foreign:  # a number or a truth of a library, printed as Python's are
            def __repr__(self):
                return "0"

        mine = [Foreign()]
        problem = self.problem("pick", lambda *_: mine[0])
        self.assertEqual(
            (problem.expected[:2], problem.got), ("0 ", "0, of the type Foreign")
        )
        exercise = EXERCISES["keep_informative"]
        mine = [type("Flag", (), {"__repr__": lambda self: "True"})() for _ in range(3)]
        problem = judge(exercise, lambda *_: mine).problem
        self.assertEqual(problem.got, "[True, True, True], of the type list of Flag")

    def test_whatever_is_raised_is_told(self):
        class Mute(BaseException):
            __str__ = None

        for error in (KeyboardInterrupt, GeneratorExit, SystemExit, Mute):

            def softmax(logits, error=error):
                raise error

            self.assertRegex(
                self.problem("softmax", softmax).got, rf"^{error.__name__} in line \d+$"
            )

        class Heavy(float):
            def __add__(self, *others):
                raise KeyboardInterrupt

            __repr__ = __add__

        problem = self.problem(
            "leave_one_out", lambda rewards: [Heavy()] * len(rewards)
        )
        self.assertRegex(problem.got, "^what can't be used: KeyboardInterrupt")
        self.assertEqual(self.problem("softmax", lambda _: Heavy()).got, "<Heavy>")

    def test_a_function_of_another_make_is_graded_too(self):
        made = functools.partial(lambda extra, logits: softmax(logits), None)
        self.assertEqual(judge(EXERCISES["softmax"], made).status, DONE)
        cached = functools.lru_cache(lambda p, q: p + (1 - p) * q * 3)
        self.assertEqual(judge(EXERCISES["exact_return"], cached).status, DONE)

    def test_each_exercise_is_in_its_chapter(self):
        for chapter, exercises in CHAPTERS.items():
            for exercise in exercises:
                self.assertEqual(exercise.chapter, chapter)
            self.assertGreaterEqual(len(exercises), 5)


class Texts(unittest.TestCase):
    """Titles, properties and hints, in both languages."""

    def properties(self):
        """(where it stands, name, hint) of each, those of every exercise among them."""
        for exercise in EXERCISES.values():
            yield exercise.name, *kind(exercise.gives)
            for one in exercise.properties:
                yield exercise.name, one.name, one.hint
        for one in (UNCHANGED, ENDS, LIVES, MISSING):
            yield "all", *one

    def texts(self):
        for exercise in EXERCISES.values():
            yield exercise.about
        for _, name, hint in self.properties():
            yield from (name, hint)

    def test_both_languages_are_there_and_each_is_in_its_own(self):
        for text in self.texts():
            self.assertEqual(sorted(text), ["en", "zh"])
            self.assertRegex(text["zh"], HAN)
            self.assertNotRegex(text["en"], f"{HAN.pattern}|{FULL_WIDTH.pattern}")
            for one in text.values():
                self.assertNotRegex(one.replace("!=", ""), "[!\uff01]")

    def test_hints_are_sentences(self):
        for _, _, hint in self.properties():
            for text in hint.values():
                self.assertRegex(text, r"[.\u3002\uff1f?]$")

    def test_chinese_has_its_own_punctuation_and_spacing(self):
        for text in self.texts():
            self.assertNotRegex(text["zh"], rf"{HAN.pattern}[,;:?!()]")
            self.assertNotRegex(
                text["zh"], rf"{HAN.pattern}[A-Za-z0-9]|[A-Za-z0-9]{HAN.pattern}"
            )

    def test_a_property_goes_on_after_it_must(self):
        for _, name, _ in self.properties():
            self.assertRegex(name["en"], r"^[a-z].*[^.]$")
            self.assertRegex(name["zh"], rf"^{HAN.pattern}.*[^\u3002\uff1f]$")

    def test_no_two_properties_of_an_exercise_have_one_name(self):
        for language in ("en", "zh"):
            names = [(where, name[language]) for where, name, _ in self.properties()]
            self.assertEqual(len(names), len(set(names)))

    def test_numbers_names_in_code_and_formulas_are_the_same_in_both(self):
        for where, *texts in self.properties():
            for text in texts:
                self.assertEqual(*map(code_in, text.values()), where)

    def test_the_mean_that_the_hint_calls_k2_is_the_one_that_is_told(self):
        problem = judge(EXERCISES["k3"], k2).problem
        told = problem.got.rpartition(" ")[2]
        for hint in problem.hint.values():
            self.assertRegex(hint, rf"\b{re.escape(told)}\b.*\bk2\b")


# ------------------------------------------------------------------ the command

EVERYTHING = """
import os, sys, threading, time
threading.Thread(target=lambda: time.sleep(60)).start()
print("a line", "\u7ed3\u679c")
os.write(1, b"and another")

def exact_return(p, q):
    print("noise")
    sys.stderr.write("more noise")
    return p + (1 - p) * q * 3

def softmax(logits):
    return input()

def log_prob(logits, action):
    while True:
        pass

def score(logits, action):
    os._exit(7)

def pick(probabilities, draw):
    sys.exit("no")

def returns_to_go(rewards, discount=1.0):
    for reward in rewards:
        reward

def mean_estimate(logits, pays, baseline):
    return reinforce_step(logits, pays, baseline)

def reinforce_step(logits, episodes, rate):
    raise NotImplementedError
"""


# score is wrong; pick is too, and does not use it; mean_estimate uses score by way of a
# helper, and reinforce_step calls it in an inner function.
BUILT_ON_SAND = """
import math

def exact_return(p, q):
    return p + (1 - p) * q * 3

def softmax(logits):
    raise NotImplementedError

def log_prob(logits, action):
    top = max(logits)
    return logits[action] - top - math.log(sum(math.exp(z - top) for z in logits))

def pi(logits):
    return [math.exp(log_prob(logits, a)) for a in range(len(logits))]

def score(logits, action):
    return [p - (a == action) for a, p in enumerate(pi(logits))]

def pick(probabilities, draw):
    score = [0.0, 0.0]
    return len(score)

def returns_to_go(rewards, discount=1.0):
    return [sum(rewards[t:]) for t in range(len(rewards))]

def weighted(logits, weights):
    rows = [[w * s for s in score(logits, a)] for a, w in enumerate(weights)]
    return [sum(column) for column in zip(*rows)]

def mean_estimate(logits, pays, baseline):
    weights = [p * (pay - baseline) for p, pay in zip(pi(logits), pays)]
    return weighted(logits, weights)

def reinforce_step(logits, episodes, rate):
    def push(new, state, action, back):
        for place, slope in enumerate(score(logits[state], action)):
            new[state][place] += rate * back * slope / len(episodes)

    new = {state: list(row) for state, row in logits.items()}
    for episode in episodes:
        returns = returns_to_go([reward for _, _, reward in episode])
        for (state, action, _), back in zip(episode, returns):
            push(new, state, action, back)
    return new
"""
MADE = "score = lambda logits, action:"
SAND = {
    "exact_return": None,
    "softmax": None,  # not yet
    "log_prob": None,
    "score": None,
    "pick": None,
    "returns_to_go": None,
    "mean_estimate": "score",
    "reinforce_step": "score",  # and returns_to_go, which comes later
}


COMMAND = (sys.executable, "-m", "agentic_rl")


class Command(InFolder):
    def file(self, text: str, name: str = "chapter_00.py") -> Path:
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def results(self, *arguments: object) -> tuple[int, dict[str, dict[str, str]]]:
        """(exit status, name -> what is told of it) of one file."""
        done = command("check", *arguments, "--json")
        self.assertEqual(done.err, "")
        (file,) = json.loads(done.out)["files"]
        return done.status, {result["name"]: result for result in file["results"]}

    def test_the_solutions_are_all_done_and_the_learners_files_not_yet(self):
        done = command("check", FOLDER / "solutions")
        self.assertEqual((done.status, done.err), (0, ""))
        self.assertTrue(done.out.endswith("\n25 of 25 done\n"))
        done = command("check", FOLDER)
        self.assertEqual(done.status, 1)
        self.assertTrue(done.out.endswith("\n0 of 25 done, 25 not yet\n"))

    def test_nothing_that_a_file_does_stops_the_grading_of_the_rest(self):
        status, found = self.results(self.file(EVERYTHING), "--seconds", 1)
        self.assertEqual(status, 1)
        self.assertEqual(
            found["exact_return"], {"name": "exact_return", "status": DONE}
        )
        for name, must, asked, got in (
            ("softmax", "give positive", "softmax([5.0])", "EOFError in line 13"),
            (
                *("log_prob", "come to an end", "log_prob([0.0, 0.0], 0)"),
                "nothing within 1 s, at line 1[67]$",
            ),
            (
                *("score", "leave the process alive", "score([0.0, 0.0], 0)"),
                "the end of the process, with status 7$",
            ),
            ("pick", "give each", "pick([0.2, 0.5, 0.3], 0.025)", "SystemExit in line"),
            ("returns_to_go", "give a list", "returns_to_go([0.0, 3.0])", "None$"),
        ):
            self.assertEqual(found[name]["status"], FAILED, name)
            self.assertTrue(found[name]["property"].startswith(must), found[name])
            self.assertEqual(found[name]["given"], asked)
            self.assertRegex(found[name]["got"], f"^{got}")
        for name in ("mean_estimate", "reinforce_step"):  # the first calls the second
            self.assertEqual(found[name], {"name": name, "status": NOT_YET})

    def test_a_function_that_is_missing_or_is_none(self):
        status, found = self.results(self.file("softmax = [1]\n"))
        self.assertEqual(status, 1)
        self.assertEqual(found["softmax"]["got"], "[1]")
        self.assertEqual(found["score"]["got"], "nothing of this name")
        self.assertEqual({one["property"] for one in found.values()}, {"be there"})

    def test_a_file_that_cannot_be_run_is_told_in_a_line(self):
        for text, said in (
            ("x = 1\ndef softmax(:\n", "SyntaxError in line 2: "),
            ("x = 1\n\ny = 1 / 0\n", "ZeroDivisionError in line 3: "),
            ("import no_such_module\n", "ModuleNotFoundError in line 1: "),
            ("raise SystemExit\n", "SystemExit in line 1"),
            ("while True:\n    pass\n", "nothing within 1 s, at line [12]"),
            ("import os\nos._exit(0)\n", "the end of the process, with status 0"),
            ("raise KeyboardInterrupt", "KeyboardInterrupt in line 1\n"),
            ("raise GeneratorExit", "GeneratorExit in line 1\n"),
        ):
            done = command("check", self.file(text), "--seconds", 1)
            self.assertEqual((done.status, done.err), (1, ""), text)
            self.assertRegex(done.out, f"  The file can't be run: {said}")
            self.assertTrue(done.out.endswith("\n0 of 8 done, 8 failed\n"))

    @mock.patch.dict(os.environ)
    def test_the_package_cannot_be_hidden_and_no_bytecode_is_written(self):
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        self.file("raise ValueError\n", "agentic_rl.py")
        self.file("raise ValueError\n", "random.py")
        path = self.file(
            "import random\ndef k3(a, b):\n    return 1.0\n", "chapter_02.py"
        )
        self.assertEqual(self.results(path)[1]["k3"]["status"], FAILED)
        text = "from __future__ import annotations\n"
        text += "from dataclasses import dataclass\n"
        text += "@dataclass\nclass Pair:\n    a: float\n    b: float\n"
        text += "import math, beside\ndef k3(a, b):\n    return math.exp(b - a) + a - b - 1\n"
        self.file(text, "chapter_02.py")
        self.file("", "beside.py")
        self.assertEqual(self.results(path)[1]["k3"]["status"], DONE)
        self.assertEqual(list(self.folder.rglob("*.pyc")), [])

    def page(self, path: Path, *options: str) -> tuple[str, list[list[str]]]:
        """(the page, label and text of what is told below the exercises)."""
        with mock.patch.object(check, "encoding", lambda: "utf-8"):
            out = command("check", path, *options).out
        told: list[list[str]] = []
        for line in out.splitlines():
            if labelled := re.match(r" {10}(\S+(?: \S+)?) {2,}(?=\S)", line):
                self.assertEqual(check.columns(labelled[0]), 21, line)
                told.append([labelled[1], line[labelled.end() :]])
            elif line.startswith(" " * 21):
                told[-1][1] += line[21:]
        return out, [[label, text.replace(" ", "")] for label, text in told]

    def test_what_is_told_is_in_the_language_that_is_asked_for(self):
        path = self.file("def exact_return(p, q):\n    return 0.0\n")
        exercise = EXERCISES["exact_return"]
        name, hint, _ = exercise.properties[0]
        for language, given in (("en", []), ("en", ["en"]), ("zh", ["zh"])):
            option = [word for word in ("--language", *given) if given]
            _, found = self.results(path, *option)
            self.assertEqual(found["exact_return"]["hint"], hint[language])
            self.assertEqual(found["exact_return"]["property"], name[language])
            out, told = self.page(path, *option)
            self.assertIn(f"exact_return         {exercise.about[language]}\n", out)
            labels, texts = zip(*told[:5])
            self.assertEqual(labels, check.LABELS[language][:5])
            self.assertEqual(texts[0], name[language].replace(" ", ""))
            self.assertEqual(texts[4], hint[language].replace(" ", ""))

    def test_what_to_mend_first_where_a_failed_function_uses_a_failed_one(self):
        path = self.file(BUILT_ON_SAND)
        _, found = self.results(path)
        first = {name: one.get("first") for name, one in found.items()}
        self.assertEqual(first, SAND)
        names = [name for name in SAND.values() if name]
        for language in ("en", "zh"):
            _, told = self.page(path, "--language", language)
            last = check.LABELS[language][-1]
            said = [check.FIRST[language].format(name) for name in names]
            self.assertEqual(
                [text for label, text in told if label == last],
                [text.replace(" ", "") for text in said],
            )

    def test_a_file_that_cannot_be_run_in_both_languages(self):
        path = self.file("x = (\n")
        for language in ("en", "zh"):
            out, _ = self.page(path, "--language", language)
            said = check.UNREADABLE[language]
            self.assertRegex(out, rf"(?m)^ {{10}}{said}SyntaxError in line 1")

    def test_a_file_that_is_not_utf_8_is_to_be_saved_as_such(self):
        path = self.folder / "chapter_00.py"
        path.write_bytes("x = 1\ny = 2\nz = 3  # \u7b54\u6848\n".encode("gbk"))
        for language, said in NO_TEXT.items():
            out, _ = self.page(path, "--language", language)
            told = check.UNREADABLE[language] + said.format(3)
            self.assertIn(f"{'':10}{told}\n", out)
        (file,) = json.loads(command("check", path, "--json").out)["files"]
        self.assertEqual(file["unreadable"], NO_TEXT["en"].format(3))

    def test_a_file_may_write_what_it_likes_where_it_runs(self):
        writes = (
            "for name in ('told', 'asked', 'alarm'):\n    open(name, 'w').write('x')\n"
        )
        right = "def exact_return(p, q):\n    return p + (1 - p) * q * 3\n"
        path = self.file(f"{writes}{right}")
        self.assertEqual(self.results(path)[1]["exact_return"]["status"], DONE)
        # On purpose, in the place of the results: the process has ended, and no more.
        for written in ("x", '{"uses": {"softmax": 1}}'):
            ends = f"open('../told', 'w').write({written!r})\nimport os\nos._exit(3)\n"
            done = command("check", self.file(f"{right}{ends}"))
            self.assertEqual((done.status, done.err), (1, ""), written)
            self.assertIn("the end of the process, with status 3", done.out)

    def test_results_are_read_up_to_one_that_cannot_be(self):
        text = {"en": "x", "zh": "x"}
        failed = [text, "x", "x", "x", text]
        names = ["softmax", "score", "pick"]
        good = [["softmax", DONE, None, ""], ["score", FAILED, failed, ""]]
        found = list(results_in([*good, ["pick", NOT_YET, None, ""]], names))
        self.assertEqual([one.status for one in found], [DONE, FAILED, NOT_YET])
        for bad in (
            *([], 1, None, {}, "pick", ["pick"], ["score", DONE, None, ""]),
            *(["pick", "well", None, ""], ["pick", FAILED, None, ""]),
            ["pick", FAILED, [{"en": "x"}, *failed[1:]], ""],
            *(["pick", FAILED, [1, *failed[1:]], ""], ["pick", DONE, failed, ""]),
            *(["pick", FAILED, failed, 1], [["pick"], DONE, None, ""]),
        ):
            self.assertEqual(list(results_in([*good, bad, bad], names)), found[:2], bad)
        told = f"{json.dumps(good)}\n[[\n{json.dumps(good)}\n"
        self.assertEqual(list(understood(told)), [good])
        self.assertEqual(list(understood("[" * 9999)), [])

    @unittest.skipUnless(hasattr(os, "killpg"), "no process groups")
    def test_nothing_that_a_file_has_started_is_left_behind(self):
        beat = "import time\nwhile True:\n    open({0!r}, 'a').write('x')\n    time.sleep(0.01)"
        starts = (
            "import os, subprocess, sys, time\n"
            "subprocess.Popen([sys.executable, '-c', {1!r}])\n"
            "while not os.path.exists({0!r}):\n    time.sleep(0.01)\n"
        )
        for number, (end, status) in enumerate(
            (("os._exit(0)", 1), ("time.sleep(60)", 1), ("time.sleep(60)", 143))
        ):
            heart = str(self.folder / f"heart{number}")
            path = self.file(starts.format(heart, beat.format(heart)) + end)
            if status == 143:
                words = [*COMMAND, "check", path, "--seconds", "60"]
                process = subprocess.Popen(list(map(str, words)), cwd=ROOT)
                while not os.path.exists(heart):
                    time.sleep(0.01)
                process.terminate()
                self.assertEqual(process.wait(10), status)
            else:
                self.assertEqual(command("check", path, "--seconds", 1).status, status)
            beats = os.path.getsize(heart)
            time.sleep(0.1)
            self.assertEqual(os.path.getsize(heart), beats, end)

    def test_the_page_fits_in_eighty_columns_whatever_it_says(self):
        path = self.file(
            "def exact_return(p, q):\n    return ['\u7b54' * 300]\n"
            "def softmax(logits):\n    return ['x' * 300]\n"
            "def log_prob(logits, action):\n    return '\U0001f600' * 99\n"
            "def score(logits, action):\n    raise ValueError('\u9519\\n\\udc80')\n"
        )
        for language in ("zh", "en"):
            for encoding in ("utf-8", "ascii"):
                with mock.patch.object(check, "encoding", lambda name=encoding: name):
                    out = command("check", path, "--language", language).out
                out.encode(encoding)
                for line in out.splitlines():
                    self.assertLessEqual(check.columns(line), 80, line)
                    self.assertNotRegex(line, r"^ +[\uff0c\u3002\uff1b\uff1a\u3001]")

    def test_a_hint_loses_nothing_where_it_is_folded(self):
        for exercise in EXERCISES.values():
            for one in exercise.properties:
                for text in one.hint.values():
                    with mock.patch.object(check, "encoding", lambda: "utf-8"):
                        lines = list(check.folded(" " * 21, text))
                    self.assertLessEqual(max(map(check.columns, lines)), 80)
                    joined = "".join(lines)
                    self.assertEqual(joined.replace(" ", ""), text.replace(" ", ""))

    def test_colour_where_there_is_a_terminal_that_wants_it(self):
        path = self.file(EVERYTHING.replace("while True", "while False"))
        with mock.patch("agentic_rl.cli.terminal.has_colour", lambda: True):
            out = command("check", path).out
        for code, status in ((32, DONE), (31, FAILED), (33, NOT_YET)):
            self.assertIn(f"\x1b[{code}m{status:<9}\x1b[0m", out)
        self.assertNotIn("\x1b", command("check", path).out)


class Uses(unittest.TestCase):
    def test_itself_through_others_and_inside_of_functions(self):
        found = uses(BUILT_ON_SAND)
        self.assertEqual(
            found["mean_estimate"], ["log_prob", "pi", "score", "weighted"]
        )
        self.assertEqual(
            found["reinforce_step"], ["log_prob", "pi", "returns_to_go", "score"]
        )
        self.assertEqual(found["exact_return"], [])

    def test_a_name_of_its_own_is_not_the_other_function(self):
        for text in (
            "def k3(score): return score",
            "def k3():\n    score = 1\n    return score",
            "def k3():\n    def score(): pass\n    return score()",
            "def k3(): return [score for score in ()]",
            "def k3(x): return x.score(score=1)",
        ):
            source = f"def score(): pass\n{text}\n"
            self.assertEqual(uses(source)["k3"], [], text)

    def test_a_function_that_is_handed_on_and_functions_that_call_each_other(self):
        source = "def a(): return map(b, ())\ndef b(): return lambda: a()\n"
        self.assertEqual(uses(source), {"a": ["a", "b"], "b": ["a", "b"]})

    def test_a_lambda_goes_by_the_name_that_it_is_given(self):
        source = "def a(x): return x\nb = lambda x: a(x)\nc: object = (\n lambda: b)\n"
        source += "d = [lambda: c]\ne = 1\n"
        found = uses(source)
        self.assertEqual((found["b"], found["c"]), (["a"], ["a", "b"]))
        self.assertNotIn("e", found)
        sand = BUILT_ON_SAND.replace("def score(logits, action):\n    return", MADE)
        self.assertEqual(
            uses(sand)["mean_estimate"], uses(BUILT_ON_SAND)["mean_estimate"]
        )

    def test_a_file_in_another_encoding(self):
        text = "a = '\u7b54'\n"
        self.assertEqual(decoded(f"# coding: gbk\n{text}".encode("gbk"))[-8:], text)
        self.assertEqual(decoded(b"\xef\xbb\xbf" + text.encode()), text)
        for source, line in (
            (f"# \u7b54\u6848\n{text}".encode("gbk"), 1),
            (f"\n\n{text}".encode("gbk"), 3),
            (b"# coding: ascii\n# caf\xe9", 2),
            (text.encode("utf-16"), 1),
        ):
            with self.assertRaises(Unreadable) as raised:
                decoded(source)
            self.assertIn(f"line {line} is", raised.exception.args[0]["en"])
        for source in (b"# coding: no-such\n", "# coding: ascii\n'\u7b54'".encode()):
            with self.assertRaises((SyntaxError, UnicodeDecodeError)):
                decoded(source)

    def test_a_function_of_any_name(self):
        source = "def unreadable(): return uses()\ndef uses(): pass\n"
        self.assertEqual(uses(source), {"unreadable": ["uses"], "uses": []})


class Files(InFolder):
    def here(self, folder: Path) -> None:
        before = Path.cwd()
        self.addCleanup(os.chdir, before)
        os.chdir(folder)

    def test_the_files_of_this_folder_or_of_one_above_it(self):
        (self.folder / "exercises" / "deep").mkdir(parents=True)
        (self.folder / "exercises" / "chapter_01.py").write_text("")
        for folder, said in (
            (self.folder, str(Path("exercises", "chapter_01.py"))),
            (self.folder / "exercises", "chapter_01.py"),
            (self.folder / "exercises" / "deep", None),
        ):
            self.here(folder)
            (file,) = json.loads(command("check", "--json").out)["files"]
            path = (self.folder / "exercises" / "chapter_01.py").resolve()
            self.assertEqual(Path(file["file"]).resolve(), path)
            if said:
                self.assertEqual(file["file"], said)

    def test_elsewhere_the_projects_own(self):
        self.here(self.folder)
        files = [path.name for path in check.found()]
        self.assertEqual(files, [f"chapter_{chapter}.py" for chapter in CHAPTERS])

    def test_other_files_of_a_folder_are_left_alone(self):
        for name in ("chapter_01.py", "chapter_notes.py", "chapter_1.py", "notes.py"):
            (self.folder / name).write_text("")
        names = [path.name for path in check.named(self.folder)]
        self.assertEqual(names, ["chapter_01.py"])

    def test_names_are_looked_at_before_anything_is_graded(self):
        for name in ("chapter_00.py", "chapter_77.py"):
            (self.folder / name).write_text("")
        with mock.patch.object(check, "grade") as grade:
            for option in ([], ["--json"]):
                done = command("check", self.folder, *option)
                self.assertEqual((done.status, done.out), (2, ""))
                self.assertIn("chapter_77.py: expected a name with one of", done.err)
        grade.assert_not_called()

    def test_a_name_with_the_chapter_somewhere_in_it(self):
        for name in ("chapter_01.py", "my_chapter_01_again.py"):
            self.assertEqual(check.chapter_of(Path(name)), "01")

    def test_usage(self):
        (self.folder / "answers.py").write_text("")
        for arguments, said in (
            ([self.folder / "none.py"], "none.py: No such file"),
            ([self.folder], "expected files called chapter_NN.py"),
            ([self.folder / "answers.py"], "expected a name with one of chapter_00, "),
            ([FOLDER / "chapter_00.py", "--seconds", "0"], "at least 1"),
            ([FOLDER / "chapter_00.py", "--seconds", "3601"], "at most 3600"),
            ([FOLDER / "chapter_00.py", "--language", "fr"], "expected one of zh, en"),
        ):
            done = command("check", *arguments)
            self.assertEqual((done.status, done.out), (2, ""))
            self.assertIn(said, done.err)
            self.assertEqual(done.err.count("\n"), 1)
        self.here(self.folder)
        with mock.patch.object(check, "FOLDER", "no-exercises"):
            self.assertEqual(command("check").status, 2)


class OneWay(unittest.TestCase):
    def test_the_graders_know_nothing_of_the_command_line(self):
        order = ["grading", *(f"chapter_{c}" for c in CHAPTERS), "__init__", "isolated"]
        folder = ROOT / "agentic_rl" / "exercises"
        self.assertEqual(
            sorted(order), sorted(path.stem for path in folder.glob("*.py"))
        )
        for place, name in enumerate(order):
            above = {f"agentic_rl.exercises.{x}" for x in order[:place]}
            above |= {"agentic_rl.exercises"} if name == "isolated" else set()
            for module in imported(folder / f"{name}.py"):
                self.assertFalse(module.startswith("agentic_rl.cli"), (name, module))
                if module.startswith("agentic_rl.exercises"):
                    self.assertIn(module, above | {"agentic_rl.exercises"}, name)

    def test_the_learners_files_need_nothing_installed(self):
        for path in FOLDER.rglob("*.py"):
            for module in imported(path):
                top = module.split(".")[0]
                self.assertIn(top, ("agentic_rl", *sys.stdlib_module_names), path)


class Pages(unittest.TestCase):
    """exercises/README.md and README.en.md."""

    @classmethod
    def setUpClass(cls):
        cls.chinese, cls.english = (read(FOLDER / name) for name in NAMES)

    def test_every_exercise_is_listed_in_its_chapter_in_order(self):
        for text in (self.chinese, self.english):
            listed = [[row[0] for row in table[1:]] for table in tables(text)]
            expected = [
                [f"`{exercise.name}`" for exercise in chapter]
                for chapter in CHAPTERS.values()
            ]
            self.assertEqual(listed, expected)

    def test_how_many_there_are(self):
        for text in (self.chinese, self.english):
            self.assertRegex(text, rf"\b{len(EXERCISES)}\b")

    def test_both_languages_say_the_same(self):
        self.assertEqual(headings(self.chinese), headings(self.english))
        self.assertEqual(code_blocks(self.chinese), code_blocks(self.english))
        self.assertEqual(shapes(self.chinese), shapes(self.english))
        self.assertEqual(self.chinese.count("\n- "), self.english.count("\n- "))
        names = [
            re.sub(r"\.en\.(md|ipynb)", r".\1", link).replace("/docs/en/", "/docs/")
            for link in links(self.english)
        ]
        self.assertEqual(links(self.chinese)[1:], names[1:])
        in_code = [
            set(re.findall(r"`([^`\n]+)`", prose(text)))
            for text in (self.chinese, self.english)
        ]
        self.assertEqual(*in_code)

    def test_links_lead_to_files_and_to_places_in_them(self):
        for text in (self.chinese, self.english):
            for link in links(text):
                name, _, anchor = link.partition("#")
                path = FOLDER / name
                self.assertTrue(path.exists(), link)
                if anchor:
                    self.assertIn(f'<a id="{anchor}"></a>', read(path), link)

    def test_commands_take_their_arguments_and_name_what_is_there(self):
        blocks = code_blocks(self.english)
        self.assertIn("python3 -m agentic_rl check\n", blocks[0])
        for line in re.findall(r"python3 -m agentic_rl (\w[^`|\n]*)", self.english):
            name, *arguments = line.split()
            for file in read_arguments(COMMANDS[name], arguments)["operands"]:
                self.assertTrue((ROOT / file).exists(), line)

    def test_the_manners_of_the_other_pages(self):
        for text, other in ((self.chinese, NAMES[1]), (self.english, NAMES[0])):
            self.assertIn(f"]({other})", "".join(text.splitlines()[:5]))
            self.assertNotRegex(text, MACHINE)
            self.assertNotRegex(text, r"https?://")
            self.assertNotRegex(text.replace("!=", ""), "[!\uff01]")
            self.assertEqual(values(text), set())
            self.assertLessEqual(len(text.splitlines()), 75)
        for line in prose(self.chinese).splitlines():
            without_links = re.sub(r"\]\([^)]*\)", "]", line)
            self.assertNotRegex(without_links, rf"{HAN.pattern}[,;:?!()]")
            glued = rf"{HAN.pattern}[A-Za-z0-9`]|[A-Za-z0-9`]{HAN.pattern}"
            self.assertNotRegex(without_links, glued)
        lines = self.english.splitlines()
        for line in lines[:2] + lines[3:]:
            self.assertNotRegex(line, f"{FULL_WIDTH.pattern}|{HAN.pattern}")


if __name__ == "__main__":
    unittest.main()
