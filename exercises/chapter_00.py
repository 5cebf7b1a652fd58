"""Chapter 00: from logits to a better policy, by hand.

Replace each ``raise NotImplementedError``, from top to bottom; a function may call those
above it. An action is a number, counted from 0. This says what is done, and what is wrong
with the rest:

    python3 -m agentic_rl check exercises/chapter_00.py

第 00 章：从 logit 到更好的策略，亲手写一遍。

从上往下，把每个 ``raise NotImplementedError`` 换成你的代码；后面的函数可以调用前面的。
动作用从 0 数起的整数表示。下面的命令告诉你哪些做完了，其余的错在哪里：

    python3 -m agentic_rl check exercises/chapter_00.py --language zh
"""
# ruff: noqa: RUF002  (Chinese has its own punctuation)

from __future__ import annotations


def exact_return(take_in_start: float, take_in_ready: float) -> float:
    """J of the toy world: the mean of what an episode pays, exactly.

        start --take--> 1, end          ready --take--> 3, end
        start --work--> 0, ready        ready --work--> 0, end

    take_in_start   pi(take|start), a probability; the rest is that of work
    take_in_ready   pi(take|ready)

    小世界的 J：一个回合所得的均值，要精确值。小世界怎么走，看上面的图。

    take_in_start   pi(take|start)，一个概率；剩下的就是 work 的概率
    take_in_ready   pi(take|ready)

    >>> exact_return(0.5, 0.5)
    1.25
    """
    raise NotImplementedError


def softmax(logits: list[float]) -> list[float]:
    """pi: exp of each logit, divided by the sum of them all.

    logits      one number per action, at least one; 1000 and -1000 are allowed, although
                exp(1000) is more than a float holds
    returns     one probability per action, in the same order

    pi：每个 logit 的 exp，除以全部 exp 之和。

    logits      每个动作一个数，至少一个；可以是 1000 和 -1000，
                虽然 exp(1000) 大到浮点数存不下
    returns     每个动作一个概率，次序相同

    >>> softmax([0.0, 0.0])
    [0.5, 0.5]
    """
    raise NotImplementedError


def log_prob(logits: list[float], action: int) -> float:
    """log pi(action), in nats; finite even where pi(action) is too small for a float.

    logits      one number per action, from -1000 to 1000

    log pi(action)，单位是 nat；pi(action) 小到浮点数存不下时，它也是有限的。

    logits      每个动作一个数，从 -1000 到 1000

    >>> log_prob([0.0, -1000.0], 1)
    -1000.0
    """
    raise NotImplementedError


def score(logits: list[float], action: int) -> list[float]:
    """The gradient of log pi(action) with respect to the logits.

    logits      one number per action, from -1000 to 1000
    returns     one slope per action: what log pi(action) gains per unit of that logit

    log pi(action) 对各个 logit 的梯度。

    logits      每个动作一个数，从 -1000 到 1000
    returns     每个动作一个斜率：那个 logit 每升高一个单位，log pi(action) 升高多少

    >>> score([0.0, 0.0], 0)
    [0.5, -0.5]
    """
    raise NotImplementedError


def pick(probabilities: list[float], draw: float) -> int:
    """The action that a random number stands for: inverse-transform sampling.

    Cut [0, 1) into shares, one per action, in order: the first action owns the numbers
    from 0 to below its probability, the next one those from there on, and so forth.

    probabilities   one per action; their sum may miss 1 by a rounding error
    draw            from 0 to below 1, as random.random() gives it
    returns         the action whose share holds the draw; never one of probability 0

    一个随机数代表哪个动作：逆变换采样（inverse-transform sampling）。

    把 [0, 1) 这段线按次序切成几份，每个动作一份：第一个动作占的数从 0 起，
    不到它的概率为止；下一个从那里接着占，依此类推。

    probabilities   每个动作一个；加起来可能跟 1 差一点舍入误差
    draw            从 0 起，小于 1，就像 random.random() 给出的那样
    returns         draw 落在哪个动作的那一份里，就是哪个；概率为 0 的动作永远选不到

    >>> pick([0.2, 0.5, 0.3], 0.2)
    1
    """
    raise NotImplementedError


def returns_to_go(rewards: list[float], discount: float = 1.0) -> list[float]:
    """The return of each step: its own reward and, discounted, all later ones.

        R[k] = rewards[k] + discount * R[k + 1]

    rewards     one number per step; possibly none
    returns     one number per step

    每一步的回报（return）：自己的奖励，加上后面所有奖励打折之后的和。公式在上面。

    rewards     每一步一个数；可能一个也没有
    returns     每一步一个数

    >>> returns_to_go([0.0, 3.0])
    [3.0, 3.0]
    >>> returns_to_go([0.0, 0.0, 8.0], 0.5)
    [2.0, 4.0, 8.0]
    """
    raise NotImplementedError


def mean_estimate(
    logits: list[float], pays: list[float], baseline: float
) -> list[float]:
    """What REINFORCE estimates on the mean, in a world of one decision.

    One episode gives (return - baseline) * score of the action that was drawn. Nothing is
    drawn here: add up over all actions, each with its probability. Then try baselines.
    Subtract the baseline all the same: that the result does not show it is what this
    exercise is about, so no test can tell whether you did.

    logits      one number per action
    pays        the return of each action
    returns     one slope per logit

    在只有一个决策的世界里，REINFORCE 的估计平均起来是多少。

    一个回合给出的，是回报减去基线，再乘以抽到的那个动作的 score。这里什么也不抽：
    把所有动作的这个量按各自的概率加起来。然后换几个基线试试。
    基线还是要减：减了，结果里也看不出来，这正是本题要说的，所以批改查不出你减没减。

    logits      每个动作一个数
    pays        每个动作的回报
    returns     每个 logit 一个斜率

    >>> mean_estimate([0.0, 0.0], [3.0, 1.0], 0.0)
    [0.5, -0.5]
    """
    raise NotImplementedError


def reinforce_step(
    logits: dict[str, list[float]],
    episodes: list[list[tuple[str, int, float]]],
    rate: float,
) -> dict[str, list[float]]:
    """One REINFORCE update: from episodes to new logits.

    Each step of an episode adds its return times its score to the gradient of its state.
    The gradient is a mean over episodes: divide by how many there are, not by how many
    came through the state. Then go up: new = logit + rate * gradient.

    logits      state -> one number per action: the policy that played the episodes
    episodes    at least one; each a list of steps (state, action, reward)
    returns     new logits for every state, also for those where nobody was

    一次 REINFORCE 更新：从回合到新的 logit。

    回合里的每一步，把自己的回报乘以自己的 score，加到所在状态的梯度上。
    梯度是对回合取的均值：除以回合总数，不是除以到过这个状态的回合数。
    然后往上走：旧的 logit 加上 rate 乘以梯度，就是新的。

    logits      状态 -> 每个动作一个数：走出这些回合的策略
    episodes    至少一个；每个是一串步骤 (state, action, reward)
    returns     每个状态的新 logit，没人到过的状态也要有

    >>> old = {"start": [0.0, 0.0], "ready": [0.0, 0.0]}
    >>> reinforce_step(old, [[("start", 1, 0.0), ("ready", 0, 3.0)]], 1.0)
    {'start': [-1.5, 1.5], 'ready': [1.5, -1.5]}
    """
    raise NotImplementedError
