"""A rollout engine for a CPU: transformers' generate behind verl's server interface.

Ours, not verl's, and pinned to verl 0.9.1; see cpu_platform.py. On GPUs this is the part
that vLLM or SGLang plays. It is slow, and exact: the log-probs it reports are those of the
model that is trained.

    Generator   a model that answers requests; many that wait are answered as one batch
    Server      a Generator as a Ray actor, with what verl calls on a server
    Replica     starts a Server
    Adapter     lives in the training worker, and hands new weights to the Server
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import ray
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, TokenOutput

GATHERING = 0.02  # seconds that nobody has to join before a batch is answered


class Request(NamedTuple):
    """A prompt that waits for its answer."""

    prompt_ids: list[int]
    temperature: float
    answer: asyncio.Future[TokenOutput]


class Generator:
    """A language model with the one method that verl's agent loop needs of a server.

    Ids go in and ids come out: nothing is decoded and encoded again on the way. A turn ends
    with the end token, or after ``turn_tokens`` ids.
    """

    def __init__(self, folder: str, turn_tokens: int):
        torch.set_num_threads(1)
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        self.turn_tokens = turn_tokens
        self.waiting: list[Request] = []
        self.version: int | None = None

    async def generate(
        self,
        request_id: str,
        *,
        prompt_ids: Sequence[int],
        sampling_params: dict[str, Any],
        **unused: Any,
    ) -> TokenOutput:
        """One assistant turn. Whoever asks first answers for all who ask meanwhile.

        Raises ValueError for a way of sampling that is not built in here.
        """
        future: asyncio.Future[TokenOutput] = asyncio.get_running_loop().create_future()
        temperature = temperature_of(sampling_params)
        self.waiting.append(Request(list(prompt_ids), temperature, future))
        if len(self.waiting) == 1:
            await self.gathered()
            batch, self.waiting = self.waiting, []
            # Who comes first is chance; in this order, what is drawn is not.
            self.answer_all(sorted(batch, key=lambda request: request.prompt_ids))
        return await future

    async def gathered(self) -> None:
        """Wait until nobody has joined for a while."""
        count = 0
        while count < len(self.waiting):
            count = len(self.waiting)
            await asyncio.sleep(GATHERING)

    def answer_all(self, batch: Sequence[Request]) -> None:
        """Answer each request; an error is everybody's."""
        try:
            for temperature in {request.temperature for request in batch}:
                alike = [x for x in batch if x.temperature == temperature]
                outputs = self.answer([x.prompt_ids for x in alike], temperature)
                for request, output in zip(alike, outputs):
                    request.answer.set_result(output)
        except Exception as error:
            for request in batch:
                if not request.answer.done():
                    request.answer.set_exception(error)

    @torch.no_grad()
    def answer(
        self, prompts: Sequence[Sequence[int]], temperature: float
    ) -> list[TokenOutput]:
        """A turn for each prompt, with the log-prob of each id that was sampled."""
        pad, end = self.tokenizer.pad_token_id, self.tokenizer.eos_token_id
        width = max(map(len, prompts))
        ids = torch.tensor([[pad] * (width - len(x)) + [*x] for x in prompts])
        marks = torch.tensor([[0] * (width - len(x)) + [1] * len(x) for x in prompts])
        how: dict[str, Any] = {"do_sample": False}
        if temperature > 0:
            how = {"do_sample": True, "temperature": temperature, "top_k": 0}
        written = self.model.generate(
            input_ids=ids,
            attention_mask=marks,
            max_new_tokens=self.turn_tokens,
            output_scores=True,
            return_dict_in_generate=True,
            **how,
        )
        logprobs = self.model.compute_transition_scores(
            written.sequences, written.scores, normalize_logits=True
        )
        return [
            self.one_turn(row, values, end)
            for row, values in zip(
                written.sequences[:, width:].tolist(), logprobs.tolist()
            )
        ]

    def one_turn(self, ids: list[int], logprobs: list[float], end: int) -> TokenOutput:
        """What was written up to and with the end token; behind it is padding."""
        length = ids.index(end) + 1 if end in ids else len(ids)
        return TokenOutput(
            token_ids=ids[:length],
            log_probs=logprobs[:length],
            stop_reason="completed",
            extra_fields={"global_steps": self.version},
        )

    def load(self, weights: Iterable[tuple[str, torch.Tensor]], version: int) -> None:
        """New weights; every one of the model's, and no other."""
        self.model.load_state_dict(dict(weights), strict=True)
        self.version = version


def temperature_of(sampling: dict[str, Any]) -> float:
    """The one number that says how to sample here. Raises ValueError for more."""
    if sampling.get("top_p", 1.0) != 1.0 or sampling.get("top_k", -1) not in (-1, 0):
        raise ValueError("only top_p=1 and top_k=-1 here: all of the distribution")
    return float(sampling.get("temperature", 1.0))


class Server(Generator):
    """A Generator in a process of its own. A CPU has no memory to hand back and forth, so
    most of what verl asks of a server is nothing here."""

    async def load_weights(
        self, weights: dict[str, torch.Tensor], version: int
    ) -> None:
        self.load(weights.items(), version)

    async def nothing(self, *_: Any, **__: Any) -> None:
        """There is nothing to do."""

    wake_up = sleep = abort_all_requests = resume_generation = nothing
    clear_kv_cache = release_kv_cache = resume_kv_cache = nothing
    start_profile = stop_profile = nothing


def server_name(rank: int) -> str:
    """By this name the training worker finds its server."""
    return f"cpu_rollout_{rank}"


class Replica(RolloutReplica):
    """What verl's LLMServerManager starts and then sends requests to."""

    async def launch_servers(self) -> None:
        settings = self.config.custom or {}
        server = (
            ray.remote(Server)
            .options(
                name=server_name(self.replica_rank),
                num_cpus=0,
                max_concurrency=self.max_concurrency,
            )
            .remote(self.model_config.path, int(settings["turn_tokens"]))
        )
        self.servers = [server]
        self._server_handle = server
        self._server_address = f"{server_name(self.replica_rank)}:0"


class Adapter(BaseRollout):
    """The training worker's end: after each update it sends the weights over."""

    async def resume(self, tags: list[str]) -> None:
        """The weights were never away."""

    async def release(self) -> None:
        """They stay."""

    async def update_weights(
        self,
        weights: Iterable[tuple[str, torch.Tensor]],
        wire_format: str = "named_tensors",
        **kwargs: Any,
    ) -> None:
        if wire_format != "named_tensors":
            raise ValueError(
                f"wire_format: only named_tensors here, got {wire_format!r}"
            )
        server = ray.get_actor(server_name(int(os.environ["RANK"])))
        full = {name: tensor.detach().float().clone() for name, tensor in weights}
        await server.load_weights.remote(full, kwargs.get("global_steps"))
