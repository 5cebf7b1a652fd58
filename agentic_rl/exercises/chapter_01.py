"""Chapter 01: masks, the shift by one, tool calls, answers, a reward."""
# ruff: noqa: RUF001  (the Chinese texts have their own punctuation)

from __future__ import annotations

import json
import math
from typing import Any

from agentic_rl.exercises.grading import (
    MARKS,
    NUMBER,
    NUMBERS,
    OBJECT_OR_NONE,
    TEXT_OR_NONE,
    TRUTH,
    Exercise,
    Kind,
    Probe,
    apart,
    close,
    is_tuple_of,
    shown,
)

CHAPTER = "01"

# ------------------------------------------------------------------ loss_mask

LOSS_MASK = Exercise(
    "loss_mask",
    CHAPTER,
    {"en": "who wrote each token", "zh": "每个 token 是谁写的"},
    MARKS,
)
GOLDEN_RUNS = [
    ("user", 11),
    ("template", 3),
    ("assistant", 20),
    ("template", 1),
    ("tool", 6),
    ("template", 3),
    ("assistant", 4),
    ("template", 1),
]


@LOSS_MASK.must(
    "have one mark a token",
    "给每个 token 一个标记",
    en="A run of 20 tokens needs 20 marks, not one.",
    zh="20 个 token 连成的一段要有 20 个标记，不是一个。",
)
def loss_mask_is_as_long_as_the_tokens(loss_mask: Probe) -> None:
    for runs in ([("user", 3), ("assistant", 2)], [("assistant", 1)], GOLDEN_RUNS):
        found, count = loss_mask(runs), sum(length for _, length in runs)
        loss_mask.require(
            len(found) == count, f"{count} marks", f"{len(found)}: {found}"
        )


@LOSS_MASK.must(
    "be 1 on every turn of the assistant, and 0 on what tools and users wrote",
    "在助手的每一轮上是 1，在工具和用户写的内容上是 0",
    en="The mask goes back to 0 after the assistant's turn: a tool's result is read and not "
    "written. It is 1 again on the next turn; a call counts as much as the answer.",
    zh="助手的一轮结束，掩码就回到 0：工具的结果是读来的，不是写出来的。"
    "到下一轮又是 1；调用和回答一样要训练。",
)
def loss_mask_follows_the_author(loss_mask: Probe) -> None:
    loss_mask.gives(
        [0, 1, 1, 0, 1], [("user", 1), ("assistant", 2), ("tool", 1), ("assistant", 1)]
    )
    runs = [("assistant", 1), ("tool", 2), ("user", 1), ("assistant", 2)]
    loss_mask.gives([1, 0, 0, 0, 1, 1], runs)


@LOSS_MASK.must(
    "be 0 on the template: role headers, and the newline behind a turn",
    "在模板上是 0：角色标头，和一轮后面的换行",
    en="The program puts role headers and newlines there, also around a turn of the "
    "assistant. The model chose none of them, so there is nothing to train: 0, like a "
    "tool's result.",
    zh="角色标头和换行是程序放的，助手那一轮前后的也一样。"
    "它们都不是模型选的，没有什么可训练：跟工具的结果一样，是 0。",
)
def loss_mask_leaves_the_template_out(loss_mask: Probe) -> None:
    loss_mask.gives([0, 0, 1, 0], [("template", 2), ("assistant", 1), ("template", 1)])
    expected = [0] * 14 + [1] * 20 + [0] * 10 + [1] * 4 + [0]
    loss_mask.gives(expected, GOLDEN_RUNS, why="20 + 4 of 49 tokens")


@LOSS_MASK.must(
    "be 0 on the end of turn that the harness put behind a cut",
    "在运行框架给截断的一轮补上的结束符上是 0",
    en="Ask who is the assistant, not who isn't: what nobody thought of should get 0. The "
    "model did not choose to stop here.",
    zh="要问谁是助手，不要列举谁不是：没想到的情况应当是 0。在这里停下不是模型选的。",
)
def loss_mask_leaves_the_harness_out(loss_mask: Probe) -> None:
    runs = [("template", 2), ("assistant", 3), ("harness", 1), ("template", 1)]
    loss_mask.gives([0, 0, 1, 1, 1, 0, 0], runs)


