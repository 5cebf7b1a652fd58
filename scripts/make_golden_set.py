"""Write docs/golden_set.md, in both languages, from what four frameworks really did.

    python3 scripts/make_golden_set.py            write both pages
    python3 scripts/make_golden_set.py --check    write nothing, exit 1 if one is stale

Each framework plays the golden set in its own environment, without a network (or with
--watched, as in check_bridges.py), by checks/bridges/golden_NAME.py. What is written here
are the words around the numbers, and why a framework's record differs from ours: a
difference that nobody explains, or an explanation without a difference, is an error.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts"), str(ROOT / "checks")]

from check_bridges import WATCHED, alone, run
from environments import python
from generated import keep
from generated import table as markdown

from agentic_rl.bridges.frameworks import VERSIONS
from agentic_rl.cli import render

PAGES = {
    "zh": ROOT / "docs" / "golden_set.md",
    "en": ROOT / "docs" / "en" / "golden_set.md",
}
NAMES = {
    "trl": "TRL",
    "verl": "verl",
    "openrlhf": "OpenRLHF",
    "agent_lightning": "Agent Lightning",
}
ENVIRONMENTS = {"agent_lightning": "verl"}  # its adapter makes batches of verl's
PARTS = {  # what a trajectory of ours holds
    "messages": "消息",
    "ids": "token id",
    "mask": "掩码",
    "log-probs": "对数概率",
    "states and choices": "状态和选择",
    "kinds of observations": "每个观察的类别",
    "end": "结束原因",
    "reward": "奖励",
    "breakdown": "奖励的明细",
}
CHECK = "--check"
Told = dict[str, dict[str, Any]]  # framework -> what its golden_NAME.py printed


class PageError(ValueError):
    """A framework that did not tell, or a difference that is not explained."""


WHY = (  # (framework, episode) ..., then the reason in both languages
    (
        (("trl", "broken JSON"), ("verl", "broken JSON")),
        "不是 JSON 的调用，它们不认，回合到此结束；我们的循环告诉智能体错在哪里，它还能再说。",
        "a call that is no JSON is none to them, and the episode ends there; our loop says "
        "what is wrong, and the agent goes on.",
    ),
    (
        (("trl", "unknown tool"), ("verl", "unknown tool")),
        "工具不存在时，由它们用自己的话回答，从那里起 id 就不同了。TRL 的那个回合因此没有奖励："
        "我们的工具没说过那句话。",
        "they tell in words of their own that there is no such tool, and from there on the ids "
        "differ. TRL's episode has no reward for it: no tool of ours said that.",
    ),
    (
        (("trl", "never answers"),),
        "最后一轮的调用不再执行，少了工具的那一句。",
        "the call of the last turn is not run, so the tool's last words are not there.",
    ),
    (
        (("openrlhf", "truncated"),),
        "智能体看不到自己那一轮是被截断的，于是又被问了一轮，这里它答了一句空话。",
        "its agent is not told that its turn was cut off, and is asked for another one; here "
        "it says nothing in it.",
    ),
)

WORDS: dict[str, dict[str, Any]] = {
    "zh": {
        "title": "黄金集在四个框架里",
        "other": "English: [golden_set.md](en/golden_set.md)",
        "intro": (
            "读完以后，你知道同一个回合交给四个框架，各记下哪些 id，训练其中哪些，"
            "给多少奖励和优势，又丢掉了什么。",
            "黄金集（golden set）是 [golden.py](../agentic_rl/golden.py) 里的 15 个回合："
            "一次调用，几个工具，工具出错，写坏的调用，截断，带思考的文字，空答案。"
            "助手说的话照脚本；循环、给奖励的办法和优势的估计量都是框架自己的。"
            "Agent Lightning 没有自己的循环：回合由我们的智能体来走，"
            "网关、采样管理器（rollout manager）和适配器是它的。"
            "本页由 `scripts/make_golden_set.py` 生成，它在各自的环境里运行这些框架：",
        ),
        "records": "记下的 id",
        "about records": (
            "斜线前是要训练的 id，后面是第一个提示之后的全部 id。前三列用的是同一个分词器；"
            "Agent Lightning 那一列，一个 id 就是本课程的一个 token，所以数目不同。",
            "星号表示：跟我们的桥接代码（bridge）为同一个回合写下的记录不同，原因在表后。"
            "没有星号，就是每个 id 和它的掩码都相同。",
        ),
        "scores": "奖励和优势",
        "about scores": (
            "每个框架先是奖励，再是优势（adv.）。同一任务的回合是一组：八个、四个、三个。"
            "估计量是 TRL 的默认、verl 的 grpo、OpenRLHF 的 group_norm、"
            "Agent Lightning 按采样回合统计的 grpo。",
            "奖励相同而优势不同，有三个来处。TRL 的组里有一个回合没有奖励，不进均值；"
            "除数里加的小数各不相同；Agent Lightning 用 bfloat16 来算，只剩两三位。",
        ),
        "holds": "记录里有什么",
        "about holds": (
            "我们的轨迹里的每一部分，在各家的记录里叫什么。短横表示没有这一项，"
            "框架自己的循环会把它丢掉。括号里的是我们加的字段或事件，框架原样带着走。"
            "经过桥接代码的轨迹，丢掉的都放进这样的地方，所以能原样读回，有测试守着；"
            "在 OpenRLHF 里，它们到得了 response，到不了 Experience。"
            "TRL 的奖励只以优势的样子留下，每批一次更新时不留对数概率；"
            "Agent Lightning 的掩码由合并各次调用得来。",
        ),
        "part": "轨迹的一部分",
    },
    "en": {
        "title": "The golden set in four frameworks",
        "other": "中文版：[golden_set.md](../golden_set.md)",
        "intro": (
            "After this page you know what four frameworks make of the same episode: the "
            "ids that each keeps, those that it trains on, reward and advantage, and what it "
            "drops.",
            "The golden set is 15 episodes in [golden.py](../../agentic_rl/golden.py): one "
            "call, several tools, errors of tools, a broken call, a cut turn, thoughts, an "
            "empty answer. What the assistant says is scripted; loop, reward call and "
            "estimator are the framework's own. Agent Lightning has no loop: our agent plays, "
            "and gateway, rollout manager and adapter are its own. "
            "`scripts/make_golden_set.py` writes this page, and runs each framework in its "
            "environment:",
        ),
        "records": "The ids that are kept",
        "about records": (
            "Before the slash the ids that are trained on, behind it all that follow the first "
            "prompt. The first three columns have one tokenizer; in that of Agent Lightning "
            "an id is a token of the course, so its counts are others.",
            "A star: the record is not the one that our bridge writes of the same episode; "
            "below the table stands why. Without a star every id and its mask are the same.",
        ),
        "scores": "Rewards and advantages",
        "about scores": (
            "Of each framework first the reward, then the advantage (adv.). The episodes of a "
            "task are a group: eight, four, three. The estimators are TRL's default, verl's "
            "grpo, OpenRLHF's group_norm, and grpo over rollouts in Agent Lightning.",
            "Equal rewards get other advantages for three reasons. One episode of TRL's group "
            "has no reward, and is not in the mean; what is added to the divisor differs; and "
            "Agent Lightning computes in bfloat16, which leaves two or three digits.",
        ),
        "holds": "What a record holds",
        "about holds": (
            "The name that each part of a trajectory of ours has in their record. A dash: "
            "there is none, and the framework's own loop drops it. In brackets stands a "
            "field or an event of ours, which the framework carries along. What goes "
            "through a bridge keeps all of it in such places, so a trajectory comes back "
            "as it was; tests hold that. In OpenRLHF they reach the response and not the "
            "Experience. TRL keeps a reward as an advantage alone, and no log-probs with "
            "one update a batch; the mask of Agent Lightning comes from merging its "
            "calls.",
        ),
        "part": "part of a trajectory",
    },
}


def told(watched: bool) -> Told:
    """What each framework makes of the golden set. Raises PageError."""
    found, prefix = {}, alone()
    if not prefix and not watched:
        raise PageError(
            f"this system has no network of one's own to give; see {WATCHED}"
        )
    for name in NAMES:
        try:
            interpreter = python(ENVIRONMENTS.get(name, name))
        except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
            raise PageError(f"{name}: {error}") from None
        ran = run([interpreter, "-m", f"checks.bridges.golden_{name}"], prefix)
        if problems := ran.problems():
            raise PageError(f"{name}: {'; '.join(problems)}")
        found[name] = last_line(name, ran.output)
    return found


def last_line(name: str, output: str) -> dict[str, Any]:
    """What a framework told, in the last line that it printed. Raises PageError."""
    line = (output.strip().splitlines() or [""])[-1]
    try:
        return dict(json.loads(line))
    except ValueError:
        raise PageError(f"{name}: told {line[:60]!r}, expected JSON") from None


def records(found: Told) -> str:
    """The ids of each episode, of them trained; a star where the record is not ours."""
    rows = []
    for episode in found["trl"]["rows"]:
        cells = []
        for framework in NAMES:
            row = found[framework]["rows"][episode]
            star = "*" if differs(row) else ""
            cells.append(f"{row['trained']}/{row['ids']}{star}")
        rows.append((episode, *cells))
    return render.table(("trained/all", *NAMES.values()), rows)


def differs(row: dict[str, Any]) -> bool:
    """Whether a record is not the one that our bridge makes of the same episode."""
    return not row["same"] == row["ids"] == row["ours"]


def scores(found: Told) -> str:
    """Reward and advantage of each episode, the rewards where they are not ours."""
    rows = []
    for episode in found["trl"]["rows"]:
        cells = []
        for framework in NAMES:
            row = found[framework]["rows"][episode]
            cells += [shown(row["reward"], 1), shown(row["advantage"], 4)]
        rows.append((episode, *cells))
    head = [word for name in SHORT.values() for word in (name, "adv.")]
    return render.table(("episode", *head), rows)


SHORT = {"trl": "TRL", "verl": "verl", "openrlhf": "O.RLHF", "agent_lightning": "A.L."}


def shown(value: float | None, digits: int) -> str:
    return "-" if value is None else render.number(value, digits)


def holds(found: Told, language: str) -> str:
    """A Markdown table: where a part of a trajectory stands in each record."""
    rows = []
    for part, zh in PARTS.items():
        cells = [found[framework]["holds"][part] for framework in NAMES]
        marked = [in_code(cell) if cell else "-" for cell in cells]
        rows.append((zh if language == "zh" else part, *marked))
    return markdown((WORDS[language]["part"], *NAMES.values()), rows)


def in_code(name: str) -> str:
    """A field's name, its brackets outside."""
    code = f"`{name.strip('()')}`"
    return f"({code})" if name.startswith("(") else code


