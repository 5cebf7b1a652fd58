"""The notebooks say the same wherever they are run.

Each is executed again and its texts are compared with those that lie in the repository:

- by every CPython from 3.10 on that is at hand, in its own environment;
- started in the project's root instead of in the chapter's folder;
- with the package installed, and no checkout of it in sight.

The pinned packages must also admit the first release of each of these Pythons, and not
only the one at hand.

Pictures are left out: other versions of matplotlib draw other pixels. What their alt
texts say is compared. Both languages have the same code and the same outputs, which the
tests hold; so one of them is run.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

import wheel
from build_notebooks import ENVIRONMENTS, EXAMPLES, describe_kernel, run_cells
from environments import enter
from notebook_prose import BuildError
from same_bytes import NEEDED, cpythons
from verdicts import Verdicts

AT_A_TIME = 2
NOTEBOOKS = [  # of the chapters that need nothing installed
    path
    for path in sorted(EXAMPLES.glob("*/*.en.ipynb"))
    if path.parent.name not in ENVIRONMENTS
]


class Place(NamedTuple):
    """Circumstances under which the notebooks are run."""

    name: str
    interpreter: str  # of an environment with a kernel in it
    examples: Path
    at_root: bool = False
    path: str = ""  # PYTHONPATH


def places(scratch: Path) -> Iterator[Place]:
    """Every Python, every folder, and the installed package."""
    for runner in cpythons():
        if runner.version >= NEEDED and runner.command[0] != sys.executable:
            kernel = environment_of(runner.command[0])
            yield Place(f"Python {runner.name}", kernel, EXAMPLES)
    yield Place("from the root", sys.executable, EXAMPLES, at_root=True)
    yield Place(
        "with the package installed",
        sys.executable,
        course_alone(scratch / "course"),
        path=str(installed(scratch)),
    )


def environment_of(python: str) -> str:
    """The notebooks' environment of another Python; it is made if it is not there."""
    command = [python, str(ROOT / "scripts" / "environments.py"), "notebooks"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip().partition(": ")[2]


def course_alone(folder: Path) -> Path:
    """A copy of the chapters and the figures, without the package; its examples."""
    for name in ("examples", "figures"):
        shutil.copytree(
            ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__")
        )
    return folder / "examples"


def installed(scratch: Path) -> Path:
    """A folder with the package in it, installed from its wheel."""
    target = scratch / "installed"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install"]
    options = ["--quiet", "--no-index", "--target", str(target)]
    subprocess.run([*pip, *options, str(wheel.build(scratch))], check=True)
    return target


FIRST_RELEASE = """
import importlib.metadata, sys
from packaging.specifiers import SpecifierSet
first = "{}.{}.0".format(*sys.version_info)
for package in importlib.metadata.distributions():
    needs = package.metadata["Requires-Python"] or ""
    if not SpecifierSet(needs).contains(first):
        print(package.metadata["Name"], package.version, "needs Python", needs)
"""


def too_new(place: Place) -> list[str]:
    """Pinned packages that would not install on the first release of this Python."""
    ask = [place.interpreter, "-c", FIRST_RELEASE]
    return subprocess.run(
        ask, check=True, capture_output=True, text=True
    ).stdout.splitlines()


# ------------------------------------------------------------------ running


def problems(place: Place, kernel: str, path: Path) -> list[str]:
    """What a notebook says there that it does not say in the repository."""
    import nbformat

    expected = nbformat.read(path, as_version=4)
    found = nbformat.read(path, as_version=4)
    source = place.examples / path.relative_to(EXAMPLES)
    folder = place.examples.parent if place.at_root else source.parent
    try:
        run_cells(found, source, folder, kernel)
    except BuildError as error:
        return str(error).splitlines()
    return [
        f"{cell.id}: expected {texts(cell)}, got {texts(other)}"
        for cell, other in zip(expected.cells, found.cells)
        if texts(cell) != texts(other)
    ]


def texts(cell: Any) -> list[str]:
    """What a cell's outputs say in words."""
    return [
        output.text if "text" in output else output.data["text/plain"]
        for output in cell.get("outputs", ())
    ]


def main() -> int:
    verdicts = Verdicts()
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(AT_A_TIME) as pool:
        scratch = Path(name)
        known = list(places(scratch))
        pythons = [place for place in known if place.examples == EXAMPLES]
        verdicts.add(
            f"places: {', '.join(place.name for place in known)}",
            [] if len(pythons) > 1 else ["expected another Python from 3.10 on"],
        )
        for place in known:
            if not place.path:
                verdicts.add(f"pins for {place.name}", too_new(place))
        kernels = [
            describe_kernel(
                f"place-{number}",
                place.interpreter,
                scratch,
                {"PYTHONPATH": place.path},
            )
            for number, place in enumerate(known)
        ]
        runs = [
            (place, kernel, path)
            for place, kernel in zip(known, kernels)
            for path in NOTEBOOKS
        ]
        for run, found in zip(runs, pool.map(lambda run: problems(*run), runs)):
            verdicts.add(f"{run[2].stem} {run[0].name}", found)
    return verdicts.close()


if __name__ == "__main__":
    enter("notebooks")
    raise SystemExit(main())