# ------------------------------------------------------------------ next_token

NEXT_TOKEN = Exercise(
    "next_token",
    CHAPTER,
    {"en": "shifted by one, and never misaligned", "zh": "错开一位，始终对齐"},
    Kind(
        "three lists, the last one of 0s and 1s",
        "三个列表，最后一个是整数 0 和 1 的列表",
        is_tuple_of(*[lambda part: isinstance(part, (list, tuple))] * 2, MARKS.fits),
    ),
)
SHIFTED: tuple[tuple[list[str], list[int]], ...] = (
    (["P1", "P2", "P3", "R1", "EOS"], [0, 0, 0, 1, 1]),
    (["Q", "call", "END", "obs", "say", "END", "\n"], [0, 1, 1, 0, 1, 1, 0]),
)


@NEXT_TOKEN.must(
    "ask, after each token, for the one that follows",
    "在每个 token 之后，问紧跟着的那一个",
    en="The last token is only asked for, the first one only read: inputs lose their last "
    "item, targets their first.",
    zh="最后一个 token 只会被问到，第一个只会被读到：输入去掉末尾一项，目标去掉开头一项。",
)
def next_token_asks_for_what_follows(next_token: Probe) -> None:
    for tokens, mask in SHIFTED:
        inputs, targets, _ = next_token(tokens, mask)
        next_token.require(
            close([inputs, targets], [tokens[:-1], tokens[1:]]),
            f"inputs {tokens[:-1]}, targets {tokens[1:]}",
            f"inputs {shown(inputs)}, targets {shown(targets)}",
        )


@NEXT_TOKEN.must(
    "carry each target's own mark along",
    "让每个目标带上自己的标记",
    en="The mask moves once, together with the targets. With mask[:-1] the first token of "
    "an answer is not trained, and the token behind the answer is.",
    zh="掩码跟着目标一起移，只移一次。用 mask[:-1]，回答的第一个 token 就没有训练到，"
    "回答后面那个反而训练了。",
)
def next_token_keeps_the_mask_aligned(next_token: Probe) -> None:
    for tokens, mask in SHIFTED:
        expected = (tokens[:-1], tokens[1:], mask[1:])
        next_token.gives(
            expected, tokens, mask, why=f"the marks are those of {tokens[1:]}"
        )


@NEXT_TOKEN.must(
    "refuse a mask of another length",
    "拒绝长度不同的掩码",
    en="zip stops at the shorter list and says nothing. Compare the lengths first, and "
    "raise ValueError.",
    zh="zip 到短的那个列表就停，一声不吭。先比较长度，不等就 raise ValueError。",
)
def next_token_refuses_misaligned_lists(next_token: Probe) -> None:
    for mask in ([0, 1], [0, 0, 1, 1]):
        why = f"{len(mask)} marks for 3 tokens"
        next_token.refuses(["P1", "P2", "R1"], mask, why=why)


# ------------------------------------------------------------------ place_reward

PLACE_REWARD = Exercise(
    "place_reward",
    CHAPTER,
    {"en": "the token on which a reward lands", "zh": "奖励落在哪个 token 上"},
    NUMBERS,
)


@PLACE_REWARD.must(
    "put the whole reward on one token, the last that is trained",
    "把整个奖励放在一个 token 上，就是最后一个要训练的",
    en="The reward belongs to the episode, so it is given once. On every token it would "
    "be given as often as the episode is long.",
    zh="奖励是整个回合的，只给一次。每个 token 都给，回合有多长就给了多少次。",
)
def place_reward_once(place_reward: Probe) -> None:
    place_reward.gives([0.0, 0.9], 0.9, [0, 1])
    place_reward.gives([0.0, 0.0, 0.0, 0.0, 0.7], 0.7, [0, 1, 1, 0, 1])
    place_reward.gives([0.0, -0.5], -0.5, [1, 1])
    place_reward.gives([0.0, 0.0], 0.0, [0, 1], why="a reward of 0 is one too")


