"""Chapter 04. The real ``python -m verl.trainer.main_ppo`` on a CPU, from end to end.

    python3 examples/04_verl_minimal/train_main_ppo.py                     two steps
    python3 examples/04_verl_minimal/train_main_ppo.py --steps 200 --out runs/mine.jsonl
    python3 examples/04_verl_minimal/train_main_ppo.py --read runs/mine.jsonl

This program makes data and model, starts verl's own trainer with scale_out/cpu.yaml, and
reads what verl logs into a table. Trainer, Ray workers, agent loop, reward manager, FSDP2
engine and transfer queue are verl's; the platform and the engine that samples are ours
(cpu_platform.py, cpu_rollout.py), because verl 0.9.1 has none for a CPU.

Exit status 1 unless verl ends well and has logged every step.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import cpu_setup

from agentic_rl.bridges.frameworks import BridgeError
from agentic_rl.cli import render
from agentic_rl.cli.terminal import Progress, complain, run

LIBRARIES = ("verl", "torch", "transformers", "ray", "tensordict", "TransferQueue")
COLUMNS = {  # a metric of verl's -> its heading
    "critic/score/mean": "reward",  # verl's name for the mean reward; there is no critic
    "num_turns/mean": "turns",
    "actor/entropy": "entropy",
    "actor/grad_norm": "|grad|",
    "training/rollout_probs_diff_max": "probs diff",
    "timing_s/step": "seconds",
}
HELD_OUT = "val-core/tool-math/reward/mean@4"
SECONDS = 240, 12  # at most: to start and stop, and a step
TITLE = render.heading("verl.trainer.main_ppo, GRPO, one CPU", "04.9")


def command(overrides: list[str]) -> list[str]:
    """verl's own program, with our config."""
    return [
        *(sys.executable, "-m", "verl.trainer.main_ppo"),
        *("--config-path", str(cpu_setup.SCALE_OUT), "--config-name", "cpu"),
        *overrides,
    ]


def train(steps: int, metrics: Path, printed: Path) -> int:
    """Run the trainer; its exit status. It writes a line of metrics a step."""
    os.environ["VERL_FILE_LOGGER_PATH"] = str(metrics)
    progress = Progress()
    ends = time.monotonic() + SECONDS[0] + SECONDS[1] * steps
    overrides = [f"trainer.total_training_steps={steps}", f"trainer.test_freq={steps}"]
    with open(printed, "w", encoding="utf-8") as page:
        trainer = subprocess.Popen(
            command(overrides),
            stdin=subprocess.DEVNULL,
            stdout=page,
            stderr=subprocess.STDOUT,
        )
        try:
            while trainer.poll() is None and time.monotonic() < ends:
                time.sleep(1)
                done = metrics.read_bytes().count(b"\n") if metrics.exists() else 0
                progress.show(f"{done} lines of metrics, {steps} steps")
        finally:
            progress.clear()
            end(trainer)
    return trainer.returncode


def end(trainer: subprocess.Popen[bytes]) -> None:
    """Leave none of the trainer's processes behind, Ray's included."""
    import psutil

    if trainer.poll() is not None:
        return  # it has shut Ray down itself
    family = psutil.Process(trainer.pid).children(recursive=True)
    trainer.send_signal(signal.SIGTERM)
    try:
        trainer.wait(30)
    except subprocess.TimeoutExpired:
        trainer.kill()
        trainer.wait()
    for process in family:
        if process.is_running():
            process.kill()


# -------------------------------------------------------------------- what was logged


