"""Plays an episode in OpenRLHF, with a script where the model would be.

What OpenRLHF does is done by OpenRLHF: its data set makes the prompt, its RolloutRayActor
loads our agent, its executor plays. Here stands what puts them together.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cpu_stubs
from cpu_stubs import Said, finished

from agentic_rl.bridges import frameworks
from agentic_rl.bridges import openrlhf as bridge
from agentic_rl.bridges.token_ids import to_ids
from agentic_rl.conventions import Convention
from agentic_rl.tasks import Task
from agentic_rl.tokens import IM_END
from agentic_rl.trajectory import Trajectory

MAX_LEN = 512
AGENT = Path(__file__).resolve().parent / "agent_func.py"
# Not of our conventions: a model that is never loaded, and the agent.
PLACES = (
    "--actor.model_name_or_path",
    "nowhere",
    "--train.agent_func_path",
    "agent.py",
)
ENGINES = ("--vllm.num_engines", "1", "--rollout.n_samples_per_prompt", "4")


def started() -> Any:
    """The stubs are in place, OpenRLHF is imported; the tokenizer."""
    frameworks.require("openrlhf")
    cpu_stubs.install()
    with cpu_stubs.hushed():
        from openrlhf.trainer.ray import ppo_actor  # noqa: F401

        from agentic_rl.bridges.tiny_model import make_tokenizer
    return make_tokenizer()


class Script:
    """A speaker that says what it was given, turn by turn, whatever it is asked."""

    def __init__(self, turns: Sequence[Said]):
        self.turns = list(turns)
        self.prompts: list[list[int]] = []
        self.budgets: list[int | None] = []

    def speak(self, prompt_ids: list[int], params: Any) -> Said:
        self.prompts.append(prompt_ids)
        self.budgets.append(params.max_tokens)
        if len(self.prompts) > len(self.turns):
            raise AssertionError(f"the script has no turn {len(self.prompts)}")
        return self.turns[len(self.prompts) - 1]


def script_of(trajectory: Trajectory, tokenizer: Any) -> Script:
    """A script of what the assistant wrote in this episode."""
    record = to_ids(trajectory, tokenizer)
    end = tokenizer.convert_tokens_to_ids(IM_END)
    turns = []
    for (start, stop), action in zip(
        bridge.ranges_of(record.response_mask), trajectory.actions
    ):
        ids = record.response_ids[start:stop]
        written = ids[:-1] if ids[-1] == end else ids
        cut = "length" if action["finish_reason"] == "length" else "stop"
        said = Said(ids, record.logprobs[start:stop], tokenizer.decode(written), cut)
        turns.append(said)
    return Script(turns)


def prompt_of(task: Task, tokenizer: Any) -> tuple[str, str]:
    """(prompt, label) of a task, by OpenRLHF's own PromptDataset."""
    from openrlhf.datasets import PromptDataset

    keys = {"input_key": "input", "label_key": "label", "apply_chat_template": True}
    args = SimpleNamespace(data=SimpleNamespace(**keys))
    strategy = SimpleNamespace(args=args, is_rank_0=lambda: False)
    _, prompt, label, _ = PromptDataset(list(bridge.rows([task])), tokenizer, strategy)[
        0
    ]
    return prompt, label


def play(
    task: Task,
    script: Any,
    tokenizer: Any,
    max_length: int = MAX_LEN,
    max_tokens: int | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """One episode by OpenRLHF's RolloutRayActor: what its executor returns.

    settings      agent_func_path, ours if not given, or remote_rm_url
    """
    agent = settings or {"agent_func_path": str(AGENT)}
    prompt, label = prompt_of(task, tokenizer)
    params = SimpleNamespace(max_tokens=max_tokens, logprobs=1)
    actor = cpu_stubs.rollout_actor(script, **agent)
    work = actor.generate_responses(prompt, label, params, max_length, tokenizer)
    return dict(finished(work)[0])


def generator() -> Any:
    """OpenRLHF's SamplesGenerator, for the method that makes an Experience."""
    from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator

    args = SimpleNamespace(args=None)
    return SamplesGenerator(args, None, None, None, [])


def experience_of(response: dict[str, Any]) -> Any:
    """The Experience of one response, as OpenRLHF makes it."""
    return generator()._process_response_into_experience(response, max_len=MAX_LEN)


def settings_of(convention: Convention) -> Any:
    """The settings that OpenRLHF's program makes of our flags for a convention."""
    return cpu_stubs.parsed([*PLACES, *ENGINES, *bridge.flags(convention)])


def maker_of(args: Any) -> Any:
    """OpenRLHF's RemoteExperienceMaker with these settings, and nobody to call."""
    from openrlhf.trainer.ppo_utils import FixedKLController
    from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker

    strategy, tokenizer = SimpleNamespace(args=args), SimpleNamespace(pad_token_id=0)
    controller = FixedKLController(args.algo.kl.init_coef)
    return RemoteExperienceMaker(
        None, None, None, None, controller, strategy, tokenizer
    )


def promise(holds: bool, what: str) -> None:
    """End with an error unless OpenRLHF's numbers are ours."""
    if not holds:
        raise SystemExit(f"not as it was promised: {what}")
