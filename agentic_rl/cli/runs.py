"""The folder of a training run: what was asked, what happened, and how to go on.

    config.json          the settings: config, convention, reward
    tasks.jsonl          the tasks that it trains on
    metrics.jsonl        one line a step
    trajectories.jsonl   one line an episode: step, group, advantage, trajectory
    state.json           where it stands after the last whole step
    policy.json          the policy, once the run has stopped

A step is one update of the policy. state.json is renamed into place after each, and says
how long the two growing files were then. A run that was killed goes on from there: what
was written later is cut off and made again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple

from agentic_rl.agent_loop import Limits
from agentic_rl.cli.storage import PART, FileError, dump, load_tasks, read_json, write
from agentic_rl.conventions import Convention
from agentic_rl.grpo import Batch, Config, State, start
from agentic_rl.messages import parse_json
from agentic_rl.policy import PolicyError, SoftmaxPolicy
from agentic_rl.reward import MEASURES, Reward, Term
from agentic_rl.tasks import Task, write_tasks

CONFIG, TASKS, STATE, POLICY = "config.json", "tasks.jsonl", "state.json", "policy.json"
METRICS, TRAJECTORIES = "metrics.jsonl", "trajectories.jsonl"
GROWING = (METRICS, TRAJECTORIES)


@dataclass(frozen=True)
class Settings:
    """What a run was asked for. ``keep_every``: whose episodes are kept; 0, none's."""

    config: Config
    reward: Reward
    keep_every: int = 1

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        config = asdict(self.config)
        terms = [
            {**vars(term), "measure": term.measure.__name__}
            for term in self.reward.terms
        ]
        return {
            "convention": config.pop("convention"),
            "config": config,
            "reward": terms,
            "keep_every": self.keep_every,
        }

    @classmethod
    def from_dict(cls, record: Any) -> Settings:
        """The settings that ``to_dict`` wrote. Raises ValueError, KeyError, TypeError."""
        switches = dict(record["convention"])
        switches["notes"] = tuple(map(tuple, switches["notes"]))
        config = dict(record["config"])
        limits = Limits(**config.pop("limits"))
        terms = [
            Term(**{**term, "measure": MEASURES[term["measure"]]})
            for term in record["reward"]
        ]
        if type(record["keep_every"]) is not int:
            raise TypeError
        return cls(
            Config(**config, limits=limits, convention=Convention(**switches)),
            Reward(tuple(terms)),
            record["keep_every"],
        )


class Run(NamedTuple):
    """A run's folder with what it was asked for."""

    folder: Path
    settings: Settings
    tasks: list[Task]


def create(folder: Path, settings: Settings, tasks: Sequence[Task]) -> Run:
    """A new run in a new or an empty folder. Raises FileError."""
    try:
        if (folder / CONFIG).exists():
            raise FileError(
                f"{folder}: holds a run already; give another --out, or --resume {folder}"
            )
        folder.mkdir(parents=True, exist_ok=True)
        found = {path.name.removesuffix(PART) for path in folder.iterdir()}
        if found - {
            TASKS,
            CONFIG,
        }:  # they may be left of a run that was killed at birth
            raise FileError(f"{folder}: expected a new or an empty folder")
    except OSError as error:
        raise FileError(f"{folder}: {error.strerror}") from None
    write(folder / TASKS, write_tasks(tasks))
    save_settings(folder, settings)
    return Run(folder, settings, list(tasks))


def save_settings(folder: Path, settings: Settings) -> None:
    """Write config.json."""
    write(folder / CONFIG, dump(settings.to_dict(), 1) + "\n")


def discard(run: Run) -> None:
    """Take away a run that never made a step."""
    for name in (CONFIG, TASKS, *GROWING):
        (run.folder / name).unlink(missing_ok=True)
    with suppress(OSError):  # it may be the folder that we stand in
        run.folder.rmdir()


def has_state(run: Run) -> bool:
    """Whether the run has made a step that can be gone on from."""
    return (run.folder / STATE).exists()


def open_run(folder: Path) -> Run:
    """The run that a folder holds. Raises FileError."""
    record = read_json(folder / CONFIG)
    try:
        settings = Settings.from_dict(record)
    except (ValueError, KeyError, TypeError) as error:
        raise FileError(
            f"{folder / CONFIG}: expected the settings of a run ({error})"
        ) from None
    return Run(folder, settings, load_tasks(folder / TASKS))