@PLACE_REWARD.must(
    "pass over template and padding behind the last trained token",
    "越过最后一个要训练的 token 后面的模板和填充",
    en="The last token of the list is most often a newline or padding. Nothing is trained "
    "there, so a reward on it is lost. Look for the last 1 of the mask.",
    zh="列表的最后一个 token 多半是换行或填充，那里什么也不训练，奖励放上去就丢了。"
    "要找的是掩码里最后一个 1。",
)
def place_reward_before_the_padding(place_reward: Probe) -> None:
    place_reward.gives([0.0, 0.0, 0.9, 0.0], 0.9, [0, 1, 1, 0])
    place_reward.gives([0.0, 0.9, 0.0, 0.0, 0.0], 0.9, [1, 1, 0, 0, 0])


@PLACE_REWARD.must(
    "refuse an episode in which nothing is trained",
    "拒绝什么也不训练的回合",
    en="Returning zeros would lose the reward without a word. Raise ValueError.",
    zh="返回全零的列表，奖励就无声无息地丢了。raise ValueError。",
)
def place_reward_refuses(place_reward: Probe) -> None:
    place_reward.refuses(0.9, [0, 0, 0], why="no token to put it on")


# ------------------------------------------------------------------ episode_log_prob

EPISODE_LOG_PROB = Exercise(
    "episode_log_prob",
    CHAPTER,
    {
        "en": "one log-prob for all that was written",
        "zh": "写下的全部，合成一个对数概率",
    },
    NUMBER,
)


@EPISODE_LOG_PROB.must(
    "add up the log-probs of what the policy wrote",
    "把策略所写内容的对数概率加起来",
    en="Probabilities multiply, so their logs add up. A mean would be another number, and "
    "so would the probability itself.",
    zh="概率相乘，对数就相加。取平均得到的是另一个数，概率本身也是另一个数。",
)
def episode_log_prob_is_a_sum(episode_log_prob: Probe) -> None:
    episode_log_prob.gives(-1.75, [None, -1.5, -0.25, None], [0, 1, 1, 0])
    two_choices = [None, math.log(1 / 6), 0.0, None, math.log(1 / 6), 0.0]
    why = "log(1/6 * 1/6)"
    episode_log_prob.gives(math.log(1 / 36), two_choices, [0, 1, 1, 0, 1, 1], why=why)


@EPISODE_LOG_PROB.must(
    "never read what stands where the mask is 0",
    "从不读取掩码为 0 的位置上的东西",
    en="A number may stand there: a model gives the tool's text a probability too. Let the "
    "mask decide, not whether there is a None.",
    zh="那里可能有数：模型给工具的文本也能算出概率。该由掩码决定，不是看有没有 None。",
)
def episode_log_prob_is_masked(episode_log_prob: Probe) -> None:
    for unread in (None, -7.0, 0.0, -math.inf):
        why = "only -1.5 and -0.5 are the policy's"
        logprobs = [unread, -1.5, unread, -0.5]
        episode_log_prob.gives(-2.0, logprobs, [0, 1, 0, 1], why=why)


@EPISODE_LOG_PROB.must(
    "stay exact where the probability itself rounds to 0",
    "在概率本身舍入成 0 时仍然精确",
    en="So it does in any long episode: the product of a few thousand probabilities is 0, "
    "and log(0) is no number. Stay with logarithms from beginning to end.",
    zh="回合一长就会这样：几千个概率乘起来舍入成 0，log(0) 就不是数了。"
    "从头到尾都用对数来算。",
)
def episode_log_prob_stays_finite(episode_log_prob: Probe) -> None:
    why = "exp of it rounds to 0"
    episode_log_prob.gives(-900.0, [-300.0, -400.0, -200.0], [1, 1, 1], why=why)


