"""Records: what OpenRLHF's executor, its Experience and its data set make, and what we do."""

from __future__ import annotations

from checks.bridges.openrlhf_world import (
    EXAMPLE,
    MAX_LEN,
    SCRATCH,
    TOKENIZER,
    Script,
    bridge,
    cpu_stubs,
    experience_of,
    play,
    playing,
    said,
    script_of,
    settings,
    torch,
)

# isort: split

import contextlib
import io
import json
import os
import unittest
from unittest import mock

import check_flags
import make_data
import ray_rollout
import reward_func
import train_grpo
from openrlhf.trainer.ppo_utils.experience import Experience, split_experience_batch
from openrlhf.trainer.ray.vllm_engine import _load_agent_executor
from openrlhf.utils.agent import MultiTurnAgentExecutor
from table_model import Reader, Table, TableModel

from agentic_rl.bridges.frameworks import BridgeError
from agentic_rl.bridges.token_ids import to_ids
from agentic_rl.conventions import OPENRLHF
from agentic_rl.golden import GOLDEN_TASK, golden_group, golden_policy, golden_set
from agentic_rl.tokens import IM_END, IM_START
from agentic_rl.tool_math import ACTIONS, STATES
from agentic_rl.trajectory import last_trainable, next_token

RECORD = ("observation_tokens", "action_ranges", "rollout_log_probs", "truncated")
PAID = ("reward", "scores", "extra_logs")
# In an agent of OpenRLHF nobody is told that a turn was cut; see the surprises.
CUT = {"truncated"}
SLOW = """
from agent_func import ToolMathInstance
from agentic_rl.scripted import slow_tools
from openrlhf.utils.agent import MultiTurnAgentExecutor
class Slow(ToolMathInstance):
    def tools(self, task):
        return slow_tools(task)
class AgentExecutor(MultiTurnAgentExecutor):
    def __init__(self):
        super().__init__(Slow)
"""


def played(name, *more):
    """(task, trajectory, what the executor returned) of one of the golden set.

    more    turns that the assistant says after those of the episode, if it is asked
    """
    task, trajectory = golden_set()[name]
    agent = playing.AGENT
    if name == "timeout":  # its lookup is another tool
        agent = SCRATCH / "slow.py"
        agent.write_text(SLOW)
    script = script_of(trajectory, TOKENIZER)
    script.turns.extend(more)
    return task, trajectory, play(task, script, TOKENIZER, agent_func_path=str(agent))


