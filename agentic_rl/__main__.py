"""``python3 -m agentic_rl``: see cli/__init__.py."""

from agentic_rl.cli import entry

entry()
