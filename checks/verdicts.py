"""What every check prints: a line for each thing that was checked, and a count at the end."""

from __future__ import annotations

from collections.abc import Sequence


class Verdicts:
    """Counts what passed and what failed, and says which."""

    def __init__(self) -> None:
        self.passed = 0
        self.failed = 0

    def add(self, name: str, problems: Sequence[str] = ()) -> None:
        """One more thing was checked; without a problem it passed."""
        print(f"{'FAIL' if problems else 'ok  '} {name}", flush=True)
        for problem in problems:
            print(f"     {problem}")
        self.passed += not problems
        self.failed += bool(problems)

    def close(self) -> int:
        """Print the count; the exit status."""
        print(f"{self.passed} passed, {self.failed} failed")
        return 1 if self.failed or not self.passed else 0
