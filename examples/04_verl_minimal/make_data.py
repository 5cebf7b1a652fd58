"""Write train.parquet and test.parquet, the course's tasks as verl reads them.

    python3 examples/04_verl_minimal/make_data.py FOLDER

Needs pandas and pyarrow, which verl brings along. test.parquet holds the held-out tasks.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from agentic_rl.bridges.frameworks import BridgeError, require
from agentic_rl.bridges.verl import rows
from agentic_rl.cli import render
from agentic_rl.evaluation import held_out_tasks, training_tasks
from agentic_rl.tasks import Task


def write(tasks: Sequence[Task], path: Path) -> None:
    """One file, one row a task; its name says which split it is."""
    import pandas

    pandas.DataFrame(list(rows(tasks, path.stem))).to_parquet(path)


def main(folder: Path) -> None:
    require("verl")
    folder.mkdir(parents=True, exist_ok=True)
    for name, tasks in (("train", training_tasks()), ("test", held_out_tasks())):
        path = folder / f"{name}.parquet"
        write(tasks, path)
        print(f"{path}: {len(tasks)} tasks")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: make_data.py FOLDER")
    try:
        main(Path(sys.argv[1]))
    except BridgeError as error:
        sys.exit(render.wrapped("", str(error)))
