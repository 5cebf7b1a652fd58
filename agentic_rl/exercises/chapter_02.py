"""Chapter 02: advantages, clip, KL, aggregation, a convention."""
# ruff: noqa: RUF001  (the Chinese texts have their own punctuation)

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from agentic_rl.advantage import group_advantages as by_convention
from agentic_rl.conventions import COURSE, SWITCHES, Convention
from agentic_rl.exercises.grading import (
    NUMBER,
    NUMBERS,
    TRUTHS,
    Exercise,
    Kind,
    Probe,
    apart,
    close,
    is_tuple_of,
    shown,
    slope,
)
from agentic_rl.objective import clipped_loss as clip_by_convention
from agentic_rl.objective import policy_loss, ratios_of, row_weights

CHAPTER = "02"
GOLDEN = [0.9, 0.0, 0.7, 0.0]
GROUPS = (
    GOLDEN,
    [1.0, 0.0],
    [1.0, 1.01],
    [-3.0, 1.0, 1.0],
    [0.2, 0.4, 0.4, 0.9, 1.0],
)
ROUNDED = [0.3, 0.1 + 0.2, 0.3]  # the second is 0.30000000000000004
ONE_OF_16 = [1.0, *[0.0] * 15]
BARELY = [0.0, 1e-8]  # they differ
TOO_LITTLE = [0.5, 0.5 + 1e-10]  # they don't


def mean(values: list[float]) -> float:
    """The arithmetic mean."""
    return math.fsum(values) / len(values)


def sample_std(values: list[float]) -> float:
    """The root of the sum of squares divided by one less than how many there are."""
    squares = math.fsum((value - mean(values)) ** 2 for value in values)
    return math.sqrt(squares / (len(values) - 1))


def scaled(values: list[float]) -> list[float]:
    """GRPO's advantages of a group whose rewards differ."""
    return [(value - mean(values)) / sample_std(values) for value in values]


# ------------------------------------------------------------------ leave_one_out

LEAVE_ONE_OUT = Exercise(
    "leave_one_out",
    CHAPTER,
    {"en": "compared with the others alone (RLOO)", "zh": "只跟其余的回合比（RLOO）"},
    NUMBERS,
)


@LEAVE_ONE_OUT.must(
    "rise by exactly as much as an episode's own reward rises",
    "在回合自己的奖励升高时，升高得一样多",
    en="An episode is not part of its own baseline. If the advantage rises by less, the "
    "baseline still has the episode in it; if it falls, the sign is wrong.",
    zh="一个回合不在自己的基线里。优势升得少了，说明基线里还有它自己；反而降了，是符号反了。",
)
def leave_one_out_leaves_out(leave_one_out: Probe) -> None:
    for rewards in GROUPS:
        before = leave_one_out(rewards)
        after = leave_one_out([rewards[0] + 1.0, *rewards[1:]])
        leave_one_out.require(
            len(after) == len(rewards), f"{len(rewards)} numbers", after
        )
        goal, why = before[0] + 1.0, f"1 more than for {rewards}"
        wanted, told = apart(goal, after[0])
        expected = f"a first advantage of {wanted} ({why})"
        told = f"{told}, in {shown(after)}"
        leave_one_out.require(close(after[0], goal), expected, told)


@LEAVE_ONE_OUT.must(
    "subtract the mean of the others",
    "减去其余回合的均值",
    en="G - 1 others in a group of G, so divide their sum by G - 1. For the first golden "
    "episode: 0.9 - (0 + 0.7 + 0) / 3.",
    zh="一组 G 个，其余的就有 G - 1 个，所以它们的和除以 G - 1。黄金组的第一个回合："
    "0.9 - (0 + 0.7 + 0) / 3。",
)
def leave_one_out_subtracts_the_mean(leave_one_out: Probe) -> None:
    for rewards in GROUPS:
        others = [[*rewards[:i], *rewards[i + 1 :]] for i in range(len(rewards))]
        expected = [reward - mean(rest) for reward, rest in zip(rewards, others)]
        leave_one_out.gives(expected, rewards)


@LEAVE_ONE_OUT.must(
    "give 0.0 for an episode that has no others",
    "在没有其余回合时给出 0.0",
    en="Nothing was compared, so nothing is pushed; and 0 others can't be divided by.",
    zh="没有可比的，就什么也不推；何况其余的有 0 个，除不了。",
)
def leave_one_out_alone(leave_one_out: Probe) -> None:
    leave_one_out.gives([0.0], [0.7])


# ------------------------------------------------------------------ group_advantages

GROUP_ADVANTAGES = Exercise(
    "group_advantages",
    CHAPTER,
    {"en": "GRPO's comparison, with its edges", "zh": "GRPO 的比较，连同边界情况"},
    NUMBERS,
)


