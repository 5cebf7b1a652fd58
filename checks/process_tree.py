"""The memory of a program and of all that it started, on Linux, from /proc.

A daemon of a daemon counts too: in a namespace of its own its parent is the program that
opened the namespace, however often it has detached itself.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

PROC = Path("/proc")
SECONDS = 0.5  # between two looks
KILOBYTES = 1024


class Watch(threading.Thread):
    """Looks at a tree of processes until it is told to stop.

    largest   the most that any one process ever held, in megabytes
    together  the most that all of them held at one time, shared pages shared out
    """

    def __init__(self, root: int):
        super().__init__(daemon=True)
        self.root = root
        self.largest = self.together = 0.0
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(SECONDS):
            tree = list(descendants(self.root))
            self.largest = max(
                self.largest, *(held(pid, "status", "VmHWM") for pid in tree)
            )
            now = sum(held(pid, "smaps_rollup", "Pss") for pid in tree)
            self.together = max(self.together, now)

    def stop(self) -> None:
        self._over.set()
        self.join()


def descendants(root: int) -> Iterator[int]:
    """The process, its children, their children."""
    children: dict[int, list[int]] = {}
    for folder in PROC.glob("[0-9]*"):
        if parent := field(folder / "status", "PPid"):
            children.setdefault(parent, []).append(int(folder.name))
    waiting = [root]
    while waiting:
        yield (pid := waiting.pop())
        waiting += children.get(pid, [])


def held(pid: int, page: str, name: str) -> float:
    """Megabytes, as a page of /proc says; 0 for a process that has gone."""
    return (field(PROC / str(pid) / page, name) or 0) / KILOBYTES


def field(page: Path, name: str) -> int | None:
    """The first number behind a name, or None where nothing can be read."""
    try:
        for line in page.read_text(encoding="utf-8").splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1])
    except OSError:
        pass
    return None
