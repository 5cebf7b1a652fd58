"""What changes from one config of this folder to another, as verl composes them.

    python3 examples/04_verl_minimal/scale_out/changes.py cpu one_node
    python3 examples/04_verl_minimal/scale_out/changes.py one_node several_nodes

Only what a file sets is compared. What verl derives from it (``${...}``) changes too, and
is not listed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import cpu_setup

from agentic_rl.bridges.frameworks import BridgeError
from agentic_rl.cli import render
from agentic_rl.cli.terminal import complain, run

NAMES = ("cpu", "one_node", "several_nodes")


def settings(name: str) -> dict[str, str]:
    """key -> value of every setting, interpolations as they are written."""
    from omegaconf import OmegaConf

    config = OmegaConf.to_container(cpu_setup.compose(name), resolve=False)
    return dict(flat("", config))


def flat(prefix: str, value: Any) -> Iterator[tuple[str, str]]:
    """The leaves of nested mappings, with dotted keys."""
    if isinstance(value, Mapping):  # an empty one says nothing
        for key, below in value.items():
            yield from flat(f"{prefix}.{key}" if prefix else str(key), below)
    else:
        yield prefix, written(value)


def written(value: Any) -> str:
    """A value as YAML writes it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)


def changes(before: str, after: str) -> list[str]:
    """The lines of the diff, sorted by key; what is equal is left out."""
    old, new = settings(before), settings(after)
    lines = []
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) != new.get(key):
            lines += [f"-{key}: {old[key]}"] if key in old else []
            lines += [f"+{key}: {new[key]}"] if key in new else []
    return lines


def main() -> int:
    if len(sys.argv) != 3 or not set(sys.argv[1:]) <= set(NAMES):
        print(f"usage: changes.py A B, two of {', '.join(NAMES)}", file=sys.stderr)
        return 2
    try:
        cpu_setup.surround(platform=False)
    except BridgeError as error:
        complain(render.wrapped("", f"Not run: {error}."))
        return 1
    print(*changes(*sys.argv[1:]), sep="\n")
    return 0


if __name__ == "__main__":
    run(main)
