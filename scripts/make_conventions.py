"""Write docs/conventions.md, in both languages, from the presets of conventions.py.

    python3 scripts/make_conventions.py            write both pages
    python3 scripts/make_conventions.py --check    write nothing, exit 1 if one is stale

A value on the page is that of the code. What is written here are the words around it, the
equation that a switch belongs to, and the tests that hold it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from generated import keep, table

from agentic_rl.bridges.frameworks import VERSIONS
from agentic_rl.conventions import COURSE, PRESETS

PAGES = {
    "zh": ROOT / "docs" / "conventions.md",
    "en": ROOT / "docs" / "en" / "conventions.md",
}
VERL = "checks/bridges/test_verl_numbers.py"
TRL = "checks/bridges/test_trl_numbers.py"
OPENRLHF = "checks/bridges/test_openrlhf_numbers.py"
ADAPTER = "checks/bridges/test_verl_adapter.py"
ADVANTAGE, OBJECTIVE = "tests/test_advantage.py", "tests/test_objective.py"


class Row(NamedTuple):
    """One switch on the page: its words, its equation, and a test that holds it."""

    zh: str
    en: str
    equation: str
    held: str


GROUP, SCALED, LOO = (
    "05_grpo_ppo_intuition.md#eq-" + x for x in ("group", "scaled", "loo")
)
RATIO, CLIP = ("05_grpo_ppo_intuition.md#eq-" + x for x in ("ratio", "clip"))
KL = "05_grpo_ppo_intuition.md#kl"
LOSS = "05_grpo_ppo_intuition.md#loss-value"
EDGES = "05_grpo_ppo_intuition.md#group"
RETURN = "02_agent_loop_as_mdp.md#eq-return"

SECTIONS = {
    ("优势", "The advantage"): {
        "baseline": Row(
            "从奖励里减去什么",
            "what is subtracted from the reward",
            GROUP,
            "test_no_baseline_is_the_reward_itself",
        ),
        "std": Row(
            "除以哪个标准差",
            "which standard deviation it is divided by",
            SCALED,
            "test_std_of_the_batch",
        ),
        "ddof": Row(
            "方差除以 n - ddof",
            "the variance divides by n - ddof",
            SCALED,
            "test_three_frameworks_three_constants_case_c03",
        ),
        "std_epsilon": Row(
            "防止除以零的很小的数",
            "the small number that guards the division",
            SCALED,
            "test_three_frameworks_three_constants_case_c03",
        ),
        "epsilon_place": Row(
            "它加在哪里", "where that number goes", SCALED, "test_where_epsilon_goes"
        ),
        "group_of_one": Row(
            "没有同伴的回合得到什么",
            "what an episode without peers gets",
            EDGES,
            "test_each_rule_case_c02",
        ),
        "zero_spread": Row(
            "奖励全相等时怎样",
            "what equal rewards get",
            EDGES,
            "test_divide_divides_the_noise_by_epsilon",
        ),
        "unscored": Row(
            "没打分的回合怎样",
            "what happens to an episode without a score",
            EDGES,
            "test_left_out_of_mean_and_std_with_advantage_zero",
        ),
        "groups": Row(
            "哪些组参加更新",
            "which groups take part in the update",
            EDGES,
            "test_kept_informative",
        ),
        "returns": Row(
            "每个位置用整个回合的优势，还是此后的回报",
            "each position gets the episode's advantage, or its return to go",
            RETURN,
            "test_to_go_decays_backwards",
        ),
        "discount": Row(
            "每过一个位置打的折扣",
            "decay per position",
            RETURN,
            "test_to_go_decays_backwards",
        ),
        "whiten": Row(
            "是否在整批的位置上减均值、除标准差",
            "whether all positions of the batch are centred and scaled",
            SCALED,
            "test_whiten_by_hand",
        ),
    },
    ("目标函数", "The objective"): {
        "unit": Row(
            "在决策上算，还是在 token 上算",
            "whether it acts on decisions or on tokens",
            RATIO,
            "test_every_combination_of_switches",
        ),
        "aggregation": Row(
            "怎样从位置汇总成一个数",
            "how positions become one number",
            LOSS,
            "test_three_answers_for_the_same_losses_case_c06",
        ),
        "max_length": Row(
            "`constant` 所除的那个数",
            "the number that `constant` divides by",
            LOSS,
            "test_three_answers_for_the_same_losses_case_c06",
        ),
        "mean_epsilon": Row(
            "求均值时给计数加的很小的数",
            "added to a count where a mean is taken",
            LOSS,
            "test_mean_epsilon_is_added_to_an_episodes_count",
        ),
        "empty_rows": Row(
            "一个可训练的位置都没有的回合，算不算进均值",
            "whether episodes without a trainable position count in the mean",
            LOSS,
            "test_rows_without_an_active_position",
        ),
        "ratio": Row(
            "比率按位置算，还是按整条序列算",
            "whether the ratio is per position or per sequence",
            RATIO,
            "test_one_a_unit_or_one_a_sequence",
        ),
        "clip": Row(
            "怎样裁剪",
            "how it is clipped",
            CLIP,
            "test_two_sided_clips_whatever_the_sign",
        ),
        "clip_low": Row(
            "比率最多降多少", "how far the ratio may fall", CLIP, "test_two_widths"
        ),
        "clip_high": Row(
            "比率最多升多少", "how far it may rise", CLIP, "test_two_widths"
        ),
        "dual_clip": Row(
            "优势为负时损失的上界",
            "bound of a negative advantage's loss",
            CLIP,
            "test_the_full_table_case_f03",
        ),
        "log_ratio_clamp": Row(
            "取 exp 之前对数比率的上界",
            "bound of the log-ratio before exp",
            RATIO,
            "test_a_ratio_that_runs_away_is_clamped_case_f01",
        ),
    },
    ("到参考策略的 KL", "The KL to the reference"): {
        "kl_place": Row(
            "放在哪里",
            "where it goes",
            KL,
            "test_what_each_does_to_the_policy_case_f05",
        ),
        "kl_weight": Row(
            "权重（beta）",
            "its weight (beta)",
            KL,
            "test_every_combination_of_switches",
        ),
        "kl_estimator": Row(
            "用哪个估计", "which estimator", KL, "test_three_estimators_case_f04"
        ),
        "kl_log_ratio_clamp": Row(
            "估计之前对数比率的上界",
            "bound of the log-ratio before the estimator",
            KL,
            "test_clamps",
        ),
        "kl_clamp": Row(
            "估计之后的上界", "bound after the estimator", KL, "test_clamps"
        ),
        "kl_ratio": Row(
            "损失里的 KL 是否乘上比率",
            "whether the KL in the loss is multiplied by the ratio",
            KL,
            "test_samples_of_an_older_policy_need_the_ratio",
        ),
    },
}

CONVENTIONS = "tests/test_conventions.py"
HELD = {  # preset -> the file and the test that compare it with its source
    "course": (
        CONVENTIONS,
        "test_each_stands_under_its_name_and_says_where_it_is_from",
    ),
    "trl": (TRL, "ThePresetIsRight"),
    "verl": (VERL, "ThePresetIsRight"),
    "openrlhf": (OPENRLHF, "Settings"),
    "agent_lightning": (ADAPTER, "TheConfig"),
}
PAPER = (CONVENTIONS, "test_the_papers_values")


def values() -> str:
    """What the second block of code on the page prints."""
    lines = []
    for switch in ("std_epsilon", "mean_epsilon", "clip_low", "clip_high", "kl_weight"):
        found = sorted({getattr(preset, switch) for preset in PRESETS.values()})
        lines.append(" ".join([switch, *map(str, found)]))
    return "\n".join(lines)


WORDS: dict[str, dict[str, Any]] = {
    "zh": {
        "title": "约定：每个开关，每个预设",
        "other": "English: [conventions.md](en/conventions.md)",
        "intro": (
            "读完以后，你能从一个预设里读出它的每个开关，知道这个开关管哪个式子，由哪个测试守着。",
            "光说“GRPO”，定不出一个数。四个回合的奖励是 1、0、0、1，排在最前的那个，优势在 "
            "`course` 里是 0.8660，在 `dr_grpo` 里是 0.5，在 `rloo` 里是 0.6667：",
        ),
        "after": (
            "下面列出全部开关，只写跟 `course` 不同的值。程序里的同一张表："
            "`python3 -m agentic_rl conventions --switches`。",
            "这里的值都由 `scripts/make_conventions.py` 从 "
            "[conventions.py](../agentic_rl/conventions.py) 取来，别动手改。不是整数的值：",
        ),
        "presets": ("预设", "来源和版本", "守着它的测试"),
        "sections": "预设",
        "head": ("开关", "管什么", "`course`", "别的预设", "式子", "测试"),
        "notes": "来源没有说的",
        "note": "来源没写明的，由我们选定；开关表达不全的，也记在这里（英文）：",
    },
    "en": {
        "title": "Conventions: every switch, every preset",
        "other": "中文版：[conventions.md](../conventions.md)",
        "intro": (
            "After this page you can read every switch of a preset, and say which equation it "
            "belongs to and which test holds it.",
            '"GRPO" alone does not give a number. For four episodes with rewards 1, 0, 0, 1 '
            "the first has the advantage 0.8660 under `course`, 0.5 under `dr_grpo` and 0.6667 "
            "under `rloo`:",
        ),
        "after": (
            "Here are all the switches, with the values that differ from `course`. The same "
            "table in the program: `python3 -m agentic_rl conventions --switches`.",
            "All values are taken by `scripts/make_conventions.py` from "
            "[conventions.py](../../agentic_rl/conventions.py); don't edit them here. Those "
            "that are not integers:",
        ),
        "presets": ("preset", "source and version", "held by"),
        "sections": "Presets",
        "head": (
            "switch",
            "what it says",
            "`course`",
            "other presets",
            "equation",
            "test",
        ),
        "notes": "What the sources leave open",
        "note": "Where a source is silent, we chose. What a switch can't hold is noted too:",
    },
}


EXAMPLE = """\
```python
>>> from agentic_rl.advantage import group_advantages
>>> from agentic_rl.conventions import PRESETS
>>> for name in ("course", "dr_grpo", "rloo"):
...     print(name, round(group_advantages([1, 0, 0, 1], ["task"] * 4, PRESETS[name])[0], 4))
course 0.866
dr_grpo 0.5
rloo 0.6667

```"""
VALUES = f"""\
```python
>>> for switch in ("std_epsilon", "mean_epsilon", "clip_low", "clip_high", "kl_weight"):
...     print(switch, *sorted({{getattr(preset, switch) for preset in PRESETS.values()}}))
{values()}

```"""


def page(language: str) -> str:
    """One page, as Markdown."""
    words = WORDS[language]
    blocks: list[str] = [
        f"# {words['title']}",
        words["other"],
        *words["intro"],
        EXAMPLE,
    ]
    blocks += [*words["after"], VALUES]
    blocks += [
        f"## {words['sections']}",
        table(words["presets"], preset_rows(language)),
    ]
    for (zh, en), switches in SECTIONS.items():
        rows = [switch_row(language, name, row) for name, row in switches.items()]
        blocks += [f"## {zh if language == 'zh' else en}", table(words["head"], rows)]
    blocks += [f"## {words['notes']}", words["note"]]
    blocks.append(
        "\n".join(
            f"- `{preset.name}`, `{switch}`: {note}"
            for preset in PRESETS.values()
            for switch, note in preset.notes
        )
    )
    return "\n\n".join(blocks) + "\n"


def preset_rows(language: str) -> Iterator[list[str]]:
    """Name, source and version, and what holds it, of each preset."""
    for preset in PRESETS.values():
        yield [
            f"`{preset.name}`",
            preset.source,
            linked(language, *HELD.get(preset.name, PAPER)),
        ]


def switch_row(language: str, name: str, row: Row) -> list[str]:
    """One switch: what it says, the course's value, who has another, equation, test."""
    others: dict[str, list[str]] = {}
    for preset in PRESETS.values():
        value = shown(getattr(preset, name))
        if value != shown(getattr(COURSE, name)):
            others.setdefault(value, []).append(named(preset.name))
    anchor = row.equation.partition("#")[2].replace("eq-", "eq. ")
    file = ADVANTAGE if name in SECTIONS[("优势", "The advantage")] else OBJECTIVE
    return [
        f"`{name}`",
        row.zh if language == "zh" else row.en,
        f"`{shown(getattr(COURSE, name))}`",
        "; ".join(f"`{value}`: {', '.join(names)}" for value, names in others.items())
        or "-",
        f"[{anchor}]({row.equation})",
        linked(language, file, row.held),
    ]


def named(preset: str) -> str:
    """A preset's name, with the version of the framework it is the convention of."""
    return f"{preset} {VERSIONS[preset]}" if preset in VERSIONS else preset


def shown(value: object) -> str:
    """A switch's value as the program prints it."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def linked(language: str, file: str, name: str) -> str:
    """A link to a test's file, and the test's name."""
    up = ".." if language == "zh" else "../.."
    return f"[{Path(file).name}]({up}/{file}) `{name}`"


def main() -> int:
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        print(f"{sys.argv[1]!r}: expected --check or nothing", file=sys.stderr)
        return 2
    pages = {path: page(language) for language, path in PAGES.items()}
    return keep(pages, check, "not what the presets say")


if __name__ == "__main__":
    raise SystemExit(main())
