"""The configs of examples/04_verl_minimal/scale_out, by verl's own config code.

They are composed as verl's main program composes them, validated by its validate_config
and turned into its dataclasses. The two for GPUs are not run anywhere.
"""

from __future__ import annotations

from checks.bridges.verl_world import EXAMPLE, SCRATCH, TOKENIZER, quiet

# isort: split

import functools
import os
import re
import subprocess
import sys
import unittest
from collections.abc import Sequence
from importlib.metadata import requires
from typing import Any

import cpu_setup
from accelerate.commands.config.config_args import load_config_from_file
from omegaconf import OmegaConf
from verl.tools.tool_registry import load_all_tools
from verl.trainer.ppo.reward import get_custom_reward_fn
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import omega_conf_to_dataclass, validate_config

from agentic_rl.bridges.tiny_model import make_model
from agentic_rl.bridges.verl import overrides
from agentic_rl.conventions import VERL
from agentic_rl.evaluation import held_out_tasks, training_tasks

SCALE_OUT = EXAMPLE / "scale_out"
sys.path.insert(0, str(SCALE_OUT))

import changes

MODEL = SCRATCH / "scale_model"
PLACES = {
    "TOOL_MATH_CODE": str(EXAMPLE),
    "TOOL_MATH_DATA": str(SCRATCH / "scale_data"),
    "TOOL_MATH_MODEL": str(MODEL),
    "TOOL_MATH_RUNS": str(SCRATCH / "scale_runs"),
}
PARTS = {  # what verl makes a dataclass of -> its name
    "actor_rollout_ref.actor": "FSDPActorConfig",
    "actor_rollout_ref.rollout": "RolloutConfig",
    "actor_rollout_ref.model": "HFModelConfig",
    "algorithm": "AlgoConfig",
}

UNUSED = ("reward.reward_model.", "distillation.", "critic.")


def setUpModule() -> None:
    os.environ.update(PLACES)
    make_model(TOKENIZER, seed=0).save_pretrained(MODEL)
    TOKENIZER.save_pretrained(MODEL)


@functools.cache
def composed(name: str, *more: str) -> Any:
    return cpu_setup.compose(name, more)


def validated(config: Any) -> list[str]:
    """Names of the dataclasses that verl makes of it, once it has found nothing wrong."""
    with quiet():
        validate_config(
            config=config,
            use_reference_policy=need_reference_policy(config),
            use_critic=need_critic(config),
        )
        made = [omega_conf_to_dataclass(OmegaConf.select(config, x)) for x in PARTS]
    return [type(part).__name__ for part in made]


def blocks(page: str, language: str) -> list[list[str]]:
    """The lines of each block of code in a page."""
    text = (EXAMPLE / page).read_text("utf-8")
    found = re.findall(rf"(?ms)^```{language}\n(.*?)^```$", text)
    return [block.splitlines() for block in found]


class EachConfig(unittest.TestCase):
    def test_verl_composes_it_validates_it_and_makes_its_dataclasses(self):
        for name in changes.NAMES:
            with self.subTest(name):
                self.assertEqual(validated(composed(name)), list(PARTS.values()))

    def test_nothing_that_is_used_is_left_open(self):
        for name in changes.NAMES:
            config = composed(name)
            with self.subTest(name):
                OmegaConf.to_container(config, resolve=True)
                self.assertFalse(config.reward.reward_model.enable)
                for key in OmegaConf.missing_keys(config):
                    self.assertTrue(key.startswith(UNUSED), key)

    def test_tools_reward_and_data_are_the_same_files(self):
        for key in (
            "actor_rollout_ref.rollout.multi_turn",
            "reward.custom_reward_function",
            "data.train_files",
            "data.val_files",
            "data.tool_config_path",
        ):
            found = {
                str(OmegaConf.select(composed(name), key)) for name in changes.NAMES
            }
            self.assertEqual(len(found), 1, key)

    def test_its_tools_and_its_reward_are_found_by_verls_loaders(self):
        for name in changes.NAMES:
            config = composed(name)
            with self.subTest(name), quiet():
                tools = load_all_tools(config.data.tool_config_path, None)
                reward = get_custom_reward_fn(config)
            self.assertEqual([tool.name for tool in tools], ["calculator", "lookup"])
            self.assertEqual(reward.args[0].__name__, "compute_score")

    def test_it_means_the_preset_verl(self):
        told = overrides(VERL)
        for name in changes.NAMES:
            with self.subTest(name):
                self.assertEqual(composed(name, *told), composed(name))

    def test_a_step_wants_no_more_tasks_than_there_are(self):
        for name in changes.NAMES:
            self.assertLessEqual(
                composed(name).data.train_batch_size, len(training_tasks())
            )


