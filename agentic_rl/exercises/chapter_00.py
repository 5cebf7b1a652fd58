"""Chapter 00: softmax, score, sampling, returns, REINFORCE."""
# ruff: noqa: RUF001  (the Chinese texts have their own punctuation)

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

from agentic_rl.exercises.grading import (
    NUMBER,
    NUMBERS,
    WHOLE,
    Exercise,
    Kind,
    Probe,
    apart,
    close,
    slope,
)

CHAPTER = "00"
ROWS = ([0.0, 0.0], [1.0, 0.0], [-2.0, 0.5, 1.0], [0.3, 0.3, -1.2, 2.0])


def shares(logits: list[float]) -> list[float]:
    """Probabilities of logits that are not large."""
    weights = [math.exp(logit) for logit in logits]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def gradient(value: Callable[[list[float]], float], logits: list[float]) -> list[float]:
    """Of a function of logits, by finite differences, one slope a logit."""

    def along(place: int) -> Callable[[float], float]:
        before, after = logits[:place], logits[place + 1 :]
        return lambda logit: value([*before, logit, *after])

    return [slope(along(place), logit) for place, logit in enumerate(logits)]


# ------------------------------------------------------------------ exact_return

EXACT_RETURN = Exercise(
    "exact_return",
    CHAPTER,
    {"en": "J of the toy world, without sampling", "zh": "不采样，算出小世界的 J"},
    NUMBER,
)


@EXACT_RETURN.must(
    "agree with the only episode of a policy that leaves nothing to chance",
    "在策略毫不随机、只有一种回合时，跟那一种回合对得上",
    en="Follow the arrows with probabilities 0 and 1. What ready pays only counts if the "
    "agent goes there, and taking in start ends the episode.",
    zh="把概率取成 0 和 1，顺着箭头走一遍。没走到 ready，那里付多少都不算数；"
    "在 start 就 take，回合到此为止。",
)
def exact_return_of_certain_policies(exact_return: Probe) -> None:
    exact_return.gives(1.0, 1.0, 1.0, why="take pays 1 and it is over")
    exact_return.gives(1.0, 1.0, 0.0, why="take pays 1 and it is over")
    exact_return.gives(3.0, 0.0, 1.0, why="work pays 0, then take pays 3")
    exact_return.gives(0.0, 0.0, 0.0, why="work pays 0, and work again pays 0")


@EXACT_RETURN.must(
    "be the mean over the three episodes there are",
    "等于仅有的三种回合的均值",
    en="List the three episodes: take; work, take; work, work. Multiply the probability of "
    "each with what it pays, and add up.",
    zh="一共只有三种回合：take；work 再 take；work 再 work。"
    "各自的概率乘上各自的所得，再加起来。",
)
def exact_return_is_a_mean(exact_return: Probe) -> None:
    for p, q in ((0.5, 0.5), (0.25, 0.5), (0.9, 0.1), (0.4, 0.75)):
        why = f"{p} * 1 + {1 - p:g} * {q} * 3 + {1 - p:g} * {1 - q:g} * 0"
        exact_return.gives(p * 1 + (1 - p) * q * 3, p, q, why=why)


# ------------------------------------------------------------------ softmax

SOFTMAX = Exercise(
    "softmax",
    CHAPTER,
    {"en": "logits become probabilities", "zh": "logit 变成概率"},
    NUMBERS,
)


@SOFTMAX.must(
    "give positive numbers that add up to 1",
    "给出正数，加起来等于 1",
    en="exp makes every number positive; dividing by the sum of all of them makes the sum "
    "1. Both steps are needed.",
    zh="exp 让每个数变成正的，除以它们的总和让和等于 1。两步缺一不可。",
)
def softmax_adds_up(softmax: Probe) -> None:
    for row in ([5.0], *ROWS):
        found = softmax(row)
        softmax.require(
            len(found) == len(row), f"{len(row)} numbers, one a logit", found
        )
        softmax.require(min(found) > 0, "positive numbers", found)
        softmax.sums_to(1.0, found)