# ------------------------------------------------------------------ decode_arguments

DECODE_ARGUMENTS = Exercise(
    "decode_arguments",
    CHAPTER,
    {"en": "arguments, as an object or as text", "zh": "参数：是对象，还是文本"},
    OBJECT_OR_NONE,
)
OBJECTS: tuple[dict[str, Any], ...] = (
    {"expression": "347 * 86"},
    {},
    {"item": 'a "large" apple', "exact": True, "limit": None, "sizes": [1, 2.5]},
)


@DECODE_ARGUMENTS.must(
    "take an object as it is",
    "原样收下对象",
    en="Inside a program arguments are an object already. json.loads wants text: ask with "
    "isinstance first.",
    zh="在程序内部，参数本来就是对象。json.loads 只收文本：先用 isinstance 问一下。",
)
def decode_takes_objects(decode_arguments: Probe) -> None:
    for arguments in OBJECTS:
        decode_arguments.gives(arguments, arguments)


@DECODE_ARGUMENTS.must(
    "read the JSON text of an object",
    "读得懂对象的 JSON 文本",
    en="JSON writes true, null and double quotes. Python's own notation is something else, "
    "so use json.loads.",
    zh="JSON 里写的是 true、null 和双引号，跟 Python 的写法不同，所以用 json.loads。",
)
def decode_reads_json(decode_arguments: Probe) -> None:
    for arguments in OBJECTS:
        decode_arguments.gives(arguments, json.dumps(arguments))


@DECODE_ARGUMENTS.must(
    "give None for text that is no JSON",
    "对不是 JSON 的文本给出 None",
    en="An empty object would be run as a call without arguments, and an exception would "
    "end the episode. Neither is what the model wrote, and nor is a repaired text: hand the "
    "whole text to json.loads, as it is.",
    zh="换成空对象，就会当作没有参数的调用去执行；抛异常，回合就断了。模型写的都不是这个，"
    "修补过的文本也不是：把整段文本原样交给 json.loads。",
)
def decode_refuses_broken_json(decode_arguments: Probe) -> None:
    for text in ('{"expression": "347', "", "calculator", "{'expression': '347'}"):
        decode_arguments.gives(None, text, why="this is not JSON")
    for repairable in (
        '{"a": "1"',
        '{"a": "1",}',
        '{"a": "1"} ok',
        'call: {"a": "1"}',
        '```json\n{"a": "1"}\n```',
        '{"a": "1\n2"}',
    ):
        decode_arguments.gives(None, repairable, why="nothing is repaired")


@DECODE_ARGUMENTS.must(
    "give None for JSON that is no object, also for one that was encoded twice",
    "对不是对象的 JSON 给出 None，编码了两次的对象也一样",
    en="json.loads is content with a list, a number, null, a string. Check what it gave, "
    "and don't decode again: repairs hide what the model should learn.",
    zh="列表、数、null、字符串，json.loads 都收。检查它给出的是什么，也不要再解一次："
    "替模型修好，它就学不到了。",
)
def decode_refuses_other_json(decode_arguments: Probe) -> None:
    twice = json.dumps(json.dumps({"item": "apple"}))
    decode_arguments.gives(None, twice, why="decoded once, it is text")
    for arguments in ("[1, 2]", "3", "null", '"text"', None, ["item"], 3):
        decode_arguments.gives(None, arguments, why="this is no object")


# ------------------------------------------------------------------ is_valid_call

IS_VALID_CALL = Exercise(
    "is_valid_call",
    CHAPTER,
    {"en": "which calls could not be run", "zh": "哪些调用没法执行"},
    TRUTH,
)
TOOLS = {
    "calculator": ["expression"],
    "lookup": ["item"],
    "convert": ["amount", "unit"],
    "now": [],
}


