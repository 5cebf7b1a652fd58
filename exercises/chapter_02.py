"""Chapter 02: GRPO, written by yourself.

Replace each ``raise NotImplementedError``, from top to bottom; a function may call those
above it. G is the size of a group. This says what is done, and what is wrong with the
rest:

    python3 -m agentic_rl check exercises/chapter_02.py

第 02 章：GRPO，自己写一遍。

从上往下，把每个 ``raise NotImplementedError`` 换成你的代码；后面的函数可以调用前面的。
G 是一组的大小。下面的命令告诉你哪些做完了，其余的错在哪里：

    python3 -m agentic_rl check exercises/chapter_02.py --language zh
"""
# ruff: noqa: RUF002  (Chinese has its own punctuation)

from __future__ import annotations

from collections.abc import Hashable

from agentic_rl.conventions import COURSE, Convention  # noqa: F401 (for you to use)


def leave_one_out(rewards: list[float]) -> list[float]:
    """RLOO's advantages: each reward less the mean of the others in the group.

    rewards     one number per episode of one group
    returns     one number per episode; 0.0 for an episode that has no others

    RLOO 的优势（advantage）：每个奖励减去组里其余奖励的均值。

    rewards     同一组的回合，每个一个数
    returns     每个回合一个数；没有其余回合时是 0.0

    >>> leave_one_out([1.0, 0.0])
    [1.0, -1.0]
    """
    raise NotImplementedError


def group_advantages(rewards: list[float | None]) -> list[float]:
    """GRPO's advantages: each reward less the group's mean, divided by the group's std.

    The std is the sample standard deviation: the sum of squares is divided by G - 1, where
    G counts the scored episodes. Nothing is added to it.

    rewards     one number per episode of one group; None where nobody could score it. Such
                an episode leaves mean and std, and its advantage is 0.0
    returns     one number per episode. All 0.0 where there is nothing to compare: fewer
                than two scored episodes, or rewards that are equal. Two rewards that
                differ by less than 1e-9 are equal, the difference is rounding

    GRPO 的优势：每个奖励减去组的均值，再除以组的标准差（std）。

    std 是样本标准差：平方和除以 G - 1，G 是打了分的回合数。std 上什么也不加。

    rewards     同一组的回合，每个一个数；没人能打分的是 None。
                这样的回合不进均值和 std，优势是 0.0
    returns     每个回合一个数。没有可比的就全是 0.0：打了分的回合不到两个，
                或者奖励都相等。两个奖励相差不到 1e-9 就算相等，差的只是舍入误差

    >>> [round(a, 4) for a in group_advantages([0.9, 0.0, 0.7, 0.0])]
    [1.066, -0.8528, 0.6396, -0.8528]
    """
    raise NotImplementedError


def batch_advantages(rewards: list[float], groups: list[Hashable]) -> list[float]:
    """GRPO's advantages of a batch in which episodes of several groups stand mixed.

    groups      which group each episode belongs to; any number of episodes per group
    returns     one number per episode, in the order of the rewards

    一批里混着好几组的回合，求 GRPO 的优势。

    groups      每个回合属于哪一组；每组有几个都行
    returns     每个回合一个数，次序跟 rewards 一样

    >>> [round(a, 4) for a in batch_advantages([1.0, 5.0, 0.0], ["a", "b", "a"])]
    [0.7071, 0.0, -0.7071]
    """
    raise NotImplementedError


def keep_informative(rewards: list[float | None], groups: list[Hashable]) -> list[bool]:
    """Which episodes DAPO keeps: those of groups whose rewards differ.

    rewards     one number per episode, None where nobody could score it
    groups      which group each episode belongs to
    returns     one answer per episode; a group stays or goes as a whole. Two rewards that
                differ by less than 1e-9 are equal

    DAPO 留下哪些回合：奖励有差别的组里的那些。

    rewards     每个回合一个数，没人能打分的是 None
    groups      每个回合属于哪一组
    returns     每个回合一个 True 或 False；一组要么整组留下，要么整组去掉。
                两个奖励相差不到 1e-9 就算相等

    >>> keep_informative([1.0, 1.0, 0.0, 1.0], ["a", "b", "a", "b"])
    [True, False, True, False]
    """
    raise NotImplementedError


