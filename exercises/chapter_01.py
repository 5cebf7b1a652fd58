"""Chapter 01: what an episode leaves behind, and what a trainer makes of it.

Replace each ``raise NotImplementedError``, from top to bottom; a function may call those
above it. This says what is done, and what is wrong with the rest:

    python3 -m agentic_rl check exercises/chapter_01.py

第 01 章：一个回合留下什么，训练器又拿它做什么。

从上往下，把每个 ``raise NotImplementedError`` 换成你的代码；后面的函数可以调用前面的。
下面的命令告诉你哪些做完了，其余的错在哪里：

    python3 -m agentic_rl check exercises/chapter_01.py --language zh
"""
# ruff: noqa: RUF002  (Chinese has its own punctuation)

from __future__ import annotations

from typing import Any


def loss_mask(runs: list[tuple[str, int]]) -> list[int]:
    """1 on every token that the assistant wrote, 0 on all others.

    runs        (author, how many tokens), in the order of the episode. The author is
                "assistant", "user", "tool", "template" (headers, newlines) or "harness"
                (the end of turn that is put behind a turn that was cut off)
    returns     one mark per token

    助手写的 token 都是 1，其余都是 0。

    runs        每段两项：作者，和有几个 token；按回合里的次序。作者是 "assistant"、
                "user"、"tool"、"template"（模板：角色标头、换行）或 "harness"
                （运行框架：一轮被截断时，由它在后面补上结束符）
    returns     每个 token 一个标记

    >>> loss_mask([("user", 3), ("assistant", 2), ("template", 1)])
    [0, 0, 0, 1, 1, 0]
    """
    raise NotImplementedError


def next_token(
    tokens: list[str], mask: list[int]
) -> tuple[list[str], list[str], list[int]]:
    """What a model reads, what it is asked for, and where the answer counts.

    It reads a token and is asked for the one that follows. The mask says which tokens
    were the assistant's; it goes where the asked-for token goes.

    mask        as long as the tokens; 0 on the first one, which nothing can predict
    returns     (inputs, targets, mask of the targets), each one shorter than the tokens

    Raises ValueError if tokens and mask differ in length.

    模型读到什么，被问到什么，哪里的回答算数。

    模型读一个 token，被问的是紧跟着的那一个。掩码（mask）说哪些 token 是助手写的；
    被问到的 token 挪到哪里，它的标记就跟到哪里。

    mask        跟 tokens 一样长；第一个是 0，因为前面没有东西，没法预测它
    returns     三项：输入、目标、目标的掩码，各比 tokens 短一个

    Raises ValueError：tokens 和 mask 长度不同时。

    >>> next_token(["P1", "P2", "R1"], [0, 0, 1])
    (['P1', 'P2'], ['P2', 'R1'], [0, 1])
    """
    raise NotImplementedError


def place_reward(reward: float, mask: list[int]) -> list[float]:
    """One number per token: the reward on the last one that is trained, 0.0 elsewhere.

    mask        1 where the assistant wrote; template and padding may follow behind

    Raises ValueError if no token is trained.

    每个 token 一个数：最后一个要训练的 token 上是奖励，别处都是 0.0。

    mask        助手写的地方是 1；后面还可能有模板和填充（padding）

    Raises ValueError：没有任何 token 要训练时。

    >>> place_reward(0.9, [0, 1, 1, 0])
    [0.0, 0.0, 0.9, 0.0]
    """
    raise NotImplementedError


def episode_log_prob(logprobs: list[float | None], mask: list[int]) -> float:
    """The log of the probability that the policy wrote all that it wrote.

    logprobs    one per token, in nats; None where there is none. A trainer may have
                computed one for a token that the policy did not write, possibly -inf: it
                is not the policy's
    mask        1 where the policy wrote the token

    策略写出它所写的全部内容，这件事的概率的对数。

    logprobs    每个 token 一个，单位是 nat；没有的地方是 None。
                不是策略写的 token，训练器也可能给它算出一个，甚至是 -inf：那不是策略的
    mask        策略写的 token 是 1

    >>> episode_log_prob([None, -1.5, -0.25, None], [0, 1, 1, 0])
    -1.75
    """
    raise NotImplementedError


