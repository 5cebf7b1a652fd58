"""Values that come from outside: which of them are numbers, and how an error quotes them."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable
from typing import Any, TypeGuard, TypeVar

SHORT = 1000  # characters of a text whose result is remembered

Result = TypeVar("Result")


def is_finite(value: Any) -> TypeGuard[float]:
    """Whether this is an int or a float that can be computed with.

    A boolean is no number here, although Python would add it up; nor is an int that no
    float can hold.
    """
    if isinstance(value, float):
        return math.isfinite(value)
    is_int = isinstance(value, int) and not isinstance(value, bool)
    return is_int and abs(value) <= sys.float_info.max


def remembered(function: Callable[[str], Result]) -> Callable[[str], Result]:
    """A function of a text that keeps its results for short texts, which come back.

    Long ones are rare, and a few thousand of them would fill the memory.
    """
    cached = functools.lru_cache(maxsize=4096)(function)

    @functools.wraps(function)
    def remembering(text: str) -> Result:
        return cached(text) if len(text) <= SHORT else function(text)

    return remembering


def excerpt(value: Any) -> str:
    """A value as an error quotes it: on one line, cut short, whatever it is."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # too many digits, too many brackets
        text = f"<{type(value).__name__}>"
    return text if len(text) <= 100 else f"{text[:97]}..."