@SOFTMAX.must(
    "turn a difference of logits into odds: pi(a) / pi(b) = exp(difference)",
    "把 logit 的差变成概率的比：pi(a) / pi(b) 等于差的 exp",
    en="The base is e, so use math.exp. With logits log 1, log 2 and log 3 the shares are "
    "1/6, 2/6 and 3/6.",
    zh="底数是 e，用 math.exp。logit 取 log 1、log 2、log 3，概率就是 1/6、2/6、3/6。",
)
def softmax_gives_odds(softmax: Probe) -> None:
    logs = [math.log(odds) for odds in (1, 2, 3)]
    softmax.gives([1 / 6, 2 / 6, 3 / 6], logs, why="1, 2 and 3 parts of 6")
    for row in ROWS:
        softmax.gives(shares(row), row)


@SOFTMAX.must(
    "see only differences: the same number added to all logits changes nothing",
    "只看差值：所有 logit 加上同一个数，结果不变",
    en="exp(z + c) is exp(z) * exp(c), and exp(c) cancels when you divide. A limit on the "
    "logits, put there against overflow, breaks this.",
    zh="exp(z + c) 等于 exp(z) * exp(c)，一除就约掉了。"
    "为了防溢出给 logit 设上下限，会破坏这一点。",
)
def softmax_sees_differences(softmax: Probe) -> None:
    for row, shift in itertools.product(ROWS, (100.0, -100.0)):
        moved = [logit + shift for logit in row]
        softmax.gives(shares(row), moved, why=f"the same as for {row}")


@SOFTMAX.must(
    "work where exp of a logit is more than a float holds",
    "在 logit 的 exp 大到浮点数存不下时也算得出来",
    en="Since only differences count, subtract the highest logit from all of them first: "
    "then the largest exp is exp(0) = 1.",
    zh="既然只有差值算数，先把每个 logit 减去其中最大的：这样最大的 exp 就是 exp(0) = 1。",
)
def softmax_does_not_overflow(softmax: Probe) -> None:
    softmax.gives([1.0, 0.0], [1000.0, 0.0], why="exp(-1000) rounds to 0")
    softmax.gives([0.0, 1.0], [0.0, 1000.0], why="exp(-1000) rounds to 0")
    softmax.gives([0.5, 0.5], [-1000.0, -1000.0], why="equal logits")
    softmax.gives([1.0, 0.0], [1000.0, -1000.0], why="exp(-2000) rounds to 0")


# ------------------------------------------------------------------ log_prob

LOG_PROB = Exercise(
    "log_prob",
    CHAPTER,
    {"en": "the log of a probability, always finite", "zh": "概率的对数，总是有限的"},
    NUMBER,
)


@LOG_PROB.must(
    "be the natural logarithm of the action's probability",
    "等于这个动作的概率的自然对数",
    en="log pi(a) = logit(a) - log(sum of exp of all logits). Check with two equal logits: "
    "log(1/2) = -0.693147.",
    zh="自己的 logit，减去所有 logit 的 exp 之和的对数，就是对数概率。"
    "用两个相等的 logit 验算：log(1/2) = -0.693147。",
)
def log_prob_is_a_logarithm(log_prob: Probe) -> None:
    log_prob.gives(math.log(1 / 2), [0.0, 0.0], 0, why="log(1/2)")
    log_prob.gives(-math.log(6), [0.0] * 6, 3, why="log(1/6)")
    for row in ROWS:
        for action, share in enumerate(shares(row)):
            log_prob.gives(math.log(share), row, action)