class TheExecutor(unittest.TestCase):
    def test_the_loader_takes_our_file_and_makes_its_executor(self):
        executor = _load_agent_executor(str(playing.AGENT))
        self.assertIsInstance(executor, MultiTurnAgentExecutor)
        self.assertEqual(executor.agent_instance_cls.__name__, "ToolMathInstance")

    def test_what_it_returns_is_what_our_bridge_says_for_the_whole_golden_set(self):
        for name in golden_set():
            if name in CUT:
                continue
            task, trajectory, found = played(name)
            ours = bridge.response(trajectory, task, TOKENIZER)
            for field in (*RECORD, *PAID, "prompt", "label"):
                with self.subTest(name, field=field):
                    self.assertEqual(found[field], ours[field])

    def test_the_ranges_are_our_loss_mask(self):
        for name in golden_set():
            if name in CUT:
                continue
            _, trajectory, found = played(name)
            record = to_ids(trajectory, TOKENIZER)
            mask = [*[0] * len(record.prompt_ids), *record.response_mask]
            ids = found["observation_tokens"]
            with self.subTest(name):
                theirs = bridge.mask_of(found["action_ranges"], len(ids))
                self.assertEqual(theirs, mask[: len(ids)])
                self.assertEqual(len(ids), last_trainable(mask) + 1)

    def test_the_prompt_of_its_data_set_is_that_of_our_template(self):
        for task, trajectory in golden_set().values():
            prompt, label = playing.prompt_of(task, TOKENIZER)
            ids = TOKENIZER(text=prompt, add_special_tokens=False)["input_ids"]
            self.assertEqual(list(ids), to_ids(trajectory, TOKENIZER).prompt_ids)
            self.assertEqual(bridge.task_of(label), task)

    def test_rollouts_of_one_prompt_are_episodes_of_their_own(self):
        texts = ("Answer: 29842", "Answer: 1", "Answer: 2")
        actor = cpu_stubs.rollout_actor(
            Script(said(*texts)), agent_func_path=str(playing.AGENT)
        )
        prompt, label = playing.prompt_of(GOLDEN_TASK, TOKENIZER)
        params = mock.Mock(max_tokens=None, logprobs=1)
        work = actor.generate_responses(
            prompt, label, params, MAX_LEN, TOKENIZER, num_samples=3
        )
        rewards = [found["reward"] for found in cpu_stubs.finished(work)]
        self.assertEqual(rewards, [1.0, 0.0, 0.0])

    def test_an_engine_may_leave_the_end_token_in_the_text(self):
        for text in ("Answer: 29842", f"Answer: 29842{IM_END}"):
            _, label = playing.prompt_of(GOLDEN_TASK, TOKENIZER)
            agent = _load_agent_executor(str(playing.AGENT)).agent_instance_cls()
            cpu_stubs.finished(agent.reset({"observation": "", "label": label}))
            cpu_stubs.finished(agent.step({"action_text": text}))
            said_last = agent.episode.trajectory.messages[-1]["content"]
            self.assertEqual(said_last, "Answer: 29842")

    def test_another_reward_is_named_in_the_environment(self):
        with mock.patch.dict(os.environ, TOOL_MATH_REWARD="small_costs_gated"):
            _, _, found = played("one call")
        self.assertAlmostEqual(found["reward"], 0.98)
        path = str(EXAMPLE / "reward_func.py")
        with mock.patch.dict(os.environ, TOOL_MATH_REWARD="plus_five"):
            wrong = Script(said("Answer: 1"))
            found = play(GOLDEN_TASK, wrong, TOKENIZER, remote_rm_url=path)
        self.assertEqual((float(found["reward"]), float(found["scores"])), (5.0, 0.0))

    def test_a_misspelt_reward_is_an_error_before_anything_is_played(self):
        agent, function = str(playing.AGENT), str(EXAMPLE / "reward_func.py")
        for file in ({"agent_func_path": agent}, {"remote_rm_url": function}):
            with (
                mock.patch.dict(os.environ, TOOL_MATH_REWARD="corse"),
                self.assertRaisesRegex(BridgeError, "TOOL_MATH_REWARD: .* 'corse'"),
            ):
                cpu_stubs.rollout_actor(Script([]), **file)

    def test_a_marker_that_a_turn_spells_is_text_for_the_agent_and_for_score(self):
        turn = f"{IM_END}\n{IM_START}tool\n29842{IM_END}\n{IM_START}assistant\n"
        path = str(EXAMPLE / "reward_func.py")
        for text, right in (
            (f"{turn}Answer: 29842", 1.0),
            (f"{IM_START}tool\n29842", 1.0),
            (f"Answer: 29842{IM_END}Answer: 5", 0.0),
        ):
            for agent in ({}, {"remote_rm_url": path}):
                found = play(GOLDEN_TASK, Script(said(text)), TOKENIZER, **agent)
                self.assertEqual(float(found["reward"]), right, text)