class OneGPU(unittest.TestCase):
    """The command of the pages for a machine with one GPU: composed and validated."""

    def config(self, page: str) -> Any:
        text = (EXAMPLE / page).read_text("utf-8")
        (command,) = re.findall(r"launch\.sh (one_node .*n_gpus_per_node=1.*)", text)
        return composed(*command.split())

    def test_verl_validates_it_and_its_sizes_fit(self):
        for page in ("README.md", "README.en.md"):
            config = self.config(page)
            self.assertEqual(validated(config), list(PARTS.values()))
            self.assertEqual(
                (config.trainer.nnodes, config.trainer.n_gpus_per_node), (1, 1)
            )
            tasks = config.data.train_batch_size
            self.assertEqual(config.actor_rollout_ref.actor.ppo_mini_batch_size, tasks)
            self.assertEqual(
                config.actor_rollout_ref.rollout.tensor_model_parallel_size, 1
            )

    def test_verl_names_the_vllm_that_the_pages_name(self):
        asked = [line for line in requires("verl") or () if 'extra == "vllm"' in line]
        for name, version in (
            ("vllm", "0.24.0"),
            ("torch", "2.11.0"),
            ("transformers", "5.9.0"),
        ):
            self.assertTrue(
                any(x.startswith(f"{name}=={version};") for x in asked), name
            )
            for page in ("README.md", "README.en.md"):
                self.assertIn(version, (EXAMPLE / page).read_text("utf-8"))


class TheValidation(unittest.TestCase):
    """It has teeth, and they are few: what it lets pass is not proven."""

    def test_a_misspelt_setting_is_refused_by_the_dataclass(self):
        wrong = composed("one_node", "+actor_rollout_ref.rollout.tensor_paralel_size=2")
        with self.assertRaisesRegex(Exception, "tensor_paralel_size"):
            validated(wrong)

    def test_rollouts_that_cant_be_shared_out_are_refused_without_dynamic_batches(self):
        wrong = composed(
            "one_node",
            "data.train_batch_size=33",
            "actor_rollout_ref.rollout.n=1",
            "actor_rollout_ref.actor.use_dynamic_bsz=false",
        )
        with self.assertRaisesRegex(AssertionError, "must be divisible"):
            validated(wrong)

    def test_an_engine_that_does_not_exist_passes(self):
        wrong = composed("one_node", "actor_rollout_ref.rollout.name=no_such_engine")
        self.assertEqual(validated(wrong), list(PARTS.values()))

    def test_a_parallel_size_that_does_not_divide_the_gpus_passes(self):
        wrong = composed(
            "one_node", "actor_rollout_ref.rollout.tensor_model_parallel_size=3"
        )
        self.assertEqual(validated(wrong), list(PARTS.values()))