@LOG_PROB.must(
    "stay exact where the probability itself rounds to 0",
    "在概率本身舍入成 0 时仍然精确",
    en="Don't take the log of a probability that may be 0, and don't add a small number to "
    "it: that caps the answer. Subtract the highest logit, h: "
    "logit - h - log(sum of exp(z - h)).",
    zh="概率可能是 0，不要对它取 log，也不要给它加一个小数：那样答案会被封顶。"
    "先求最大的 logit，记作 h；自己的 logit 减去 h，再减去各 exp(z - h) 之和的对数。",
)
def log_prob_stays_finite(log_prob: Probe) -> None:
    log_prob.gives(-1000.0, [0.0, -1000.0], 1, why="-1000 - log(1 + exp(-1000))")
    log_prob.gives(0.0, [1000.0, 0.0], 0, why="1000 - log(exp(1000) + 1)")
    log_prob.gives(-2000.0, [1000.0, -1000.0], 1, why="-1000 - 1000")
    log_prob.gives(-740.0, [0.0, -740.0], 1, why="-740 - log(1 + exp(-740))")
    for high in (0.0, 1000.0):
        row, half = [high, high, -1000.0], math.log(1 / 2)
        log_prob.gives(half, row, 0, why="log(1/2)")
        log_prob.gives(half - high - 1000.0, row, 2, why=f"log(1/2) - 1000 - {high:g}")


# ------------------------------------------------------------------ score

SCORE = Exercise(
    "score",
    CHAPTER,
    {"en": "which way to push the logits", "zh": "该往哪边推 logit"},
    NUMBERS,
)


@SCORE.must(
    "add up to 0",
    "加起来等于 0",
    en="What goes to the chosen action is taken from all of them, each in proportion to "
    "its probability: 1 for the chosen one, minus pi for every one.",
    zh="给选中动作的，是从所有动作那里按概率拿走的："
    "选中的先记 1，再给每一个都减去它的概率。",
)
def score_adds_up(score: Probe) -> None:
    for row in ROWS:
        for action in range(len(row)):
            found = score(row, action)
            score.require(
                len(found) == len(row), f"{len(row)} slopes, one a logit", found
            )
            score.sums_to(0.0, found)


@SCORE.must(
    "be the slope of log pi(action), logit by logit",
    "等于 log pi(action) 对每个 logit 的斜率",
    en="It is the gradient of the logarithm, so no factor pi is left in front, and raising "
    "the chosen logit makes its own log-prob grow: that slope is positive.",
    zh="求的是对数的梯度，所以前面不带 pi 这个因子。"
    "抬高选中动作的 logit，它自己的对数概率会变大：那一项的斜率是正的。",
)
def score_is_a_slope(score: Probe) -> None:
    for row in ROWS:
        for action in range(len(row)):

            def log_pi(logits: list[float], action: int = action) -> float:
                return math.log(shares(logits)[action])

            score.gives(
                gradient(log_pi, row), row, action, why="by differences", within=1e-7
            )


@SCORE.must(
    "work where exp of a logit is more than a float holds",
    "在 logit 的 exp 大到浮点数存不下时也算得出来",
    en="Take the probabilities from your softmax, which has solved this already.",
    zh="概率从你写好的 softmax 里拿，那里已经解决了这个问题。",
)
def score_does_not_overflow(score: Probe) -> None:
    score.gives([0.0, 0.0], [1000.0, 0.0], 0, why="pi is (1, 0): nothing to gain")
    score.gives([-1.0, 1.0], [1000.0, 0.0], 1, why="pi is (1, 0)")
    score.gives([1.0, -1.0], [0.0, 1000.0], 0, why="pi is (0, 1)")


# ------------------------------------------------------------------ pick

PICK = Exercise(
    "pick",
    CHAPTER,
    {"en": "a random number becomes an action", "zh": "一个随机数变成一个动作"},
    WHOLE,
)


@PICK.must(
    "give each action its share of evenly spaced draws",
    "让等距排开的 draw 按份额落到各个动作上",
    en="Add the probabilities up one by one. The first sum that is above the draw names "
    "the action.",
    zh="把概率一个个加起来，第一个超过 draw 的和，对应的就是要选的动作。",
)
def pick_gives_shares(pick: Probe) -> None:
    for row in ([0.2, 0.5, 0.3], [0.25] * 4, [1.0]):
        reached = list(itertools.accumulate(row))
        for number in range(20):
            draw = (number + 0.5) / 20
            owner = next(a for a, end in enumerate(reached) if draw < end)
            ends = [0.0, *(round(end, 6) for end in reached)]
            pick.gives(owner, row, draw, why=f"the shares are cut at {ends}")