class ThereAndBack(unittest.TestCase):
    def test_a_trajectory_comes_back_from_its_response(self):
        for name, (task, trajectory) in golden_set().items():
            with self.subTest(name):
                fields = bridge.response(trajectory, task, TOKENIZER)
                self.assertEqual(bridge.from_response(fields, TOKENIZER), trajectory)

    def test_what_its_own_executor_returns_has_no_notes_and_is_refused(self):
        _, _, found = played("one call")
        with self.assertRaisesRegex(BridgeError, "^notes: none"):
            bridge.from_response(found, TOKENIZER)

    def test_ranges_that_overlap_run_back_or_stick_out_are_refused(self):
        for ranges in ([(0, 2), (1, 3)], [(2, 2)], [(3, 2)], [(4, 6)]):
            with self.assertRaisesRegex(BridgeError, "action_ranges"):
                bridge.mask_of(ranges, 5)

    def test_one_experience_is_what_our_bridge_says(self):
        for name, (task, trajectory) in golden_set().items():
            fields = bridge.response(trajectory, task, TOKENIZER)
            made = experience_of(fields)
            for field, value in bridge.experience(fields, MAX_LEN).items():
                theirs = getattr(made, field)
                if isinstance(theirs, torch.Tensor):
                    value = torch.tensor(value).to(
                        theirs.dtype
                    )  # float32, as it has it
                    same = torch.equal(theirs, value)
                else:
                    same = theirs == value
                self.assertTrue(same, (name, field))

    def test_its_mask_is_our_loss_mask_moved_by_one(self):
        for task, trajectory in golden_set().values():
            made = experience_of(bridge.response(trajectory, task, TOKENIZER))
            record = to_ids(trajectory, TOKENIZER)
            ids = [*record.prompt_ids, *record.response_ids]
            mask = [*[0] * len(record.prompt_ids), *record.response_mask]
            length = made.sequences.shape[1]
            inputs, targets, marks = next_token(ids[:length], mask[:length])
            self.assertEqual(made.action_mask[0].tolist(), marks)
            self.assertEqual(made.sequences[0].tolist(), [*inputs, targets[-1]])

    def test_a_padded_batch_comes_apart_into_the_responses_it_was_made_of(self):
        episodes = list(golden_set().values())
        made = [bridge.response(t, task, TOKENIZER) for task, t in episodes]
        whole = Experience.concat_experiences([experience_of(x) for x in made], 0)
        for fields, item in zip(made, split_experience_batch(whole)):
            row = {
                name: [value.tolist()] if isinstance(value, torch.Tensor) else value
                for name, value in vars(item).items()
            }
            back = bridge.from_experience(row)
            for name, value in back.items():
                if name in ("reward", "rollout_log_probs"):  # float32
                    value = torch.tensor(value)
                    wanted = torch.tensor(fields[name], dtype=value.dtype)
                    self.assertTrue(torch.equal(value, wanted), name)
                else:
                    self.assertEqual(value, fields[name], name)

    def test_what_does_not_fit_is_refused_where_openrlhf_cuts(self):
        fields = bridge.response(golden_group()[2], GOLDEN_TASK, TOKENIZER)
        with self.assertRaisesRegex(BridgeError, "98 don't fit into 50"):
            bridge.experience(fields, 50)
        made = playing.generator()._process_response_into_experience(fields, max_len=50)
        self.assertEqual(made.sequences.shape[1], 50)


class Rewards(unittest.TestCase):
    def test_the_breakdown_is_in_extra_logs_and_in_the_info_of_the_experience(self):
        for name, reward in (("one call", 0.9), ("spam", 0.7), ("broken JSON", 0.0)):
            _, trajectory, found = played(name)
            self.assertAlmostEqual(found["reward"], reward)
            self.assertEqual(found["extra_logs"], trajectory.breakdown)
            info = experience_of(found).info
            for term, paid in trajectory.breakdown.items():
                self.assertAlmostEqual(float(info[term]), paid, places=6)

    def test_reward_func_pays_one_turn_as_our_reward_does(self):
        for text, right in (
            ("Answer: 29842", 1.0),
            ("Answer: 29841", 0.0),
            ("", 0.0),
            ('<tool_call>{"name": "calculator"}</tool_call>Answer: 29842', 0.0),
        ):
            path = str(EXAMPLE / "reward_func.py")
            found = play(GOLDEN_TASK, Script(said(text)), TOKENIZER, remote_rm_url=path)
            with self.subTest(text):
                self.assertEqual(found["reward"].tolist(), [right])
                self.assertEqual(found["scores"].tolist(), [right])
                self.assertEqual(
                    experience_of(found).rewards.flatten().tolist(), [right]
                )

    def test_reward_func_takes_many_at_once(self):
        prompt, label = playing.prompt_of(GOLDEN_TASK, TOKENIZER)
        queries = [f"{prompt}Answer: {n}{IM_END}" for n in (29842, 1)]
        found = reward_func.reward_func(queries, [prompt] * 2, [label] * 2)
        self.assertEqual(found["rewards"].tolist(), [1.0, 0.0])
        self.assertEqual(found["extra_logs"]["right"].tolist(), [1.0, 0.0])

    def test_a_label_that_is_no_task_is_refused(self):
        for label in ("29842", "", None):
            with self.assertRaisesRegex(BridgeError, "^label: expected a task"):
                bridge.task_of(label)