@GROUP_ADVANTAGES.must(
    "have the mean 0",
    "均值为 0",
    en="Subtract the group's mean from every reward, before anything is divided.",
    zh="先从每个奖励里减去组的均值，再谈除法。",
)
def advantages_are_centred(group_advantages: Probe) -> None:
    for rewards in GROUPS:
        group_advantages.sums_to(0.0, group_advantages(rewards))


@GROUP_ADVANTAGES.must(
    "have a sample standard deviation of exactly 1",
    "样本标准差正好是 1",
    en="Divide by the std itself: the squares are divided by G - 1 and not by G, the root "
    "is taken, and no epsilon is added.",
    zh="除以的就是 std 本身：平方和除以 G - 1，不是 G；要开方；不加 epsilon。",
)
def advantages_have_unit_spread(group_advantages: Probe) -> None:
    for rewards in GROUPS:
        found = group_advantages(rewards)
        group_advantages.require(
            len(found) == len(rewards), f"{len(rewards)} numbers", found
        )
        std = sample_std(found)
        wanted, told = apart(1.0, std)
        told = f"{shown(found)}, whose std is {told}"
        group_advantages.require(close(std, 1.0), f"a sample std of {wanted}", told)


@GROUP_ADVANTAGES.must(
    "be largest for the best episode, as in the golden group worked out by hand",
    "对最好的回合给出最大的数，跟手算的黄金组一致",
    en="Reward minus mean, in this order: what is better than the group gets a positive "
    "number and is pushed up.",
    zh="是奖励减均值，次序不能反：比组里好的得正数，被往上推。",
)
def advantages_of_the_golden_group(group_advantages: Probe) -> None:
    std = math.sqrt((0.5**2 + 0.4**2 + 0.3**2 + 0.4**2) / 3)
    expected = [0.5 / std, -0.4 / std, 0.3 / std, -0.4 / std]
    group_advantages.gives(
        expected, GOLDEN, why="0.5 / 0.4690 and so on; the mean is 0.4"
    )
    for rewards in (*GROUPS, ONE_OF_16):
        group_advantages.gives(scaled(rewards), rewards)


@GROUP_ADVANTAGES.must(
    "be 0.0 where all rewards are equal, up to rounding",
    "在奖励全相等（舍入误差不算）时是 0.0",
    en="0.1 + 0.2 is 0.30000000000000004. The std of such a group is rounding noise, and "
    "dividing by it makes noise as loud as a right answer. Test the spread against 1e-9.",
    zh="0.1 + 0.2 等于 0.30000000000000004。这样一组的 std 只是舍入噪声，除以它，"
    "噪声就跟答对一样响。拿差距跟 1e-9 比。",
)
def equal_rewards_compare_nothing(group_advantages: Probe) -> None:
    for rewards in ([1.0, 1.0, 1.0], [0.0, 0.0], [0.7] * 3, ROUNDED, TOO_LITTLE):
        group_advantages.gives([0.0] * len(rewards), rewards, why="nothing to compare")
    group_advantages.gives(scaled(BARELY), BARELY, why="they differ by more than 1e-9")


@GROUP_ADVANTAGES.must(
    "leave an unscored episode out of mean and std, and give it 0.0",
    "不把没打分的回合算进均值和 std，给它 0.0",
    en="None is no 0: the checker failed, not the agent. The others are compared as if the "
    "episode were not there, and the list keeps its length.",
    zh="None 不是 0：出错的是检查程序，不是智能体。其余的照样比，当它不在；列表长度不变。",
)
def unscored_episodes_are_left_out(group_advantages: Probe) -> None:
    expected = [math.sqrt(0.5), 0.0, -math.sqrt(0.5)]
    group_advantages.gives(expected, [1.0, None, 0.0], why="as for [1.0, 0.0]")
    first, *rest = scaled(GOLDEN)
    group_advantages.gives([first, 0.0, *rest], [GOLDEN[0], None, *GOLDEN[1:]])


@GROUP_ADVANTAGES.must(
    "be 0.0 where fewer than two episodes were scored",
    "在打了分的回合不到两个时是 0.0",
    en="One reward has no peers: there is nothing it is better than. Look at how many were "
    "scored before you compute a std.",
    zh="只有一个奖励，就没有同组可比，谈不上比谁好。先数数打了分的有几个，再算 std。",
)
def too_few_to_compare(group_advantages: Probe) -> None:
    for rewards in ([0.7], [None, 0.7, None], [None, None], []):
        group_advantages.gives(
            [0.0] * len(rewards), rewards, why="nobody to compare with"
        )


# ------------------------------------------------------------------ batch_advantages

BATCH_ADVANTAGES = Exercise(
    "batch_advantages",
    CHAPTER,
    {
        "en": "a group is an id, not a place in the batch",
        "zh": "认组看 id，不看在批里的位置",
    },
    NUMBERS,
)