def read(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(what is said of the run, a record a line of metrics) of a log."""
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    about = lines.pop(0) if "command" in lines[0] else {}
    return about, [{"step": line["step"], **line["data"]} for line in lines]


def about(steps: int, seconds: float) -> dict[str, Any]:
    """What has to be known of a run to read its numbers."""
    return {
        "date": datetime.date.today().isoformat(),
        "command": f"train_main_ppo.py --steps {steps}",
        "python": platform.python_version(),
        "versions": {name: version(name) for name in LIBRARIES},
        "machine": f"{os.cpu_count()} cores, no GPU",
        "seconds": round(seconds),
    }


def keep(metrics: Path, out: Path, said: dict[str, Any]) -> None:
    """The log with its head; numbers to six digits, nothing of this machine's memory."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with open(out, "w", encoding="utf-8", newline="\n") as page:
        page.write(json.dumps(said) + "\n")
        for line in metrics.read_text("utf-8").splitlines():
            record = json.loads(line)
            record["data"] = {
                key: float(f"{value:.6g}") for key, value in record["data"].items()
            }
            page.write(json.dumps(record) + "\n")


def training_steps(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records of updates; the others are of the held-out tasks alone."""
    return [record for record in records if "critic/score/mean" in record]


def held_out(records: list[dict[str, Any]]) -> list[tuple[int, float]]:
    """(step, mean reward on the held-out tasks) where they were played."""
    return [(x["step"], x[HELD_OUT]) for x in records if HELD_OUT in x]


def table(steps: list[dict[str, Any]], windows: int = 10) -> str:
    """The means over windows of equal length."""
    length = max(1, len(steps) // windows)
    rows = []
    for start in range(0, len(steps), length):
        part = steps[start : start + length]
        first, last = part[0]["step"], part[-1]["step"]
        means = [sum(x[key] for x in part) / len(part) for key in COLUMNS]
        name = f"{first}" if first == last else f"{first}-{last}"
        rows.append((name, *(cell(*x) for x in zip(COLUMNS, means))))
    return render.table(["step", *COLUMNS.values()], rows)


def show(records: list[dict[str, Any]]) -> None:
    """The training steps, then the held-out tasks."""
    print(table(training_steps(records)))
    print()
    print(
        render.paragraph(
            "turns: verl's count, the prompt and the tools' turns included. 2 is an answer "
            "at once, 4 is one call and an answer. probs diff: the largest difference of a "
            "token's probability between the engine that sampled it and the one that "
            "trains."
        )
    )
    print("\nreward on held-out tasks, sampled:")
    for step, reward in held_out(records):
        print(f"  after step {step}: {render.number(reward)}")


def cell(key: str, value: float) -> str:
    """A mean in the digits that it is worth."""
    return f"{value:.0e}" if "diff" in key else render.number(value, 3)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="verl's main_ppo on a CPU")
    parser.add_argument("--steps", type=int, default=2, help="training steps (2)")
    parser.add_argument("--out", type=Path, help="keep the log here, as JSON lines")
    parser.add_argument("--read", type=Path, help="only show a log that was kept")
    return parser.parse_args()


def main() -> int:
    told, began = arguments(), time.monotonic()
    if told.read:
        try:
            said, records = read(told.read)
        except (OSError, ValueError, LookupError, TypeError) as error:
            complain(f"{told.read}: no log of this program: {error}")
            return 2
        print(TITLE)
        print(render.wrapped("", json.dumps(said)) + "\n")
        show(records)
        return 0
    try:
        cpu_setup.surround()
    except BridgeError as error:
        complain(render.wrapped("", str(error)))
        return 1
    print(TITLE)
    cpu_setup.provide()
    with TemporaryDirectory() as name:
        metrics, printed = Path(name, "metrics.jsonl"), Path(name, "printed.txt")
        status = train(told.steps, metrics, printed)
        records = read(metrics)[1] if metrics.exists() else []
        done = [record["step"] for record in training_steps(records)]
        if status or done != list(range(1, told.steps + 1)):
            print(*printed.read_text("utf-8").splitlines()[-30:], sep="\n")
            print(f"verl ended with status {status} after {len(done)} steps")
            return 1
        if told.out:
            keep(metrics, told.out, about(told.steps, time.monotonic() - began))
    show(records)
    print(f"\n{told.steps} steps, {time.monotonic() - began:.0f} s")
    print("\nNext: chapter 05, the same agent in OpenRLHF.")
    return 0


if __name__ == "__main__":
    run(main)
