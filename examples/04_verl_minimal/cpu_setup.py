"""What the programs of this chapter share: quiet surroundings, a config, data, a model.

Import it before verl. Everything that is made goes into a cache folder outside the
checkout, and is made once.
"""

from __future__ import annotations

import contextlib
import os
import random
import resource
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SCALE_OUT = HERE / "scale_out"
sys.path[:0] = [str(ROOT), str(HERE)]

from agentic_rl.bridges import tiny_model
from agentic_rl.bridges.frameworks import OFFLINE, VERSIONS, BridgeError, missing
from agentic_rl.cli.terminal import Progress
from agentic_rl.evaluation import held_out_tasks, training_tasks
from agentic_rl.tasks import generate

# No hub, no telemetry, no dashboard; Ray keeps to this machine. Ray's workers inherit all
# of it. The odd name is Ray's: where it is 0, a cluster's address is 127.0.0.1. With its
# usage statistics off, Ray 2.60 still asks in which cloud it runs; a proxy at which nobody
# listens keeps that here, too.
NOBODY = "http://127.0.0.1:9"
SURROUNDINGS = {
    "HTTP_PROXY": NOBODY,
    "HTTPS_PROXY": NOBODY,
    "NO_PROXY": "127.0.0.1,localhost",
    "http_proxy": NOBODY,
    "https_proxy": NOBODY,
    "no_proxy": "127.0.0.1,localhost",
    "RAY_USAGE_STATS_REPORT_URL": NOBODY,
    **OFFLINE,
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS": "0",
    "TRANSFORMERS_VERBOSITY": "error",
    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",  # transformers asks for this one
}
CPU_PLATFORM = {
    "VERL_USE_EXTERNAL_MODULES": "cpu_platform",
    "VERL_PLATFORM": "cpu",
    "VERL_ENGINE_DEVICE": "cuda",
}

# The warm start: what it saw, and for how long.
WARM_START = {"seed": 0, "steps": 1200, "right_share": 0.25, "pools": 8}


def surround(platform: bool = True) -> None:
    """Set the surroundings of this process and of those that it starts.

    Raises BridgeError with one line if verl is not there.
    """
    if problem := missing("verl"):
        raise BridgeError(problem)
    os.environ.update(SURROUNDINGS)
    os.environ.setdefault("VERL_LOGGING_LEVEL", "ERROR")
    if platform:
        os.environ.update(CPU_PLATFORM)
    paths = [str(HERE), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)


def provide() -> None:
    """Make what the configs ask for, and say where it is."""
    os.environ.update(
        TOOL_MATH_CODE=str(HERE),
        TOOL_MATH_DATA=str(data()),
        TOOL_MATH_MODEL=str(warm_start()),
    )


def compose(name: str, overrides: Sequence[str] = ()) -> Any:
    """A config of scale_out/ on top of verl's own, as verl's main program composes it."""
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir

    with initialize_config_dir(str(SCALE_OUT), version_base=None):
        return hydra_compose(name, list(overrides))


def cpu_config(overrides: Sequence[str] = ()) -> Any:
    """The config of this machine, with the data and the warm-started model in it."""
    provide()
    return compose("cpu", overrides)


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# ------------------------------------------------------------------ what is made once


def cached(name: str, make: Callable[[Path], None]) -> Path:
    """A folder that ``make`` has filled, keyed by the settings and the course's code.

    It is filled under another name and renamed: it is there whole, or not at all.
    """
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    key = tiny_model.fingerprint(WARM_START, VERSIONS["verl"])
    folder = caches / f"agentic-rl-{name}-{key}"
    if not folder.exists():
        caches.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=caches, ignore_cleanup_errors=True) as above:
            unfinished = Path(above) / "folder"
            unfinished.mkdir()
            make(unfinished)
            unfinished.rename(folder)
    return folder


def data() -> Path:
    """The folder with train.parquet and test.parquet, as make_data.py writes them."""
    from make_data import write

    def make(folder: Path) -> None:
        write(training_tasks(), folder / "train.parquet")
        write(held_out_tasks(), folder / "test.parquet")

    return cached("verl-data", make)


def warm_start() -> Path:
    """The folder of the tiny model, after it has imitated demonstrations for a while."""
    return cached("verl-model", imitate)


def imitate(folder: Path) -> None:
    """A quarter right episodes, the rest guesses: how to call is learnt, not that it pays."""
    import torch

    torch.set_num_threads(1)
    progress, seed = Progress(), WARM_START["seed"]
    tokenizer = tiny_model.make_tokenizer()
    model = tiny_model.make_model(tokenizer, seed)
    episodes = list(
        tiny_model.demonstrations(
            [
                task
                for pool in range(WARM_START["pools"])
                for task in generate(81, seed=100 + pool)
            ],
            WARM_START["right_share"],
            random.Random(seed),
        )
    )
    steps = WARM_START["steps"]
    for step, loss in enumerate(
        tiny_model.imitate(model, tokenizer, episodes, steps, seed), 1
    ):
        progress.show(f"warm start, once: step {step} of {steps}, loss {loss:.2f}")
    progress.clear()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


# ------------------------------------------------------------- what is said, what it cost


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Libraries that print what they do are not heard; errors are raised as ever."""
    with (
        open(os.devnull, "w", encoding="utf-8") as nowhere,
        contextlib.redirect_stdout(nowhere),
    ):
        yield


def cost(began: float) -> str:
    """Seconds since ``began`` and the largest memory of this process, in a line."""
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return f"{time.monotonic() - began:.0f} s, at most {memory:.0f} MB in this process"
