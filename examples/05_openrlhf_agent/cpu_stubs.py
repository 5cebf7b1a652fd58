"""What stands in for what a CPU can't have. All that is not named here is OpenRLHF's own.

    vllm            an engine that samples on a GPU. Here ``AsyncLLMEngine`` asks a speaker,
                    an object of ours, for the next turn; its classes only hold settings
    flash_attn      OpenRLHF imports five of its functions, for packed samples and ring
                    attention. Both are off here, and each function raises if it is called
    Ray's transport ``get``, ``put`` and ``wait`` in three modules of OpenRLHF, and
                    ``handle.method.remote()``: the call is made here and now. Only
                    train_grpo.py needs it; ray_rollout.py runs Ray itself
    Ray's actors    made in this process; RayActorGroup is ``Group``, of one worker
    torch.cuda      ``current_device`` and ``synchronize``, answered with the CPU
    strategy        where only its settings are read (playing.py, ray_rollout.py), an
                    object that holds settings

While its program reads flags (``parsed``), these are other ones, and only then:

    get_strategy    OpenRLHF's own, wrapped: the settings are kept, ``print`` says nothing
    create_vllm_engines         ends the program where it would start engines
    ray.is_initialized, ray.get, placement_group
                    answer as if a cluster were there

In train_grpo.py, where DeepSpeed's engine and a cluster would be:

    strategy        ``setup_distributed`` is not called: one process in gloo, a mesh of one.
                    ``backward`` and ``optimizer_step`` are torch's, ``print`` says nothing
    PolicyModelActor            made without its set-up (``init_model_from_pretrained``): the
                    model, the optimizer and ActorPPOTrainer are put into it.
                    ``broadcast_to_vllm`` does nothing, for the engine reads the same table
    tensorboard_logger          a list

Ray, DeepSpeed, PEFT and transformers are the real packages. ``install`` comes before the
first import of OpenRLHF; no file of OpenRLHF is edited.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import importlib
import importlib.machinery
import io
import logging
import os
import sys
import types
import warnings
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, NamedTuple, Protocol
from unittest import mock

VLLM = "0.25.0"  # OpenRLHF asks for more than 0.8.5; the stub has no version of its own


class Said(NamedTuple):
    """One turn of a speaker: ids and their log-probs, the text, stop or length."""

    ids: list[int]
    logprobs: list[float]
    text: str
    finish_reason: str = "stop"


class Speaker(Protocol):
    """Who writes the turns: a script, or a policy."""

    def speak(self, prompt_ids: list[int], params: Any) -> Said: ...


# ---------------------------------------------------------------------------- packages


def install() -> None:
    """Put vllm and flash_attn into ``sys.modules``, and keep the libraries quiet."""
    if "vllm" in sys.modules:
        return
    for name, value in (("RAY_USAGE_STATS_ENABLED", "0"), ("HF_HUB_OFFLINE", "1")):
        os.environ.setdefault(name, value)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("RAY_ADDRESS", "nowhere")  # RolloutRayActor wants to know one
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    import transformers  # noqa: F401  (it looks for flash_attn, and must not find ours)

    _module("flash_attn")
    _module(
        "flash_attn.bert_padding",
        **dict.fromkeys(
            ("index_first_axis", "pad_input", "rearrange", "unpad_input"), _refuse
        ),
    )
    _module("flash_attn.utils")
    _module("flash_attn.utils.distributed", all_gather=_refuse)
    _module(
        "vllm",
        __version__=VLLM,
        SamplingParams=SimpleNamespace,
        AsyncEngineArgs=SimpleNamespace,
        AsyncLLMEngine=Engine,
    )
    _module("vllm.inputs", TokensPrompt=dict)
    _module("vllm.utils", random_uuid=lambda: "request")


def _module(name: str, **names: Any) -> None:
    module = types.ModuleType(name)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None)
    module.__path__ = []
    vars(module).update(names)
    sys.modules[name] = module


def _refuse(*_: Any, **__: Any) -> None:
    raise RuntimeError("flash_attn is a stub here: samples must not be packed")


class Engine:
    """vllm.AsyncLLMEngine, as far as RolloutRayActor uses it."""

    def __init__(self, speaker: Speaker):
        self.speaker = speaker
        self.output_processor = SimpleNamespace(get_num_unfinished_requests=lambda: 0)

    @classmethod
    def from_engine_args(cls, arguments: Any) -> Engine:
        """The engine; where vLLM gets the name of a model, this one gets a speaker."""
        return cls(arguments.model)

    async def is_sleeping(self) -> bool:
        return False

    async def generate(
        self, prompt: dict[str, Any], params: Any, request_id: str
    ) -> AsyncIterator[Any]:
        """One final output; as in vLLM, the end token is in the ids, not in the text."""
        said = self.speaker.speak(list(prompt["prompt_token_ids"]), params)
        rows = zip(said.ids, said.logprobs)
        logprobs = [{token: SimpleNamespace(logprob=value)} for token, value in rows]
        output = SimpleNamespace(
            token_ids=list(said.ids),
            text=said.text,
            finish_reason=said.finish_reason,
            logprobs=logprobs if params.logprobs is not None else None,
        )
        yield SimpleNamespace(outputs=[output])


# --------------------------------------------------------------------- one process only


def rollout_actor(speaker: Speaker, **settings: Any) -> Any:
    """OpenRLHF's RolloutRayActor, made in this process by its own ``__init__``.

    settings        agent_func_path or remote_rm_url, as ``create_vllm_engines`` passes them
    """
    from openrlhf.trainer.ray.vllm_engine import RolloutRayActor

    actor = plain(RolloutRayActor)
    with mock.patch.dict(os.environ):  # it sets variables for vLLM
        finished(actor.__init__(model=speaker, num_gpus=0, **settings))
    return actor


def plain(actor_class: Any) -> Any:
    """An instance of the class under ``@ray.remote``, not yet initialised."""
    return object.__new__(actor_class.__ray_metadata__.modified_class)


def finished(work: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine returns; in a thread, for a notebook's own loop runs already."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


class Handle:
    """What ``handle.method.remote(...)`` needs: the call is made here and now.

    Ray sends copies of what a call is given, and the executor writes into its sampling
    parameters; so these are copied here.
    """

    def __init__(self, actor: Any):
        self._actor = actor

    def __getattr__(self, name: str) -> Any:
        def remote(*given: Any, **named: Any) -> Any:
            if "sampling_params" in named:
                named["sampling_params"] = copy.copy(named["sampling_params"])
            result = getattr(self._actor, name)(*given, **named)
            return finished(result) if asyncio.iscoroutine(result) else result

        return SimpleNamespace(remote=remote)


class Group:
    """OpenRLHF's RayActorGroup of one worker, without Ray."""

    def __init__(self, worker: Any):
        self._worker = worker

    def async_run_method_batch(self, method_name: str, **lists: Any) -> list[Any]:
        """One call an item; a list with the results of the one worker."""
        method = getattr(self._worker, method_name)
        names, columns = list(lists), list(lists.values())
        return [[method(**dict(zip(names, row))) for row in zip(*columns)]]

    def async_run_method(self, method_name: str, **named: Any) -> list[Any]:
        return [getattr(self._worker, method_name)(**named)]


