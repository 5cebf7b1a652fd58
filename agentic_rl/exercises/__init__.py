"""The exercises of each chapter, and what must hold of an answer."""

from __future__ import annotations

from agentic_rl.exercises import chapter_00, chapter_01, chapter_02
from agentic_rl.exercises.grading import Exercise

CHAPTERS: dict[str, tuple[Exercise, ...]] = {
    module.CHAPTER: module.EXERCISES for module in (chapter_00, chapter_01, chapter_02)
}
