"""The results that ship with the package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parents[1] / "data"


def load(name: str) -> Any:
    """The contents of a JSON file in data/."""
    return json.loads((DATA / name).read_text(encoding="utf-8"))