def explained(found: Told, language: str) -> Iterator[str]:
    """A list: each record that is not ours, and why. Raises PageError."""
    seen = {
        (framework, episode)
        for framework in NAMES
        for episode, row in found[framework]["rows"].items()
        if differs(row)
    }
    reasons = {pair for pairs, *_ in WHY for pair in pairs}
    for pair in sorted(seen ^ reasons):
        raise PageError(f"{pair}: {'nobody says why' if pair in seen else 'no such'}")
    for pairs, zh, en in WHY:
        where = ", ".join(f"{NAMES[name]} `{episode}`" for name, episode in pairs)
        yield f"- {where}{'：' + zh if language == 'zh' else ': ' + en}"


def page(found: Told, language: str) -> str:
    """One page, as Markdown."""
    words = WORDS[language]
    versions = "    ".join(f"{NAMES[name]} {VERSIONS[name]}" for name in NAMES)
    episodes = len(found["trl"]["rows"])
    blocks = [
        f"# {words['title']}",
        words["other"],
        *words["intro"],
        text(f"{versions}\n{episodes} episodes"),
        f"## {words['records']}",
        *words["about records"],
        text(records(found)),
        "\n".join(explained(found, language)),
        f"## {words['scores']}",
        *words["about scores"],
        text(scores(found)),
        f"## {words['holds']}",
        *words["about holds"],
        holds(found, language),
    ]
    return "\n\n".join(blocks) + "\n"


def text(lines: str) -> str:
    return f"```text\n{lines}\n```"


def main() -> int:
    words = set(sys.argv[1:])
    if odd := words - {CHECK, WATCHED}:
        print(f"{min(odd)!r}: expected {CHECK}, {WATCHED} or nothing", file=sys.stderr)
        return 2
    try:
        found = told(WATCHED in words)
        pages = {path: page(found, language) for language, path in PAGES.items()}
    except PageError as error:
        print(error, file=sys.stderr)
        return 1
    return keep(pages, CHECK in words, "not what the frameworks do now")


if __name__ == "__main__":
    raise SystemExit(main())