def informative_share(success: float, size: int) -> float:
    """The probability that a group's rewards differ, so that it teaches something.

    success     the probability that an episode is right, each for itself; a right one
                gets 1, a wrong one 0
    size        G, the number of episodes in a group; at least 1

    一组的奖励有差别、因而学得到东西，这件事的概率。

    success     一个回合答对的概率，各回合互不影响；对的得 1，错的得 0
    size        G，一组有几个回合；至少 1

    >>> informative_share(0.5, 2)
    0.5
    """
    raise NotImplementedError


def clipped_loss(
    ratio: float, advantage: float, low: float, high: float
) -> tuple[float, float]:
    """PPO's loss of one decision, and its slope.

        loss = -min(ratio * A, clip(ratio, 1 - low, 1 + high) * A)

    ratio       new probability of the decision / the one it was sampled with
    returns     (loss, d loss / d ratio). No test asks for the slope at a corner of the
                loss

    PPO 在一个决策上的损失，和损失的斜率。公式在上面，A 就是 advantage。

    ratio       这个决策现在的概率 / 采样时的概率
    returns     两项：损失，和损失对 ratio 的导数。损失在折点处的斜率不考

    >>> clipped_loss(1.0, 2.0, 0.2, 0.2)
    (-2.0, -2.0)
    """
    raise NotImplementedError


def k3(logprob: float, ref_logprob: float) -> float:
    """Schulman's estimate of KL(policy || reference), from one sample of the policy.

        exp(-d) + d - 1        with d = logprob - ref_logprob

    用策略的一个样本估计 KL(policy || reference)，Schulman 的办法。公式在上面：
    logprob 和 ref_logprob 是这个样本在策略和参考策略下的对数概率。

    >>> k3(-1.0, -1.0)
    0.0
    """
    raise NotImplementedError


def aggregation_weights(lengths: list[int], rule: str) -> list[float]:
    """How much the loss of one token weighs in the loss of the batch.

        "episode_sum"     sum over the tokens of an episode, mean over episodes
        "episode_mean"    mean over the tokens of an episode, mean over episodes
        "batch_mean"      mean over all tokens of the batch

    lengths     tokens of each episode; an episode without any still counts as an episode
    returns     one weight per episode, that of each of its tokens; 0.0 if it has none

    Raises ValueError for another rule.

    一个 token 的损失，在整批的损失里占多大权重。

        "episode_sum"     回合内对 token 求和，再对回合取平均
        "episode_mean"    回合内对 token 取平均，再对回合取平均
        "batch_mean"      对整批所有 token 取平均

    lengths     每个回合的 token 数；一个 token 也没有的回合，照样算一个回合
    returns     每个回合一个权重，是它里面每个 token 的；没有 token 的是 0.0

    Raises ValueError：rule 是别的名字时。

    >>> aggregation_weights([2, 8], "batch_mean")
    [0.1, 0.1]
    """
    raise NotImplementedError


def trainer_convention() -> Convention:
    """A trainer's code, read and written down as switches; see agentic_rl/conventions.py.

    Nobody's trainer, but each line is somebody's. Rewards are of one group, the other
    arrays have one number per token, and mask is 1 where the assistant wrote.

        advantage = (reward - reward.mean()) / (reward.std(unbiased=False) + 1e-6)
        ratio = exp(clamp(logprob - old_logprob, -20, 20))
        loss = -min(ratio * advantage, clip(ratio, 0.8, 1.28) * advantage)
        d = logprob - ref_logprob
        loss += 0.04 * (exp(-d) + d - 1)
        return (loss * mask).sum() / mask.sum()

    unbiased=False means that the sum of squares is divided by G; True would be G - 1.

    Start from COURSE and turn the switches that differ: COURSE.but(switch=value, ...). A
    switch that no line decides stays as it is in COURSE.

    读一个训练器的代码，把它写成一组开关；开关见 agentic_rl/conventions.py。

    代码在上面。它不是哪一家的，但每一行都有人在用。reward 是同一组的奖励，
    其余的数组每个 token 一个数，助手写的地方 mask 是 1。

    unbiased=False 表示平方和除以 G；换成 True，就除以 G - 1。

    从 COURSE 出发，把不一样的开关拨过来：COURSE.but(switch=value, ...)。
    没有哪一行决定的开关，保持 COURSE 里的样子。

    >>> trainer_convention().std_epsilon
    1e-06
    """
    raise NotImplementedError
