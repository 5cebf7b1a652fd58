"""Agentic RL from scratch: agent loop -> trajectory -> reward -> advantage -> update."""

import sys

__version__ = "0.1.0"

# Old syntax on purpose: an old Python must get as far as this line.
if sys.version_info < (3, 10):
    raise SystemExit(
        "agentic_rl needs Python 3.10 or newer; this is Python %d.%d."
        % tuple(sys.version_info[:2])
    )