def without_ray() -> None:
    """Ray's transport in the modules that dispatch: what is asked for is there already."""
    from openrlhf.trainer import ppo_trainer
    from openrlhf.trainer.ppo_utils import experience_maker, samples_generator

    def wait(pending: Sequence[Any], **_: Any) -> tuple[list[Any], list[Any]]:
        return list(pending[:1]), list(pending[1:])

    local = SimpleNamespace(get=_itself, put=_itself, wait=wait)
    for module in (ppo_trainer, experience_maker, samples_generator):
        vars(module)["ray"] = local


def _itself(value: Any) -> Any:
    return value


@contextlib.contextmanager
def hushed() -> Iterator[None]:
    """Without progress bars and what is printed on the way."""
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        yield


@contextlib.contextmanager
def no_cuda(device: Any = None) -> Iterator[None]:
    """torch.cuda's answers while this lasts: the CPU, or a number where one is wanted."""
    import torch

    def answer() -> Any:
        return torch.device("cpu") if device is None else device

    with (
        mock.patch.object(torch.cuda, "current_device", answer),
        mock.patch.object(torch.cuda, "synchronize", lambda: None),
    ):
        yield


# ------------------------------------------------------------------ the library's parser


class _Reached(Exception):
    """Thrown where ``train`` would start its engines."""


def parsed(flags: Sequence[str]) -> Any:
    """The settings that ``python -m openrlhf.cli.train_ppo_ray`` makes of its flags.

    The module is run as a program, with its own parser, its own validation and the
    beginning of its own ``train``, up to where vLLM engines would be started. Raises
    SystemExit for a flag that the parser refuses, AssertionError for settings that the
    program refuses.
    """
    import runpy

    import openrlhf.trainer.ray
    import openrlhf.utils
    import ray

    found: list[Any] = []
    get_strategy = openrlhf.utils.get_strategy

    def remember(args: Any) -> Any:
        found.append(args)
        strategy = get_strategy(args)
        strategy.print = lambda *_: None  # asks torch.distributed for its rank
        return strategy

    def stop(*_: Any, **__: Any) -> None:
        raise _Reached

    placing = importlib.import_module("ray.util.placement_group")
    ready = SimpleNamespace(ready=lambda: None)
    with (
        mock.patch.object(sys, "argv", ["train_ppo_ray", *flags]),
        mock.patch.object(openrlhf.utils, "get_strategy", remember),
        mock.patch.object(openrlhf.trainer.ray, "create_vllm_engines", stop),
        mock.patch.object(ray, "is_initialized", lambda: True),
        mock.patch.object(ray, "get", _itself),
        mock.patch.object(placing, "placement_group", lambda *_, **__: ready),
        contextlib.redirect_stdout(sys.stderr),
        contextlib.suppress(_Reached),
    ):
        runpy.run_module("openrlhf.cli.train_ppo_ray", run_name="__main__")
    return found[0]