@IS_VALID_CALL.must(
    "accept a known tool with its arguments, as object or as text",
    "接受已知的工具和它的参数，参数是对象还是文本都行",
    en="Decode first, then compare; decode_arguments takes both forms. A tool may take no "
    "argument at all: an empty object is an object.",
    zh="先解码再比较，两种形式 decode_arguments 都收。有的工具不带参数：空对象也是对象。",
)
def valid_calls(is_valid_call: Probe) -> None:
    for name, arguments in (
        ("calculator", {"expression": "1 + 1"}),
        ("lookup", '{"item": "apple"}'),
        ("convert", {"unit": "kg", "amount": "3"}),
        ("lookup", {"item": ""}),
        ("now", {}),
        ("now", "{}"),
    ):
        is_valid_call.gives(True, name, arguments, TOOLS)


@IS_VALID_CALL.must(
    "reject a tool that isn't there, without raising",
    "拒绝不存在的工具，而且不抛异常",
    en="tools[name] raises KeyError for an unknown name. Ask whether the name is in tools.",
    zh="名字不存在时，tools[name] 会抛 KeyError。先问名字在不在 tools 里。",
)
def unknown_tools(is_valid_call: Probe) -> None:
    for name in ("python", "", "Calculator", " calculator"):
        why = "the tools are calculator, lookup, convert and now"
        is_valid_call.gives(False, name, {"expression": "1 + 1"}, TOOLS, why=why)


@IS_VALID_CALL.must(
    "reject arguments that can't be read",
    "拒绝读不出来的参数",
    en="decode_arguments should give None for them, and None is no object. If yours gives "
    "something else, mend that first.",
    zh="对这样的参数，decode_arguments 应当给出 None，而 None 不是对象。"
    "你的给出的要是别的，先改好它。",
)
def unreadable_arguments(is_valid_call: Probe) -> None:
    for arguments in ('{"expression": "347', "[]", None, json.dumps("{}")):
        for name in ("calculator", "now"):
            is_valid_call.gives(False, name, arguments, TOOLS, why="no object")


@IS_VALID_CALL.must(
    "reject an argument that is missing, unknown, or no text",
    "拒绝缺少的、不认识的、不是文本的参数",
    en="The names must be the same set as those in tools, and every value a str.",
    zh="参数名要跟 tools 里的是同一个集合，而且每个值都是 str。",
)
def wrong_arguments(is_valid_call: Probe) -> None:
    for name, arguments, why in (
        ("calculator", {}, "expression is missing"),
        ("convert", {"amount": "3"}, "unit is missing"),
        ("lookup", {"item": "apple", "shop": "x"}, "shop is unknown"),
        ("lookup", {"Item": "apple"}, "Item is unknown"),
        ("calculator", {"expression": 2}, "2 is no text"),
        ("lookup", '{"item": null}', "null is no text"),
        ("lookup", {"item": ["x"]}, "a list is no text"),
        ("convert", {"amount": "3", "unit": 5}, "5 is no text"),
        ("convert", {"amount": 3, "unit": "kg"}, "3 is no text"),
    ):
        is_valid_call.gives(False, name, arguments, TOOLS, why=why)


# ------------------------------------------------------------------ extract_answer

EXTRACT_ANSWER = Exercise(
    "extract_answer",
    CHAPTER,
    {"en": "the one answer that a text states", "zh": "一段文本给出的那一个答案"},
    TEXT_OR_NONE,
)


@EXTRACT_ANSWER.must(
    "find the one number, as it is written",
    "找出那一个数，照原样写",
    en="A pattern with an optional minus and optional decimals finds it. A full stop at "
    "the end of a sentence is no decimal point: digits must follow.",
    zh="用一个模式去找：可以有负号，可以有小数部分。句末的句点不是小数点，后面得有数字才算。",
)
def extract_finds_the_number(extract_answer: Probe) -> None:
    for number in ("7", "-5", "0.25", "29842", "3.14159"):
        for text in (f"Answer: {number}", f"I guess {number}.", f"({number})", number):
            extract_answer.gives(number, text)


