"""Build the notebooks of the chapters, in both languages, with their outputs.

    python3 scripts/build_notebooks.py                 build and execute all of them
    python3 scripts/build_notebooks.py --no-execute    build them without outputs
    python3 scripts/build_notebooks.py --check         build again, exit 1 on a difference
    ... 00_toy_mdp                                     only the named chapters

A notebook is made of its prose and of code that stands elsewhere, see notebook_prose.py.
Both languages have the same code, so it is executed once: in the chapter's folder, by the
pinned tools of requirements.txt, on a kernel of the chapter's own environment. What a
"measured" cell prints is of the machine that ran it, and is not compared.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from environments import enter, python
from notebook_prose import BuildError, cells

from agentic_rl.bridges.frameworks import OFFLINE

EXAMPLES = ROOT / "examples"
SOURCES = {"": "notebook.md", ".en": "notebook.en.md"}  # ending -> prose
ENVIRONMENTS = {
    "03_grpo_single_turn": "trl",
    "04_verl_minimal": "verl",
    "05_openrlhf_agent": "openrlhf",
    "06_agent_lightning": "agent_lightning",
}
SECONDS = 900  # after which a cell is said to hang
KERNEL = "agentic-rl-from-scratch"
METADATA = {
    "kernelspec": {
        "display_name": f"Python ({KERNEL})",
        "language": "python",
        "name": KERNEL,
    },
    "language_info": {"name": "python"},
}
MEASURED = {"tags": ["measured"]}


# ------------------------------------------------------------------ cells -> notebook


def build(chapter: str, execute: bool) -> dict[Path, str]:
    """Path and text of a chapter's notebooks. Raises BuildError."""
    import nbformat.v4 as v4

    sources = [EXAMPLES / chapter / prose for prose in SOURCES.values()]
    notebooks = [unexecuted(source) for source in sources]
    codes = [
        [cell for cell in notebook.cells if cell.cell_type == "code"]
        for notebook in notebooks
    ]
    if [cell.source for cell in codes[0]] != [cell.source for cell in codes[1]]:
        raise BuildError(f"{sources[1]}: its code is not that of {sources[0].name}")
    if execute:
        with kernel_of(chapter) as kernel:
            run_cells(notebooks[0], sources[0], sources[0].parent, kernel)
        notebooks[0].metadata = METADATA  # without what the kernel says of itself
        for cell, twin in zip(*codes):
            twin.outputs, twin.execution_count = cell.outputs, cell.execution_count
    targets = [EXAMPLES / chapter / f"{chapter}{ending}.ipynb" for ending in SOURCES]
    return {
        target: str(v4.writes(notebook)) + "\n"
        for target, notebook in zip(targets, notebooks)
    }


def unexecuted(source: Path) -> Any:
    """The notebook of a prose file, without outputs."""
    import nbformat.v4 as v4

    notebook = v4.new_notebook(metadata=METADATA)
    for number, (kind, text) in enumerate(cells(source), 1):
        name = f"cell-{number:02d}"
        if kind == "markdown":
            notebook.cells.append(v4.new_markdown_cell(text, id=name))
        else:
            told = MEASURED if kind == "measured" else {}
            notebook.cells.append(v4.new_code_cell(text, id=name, metadata=told))
    return notebook


@contextlib.contextmanager
def kernel_of(chapter: str) -> Iterator[str]:
    """The name of a kernel in the chapter's own environment, known while this lasts."""
    interpreter = python(ENVIRONMENTS.get(chapter, "notebooks"))
    with tempfile.TemporaryDirectory() as data:
        yield describe_kernel(chapter, interpreter, Path(data), OFFLINE)


def describe_kernel(
    name: str, interpreter: str, data: Path, environment: dict[str, str]
) -> str:
    """Make a Python known to Jupyter as a kernel, in a folder of its own; its name."""
    folder = data / "kernels" / name
    folder.mkdir(parents=True)
    command = [interpreter, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    described = {"argv": command, "display_name": name, "language": "python"}
    text = json.dumps({**described, "env": environment})
    (folder / "kernel.json").write_text(text, encoding="utf-8")
    paths = [str(data), *filter(None, [os.environ.get("JUPYTER_PATH")])]
    os.environ["JUPYTER_PATH"] = os.pathsep.join(paths)
    return name


def run_cells(notebook: Any, source: Path, folder: Path, kernel: str) -> None:
    """Fill in the outputs, without what differs from run to run.

    The kernel starts in a folder. Raises BuildError if a cell fails or warns.
    """
    from nbclient import NotebookClient
    from nbclient.exceptions import CellControlSignal, DeadKernelError

    client = NotebookClient(
        notebook,
        extra_arguments=["--log-level=ERROR"],
        kernel_name=kernel,
        timeout=SECONDS,
        resources={"metadata": {"path": str(folder)}},
        record_timing=False,
        coalesce_streams=True,
    )
    try:
        client.execute()
    except (CellControlSignal, DeadKernelError) as error:  # failed, too slow, dead
        raise BuildError(f"{source}: a cell fails:\n{error}") from None
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            if output.get("name") == "stderr":
                raise BuildError(f"{source}: a cell warns: {output['text']}")
        cell.metadata.pop("execution", None)


def main() -> int:
    options = {word for word in sys.argv[1:] if word.startswith("--")}
    names = [word for word in sys.argv[1:] if not word.startswith("--")]
    chapters = sorted(path.parent.name for path in EXAMPLES.glob("*/notebook.md"))
    unknown = sorted(options - {"--no-execute", "--check"}) + [
        name for name in names if name not in chapters
    ]
    if unknown:
        known = f"--no-execute, --check, {', '.join(chapters)}"
        print(f"{unknown[0]!r}: expected some of {known}", file=sys.stderr)
        return 2
    try:
        texts = build_all(names or chapters, "--no-execute" not in options)
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped; the notebooks are as they were", file=sys.stderr)
        return 130
    return (compare if "--check" in options else write)(texts)


def build_all(chapters: list[str], execute: bool) -> dict[Path, str]:
    """The notebooks of some chapters, two at a time. Raises BuildError."""
    with ThreadPoolExecutor(2) as pool:  # a thread waits for a kernel of its own
        built = pool.map(build, chapters, [execute] * len(chapters))
        return {path: text for texts in built for path, text in texts.items()}


def write(texts: dict[Path, str]) -> int:
    """Write the notebooks; the exit status."""
    for target, text in texts.items():
        target.write_text(text, encoding="utf-8", newline="\n")
        print(f"wrote {target.relative_to(ROOT)}")
    return 0


def comparable(text: str) -> str:
    """A notebook without what its measured cells printed."""
    notebook = json.loads(text)
    for cell in notebook["cells"]:
        if cell["metadata"] == MEASURED:
            cell["outputs"] = bool(cell["outputs"])
    return json.dumps(notebook)


def compare(texts: dict[Path, str]) -> int:
    """Say which of the notebooks that lie here are others; the exit status."""
    stale = [
        target
        for target, text in texts.items()
        if not target.exists()
        or comparable(target.read_text(encoding="utf-8")) != comparable(text)
    ]
    for target in stale:
        print(f"{target.relative_to(ROOT)}: not what its sources make")
    if not stale:
        print("notebooks are up to date")
    return 1 if stale else 0


if __name__ == "__main__":
    enter("notebooks")
    raise SystemExit(main())