def load_policy(path: Path) -> SoftmaxPolicy:
    """A policy from its file, or from a run's folder. Raises FileError."""
    if path.is_dir():
        return load_state(open_run(path)).policy
    try:
        return SoftmaxPolicy.from_dict(read_json(path))
    except PolicyError as error:
        raise FileError(f"{path}: {error}") from None


# ------------------------------------------------------------------ going on


def load_state(run: Run) -> State:
    """Where the run stands: after its last whole update. Raises FileError."""
    path = run.folder / STATE
    if not path.exists():
        return start(run.settings.config)
    record = read_json(path)
    try:
        sizes = [record["sizes"][name] for name in GROWING]
        if not all(type(size) is int and size >= 0 for size in sizes):
            raise FileError("sizes: expected a number of bytes for each growing file")
        head = _head(run.folder / METRICS, record["sizes"][METRICS])
        metrics = [parse_json(line) for line in head.decode("utf-8").splitlines()]
        if [line.pop("step") for line in metrics] != [*range(1, len(metrics) + 1)]:
            raise FileError(f"{METRICS}: expected a line a step, in order")
        return State.from_dict({**record["state"], "metrics": metrics})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        problem = f"{type(error).__name__}: {error}"
        raise FileError(f"{path}: expected the state of a run ({problem})") from None


def _head(path: Path, size: int) -> bytes:
    """The first ``size`` bytes of a growing file, which must have that many."""
    try:
        with path.open("rb") as file:
            data = file.read(size)
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from None
    if len(data) < size:
        raise _too_short(path, size, len(data))
    return data


def _too_short(path: Path, size: int, found: int) -> FileError:
    return FileError(f"{path}: expected {size} bytes or more, found {found}")


class Recorder:
    """Writes what each update adds to a run; use it as a context.

    Going on from ``state.json``, it first cuts off what was written after it.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.files: dict[str, BinaryIO] = {}

    def __enter__(self) -> Recorder:
        path = self.run.folder / STATE
        sizes = read_json(path)["sizes"] if path.exists() else dict.fromkeys(GROWING, 0)
        for name in GROWING:
            path = self.run.folder / name
            try:
                # One that must have lines must be there: "ab" would make it anew.
                file = self.files[name] = path.open("r+b" if sizes[name] else "ab")
                file.seek(0, 2)
            except OSError as error:
                raise FileError(f"{path}: {error.strerror}") from None
            _lock(file, self.run.folder)
            if file.tell() < sizes[name]:
                raise _too_short(path, sizes[name], file.tell())
            file.truncate(sizes[name])
            file.seek(sizes[name])
        (self.run.folder / (STATE + PART)).unlink(missing_ok=True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for file in self.files.values():
            with suppress(OSError):  # what a full disk refused was told before
                file.close()

    def on_update(self, state: State, batch: Batch) -> None:
        """Append the update's lines, then say that they are whole."""
        every = self.run.settings.keep_every
        if every and state.update % every == 0:
            self._append(TRAJECTORIES, episode_lines(state.update, batch))
        self._append(METRICS, [{"step": state.update, **state.metrics[-1]}])
        self.save(state)

    def _append(self, name: str, records: Iterable[Any]) -> None:
        file = self.files[name]
        lines = "".join(dump(record) + "\n" for record in records).encode()
        try:
            file.write(lines)
            file.flush()
        except OSError as error:  # a full disk: the run stands where state.json says
            raise FileError(f"{self.run.folder / name}: {error.strerror}") from None

    def save(self, state: State) -> None:
        """Write state.json: this far, the run is whole."""
        sizes = {name: file.tell() for name, file in self.files.items()}
        record = replace(state, metrics=[]).to_dict()
        del record["metrics"]  # they are lines of their own
        write(self.run.folder / STATE, dump({"state": record, "sizes": sizes}) + "\n")


def _lock(file: BinaryIO, folder: Path) -> None:
    """Keep a second process away while this one writes. Raises FileError."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise FileError(f"{folder}: another process is writing this run") from None


def episode_lines(step: int, batch: Batch) -> Iterator[dict[str, Any]]:
    """One record an episode of a batch."""
    rows = zip(batch.trajectories, batch.groups, batch.advantages)
    for trajectory, group, advantage in rows:
        yield {
            "step": step,
            "group": group,
            "advantage": advantage,
            "trajectory": trajectory.to_dict(),
        }


def save_policy(run: Run, state: State) -> None:
    """Write policy.json."""
    write(run.folder / POLICY, dump(state.policy.to_dict()) + "\n")