@PICK.must(
    "cut right: a share begins at its lower end, and probability 0 is never picked",
    "切得准：每一份含下端、不含上端，概率为 0 的动作永远选不到",
    en="Ask whether draw < sum, not draw <= sum. random.random() can give exactly 0.0, and "
    "an action of probability 0 owns no number at all.",
    zh="要问的是 draw < sum，不是 draw <= sum。random.random() 可能正好给出 0.0，"
    "而概率为 0 的动作一个数也不占。",
)
def pick_cuts_right(pick: Probe) -> None:
    pick.gives(1, [0.0, 1.0], 0.0, why="action 0 has probability 0")
    pick.gives(1, [0.5, 0.5], 0.5, why="action 0 owns what is below 0.5")
    pick.gives(2, [0.5, 0.0, 0.5], 0.5, why="action 1 has probability 0")


@PICK.must(
    "give an action even where the shares end a hair below 1",
    "在各份加起来比 1 差一丁点时也选得出动作",
    en="Ten times 0.1 adds up to 0.9999999999999999. If no sum is above the draw, take the "
    "last action whose probability is not 0.",
    zh="0.1 加十次得到 0.9999999999999999。如果没有哪个和超过 draw，"
    "就取最后一个概率不为 0 的动作。",
)
def pick_always_picks(pick: Probe) -> None:
    draw = math.nextafter(1.0, 0.0)
    pick.gives(9, [0.1] * 10, draw, why="the last one with a share")
    for zeros in ([0.0], [0.0, 0.0]):
        pick.gives(9, [*[0.1] * 10, *zeros], draw, why="the last one with a share")


# ------------------------------------------------------------------ returns_to_go

RETURNS_TO_GO = Exercise(
    "returns_to_go",
    CHAPTER,
    {"en": "credit for what came later", "zh": "后来的奖励也有功劳"},
    NUMBERS,
)


@RETURNS_TO_GO.must(
    "add to each reward all that came after it, where nothing is discounted",
    "在不打折时，给每个奖励加上它后面的所有奖励",
    en="Later means behind it in the list. Walk from the last step to the first, and carry "
    "the sum so far with you.",
    zh="“后来的”是列表里排在它后面的。从最后一步往前走，把累计的和一路带上。",
)
def returns_look_ahead(returns_to_go: Probe) -> None:
    returns_to_go.gives([3.0, 3.0], [0.0, 3.0], why="0 + 3, and 3")
    returns_to_go.gives([6.0, 5.0, 3.0], [1.0, 2.0, 3.0], why="1 + 2 + 3, 2 + 3, and 3")
    returns_to_go.gives([0.5, -0.5, 0.5], [1.0, -1.0, 0.5])
    returns_to_go.gives([1e-7, 1e-7], [0.0, 1e-7], why="small, and not 0")


@RETURNS_TO_GO.must(
    "shrink a reward once for every step that it lies ahead",
    "让后面的奖励每隔一步就打一次折",
    en="The distance counts, not the place in the episode: a step's own reward is never "
    "discounted, the next one once.",
    zh="算的是隔了几步，不是在回合里排第几：自己的奖励从不打折，下一步的打一次折。",
)
def returns_decay(returns_to_go: Probe) -> None:
    returns_to_go.gives([2.0, 4.0, 8.0], [0.0, 0.0, 8.0], 0.5, why="8 / 4, 8 / 2 and 8")
    returns_to_go.gives([1.0, 2.0], [1.0, 2.0], 0.0, why="nothing later counts")
    rewards, discount = [1.0, 0.0, -2.0, 4.0, 0.5], 0.9
    expected = [
        math.fsum(discount**k * reward for k, reward in enumerate(rewards[t:]))
        for t in range(len(rewards))
    ]
    returns_to_go.gives(expected, rewards, discount)