@BATCH_ADVANTAGES.must(
    "compare each episode with its own group alone",
    "让每个回合只跟自己那一组比",
    en="One mean and one std a group. Over the whole batch, an easy task's failure could "
    "look better than a hard task's success.",
    zh="每组各有自己的均值和 std。拿整批来比，简单题的失败可能显得比难题的成功还好。",
)
def groups_are_compared_alone(batch_advantages: Probe) -> None:
    rewards = [*GOLDEN, 5.0, 5.5, 5.5, 6.0]
    expected = [*scaled(GOLDEN), *scaled([5.0, 5.5, 5.5, 6.0])]
    batch_advantages.gives(expected, rewards, ["a"] * 4 + ["b"] * 4)


@BATCH_ADVANTAGES.must(
    "take groups of any size",
    "接受任意大小的组",
    en="Don't cut the batch into equal pieces: a group is as large as its id is frequent, "
    "and one episode alone gets 0.0.",
    zh="不要把一批切成等长的几段：一个 id 出现几次，那一组就有几个；只有一个的得 0.0。",
)
def groups_of_any_size(batch_advantages: Probe) -> None:
    expected = [*scaled([1.0, 0.0, 0.0]), 0.0, *scaled([0.2, 0.4])]
    rewards = [1.0, 0.0, 0.0, 0.7, 0.2, 0.4]
    batch_advantages.gives(expected, rewards, ["a"] * 3 + ["b"] + ["c"] * 2)


@BATCH_ADVANTAGES.must(
    "go by the id, and answer in the order of the rewards",
    "按 id 认组，并按奖励的次序给出结果",
    en="Episodes of a group need not stand side by side. Collect the places of an id, "
    "compare, and write each advantage back to its place.",
    zh="同组的回合不一定挨着。把同一个 id 的位置收集起来，比完再把优势写回各自的位置。",
)
def groups_may_be_mixed(batch_advantages: Probe) -> None:
    half = math.sqrt(0.5)
    why = "1 against 0, and 5 against 5"
    rewards, numbers = [1.0, 5.0, 0.0, 5.0], [7, 3, 7, 3]
    batch_advantages.gives([half, 0.0, -half, 0.0], rewards, numbers, why=why)
    rewards, names = [0.0, 1.0, 1.0, 0.0], ["b", "a", "b", "a"]
    batch_advantages.gives([-half, half, half, -half], rewards, names)


# ------------------------------------------------------------------ keep_informative

KEEP_INFORMATIVE = Exercise(
    "keep_informative",
    CHAPTER,
    {"en": "the zero-std filter (DAPO)", "zh": "滤掉标准差为零的组（DAPO）"},
    TRUTHS,
)


@KEEP_INFORMATIVE.must(
    "keep a group whose rewards differ, as a whole",
    "把奖励有差别的组整组留下",
    en="Ask of the group, not of the episode. An episode right at the mean has advantage 0 "
    "and still belongs to a group that teaches.",
    zh="要问的是整组，不是单个回合。正好等于均值的回合优势是 0，但它所在的组仍有东西可学。",
)
def differing_groups_stay(keep_informative: Probe) -> None:
    for rewards in ([0.0, 0.5, 1.0], [1.0, 0.0, 1.0], [-0.5, 0.0]):
        keep_informative.gives([True] * len(rewards), rewards, ["a"] * len(rewards))
    mixed = ["a", "b", "a", "b"]
    keep_informative.gives([True] * 4, [1.0, 0.5, 0.0, 1.0], mixed)


@KEEP_INFORMATIVE.must(
    "leave out a group whose rewards are all equal, right or wrong",
    "去掉奖励全相等的组，不管是全对还是全错",
    en="Look at each group by itself. All right teaches as little as all wrong: every "
    "advantage is 0. So it is not enough that somebody succeeded.",
    zh="逐组单独看。全对和全错一样没什么可学：优势都是 0。所以光有人答对还不够。",
)
def equal_groups_go(keep_informative: Probe) -> None:
    for reward in (1.0, 0.0, -0.5):
        keep_informative.gives([False] * 3, [reward] * 3, ["a"] * 3)
    mixed = ["a", "b", "a", "b"]
    keep_informative.gives([True, False, True, False], [1.0, 1.0, 0.0, 1.0], mixed)
    keep_informative.gives([False], [0.7], ["a"], why="one alone differs from nobody")


@KEEP_INFORMATIVE.must(
    "take rounding for no difference",
    "不把舍入误差当作差别",
    en="0.1 + 0.2 and 0.3 are different floats and the same reward. Compare the largest "
    "with the smallest: do they differ by 1e-9 or more?",
    zh="0.1 + 0.2 和 0.3 是不同的浮点数，却是同一个奖励。拿最大的跟最小的比："
    "差到 1e-9 了吗？",
)
def rounding_is_no_difference(keep_informative: Probe) -> None:
    keep_informative.gives([False] * 3, ROUNDED, ["a"] * 3)
    keep_informative.gives([False] * 2, TOO_LITTLE, ["a"] * 2, why="less than 1e-9")
    for rewards in ([1.0, 1.0001], BARELY):
        keep_informative.gives([True] * 2, rewards, ["a"] * 2, why="a real difference")


