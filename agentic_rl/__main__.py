"""``python3 -m agentic_rl``: see cli/__init__.py."""

from agentic_rl.cli import main
from agentic_rl.cli.terminal import run

run(main)