@EXTRACT_ANSWER.must(
    "find no answer where there is no number, or several",
    "在没有数、或有好几个数时，当作没有答案",
    en="Who names several candidates has not answered. Taking the first or the last one "
    "would pay for guessing in bulk.",
    zh="列出几个候选，等于没有回答。取第一个或最后一个，就是在奖励成批地猜。",
)
def extract_wants_one(extract_answer: Probe) -> None:
    for text in ("14, 15 or 16", "Answer: 15 or 16", "I don't know.", "", "Answer:"):
        extract_answer.gives(None, text)
    extract_answer.gives(None, "Answer: 5 or -5", why="two numbers")
    extract_answer.gives(None, "Answer: 7...8", why="two numbers")
    extract_answer.gives(None, "Answer: 1e5", why="not one number")
    extract_answer.gives(None, "Answer: infinity", why="no digits")


@EXTRACT_ANSWER.must(
    'read only what follows the last "Answer:"',
    "只读最后一个“Answer:”后面的内容",
    en='Working may stand before it, and a corrected answer too. rpartition("Answer:") '
    "cuts at the last one, and gives the whole text where there is none.",
    zh='前面可能有演算，也可能有后来改掉的答案。rpartition("Answer:") 从最后一个处切开；'
    "一个也没有，就给出全文。",
)
def extract_reads_behind_the_mark(extract_answer: Probe) -> None:
    extract_answer.gives("29842", "347 * 86 is 29842. Answer: 29842.")
    extract_answer.gives("7", "Answer: 5. No, wait. Answer: 7")
    extract_answer.gives(None, "6 * 7 is 42. Answer: unknown")
    extract_answer.gives(None, "It is 5. Answer:", why="nothing follows")
    extract_answer.gives(None, "Answer: 7\nor 8", why="both lines follow")
    for text in ("I tried 5. answer: 7", "I tried 5. Answer 7"):
        extract_answer.gives(
            None, text, why='there is no "Answer:", so all of it counts'
        )


@EXTRACT_ANSWER.must(
    "take a number that is said twice as one",
    "把说了两遍的同一个数当作一个",
    en="Several different numbers leave no answer; count them as a set. Of numbers and not "
    "of texts: 7 and 7.0 are equal. Then give the text that came first.",
    zh="几个不同的数才算没有答案；用集合来数。放进集合的是数，不是文本：7 和 7.0 相等。"
    "给出的则是先写的那个文本。",
)
def extract_counts_different_numbers(extract_answer: Probe) -> None:
    extract_answer.gives("7", "7, yes, 7")
    extract_answer.gives("-2.5", "Answer: -2.5, that is -2.5")
    extract_answer.gives("7", "Answer: 7, or 7.0", why="one number, as written first")
    extract_answer.gives("0.50", "0.50 is 0.5", why="one number, as written first")


# ------------------------------------------------------------------ reward

PARTS = ("right", "calls", "invalid_calls")
COSTS = (0.1, 0.2)
REWARD = Exercise(
    "reward",
    CHAPTER,
    {
        "en": "a gate, and a breakdown that adds up",
        "zh": "一道门控，一份加得起来的明细",
    },
    Kind(
        "a finite number and a dict of finite numbers",
        "一个有限的数和一个 dict，dict 里都是有限的数",
        is_tuple_of(
            NUMBER.fits,
            lambda parts: isinstance(parts, dict) and NUMBERS.fits([*parts.values()]),
        ),
    ),
)


def _pays(
    reward: Probe, expected: float, told: tuple[bool, int, int], why: str
) -> None:
    total, _ = reward(*told)
    wanted, got = apart(expected, total)
    reward.require(close(total, expected), f"a total of {wanted} ({why})", got)