@KEEP_INFORMATIVE.must(
    "take an unscored episode for no difference either",
    "也不把没打分的回合当作差别",
    en="Nobody knows how good it was. Look at the scored ones alone; there may be one, or "
    "none.",
    zh="它有多好，没人知道。只看打了分的；可能只有一个，也可能一个都没有。",
)
def unscored_is_no_difference(keep_informative: Probe) -> None:
    keep_informative.gives([False] * 2, [1.0, None], ["a"] * 2)
    keep_informative.gives([False] * 2, [None, None], ["a"] * 2)
    keep_informative.gives(
        [True] * 3, [1.0, None, 0.0], ["a"] * 3, why="1 and 0 differ"
    )


# ------------------------------------------------------------------ informative_share

INFORMATIVE_SHARE = Exercise(
    "informative_share",
    CHAPTER,
    {"en": "how often a group teaches anything", "zh": "一组有多大可能学得到东西"},
    NUMBER,
)


@INFORMATIVE_SHARE.must(
    "be 0 where nothing can differ: nobody succeeds, everybody does, or one is alone",
    "在不可能有差别时是 0：没有人答对、人人答对，或只有一个回合",
    en="Two things must not happen: all right, and all wrong. Take both away from 1.",
    zh="有两件事不能发生：全对，全错。从 1 里把两者都减掉。",
)
def certain_groups_never_differ(informative_share: Probe) -> None:
    for success, size in itertools.product((0.0, 1.0), (1, 2, 8)):
        informative_share.gives(0.0, success, size)
    for success in (0.2, 0.5):
        informative_share.gives(0.0, success, 1, why="one alone")


@INFORMATIVE_SHARE.must(
    "stay the same if right and wrong change places",
    "在答对和答错互换时不变",
    en="All wrong is as likely at 0.2 as all right is at 0.8. Both terms have the power "
    "size.",
    zh="成功率 0.2 时全错的概率，等于 0.8 时全对的概率。两项都要取 size 次幂。",
)
def right_and_wrong_count_alike(informative_share: Probe) -> None:
    for success, size in itertools.product((0.1, 0.2, 0.4), (2, 3, 8)):
        expected = informative_share(success, size)
        why = f"the same as for {success}"
        informative_share.gives(expected, 1 - success, size, why=why)


@INFORMATIVE_SHARE.must(
    "be the share found by listing every outcome of a group",
    "等于把一组的所有结果逐一列出来算得的概率",
    en="The episodes of a group are independent, so probabilities multiply: success to the "
    "power size is the chance that all are right.",
    zh="组里的回合互相独立，所以概率相乘：全对的概率是 success 的 size 次幂。",
)
def share_by_enumeration(informative_share: Probe) -> None:
    for success, size in itertools.product((0.05, 0.2, 0.5, 0.9), (2, 3, 4, 8)):
        chances = [1 - success, success]
        expected = math.fsum(
            math.prod(chances[won] for won in outcome)
            for outcome in itertools.product((0, 1), repeat=size)
            if len(set(outcome)) > 1
        )
        why = f"the sum over {2**size - 2} of {2**size} outcomes"
        informative_share.gives(expected, success, size, why=why)
    for success, size in itertools.product((0.01, 0.05, 0.9), (16, 64)):
        expected = math.fsum(
            math.comb(size, won) * success**won * (1 - success) ** (size - won)
            for won in range(1, size)
        )
        why = f"the sum over 1 to {size - 1} right ones"
        informative_share.gives(expected, success, size, why=why)


# ------------------------------------------------------------------ clipped_loss

CLIPPED_LOSS = Exercise(
    "clipped_loss",
    CHAPTER,
    {
        "en": "PPO's clip, and where it lets go of the slope",
        "zh": "PPO 的裁剪，斜率在哪里归零",
    },
    Kind(
        "a loss and a slope, both numbers",
        "损失和斜率，两个数",
        is_tuple_of(NUMBER.fits, NUMBER.fits),
    ),
)


def _loss(clipped_loss: Probe, expected: float, *told: float, why: str) -> None:
    found, _ = clipped_loss(*told)
    wanted, got = apart(expected, found)
    clipped_loss.require(close(found, expected), f"a loss of {wanted} ({why})", got)


@CLIPPED_LOSS.must(
    "be -ratio * A inside of the range",
    "在范围之内等于 -ratio * A",
    en="A loss is made smaller, a return larger: hence the minus.",
    zh="损失要变小，回报要变大，所以有负号。",
)
def loss_inside(clipped_loss: Probe) -> None:
    for ratio, advantage in itertools.product((0.9, 1.0, 1.1), (2.0, -0.5)):
        expected = -ratio * advantage
        _loss(clipped_loss, expected, ratio, advantage, 0.2, 0.2, why="-ratio * A")


