"""``python3 -m agentic_rl``: see cli/__init__.py."""

try:
    from agentic_rl.cli import entry
except KeyboardInterrupt:  # before there is anything to clean up
    raise SystemExit(130) from None

entry()
