"""Every formula of the docs and of the notebooks' prose, rendered by MathJax."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from environments import node_modules
from verdicts import Verdicts

from tests.pages import maths

HERE = Path(__file__).resolve().parent / "mathjax"
PAGES = ("docs/*.md", "docs/en/*.md", "examples/*/notebook*.md")


def pages() -> Iterator[Path]:
    """Every page that may have formulas."""
    for pattern in PAGES:
        yield from sorted(ROOT.glob(pattern))


def problems(formulas: list[dict[str, object]]) -> list[str]:
    """What MathJax says of each formula; nothing if it renders."""
    command = ["node", str(HERE / "render.mjs"), str(node_modules("mathjax", HERE))]
    done = subprocess.run(
        command, input=json.dumps(formulas), capture_output=True, text=True, check=True
    )
    found: list[str] = json.loads(done.stdout)
    return found


def main() -> int:
    verdicts, known = Verdicts(), []
    for page in pages():
        displayed, inline = maths(page.read_text(encoding="utf-8"))
        for formula in (*displayed, *inline):
            is_displayed = formula in displayed
            known.append((page, {"formula": formula, "display": is_displayed}))
    said = problems([formula for _, formula in known])
    for page in dict.fromkeys(page for page, _ in known):
        mine = [i for i, (other, _) in enumerate(known) if other == page]
        bad = [f"{known[i][1]['formula']}: {said[i]}" for i in mine if said[i]]
        verdicts.add(f"{page.relative_to(ROOT)}: {len(mine)} formulas", bad)
    return verdicts.close()


if __name__ == "__main__":
    raise SystemExit(main())