@CLIPPED_LOSS.must(
    "stop where the step has gone far enough",
    "在走得够远之后停住",
    en="min takes the worse of the two for you: above 1 + high for a good decision, below "
    "1 - low for a bad one, the clipped product stands. low and high may differ.",
    zh="min 取两者中对你更不利的那个：好的决策高过 1 + high，坏的决策低于 1 - low，"
    "用的都是裁剪过的乘积。low 和 high 可以不同。",
)
def loss_far_enough(clipped_loss: Probe) -> None:
    for ratio in (1.3, 2.0, 50.0):
        _loss(clipped_loss, -2.56, ratio, 2.0, 0.2, 0.28, why="-(1 + 0.28) * 2")
    for ratio in (0.7, 0.1, 0.0):
        _loss(clipped_loss, 1.6, ratio, -2.0, 0.2, 0.28, why="-(1 - 0.2) * -2")
    _loss(clipped_loss, -1.5, 2.0, 1.0, 0.1, 0.5, why="-(1 + 0.5) * 1")
    _loss(clipped_loss, 0.9, 0.5, -1.0, 0.1, 0.5, why="-(1 - 0.1) * -1")


@CLIPPED_LOSS.must(
    "never hold back a step that goes back",
    "从不阻拦往回走的一步",
    en="A bad decision that became ten times likelier must be pushed down with full force. "
    "Clipping the ratio alone, without min, lets go of it.",
    zh="坏的决策变成了十倍可能，就得全力往下压。只裁剪比率，不取 min，就放过它了。",
)
def loss_going_back(clipped_loss: Probe) -> None:
    _loss(clipped_loss, 10.0, 10.0, -1.0, 0.2, 0.2, why="-10 * -1, not clipped")
    _loss(clipped_loss, -0.1, 0.1, 1.0, 0.2, 0.2, why="-0.1 * 1, not clipped")


@CLIPPED_LOSS.must(
    "give the slope of its own loss, with respect to the ratio",
    "给出它自己的损失对比率的斜率",
    en="-A where the product moves with the ratio, 0 where the clipped one stands still.",
    zh="乘积随比率变动的地方是 -A，裁剪住不动的地方是 0。",
)
def slope_of_the_loss(clipped_loss: Probe) -> None:
    ratios = (0.5, 0.85, 0.95, 1.05, 1.24, 1.3, 1.5)  # none at a corner
    for (low, high), ratio, advantage in itertools.product(
        ((0.2, 0.28), (0.1, 0.2)), ratios, (2.0, -1.0)
    ):

        def loss(
            moved: float, told: tuple[float, ...] = (advantage, low, high)
        ) -> float:
            found: float = clipped_loss(moved, *told)[0]
            return found

        expected = slope(loss, ratio)
        _, found = clipped_loss(ratio, advantage, low, high)
        wanted, told = apart(expected, found)
        clipped_loss.require(
            close(found, expected, 1e-6),
            f"a slope of {wanted} (the finite difference of the loss)",
            told,
        )


# ------------------------------------------------------------------ k3

K3 = Exercise(
    "k3",
    CHAPTER,
    {
        "en": "how far from the reference, from one sample",
        "zh": "一个样本，估计离参考策略多远",
    },
    NUMBER,
)


@K3.must(
    "be 0 for equal log-probs and never negative",
    "在对数概率相等时是 0，而且从不为负",
    en="exp(-d) is never below 1 - d, so all three terms are needed: exp(-d), d, and -1.",
    zh="exp(-d) 从不小于 1 - d，所以三项都要有：exp(-d)、d、-1。",
)
def k3_is_never_negative(k3: Probe) -> None:
    for logprob in (-0.5, -1.0, -3.0):
        k3.gives(0.0, logprob, logprob)
        for moved in (-2.0, -0.5, 0.5, 2.0):
            found = k3(logprob, logprob + moved)
            k3.require(found >= 0, "at least 0", found)


@K3.must(
    "have the KL as its mean, over what the policy would sample",
    "按策略的概率取平均之后等于 KL",
    en="d is logprob - ref_logprob, and the exponent is -d, that is ref_logprob - logprob. "
    "With the sign turned the mean is another number. If the mean is 0.17232, that is "
    "k2, d*d/2.",
    zh="d 是 logprob - ref_logprob，指数上是 -d，也就是 ref_logprob - logprob。"
    "符号一反，均值就成了另一个数。得到的均值要是 0.17232，那是 k2，也就是 d*d/2。",
)
def k3_averages_to_the_kl(k3: Probe) -> None:
    for policy, reference in (
        ([0.8, 0.2], [0.5, 0.5]),
        ([0.5, 0.5], [0.8, 0.2]),
        ([0.6, 0.3, 0.1], [0.2, 0.2, 0.6]),
        ([0.9999, 0.0001], [0.0001, 0.9999]),
    ):
        pairs = [(p, math.log(p), math.log(q)) for p, q in zip(policy, reference)]
        found = math.fsum(p * k3(logp, logq) for p, logp, logq in pairs)
        expected = math.fsum(p * (logp - logq) for p, logp, logq in pairs)
        wanted, told = apart(expected, found)
        k3.require(
            close(found, expected),
            f"a mean of {wanted} over {policy}, the KL to {reference}",
            f"a mean of {told}",
        )