@RETURNS_TO_GO.must(
    "give an empty list for an empty episode",
    "对空的回合给出空列表",
    en="Start from 0, not from the last reward: there may be none.",
    zh="从 0 开始累计，不要从最后一个奖励开始：可能一个也没有。",
)
def returns_of_nothing(returns_to_go: Probe) -> None:
    returns_to_go.gives([], [])


# ------------------------------------------------------------------ mean_estimate

MEAN_ESTIMATE = Exercise(
    "mean_estimate",
    CHAPTER,
    {"en": "a baseline does not move the mean", "zh": "基线不会移动均值"},
    NUMBERS,
)
PAYS = (
    ([0.0, 0.0], [3.0, 1.0]),
    ([1.0, 0.0], [0.0, 2.0]),
    ([-2.0, 0.5, 1.0], [1.0, 0.0, 3.0]),
)


@MEAN_ESTIMATE.must(
    "be the slope of the mean return",
    "等于平均回报的斜率",
    en="Three factors for each action: its probability, its return, its score. Add up over "
    "the actions, slope by slope.",
    zh="每个动作三个因子：它的概率、它的回报、它的 score。对所有动作逐个斜率加起来。",
)
def mean_estimate_is_the_gradient(mean_estimate: Probe) -> None:
    for logits, pays in PAYS:

        def mean_return(row: list[float], pays: list[float] = pays) -> float:
            return math.fsum(p * pay for p, pay in zip(shares(row), pays))

        mean_estimate.gives(
            gradient(mean_return, logits),
            *(logits, pays, 0.0),
            why="the finite difference of the mean return",
            within=1e-7,
        )


@MEAN_ESTIMATE.must(
    "be the same for every baseline",
    "不随基线改变",
    en="Subtract the baseline from the return before the score is multiplied in, for every "
    "action, also where it makes the weight negative. The score has mean 0, so a constant "
    "times it vanishes.",
    zh="乘 score 之前，先从回报里减去基线；每个动作都要减，减成负数也照减。"
    "score 的均值是 0，常数乘上它，平均下来就没了。",
)
def mean_estimate_ignores_the_baseline(mean_estimate: Probe) -> None:
    for (logits, pays), baseline in itertools.product(PAYS, (1.0, 2.5, -40.0)):
        without = mean_estimate(logits, pays, 0.0)
        why = "the same as with baseline 0.0"
        mean_estimate.gives(without, logits, pays, baseline, why=why)


# ------------------------------------------------------------------ reinforce_step

REINFORCE_STEP = Exercise(
    "reinforce_step",
    CHAPTER,
    {
        "en": "one update, from episodes to new logits",
        "zh": "一次更新：从回合到新的 logit",
    },
    Kind(
        "a dict of lists of finite numbers",
        "一个 dict，值是有限数的列表",
        lambda value: (
            isinstance(value, dict) and all(map(NUMBERS.fits, value.values()))
        ),
    ),
)
Episode = list[tuple[str, int, float]]
TAKE, WORK = 0, 1
TAKES: Episode = [("start", TAKE, 1.0)]
WORKS_TAKES: Episode = [("start", WORK, 0.0), ("ready", TAKE, 3.0)]
WORKS_WORKS: Episode = [("start", WORK, 0.0), ("ready", WORK, 0.0)]


@REINFORCE_STEP.must(
    "move the uniform policy as four episodes on a sheet of paper do",
    "让均匀策略走的这一步，跟拿四个回合在纸上算的一样",
    en="Weigh each score with the return, not the reward. Divide by the number of episodes "
    "and not by the visits of a state. Use the policy that played for all of them, and add: "
    "the return is to grow.",
    zh="给 score 加权的是回报，不是奖励。除以回合数，不是除以到过这个状态的次数。"
    "全部都用采样时的那个策略来算，最后是加上去：要让回报变大。",
)
def reinforce_step_by_hand(reinforce_step: Probe) -> None:
    uniform = {"start": [0.0, 0.0], "ready": [0.0, 0.0]}
    played = [WORKS_WORKS, TAKES, TAKES, WORKS_TAKES]
    expected = {"start": [-0.0625, 0.0625], "ready": [0.1875, -0.1875]}
    why = (
        "work in start: 0.5 * (0/2 + 3/2 - 1/2 - 1/2) / 4; "
        "take in ready: 0.5 * (3/2 - 0/2) / 4"
    )
    reinforce_step.gives(expected, uniform, played, 0.5, why=why)


