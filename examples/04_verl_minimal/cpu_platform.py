"""A CPU as a platform of verl. Ours, not verl's, and pinned to verl 0.9.1.

verl 0.9.1 knows the platforms nvidia, huawei and amd. On a machine without any of them it
takes nvidia, and the first worker fails for want of NCCL. This file teaches it one more;
cpu_rollout.py is the engine that writes the rollouts there. verl imports both if told to:

    VERL_USE_EXTERNAL_MODULES=cpu_platform
    VERL_PLATFORM=cpu            the platform below
    VERL_ENGINE_DEVICE=cuda      the training engine is found under this name; what it
                                 runs on is the platform's device all the same

What is public is used as documented: PlatformBase, PlatformRegistry and
RolloutReplicaRegistry. What is not, and may be gone in another version:

    verl.utils.distributed.initialize_global_process_group_ray    replaced: it asks for the
        backends "cpu:gloo,<device>:<backend>", and torch refuses one device named twice
    verl.workers.rollout.base._ROLLOUT_REGISTRY    written to: nothing public adds to it
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import verl.utils.distributed as distributed
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry
from verl.workers.rollout import base
from verl.workers.rollout.replica import RolloutReplicaRegistry

from agentic_rl.bridges.frameworks import require

require("verl")

ENGINE = "transformers_cpu"  # what rollout.name has to be
CPU = torch.device("cpu")
MEMORY = 2**34  # bytes, for verl's logs; nothing is decided by it


def nothing(*_: Any, **__: Any) -> None:
    """What a CPU does when it is asked for something that only an accelerator has."""


def device_module() -> types.ModuleType:
    """What verl calls on torch.cuda, for a CPU: torch.cpu, and where that has no such name,
    nothing at all."""
    module = types.ModuleType("cpu_as_accelerator")
    vars(module).update(
        {name: value for name, value in vars(torch.cpu).items() if name[0] != "_"}
    )
    for name in (
        "empty_cache",
        "ipc_collect",
        "manual_seed",
        "manual_seed_all",
        "reset_peak_memory_stats",
        "set_device",
        "synchronize",
    ):
        setattr(module, name, nothing)
    for name in (
        "max_memory_allocated",
        "max_memory_reserved",
        "memory_allocated",
        "memory_reserved",
    ):
        setattr(module, name, lambda *_: 0)
    module.is_available = lambda: True
    module.current_device = lambda: CPU
    module.get_device_name = lambda *_: "cpu"
    module.mem_get_info = lambda *_: (MEMORY, MEMORY)
    module.get_rng_state = lambda *_: torch.get_rng_state()
    module.set_rng_state = lambda state, *_: torch.set_rng_state(state)
    return module


DEVICE_MODULE = device_module()


@PlatformRegistry.register(platform="cpu")
class PlatformCPU(PlatformBase):
    """One device that is always there, and talks gloo."""

    device_name = "cpu"
    vendor_name = "generic"
    device_module = DEVICE_MODULE

    set_device = synchronize = empty_cache = nothing
    set_allocator_settings = profiler_start = profiler_stop = cudart = nothing

    def is_available(self) -> bool:
        return True

    def current_device(self) -> torch.device:
        return CPU

    def device_count(self) -> int:
        return 1

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    manual_seed_all = manual_seed

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def ray_resource_name(self) -> str:
        """verl counts "GPU" in Ray; Ray is started with a GPU that is only a number."""
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return []

    def is_ipc_supported(self) -> bool:
        return False


stock = distributed.initialize_global_process_group_ray


def initialize_gloo(
    timeout_second: int | None = None, backend: str | None = None
) -> None:
    """As verl's own, with one device and one backend."""
    stock(timeout_second, backend or "cpu:gloo")


def load_replica() -> type:
    """The rollout engine's class, imported when it is wanted."""
    from cpu_rollout import Replica

    return Replica


# This file is read before verl's workers are: they get the function from here.
distributed.initialize_global_process_group_ray = initialize_gloo
base._ROLLOUT_REGISTRY[(ENGINE, "async")] = "cpu_rollout.Adapter"
RolloutReplicaRegistry.register(ENGINE, load_replica)