# ------------------------------------------------------------------ aggregation_weights

AGGREGATION_WEIGHTS = Exercise(
    "aggregation_weights",
    CHAPTER,
    {
        "en": "what a token weighs, and the length bias",
        "zh": "一个 token 有多重，和长度偏差",
    },
    NUMBERS,
)
MEANS = ("episode_mean", "batch_mean")
RULES = ("episode_sum", *MEANS)


@AGGREGATION_WEIGHTS.must(
    "turn a loss of 1 on every token into 1, under episode_sum into the mean length",
    "把处处为 1 的损失聚合成 1，用 episode_sum 则聚合成平均长度",
    en="Weights of a mean add up to 1 over all tokens. episode_sum still divides by the "
    "number of episodes.",
    zh="取平均时，所有 token 的权重加起来是 1。episode_sum 也要除以回合数。",
)
def weights_of_a_constant(aggregation_weights: Probe) -> None:
    for lengths in ([2, 8], [3], [1, 5, 6]):
        totals = {rule: 1.0 for rule in MEANS}
        totals["episode_sum"] = mean([float(length) for length in lengths])
        for rule in RULES:
            weights = aggregation_weights(lengths, rule)
            found = math.fsum(w * n for w, n in zip(weights, lengths))
            wanted, told = apart(totals[rule], found)
            aggregation_weights.require(
                len(weights) == len(lengths) and close(found, totals[rule]),
                f"a loss of {wanted} if each token's is 1",
                f"{shown(weights)}, which makes {told}",
            )


@AGGREGATION_WEIGHTS.must(
    "give episodes the same say under episode_mean, and tokens under the other two",
    "用 episode_mean 时让各个回合同样重，用另外两条时让各个 token 同样重",
    en="Under episode_mean a token of a long episode weighs less: 1 / (episodes * length). "
    "Under batch_mean every token weighs 1 / (all tokens).",
    zh="episode_mean 下，长回合里的 token 更轻：1 先除以回合数，再除以这个回合的长度。"
    "batch_mean 下，每个 token 都是 1 除以 token 总数。",
)
def who_has_the_same_say(aggregation_weights: Probe) -> None:
    for lengths in ([2, 8], [1, 5, 6]):
        tokens, episodes = sum(lengths), len(lengths)
        aggregation_weights.gives(
            [1 / (episodes * n) for n in lengths], lengths, "episode_mean"
        )
        aggregation_weights.gives([1 / tokens] * episodes, lengths, "batch_mean")
        aggregation_weights.gives([1 / episodes] * episodes, lengths, "episode_sum")


@AGGREGATION_WEIGHTS.must(
    "count an episode without tokens, and give it the weight 0.0",
    "把没有 token 的回合也计入回合数，给它权重 0.0",
    en="A batch of 4 with an empty episode is still a batch of 4. Its own length must not "
    "be divided by; nor must the number of all tokens, if that is 0.",
    zh="一批 4 个回合，其中一个是空的，也还是 4 个。不能除以它的长度；"
    "token 总数为 0 时，也不能除以总数。",
)
def empty_episodes_count(aggregation_weights: Probe) -> None:
    aggregation_weights.gives([0.25, 0.0], [2, 0], "episode_mean", why="1 / (2 * 2)")
    aggregation_weights.gives([0.5, 0.0], [2, 0], "episode_sum", why="1 / 2")
    aggregation_weights.gives([0.5, 0.0], [2, 0], "batch_mean", why="1 / 2 tokens")
    for rule in RULES:
        aggregation_weights.gives([0.0, 0.0], [0, 0], rule, why="no token at all")


@AGGREGATION_WEIGHTS.must(
    "refuse a rule that it does not know",
    "拒绝不认识的规则",
    en="A misspelt rule must not turn into some other one. Raise ValueError.",
    zh="规则名写错了，不该悄悄变成另一条。raise ValueError。",
)
def unknown_rules_are_refused(aggregation_weights: Probe) -> None:
    for rule in ("token_mean", "", "Batch_mean", "batch_sum", "constant", "episode"):
        aggregation_weights.refuses([2, 8], rule, why="there is no such rule")


# ------------------------------------------------------------------ trainer_convention

TRAINER_CONVENTION = Exercise(
    "trainer_convention",
    CHAPTER,
    {"en": "a trainer's code, read as switches", "zh": "把训练器的代码读成开关"},
    Kind(
        "a Convention", "一个 Convention", lambda value: isinstance(value, Convention)
    ),
)