def _breaks_down(reward: Probe, told: tuple[bool, int, int]) -> None:
    """Require the three parts of a right answer's reward."""
    total, parts = reward(*told)
    reward.require(parts.keys() == set(PARTS), f"the parts {', '.join(PARTS)}", parts)
    found = math.fsum(parts.values())
    wanted, got = apart(total, found)
    got = f"{shown(parts)}, which add up to {got}"
    reward.require(close(found, total), f"parts that add up to {wanted}", got)
    for part, cost, count in zip(PARTS[1:], COSTS, told[1:]):
        wanted, got = apart(-cost * count * told[0], parts[part])
        got = f"{part} {got}, in {shown(parts)}"
        reward.require(
            close(parts[part], -cost * count * told[0]), f"{part} {wanted}", got
        )


@REWARD.must(
    "pay 1 for a right answer, less 0.1 a call and 0.2 an invalid call",
    "答对付 1，每次调用减 0.1，每次无效调用减 0.2",
    en="Which of the two is dearer? A call that could not be run: that one was the agent's "
    "own fault.",
    zh="两种调用哪种更贵？没法执行的那种：那是智能体自己的错。",
)
def reward_of_right_answers(reward: Probe) -> None:
    _pays(reward, 1.0, (True, 0, 0), "no call")
    _pays(reward, 0.9, (True, 1, 0), "1 - 0.1")
    _pays(reward, 0.7, (True, 3, 0), "1 - 3 * 0.1")
    _pays(reward, 0.8, (True, 0, 1), "1 - 0.2")
    _pays(reward, 0.4, (True, 2, 2), "1 - 2 * 0.1 - 2 * 0.2")


@REWARD.must(
    "be what its breakdown adds up to, with all three parts named every time",
    "等于明细之和，而且三项每次都列出来",
    en="The parts are what was paid, so costs are negative, and a part that pays nothing "
    "is 0.0 and not left out. Counts don't belong there.",
    zh="各项写的是付了多少，所以费用是负数；什么也没付的一项写 0.0，不要省略。"
    "次数不该放在里面。",
)
def reward_adds_up(reward: Probe) -> None:
    for told in ((True, 1, 0), (True, 0, 0), (True, 2, 3), (False, 0, 0)):
        _breaks_down(reward, told)


@REWARD.must(
    "charge nothing on a wrong answer",
    "在答错时什么也不扣",
    en="That is the gate. Without it an attempt that fails costs something, and not trying "
    "is free: chapter 02 has agents that stop trying because of it.",
    zh="这就是门控（gate）。没有它，试了没成要扣钱，不试就不扣："
    "第 02 章里有智能体因此不再尝试。",
)
def reward_is_gated(reward: Probe) -> None:
    for calls, invalid in ((0, 0), (0, 1), (5, 3)):
        _pays(reward, 0.0, (False, calls, invalid), "the answer is wrong")
        _, parts = reward(False, calls, invalid)
        reward.require(
            close([*parts.values()], [0.0] * 3), "parts that are all 0", parts
        )


@REWARD.must(
    "charge each further call the same, however many there are",
    "每多调用一次就照样扣，不管已经有多少次",
    en="No floor at 0: the eleventh call must still cost, or nothing speaks against the "
    "twelfth.",
    zh="不要在 0 处封底：第十一次调用也得付钱，否则第十二次就没有代价了。",
)
def reward_has_no_floor(reward: Probe) -> None:
    _pays(reward, -0.2, (True, 12, 0), "1 - 12 * 0.1")
    _pays(reward, -0.4, (True, 0, 7), "1 - 7 * 0.2")
    _pays(reward, -2.0, (True, 30, 0), "1 - 30 * 0.1")
    _pays(reward, -3.0, (True, 0, 20), "1 - 20 * 0.2")
    for told in ((True, 30, 0), (True, 0, 20)):
        _breaks_down(reward, told)


EXERCISES = (
    LOSS_MASK,
    NEXT_TOKEN,
    PLACE_REWARD,
    EPISODE_LOG_PROB,
    DECODE_ARGUMENTS,
    IS_VALID_CALL,
    EXTRACT_ANSWER,
    REWARD,
)