def decode_arguments(arguments: Any) -> dict[str, Any] | None:
    """The arguments of a tool call as an object, or None if they can't be run.

    arguments   what the model's message holds: an object, or the JSON text of one, and
                sometimes what is neither
    returns     the object. None for broken JSON, for JSON that is no object, and for an
                object that was encoded twice: nothing is repaired

    把工具调用的参数变成对象（dict）；没法执行的，给出 None。

    arguments   模型的消息里写的东西：一个对象，或者一个对象的 JSON 文本，
                有时两样都不是
    returns     那个对象。JSON 残缺、JSON 里不是对象、对象编码了两次，都给出 None：
                什么也不替它修

    >>> decode_arguments('{"expression": "347 * 86"}')
    {'expression': '347 * 86'}
    >>> decode_arguments('{"expression": "347') is None
    True
    """
    raise NotImplementedError


def is_valid_call(name: str, arguments: Any, tools: dict[str, list[str]]) -> bool:
    """Whether a call can be run: if not, it is an invalid call, and costs more.

    name        of the tool that is called
    arguments   an object, or the JSON text of one; see decode_arguments
    tools       tool -> the names of its arguments. All are required, no other is allowed,
                and each value is text

    一次调用能不能执行：不能，就是无效调用，费用更高。

    name        要调用的工具的名字
    arguments   一个对象，或者一个对象的 JSON 文本；见 decode_arguments
    tools       工具 -> 它的参数名。每个都要有，此外的都不许有，每个值都是文本

    >>> is_valid_call("calculator", {"expression": "1 + 1"}, {"calculator": ["expression"]})
    True
    """
    raise NotImplementedError


def extract_answer(text: str) -> str | None:
    """The one number that a text states as its answer, as it is written, or None.

    A number is digits, perhaps with a minus sign before and decimals behind: 7, -5, 0.25.

    - If the text has "Answer:" in it, with this capital and this colon, only what follows
      the last one counts, down to the end of the text. Otherwise all of it counts.
    - A text with no number states no answer, and neither does one with several different
      ones. The same number twice is one, and 7 and 7.0 are the same: what is written
      first is given.

    一段文本当作答案给出的那一个数，照原样写；没有就是 None。

    数由数字组成，前面可以有负号，后面可以有小数部分：7、-5、0.25。

    - 文本里有 "Answer:"（大写和冒号都要对）时，只有最后一个后面的内容算数，一直到文本末尾。
      没有，就全文都算。
    - 一个数也没有，就没有给出答案；有几个不同的数，也一样。同一个数出现两次算一个，
      7 和 7.0 也是同一个：给出先写的那个。

    >>> extract_answer("347 * 86 is 29842. Answer: 29842.")
    '29842'
    >>> extract_answer("14, 15 or 16") is None
    True
    """
    raise NotImplementedError


def reward(
    is_right: bool, calls: int, invalid_calls: int
) -> tuple[float, dict[str, float]]:
    """The reward of the course, and the parts it is made of.

    A right answer pays 1. Each call that ran costs 0.1, each that could not be run 0.2;
    both are charged on a right answer only, however many there are.

    calls           that ran
    invalid_calls   that could not be run
    returns         (total, breakdown). The breakdown has what "right", "calls" and
                    "invalid_calls" paid, all three, and adds up to the total

    本课的奖励，和组成它的各项。

    答对付 1。执行了的调用每次收 0.1，没法执行的每次收 0.2；
    这两种费用只在答对时收，次数再多也照收。

    calls           执行了的调用有几次
    invalid_calls   没法执行的有几次
    returns         两项：总数和明细。明细写 "right"、"calls"、"invalid_calls" 各付了多少，
                    三项都要有，加起来等于总数

    >>> total, breakdown = reward(False, 2, 0)
    >>> total, sorted(breakdown)
    (0.0, ['calls', 'invalid_calls', 'right'])
    """
    raise NotImplementedError