@TRAINER_CONVENTION.must(
    "turn only switches that there are, to values that they take",
    "只拨有的开关，只用它们允许的值",
    en="The error says which switch or value it is. The names stand in SWITCHES and the "
    "values in CHOICES, in agentic_rl/conventions.py; what each means is said there under "
    "Convention.",
    zh="错误信息里写着是哪个开关或哪个值。名字见 agentic_rl/conventions.py 里的 SWITCHES，"
    "允许的值见 CHOICES，各自的意思写在 Convention 的说明里。",
)
def convention_is_one(trainer_convention: Probe) -> None:
    trainer_convention()


@TRAINER_CONVENTION.must(
    "compare a group as the trainer's first line does",
    "像训练器的第一行那样比较一组",
    en="unbiased=False divides the squares by G: ddof. What is added to the std stands at "
    "the end of the line: std_epsilon. Mean and std are those of the group, and a group of "
    "one gets 0 / 1e-6.",
    zh="unbiased=False 表示平方和除以 G：ddof。加在 std 上的数写在这一行末尾：std_epsilon。"
    "均值和 std 都是这一组的；一组只有一个时，得到的是 0 / 1e-6。",
)
def convention_of_the_advantage(trainer_convention: Probe) -> None:
    rule = trainer_convention()
    for rewards in GROUPS:
        _compares(trainer_convention, rule, rewards)
    _compares(trainer_convention, rule, GOLDEN, [5.0, 5.5, 5.5], [0.7])


@TRAINER_CONVENTION.must(
    "divide also where rewards are equal up to rounding, as that line does",
    "在奖励相等、只差舍入误差时也照样除，跟那一行一样",
    en="No line asks whether the rewards are equal. 0.1 + 0.2 is not quite 0.3, so the "
    "difference, tiny as it is, is divided by 1e-6: zero_spread. TRL, verl and OpenRLHF "
    "divide too; see their presets.",
    zh="没有哪一行去问奖励是否相等。0.1 + 0.2 不正好等于 0.3，"
    "这点差别再小，也除以了 1e-6：zero_spread。TRL、verl 和 OpenRLHF 也照样除，见它们的预设。",
)
def convention_of_equal_rewards(trainer_convention: Probe) -> None:
    _compares(trainer_convention, trainer_convention(), ROUNDED, within=1e-15)


def trainers_advantages(rewards: list[float]) -> list[float]:
    """The first line of the code in the exercise."""
    squares = [(reward - mean(rewards)) ** 2 for reward in rewards]
    scale = math.sqrt(mean(squares)) + 1e-6
    return [(reward - mean(rewards)) / scale for reward in rewards]


def _compares(
    trainer_convention: Probe,
    rule: Convention,
    *groups: list[float],
    within: float = 1e-9,
) -> None:
    """Require the advantages that the first line of the trainer's code gives."""
    rewards = list(itertools.chain(*groups))
    names = [name for name, group in enumerate(groups) for _ in group]
    expected = list(itertools.chain(*map(trainers_advantages, groups)))
    found = by_convention(rewards, names, rule)
    wanted, told = apart(expected, found)
    batch = f"rewards {rewards}" if len(groups) == 1 else f"groups {[*groups]}"
    trainer_convention.require(
        close(found, expected, within), f"{wanted} for {batch}", told
    )


@TRAINER_CONVENTION.must(
    "form and clip the ratio as the trainer's next two lines do",
    "像训练器接下来的两行那样算出比率、裁剪比率",
    en="The range of the ratio is 1 - clip_low to 1 + clip_high, and the trainer's range is "
    '0.8 to 1.28. The min of the two products makes the clip one-sided: clip="ppo". The '
    "clamp before exp is there in COURSE already.",
    zh="比率的范围是 1 - clip_low 到 1 + clip_high，这个训练器的范围是 0.8 到 1.28。"
    '两个乘积取 min，裁剪就是单侧的：clip="ppo"。'
    "exp 之前的 clamp，COURSE 里已经有了。",
)
def convention_of_the_ratio(trainer_convention: Probe) -> None:
    rule = trainer_convention()
    for ratio, advantage in itertools.product((0.5, 0.79, 1.25, 1.5, 9.0), (1.0, -2.0)):
        expected = trainers_clipped_loss(ratio, advantage)
        found, _ = clip_by_convention(ratio, advantage, rule)
        wanted, told = apart(expected, found)
        trainer_convention.require(
            close(found, expected),
            f"a loss of {wanted} at ratio {ratio}, advantage {advantage}",
            told,
        )
    for gap in (30.0, -30.0):
        (found,) = ratios_of([gap], [0.0], rule).values
        trainer_convention.require(
            close(found, trainers_ratio(gap)),
            f"exp({math.copysign(20, gap):g}) as the ratio of log-probs {gap:g} apart",
            found,
        )


