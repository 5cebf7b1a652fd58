"""The frameworks that the bridges lead to, each in the version this course speaks of."""

from __future__ import annotations

import importlib
import importlib.metadata
from types import ModuleType

VERSIONS = {
    "trl": "1.16.0",
    "verl": "0.9.1",
    "openrlhf": "0.11.2",
    "agent_lightning": "1.0.2",
}
LOCKS = {
    "trl": "requirements-optional.txt",
    "verl": "requirements-verl.txt",
    "openrlhf": "requirements-openrlhf.txt",
    "agent_lightning": "requirements-agent-lightning.txt",
}
PACKAGES = {"agent_lightning": "agentlightning"}  # where it is not the name itself

# What keeps them from asking anybody for anything, and the small models on one thread.
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "TRL_EXPERIMENTAL_SILENCE": "1",  # rollout_func and environment_factory warn
    "RAY_USAGE_STATS_ENABLED": "0",
    "WANDB_MODE": "disabled",
    "TOKENIZERS_PARALLELISM": "false",
    "OMP_NUM_THREADS": "1",  # models this small are slower with more threads
}


class BridgeError(ValueError):
    """What a bridge can't carry over, or a framework that is not there; says which."""


def installed(framework: str) -> str | None:
    """The version that is installed here, or None."""
    try:
        return importlib.metadata.version(PACKAGES.get(framework, framework))
    except importlib.metadata.PackageNotFoundError:
        return None


def missing(framework: str) -> str | None:
    """What is missing for a framework, in one line; None if it is there."""
    wanted, found = VERSIONS[framework], installed(framework)
    if found == wanted:
        return None
    state = (
        f"{framework} {found} is installed" if found else f"{framework} is not there"
    )
    return (
        f"{state}, this course needs {wanted}: use the Python that "
        f"scripts/environments.py {framework} makes, or install what "
        f"{LOCKS[framework]} pins, as its first lines say"
    )


def require(framework: str) -> ModuleType:
    """The framework's module, imported now. Raises BridgeError with one line."""
    if problem := missing(framework):
        raise BridgeError(problem)
    return importlib.import_module(PACKAGES.get(framework, framework))