@REINFORCE_STEP.must(
    "add up all steps of an episode, each with the return from that step on",
    "把一个回合的每一步都加上，各用从这一步算起的回报",
    en="A step gets its own reward and the later ones; what was paid before it is not its "
    "doing. A state that is visited twice gets two terms, and a row of logits may have any "
    "number of actions.",
    zh="一步得到的是自己的奖励和后面的奖励；在它之前付的，不是它的功劳。"
    "到过两次的状态有两项，一行 logit 里有几个动作都行。",
)
def reinforce_step_adds_up(reinforce_step: Probe) -> None:
    uniform = {"s": [0.0] * 3, "t": [0.0] * 3}
    played: Episode = [("s", 0, 1.0), ("s", 1, 0.0), ("t", 2, 3.0)]
    expected = {"s": [0.5, 0.2, -0.7], "t": [-0.3, -0.3, 0.6]}
    why = "action 0 of s: 0.3 * (4 * 2/3 - 3/3); action 2 of t: 0.3 * 3 * 2/3"
    reinforce_step.gives(expected, uniform, [played], 0.3, why=why)


@REINFORCE_STEP.must(
    "give back every state, and leave those alone where nobody was",
    "给出每一个状态，没人去过的保持原样",
    en="Begin with a copy of all logits, and add to it.",
    zh="先把所有 logit 复制一份，再往上加。",
)
def reinforce_step_keeps_states(reinforce_step: Probe) -> None:
    logits = {"start": [0.0, 0.0], "ready": [1.0, -1.0]}
    expected = {"start": [0.5, -0.5], "ready": [1.0, -1.0]}
    reinforce_step.gives(expected, logits, [TAKES], 1.0, why="nobody came to ready")


@REINFORCE_STEP.must(
    "climb the exact return, on the mean over all episodes",
    "在对所有回合取平均之后，沿精确回报的梯度往上走",
    en="The score needs the probabilities of the policy that is given, in the state of the "
    "step. They are not always 1/2.",
    zh="score 里用的是传进来的策略在这一步所处状态里的概率，它们不总是 1/2。",
)
def reinforce_step_climbs(reinforce_step: Probe) -> None:
    logits, rate = {"start": [1.0, 0.0], "ready": [-0.5, 0.5]}, 0.1
    (take, work), (reap, idle) = shares(logits["start"]), shares(logits["ready"])
    played = ((TAKES, take), (WORKS_TAKES, work * reap), (WORKS_WORKS, work * idle))
    found = [(reinforce_step(logits, [one], rate), chance) for one, chance in played]
    uphill = {
        "start": gradient(lambda z: _toy_return(z, logits["ready"]), logits["start"]),
        "ready": gradient(lambda z: _toy_return(logits["start"], z), logits["ready"]),
    }
    for state, slopes in uphill.items():
        rows = [(new[state], chance) for new, chance in found]
        for place, rise in enumerate(slopes):
            mean = math.fsum(chance * row[place] for row, chance in rows)
            goal = logits[state][place] + rate * rise
            wanted, told = apart(goal, mean)
            reinforce_step.require(
                close(mean, goal, 1e-7),
                f"a mean of {wanted} as logit {place} of {state}, over batches of one "
                "episode, each weighed with its probability",
                f"a mean of {told}",
            )


def _toy_return(start: list[float], ready: list[float]) -> float:
    (take, work), (reap, _) = shares(start), shares(ready)
    return take * 1.0 + work * reap * 3.0


EXERCISES = (
    EXACT_RETURN,
    SOFTMAX,
    LOG_PROB,
    SCORE,
    PICK,
    RETURNS_TO_GO,
    MEAN_ESTIMATE,
    REINFORCE_STEP,
)