def trainers_ratio(gap: float) -> float:
    """The second line, of log-probs that lie so far apart."""
    return math.exp(min(max(gap, -20.0), 20.0))


def trainers_clipped_loss(ratio: float, advantage: float) -> float:
    """The third line."""
    clipped = min(max(ratio, 0.8), 1.28)
    return -min(ratio * advantage, clipped * advantage)


@TRAINER_CONVENTION.must(
    "add up the tokens as the trainer's last line does",
    "像训练器的最后一行那样把各个 token 合计起来",
    en="(loss * mask).sum() / mask.sum() is a mean over all tokens of the batch: see unit "
    "and aggregation.",
    zh="(loss * mask).sum() / mask.sum() 是对整批所有 token 取平均：看 unit 和 aggregation。",
)
def convention_of_the_aggregation(trainer_convention: Probe) -> None:
    rule = trainer_convention()
    trainer_convention.require(
        rule.unit == "token", "one loss a token", f"one loss a {rule.unit}"
    )
    found = row_weights([[0, 1, 1], [1, 1, 1, 1, 1, 1]], rule)
    wanted, told = apart([0.125, 0.125], found)
    trainer_convention.require(
        close(found, [0.125, 0.125]),
        f"weights of 1/8 a token, {wanted}, where episodes have 2 and 6",
        told,
    )


@TRAINER_CONVENTION.must(
    "charge the KL as the trainer does, and lose what it loses in all",
    "像训练器那样计入 KL，整个损失也跟它的一样",
    en="exp(-d) + d - 1 is k3. It is added to the loss, with the weight 0.04: kl_place, "
    "kl_weight, kl_estimator. Nothing is multiplied with it but the weight.",
    zh="exp(-d) + d - 1 就是 k3，加在损失里，权重 0.04：kl_place、kl_weight、kl_estimator。"
    "除了权重，什么也不乘。",
)
def convention_of_the_whole_loss(trainer_convention: Probe) -> None:
    rule = trainer_convention()
    old, mask = [[-1.0, -2.0], [-0.5, -1.0, -1.5]], [[0, 1], [1, 1, 1]]
    new = [[-3.0, -1.5], [-0.6, -2.0, -1.5]]
    ref, advantages = [[-1.0, -1.8], [-0.5, -0.5, -2.0]], [[1.0] * 2, [-2.0] * 3]
    loss = policy_loss(new, old, advantages, rule, mask, ref)
    expected = trainers_loss(new, old, ref, advantages, mask)
    wanted, told = apart(expected, loss.value)
    trainer_convention.require(
        close(loss.value, expected),
        f"a loss of {wanted} for log-probs {new}, sampled with {old}, "
        f"reference {ref}, advantages 1 and -2, mask {mask}",
        told,
    )


def trainers_loss(*arrays: Sequence[Sequence[float]]) -> float:
    """The code in the exercise behind its first line, one token after the other."""
    tokens = [[*zip(*rows)] for rows in zip(*arrays)]
    total, count = 0.0, 0
    for logprob, old, ref, advantage, mark in itertools.chain(*tokens):
        if mark:
            d = logprob - ref
            total += trainers_clipped_loss(trainers_ratio(logprob - old), advantage)
            total += 0.04 * (math.exp(-d) + d - 1)
            count += 1
    return total / count


# What some line decides otherwise than COURSE, and what a mean over all tokens ignores.
DECIDED = (
    *("ddof", "std_epsilon", "zero_spread", "clip_high", "unit", "aggregation"),
    *("kl_place", "kl_weight"),
)
IDLE = ("max_length", "mean_epsilon", "empty_rows")


@TRAINER_CONVENTION.must(
    "leave all other switches as in COURSE",
    "其余的开关都跟 COURSE 一样",
    en="No line of the trainer's code decides this one. Don't start from a framework's "
    "preset: it has bounds, filters and special cases of its own.",
    zh="训练器的代码里没有哪一行决定它。不要从某个框架的预设出发："
    "那里有它自己的上下限、筛选和特例。",
)
def convention_of_the_rest(trainer_convention: Probe) -> None:
    rule = trainer_convention()
    for switch in SWITCHES:
        if switch not in (*DECIDED, *IDLE):
            wanted, got = getattr(COURSE, switch), getattr(rule, switch)
            expected = f"{switch}={wanted!r}, as no line decides it"
            trainer_convention.require(wanted == got, expected, f"{switch}={got!r}")


EXERCISES = (
    LEAVE_ONE_OUT,
    GROUP_ADVANTAGES,
    BATCH_ADVANTAGES,
    KEEP_INFORMATIVE,
    INFORMATIVE_SHARE,
    CLIPPED_LOSS,
    K3,
    AGGREGATION_WEIGHTS,
    TRAINER_CONVENTION,
)
