"""Values that come from outside: which of them are numbers, and how an error quotes them."""

from __future__ import annotations

import math
import sys
from typing import Any, TypeGuard


def is_finite(value: Any) -> TypeGuard[float]:
    """Whether this is an int or a float that can be computed with.

    A boolean is no number here, although Python would add it up; nor is an int that no
    float can hold.
    """
    if isinstance(value, float):
        return math.isfinite(value)
    is_int = isinstance(value, int) and not isinstance(value, bool)
    return is_int and abs(value) <= sys.float_info.max


def excerpt(value: Any) -> str:
    """A value as an error quotes it: on one line, cut short, whatever it is."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # too many digits, too many brackets
        text = f"<{type(value).__name__}>"
    return text if len(text) <= 100 else f"{text[:97]}..."