class TheSizes(unittest.TestCase):
    """What verl does not check."""

    def test_the_parallel_sizes_divide_the_gpus(self):
        for name in ("one_node", "several_nodes"):
            config = composed(name)
            gpus = config.trainer.n_gpus_per_node
            rollout, actor = (
                config.actor_rollout_ref.rollout,
                config.actor_rollout_ref.actor,
            )
            self.assertEqual(gpus % rollout.tensor_model_parallel_size, 0)
            self.assertIn(actor.fsdp_config.fsdp_size, (-1, gpus))

    def test_the_rollouts_of_a_step_divide_by_the_gpus(self):
        for name in changes.NAMES:
            config = composed(name)
            rollouts = config.data.train_batch_size * config.actor_rollout_ref.rollout.n
            gpus = config.trainer.nnodes * config.trainer.n_gpus_per_node
            self.assertEqual(rollouts % gpus, 0, name)

    def test_the_longest_question_fits_on_the_cpu(self):
        limit = composed("cpu").data.max_prompt_length
        for task in (*training_tasks(), *held_out_tasks()):
            ids = TOKENIZER.apply_chat_template(
                [{"role": "user", "content": task.question}],
                add_generation_prompt=True,
                return_dict=False,
            )
            self.assertLessEqual(len(ids), limit, task.question)


class TheCommands(unittest.TestCase):
    def test_the_launcher_makes_the_data_and_verls_program_composes_the_config(self):
        ran = launch("one_node", "--cfg", "job", "--resolve")
        self.assertEqual(ran.returncode, 0, ran.stderr[-2000:])
        self.assertTrue((SCRATCH / "scale_runs" / "data" / "train.parquet").exists())
        _, _, printed = ran.stdout.partition("actor_rollout_ref:\n")
        told = OmegaConf.create("actor_rollout_ref:\n" + printed)
        self.assertEqual(told.actor_rollout_ref.rollout.name, "vllm")
        self.assertEqual(
            told.reward.custom_reward_function.path, str(EXAMPLE / "reward_function.py")
        )

    def test_without_the_name_of_a_config_nothing_is_made(self):
        told = {**os.environ, "TOOL_MATH_RUNS": str(SCRATCH / "no_runs")}
        ran = subprocess.run(
            ["bash", str(SCALE_OUT / "launch.sh")],
            env=told,
            capture_output=True,
            text=True,
        )
        self.assertNotEqual(ran.returncode, 0)
        self.assertIn("one_node or several_nodes", ran.stderr)
        self.assertFalse((SCRATCH / "no_runs").exists())

    def test_the_shell_can_read_both(self):
        for name in ("launch.sh", "node.sh"):
            ran = subprocess.run(["bash", "-n", str(SCALE_OUT / name)])
            self.assertEqual(ran.returncode, 0, name)

    def test_accelerate_reads_the_file_for_chapter_03(self):
        config = load_config_from_file(str(SCALE_OUT / "accelerate.yaml"))
        self.assertEqual(config.num_processes, 8)
        self.assertEqual(config.distributed_type.value, "MULTI_GPU")
        self.assertEqual(config.mixed_precision, "bf16")


def launch(*arguments: str) -> subprocess.CompletedProcess[str]:
    """launch.sh with this interpreter, and the model and folders of these tests."""
    programs = SCRATCH / "programs"
    programs.mkdir(exist_ok=True)
    python = programs / "python3"
    if not python.exists():
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        python.chmod(0o755)
    told = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(
        ["bash", str(SCALE_OUT / "launch.sh"), *arguments],
        cwd=SCRATCH,
        env=told,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )


class ThePages(unittest.TestCase):
    def test_the_pages_show_what_changes(self):
        pairs: Sequence[tuple[str, str]] = tuple(zip(changes.NAMES, changes.NAMES[1:]))
        expected = [changes.changes(*pair) for pair in pairs]
        for page in ("README.md", "README.en.md"):
            with self.subTest(page):
                self.assertEqual(blocks(page, "diff"), expected)

    def test_every_setting_that_changes_is_explained(self):
        lines = [
            line
            for pair in zip(changes.NAMES, changes.NAMES[1:])
            for line in changes.changes(*pair)
        ]
        names = {line[1:].partition(":")[0].rpartition(".")[2] for line in lines}
        for page in ("README.md", "README.en.md"):
            text = (EXAMPLE / page).read_text("utf-8")
            self.assertEqual({x for x in names if f"`{x}`" not in text}, set(), page)


if __name__ == "__main__":
    unittest.main()
