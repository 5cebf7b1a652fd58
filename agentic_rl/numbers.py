"""What counts as a number: finite, and one that a float can hold.

The question is asked wherever numbers come in: logits, log-probs, rewards, switches. A
boolean is no number here, although Python would add it up.
"""

from __future__ import annotations

import math
import sys
from typing import Any, TypeGuard


def is_finite(value: Any) -> TypeGuard[float]:
    """Whether this is an int or a float that can be computed with."""
    if isinstance(value, int) and not isinstance(value, bool):
        return abs(value) <= sys.float_info.max
    return isinstance(value, float) and math.isfinite(value)