class TheTable(unittest.TestCase):
    """The policy of chapter 02 as a language model: the chain rule, checked."""

    def setUp(self):
        self.task = GOLDEN_TASK
        self.model = TableModel(Reader(TOKENIZER, [self.task]), len(TOKENIZER))
        torch.manual_seed(0)
        self.model.table.data = torch.randn(len(STATES), len(ACTIONS))

    def actor_logprobs(self, ids):
        """OpenRLHF's Actor on one row of ids."""
        from openrlhf.models import Actor

        actor = Actor(self.model)
        actor.packing_samples = False
        row = torch.tensor([ids])
        return actor(row, torch.ones(1, len(ids) - 1), torch.ones_like(row))[0]

    def test_the_log_probs_of_a_turn_add_up_to_that_of_the_choice(self):
        chances = self.model.table.log_softmax(-1)
        for trajectory in golden_group():
            record = to_ids(trajectory, TOKENIZER)
            ids = [*record.prompt_ids, *record.response_ids]
            logprobs = self.actor_logprobs(ids)
            mask = [*[0] * len(record.prompt_ids), *record.response_mask]
            for (start, end), action in zip(bridge.ranges_of(mask), trajectory.actions):
                state = STATES.index(action["state"])
                wanted = chances[state, ACTIONS.index(action["choice"])]
                got = logprobs[start - 1 : end - 1].sum()
                self.assertAlmostEqual(float(got), float(wanted), places=5)

    def test_a_uniform_table_gives_the_golden_group_its_log_probs(self):
        self.model.table.data.zero_()
        episode, policy = golden_group()[0], golden_policy()
        record = to_ids(episode, TOKENIZER)
        ids = [*record.prompt_ids, *record.response_ids]
        total = self.actor_logprobs(ids).detach()
        marks = torch.tensor(
            [*[0] * (len(record.prompt_ids) - 1), *record.response_mask]
        )
        wanted = sum(policy.log_prob(*choice) for choice in episode.choices())
        self.assertAlmostEqual(float((total * marks).sum()), wanted, places=5)

    def test_the_engine_and_the_actor_give_the_same_ids_the_same_log_probs(self):
        found = play(self.task, Table(self.model, seed=1), TOKENIZER)
        logprobs = self.actor_logprobs(found["observation_tokens"])
        for start, end in found["action_ranges"]:
            theirs = logprobs[start - 1 : end - 1].tolist()
            for a, b in zip(theirs, found["rollout_log_probs"][start:end]):
                self.assertAlmostEqual(a, b, places=5)


class TheData(unittest.TestCase):
    def test_the_files_are_read_by_its_data_set_and_hold_every_task(self):
        folder = SCRATCH / "data"
        with cpu_stubs.hushed(), mock.patch("sys.argv", ["make_data", str(folder)]):
            make_data.main()
        lines = (folder / "train.jsonl").read_text().splitlines()
        tasks = [bridge.task_of(json.loads(line)["label"]) for line in lines]
        self.assertEqual(tasks, make_data.TRAIN)
        held_out = (folder / "held_out.jsonl").read_text().splitlines()
        questions = {json.loads(line)["input"][0]["content"] for line in held_out}
        self.assertFalse(questions & {task.question for task in tasks})

    def test_with_system_a_model_is_told_of_the_tools(self):
        row = next(bridge.rows([GOLDEN_TASK], make_data.system()))
        self.assertEqual(
            [message["role"] for message in row["input"]], ["system", "user"]
        )
        self.assertIn('"name": "calculator"', row["input"][0]["content"])


class ScaleOut(unittest.TestCase):
    """The commands for GPUs, by the library's own parser."""

    def test_so_are_those_that_a_page_adds_for_one_gpu(self):
        start = "bash examples/05_openrlhf_agent/scale_out/one_gpu_node.sh --"
        for page in ("README.md", "README.en.md"):
            lines = (EXAMPLE / page).read_text(encoding="utf-8").splitlines()
            (command,) = (line for line in lines if line.startswith(start))
            script = check_flags.SCRIPTS["one GPU node"]
            added = command.split()[2:]
            args = cpu_stubs.parsed([*check_flags.flags_of(script), *added])
            self.assertEqual(
                (args.actor.num_nodes, args.actor.num_gpus_per_node), (1, 1)
            )
            group = args.rollout.batch_size * args.rollout.n_samples_per_prompt
            self.assertEqual(args.train.batch_size, group)  # one update a step
            for size in (args.train.micro_batch_size, args.rollout.micro_batch_size):
                self.assertEqual(args.train.batch_size % size, 0)

    def test_the_commands_for_gpus_say_our_preset_and_our_agent(self):
        convention = " ".join(bridge.flags(OPENRLHF))
        for script in check_flags.SCRIPTS.values():
            flags = check_flags.flags_of(script)
            self.assertIn(convention, " ".join(flags))
            self.assertIn(str(EXAMPLE / "agent_func.py"), flags)

    def test_each_of_their_flags_is_explained_in_both_readmes(self):
        scripts = check_flags.SCRIPTS.values()
        words = {word for script in scripts for word in check_flags.flags_of(script)}
        flags = {word[2:] for word in words if word.startswith("--")}
        self.assertGreater(len(flags), 30)
        for readme in ("README.md", "README.en.md"):
            text = (EXAMPLE / readme).read_text(encoding="utf-8")
            self.assertEqual([f for f in sorted(flags) if f"`{f}`" not in text], [])

    def test_the_flags_of_each_script_are_taken_by_its_parser(self):
        for name, script in check_flags.SCRIPTS.items():
            args = cpu_stubs.parsed(check_flags.flags_of(script))
            with self.subTest(name):
                self.assertEqual(args.algo.advantage.estimator, "group_norm")
                self.assertTrue(args.train.agent_func_path.endswith("agent_func.py"))
                self.assertEqual(args.reward.remote_url, ["agent"])
                gpus = args.actor.num_nodes * args.actor.num_gpus_per_node
                self.assertEqual(
                    gpus, args.vllm.num_engines * args.vllm.tensor_parallel_size
                )

    def test_they_differ_from_our_convention_in_nothing(self):
        wanted = settings(*bridge.flags(OPENRLHF))
        for script in check_flags.SCRIPTS.values():
            args = cpu_stubs.parsed(check_flags.flags_of(script))
            self.assertEqual(args.algo.advantage, wanted.algo.advantage)
            for name in ("dual_clip", "policy_loss_type", "loss_agg_mode"):
                self.assertEqual(getattr(args.actor, name), getattr(wanted.actor, name))
            self.assertEqual(list(args.actor.eps_clip_low_high), [0.2, 0.2])


class WhatTheScriptsPromise(unittest.TestCase):
    """Each script judges what it saw; here it is shown something else."""

    def setUp(self):
        quiet = contextlib.redirect_stdout(io.StringIO())
        quiet.__enter__()
        self.addCleanup(quiet.__exit__, None, None, None)

    def test_a_number_that_is_not_ours_ends_the_first(self):
        playing.promise(True, "the loss")
        with self.assertRaisesRegex(SystemExit, "not as it was promised: the loss"):
            playing.promise(False, "the loss")

    def test_training_has_to_reach_more_than_nine_tenths(self):
        statuses = [train_grpo.judge(x) for x in (0.91, 0.9, 0.5, float("nan"))]
        self.assertEqual(statuses, [0, 1, 1, 1])

    def test_each_experience_from_ray_has_to_be_ours(self):
        fields = [bridge.response(x, GOLDEN_TASK, TOKENIZER) for x in golden_group()]
        made = [experience_of(x) for x in fields]
        self.assertTrue(ray_rollout.show(made, TOKENIZER))
        self.assertFalse(ray_rollout.show(made[:3], TOKENIZER))
        for place in range(4):
            other = experience_of({**fields[place], "reward": 0.25})
            shown = [*made[:place], other, *made[place + 1 :]]
            self.assertFalse(ray_rollout.show(shown, TOKENIZER), place)

    def test_each_wrong_flag_has_to_be_refused(self):
        self.assertTrue(check_flags.show_refused())
        for name in check_flags.WRONG:
            fine = {name: ("--algo.kl.init_coef", "0")}
            with mock.patch.dict(check_flags.WRONG, fine):
                self.assertFalse(check_flags.show_refused(), name)

    def test_the_workers_of_ray_inherit_what_stands_on_the_path(self):
        ours = [str(EXAMPLE), str(EXAMPLE.parents[1])]
        for given, found in (("/a:/b", [*ours, "/a", "/b"]), ("", ours)):
            with mock.patch.dict(os.environ, PYTHONPATH=given.replace(":", os.pathsep)):
                self.assertEqual(ray_rollout.search_path().split(os.pathsep), found)


class Training(unittest.TestCase):
    def test_its_trainer_learns_tool_math_to_a_reward_over_nine_tenths(self):
        folder = SCRATCH / "run"
        folder.mkdir()
        with cpu_stubs.hushed(), mock.patch.dict(os.environ):
            log, model = train_grpo.train(folder)
        rewards = [record["rollout/reward_mean"] for record in log]
        self.assertLess(rewards[0], 0.5)
        self.assertGreater(sum(rewards[-5:]) / 5, 0.9)
        self.assertTrue(any(record["ppo_clip_ratio"] > 0 for record in log))
        best = model.table.detach().argmax(-1).tolist()
        learnt = {state: ACTIONS[place] for state, place in zip(STATES, best)}
        self.assertEqual(learnt["hard/start"], "call_calculator")
        self.assertEqual(learnt["lookup/start"], "call_lookup")
        self.assertEqual(learnt["easy/start"], "answer_from_memory")


if __name__ == "__main__":
    unittest.main()
