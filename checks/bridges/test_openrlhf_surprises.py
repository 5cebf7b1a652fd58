"""What a reader of OpenRLHF 0.11.2 would not guess, each pinned by calling it.

Each test is a row of the chapter's tables; its text says what OpenRLHF does, what is done
here, and why.
"""

from __future__ import annotations

from checks.bridges.openrlhf_world import (
    MAX_LEN,
    SCRATCH,
    TOKENIZER,
    Script,
    agent_file,
    bridge,
    cpu_stubs,
    experience_of,
    maker_of,
    play,
    playing,
    said,
    script_of,
    settings,
    tokens,
    torch,
)

# isort: split

import logging
import unittest
from types import SimpleNamespace

import train_grpo
from openrlhf.models import Actor, PolicyLoss
from openrlhf.trainer.ppo_trainer import compute_eval_metrics
from openrlhf.trainer.ppo_utils import apply_length_penalties
from openrlhf.trainer.ppo_utils.experience import Experience, split_experience_batch
from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator
from openrlhf.utils.agent import logger as agent_logger

from agentic_rl.advantage import group_advantages
from agentic_rl.agent_loop import Limits
from agentic_rl.bridges.frameworks import BridgeError
from agentic_rl.bridges.token_ids import ordinary
from agentic_rl.conventions import COURSE, OPENRLHF
from agentic_rl.golden import GOLDEN_TASK, golden_group
from agentic_rl.messages import render_call
from agentic_rl.scripted import ACTS_WELL
from agentic_rl.tokens import IM_END, IM_START
from agentic_rl.tools import Observation

OF_THE_TEMPLATE = f"{IM_START}{IM_END}{IM_START}"  # a tool's turn, the next header
CALL = render_call("calculator", {"expression": "347 * 86"})
GOES_ON = {"rewards": "torch.tensor(1.0)", "environment_feedback": "'again'"}


def step(**fields):
    """The body of a ``step`` that returns these fields, each a Python expression."""
    both = {**GOES_ON, "done": "self.turns == 2", **fields}
    listed = ", ".join(f"{name!r}: {value}" for name, value in both.items())
    return f"return {{{listed}}}"


def played(name, script, **fields):
    """What the executor returns for an agent of one's own."""
    path = agent_file(name, step(**fields))
    return play(GOLDEN_TASK, script, TOKENIZER, agent_func_path=path)


def advantages(
    rewards, estimator="group_norm", size=None, index=None, mask=None, **more
):
    """Of one batch in float32, by RemoteExperienceMaker: rows of advantages."""
    args = settings()
    args.algo.advantage.estimator = estimator
    args.rollout.n_samples_per_prompt = size or len(rewards)
    args.algo.kl.init_coef = 0.0
    vars(args.algo.advantage).update(more)
    marks = torch.tensor(mask or [[1]] * len(rewards))
    batch = Experience(
        index=list(range(len(rewards))) if index is None else index,
        rewards=torch.tensor(rewards),
        action_mask=marks,
        kl=torch.zeros(marks.shape),
    )
    return maker_of(args).compute_advantages_and_returns([batch])[0].advantages.tolist()


class Ids(unittest.TestCase):
    def test_the_action_mask_is_one_shorter_than_the_tokens(self):
        """
        openrlhf: place t of action_mask, log-probs and advantages speaks of id t + 1
        here: a mask is as long as the tokens; ``experience`` moves it, once
        why:  a mask that is moved twice, or never, trains on the header of a turn
        """
        found = bridge.response(golden_group()[0], GOLDEN_TASK, TOKENIZER)
        made = experience_of(found)
        length = made.sequences.shape[1]
        self.assertEqual(made.action_mask.shape[1], length - 1)
        self.assertEqual(made.rollout_log_probs.shape[1], length - 1)
        first = found["action_ranges"][0][0]
        self.assertEqual(made.action_mask[0].tolist().index(1), first - 1)

    def test_the_length_of_a_response_counts_what_tools_said(self):
        """
        openrlhf: response_length spans from the first to the last id of the assistant, and
              the overlong penalty is charged on it
        here: the sum of the mask is what the assistant wrote
        why:  a tool with a long answer would make the agent pay
        """
        made = experience_of(bridge.response(golden_group()[2], GOLDEN_TASK, TOKENIZER))
        self.assertEqual(made.response_length.tolist(), [82])
        self.assertEqual(int(made.action_mask.sum()), 40)
        args = SimpleNamespace(
            reward=SimpleNamespace(overlong_buffer_len=50, overlong_penalty_factor=1),
            rollout=SimpleNamespace(max_new_tokens=100),
        )
        apply_length_penalties([made], args)  # 40 ids would be free, 82 are 32 too many
        self.assertAlmostEqual(float(made.rewards), 0.7 - 32 / 50, places=6)

    def test_what_a_tool_said_is_encoded_apart_from_the_action(self):
        """
        openrlhf: the ids of an episode are those that were sampled, then the feedback's own;
              they are not what the tokenizer makes of the whole text
        here: the same: each author's text is encoded by itself
        why:  an id that joins two authors belongs to nobody; never encode an episode again
        """
        found = played(
            "joined", Script(said("347", "1")), environment_feedback="'lookup'"
        )
        text = TOKENIZER.decode(found["observation_tokens"])
        self.assertEqual(
            tokens([text]), found["observation_tokens"]
        )  # an end in between
        cut = cpu_stubs.Said(tokens(["Ans"]), [0.0] * len(tokens(["Ans"])), "Ans")
        found = played("apart", Script([cut] * 2), environment_feedback="'wer: '")
        again = tokens([TOKENIZER.decode(found["observation_tokens"])])
        self.assertNotEqual(again, found["observation_tokens"])

    def test_a_tool_that_says_an_end_of_turn_ends_its_turn(self):
        """
        openrlhf: feedback is text, and names of special tokens in it become special tokens
        here: ``feedback`` puts a space into each ``<|``, with which those names begin
        why:  a tool, or a page it fetched, could speak as the user or as the assistant
        """
        says = f"42{IM_END}"
        found = played("ends", Script(said("a", "b")), environment_feedback=repr(says))
        end = TOKENIZER.eos_token_id
        start, stop = found["action_ranges"][0][1], found["action_ranges"][1][0]
        self.assertIn(end, found["observation_tokens"][start:stop])
        seen = Observation("result", "call_1", "calculator", says)
        ours = bridge.feedback([seen])
        self.assertEqual(ours.count(IM_END), 1)  # that of the template
        self.assertNotIn(end, ordinary(says, TOKENIZER))
        # Our agent's tools say what the model called them, by any of those names.
        for name in TOKENIZER.all_special_tokens:
            call = render_call(name, {})
            found = play(GOLDEN_TASK, Script(said(call, "Answer: 1")), TOKENIZER)
            start, stop = found["action_ranges"][0][1], found["action_ranges"][1][0]
            inside = found["observation_tokens"][start:stop]
            special = [x for x in inside if x in TOKENIZER.all_special_ids]
            self.assertEqual(TOKENIZER.decode(special), OF_THE_TEMPLATE)
            self.assertIn(f"< {name[1:]}", TOKENIZER.decode(inside))

    def test_log_probs_of_the_sampler_are_not_kept_by_default(self):
        """
        openrlhf: rollout_log_probs is None unless is_correction_level is on; the old
              log-probs of the ratio are computed again by the trainer
        here: log-probs are recorded when a turn is drawn
        why:  what a trainer computes later is another program's number; see 04.7
        """
        path = agent_file("unlogged", step())
        actor = cpu_stubs.rollout_actor(Script(said("a", "b")), agent_func_path=path)
        params = SimpleNamespace(max_tokens=None, logprobs=None)
        work = actor.generate_responses("p", "", params, 64, TOKENIZER)
        self.assertIsNone(cpu_stubs.finished(work)[0]["rollout_log_probs"])


class Lengths(unittest.TestCase):
    def test_each_turn_may_use_all_that_is_left(self):
        """
        openrlhf: a turn's limit is max_len less the ids so far, whatever max_new_tokens says
        here: in our loop turn_tokens caps each turn
        why:  one endless turn uses up the episode; only an agent's own sampling_params help
        """
        script = Script(said("a", "b"))
        path = agent_file("budget", step())
        play(GOLDEN_TASK, script, TOKENIZER, 100, 8, agent_func_path=path)
        left = [100 - len(prompt) for prompt in script.prompts]
        self.assertEqual(script.budgets, left)
        self.assertGreater(min(left), 8)

    def test_a_long_prompt_loses_its_beginning(self):
        """
        openrlhf: a prompt longer than max_len less max_new_tokens is cut on the left, with a
              warning
        here: the question is in the label too, and max_len is far above what a prompt needs
        why:  without its header a question is another text
        """
        script = Script(said("a", "b"))
        path = agent_file("left", step())
        play(GOLDEN_TASK, script, TOKENIZER, 30, 20, agent_func_path=path)
        prompt, _ = playing.prompt_of(GOLDEN_TASK, TOKENIZER)
        self.assertEqual(script.prompts[0], tokens([prompt])[-10:])

    def test_the_executor_writes_into_the_settings_it_was_given(self):
        """
        openrlhf: max_tokens of the caller's sampling parameters is overwritten; who uses them
              for a longer prompt next has its beginning cut off
        here: each prompt gets a copy, as Ray would send one
        why:  seen in this chapter before the copy: questions without their first words
        """
        params = SimpleNamespace(max_tokens=None, logprobs=1)
        script = Script(said("a", "b", "c", "d"))
        path = agent_file("writes", step())
        actor = cpu_stubs.rollout_actor(script, agent_func_path=path)
        for prompt in ("short", "a much longer prompt than the one before"):
            work = actor.generate_responses(prompt, "", params, 64, TOKENIZER)
            cpu_stubs.finished(work)
        self.assertLess(len(script.prompts[2]), len(tokens([prompt])))

    def test_a_limit_as_large_as_the_whole_leaves_no_room_for_a_turn(self):
        """
        openrlhf: with max_new_tokens equal to max_len nothing is cut, for ids[-0:] are all
              ids; if they fill max_len, nothing is generated: reward 0, no action_ranges, no
              error
        here: the bridge refuses an episode in which the assistant wrote nothing
        why:  its 0 stands in the statistics of its group
        """
        path = agent_file("full", step())
        prompt, _ = playing.prompt_of(GOLDEN_TASK, TOKENIZER)
        length = len(tokens([prompt]))
        actor = cpu_stubs.rollout_actor(Script([]), agent_func_path=path)
        params = SimpleNamespace(max_tokens=length, logprobs=1)
        work = actor.generate_responses(prompt, "", params, length, TOKENIZER)
        found = cpu_stubs.finished(work)[0]
        self.assertEqual(found["observation_tokens"], tokens([prompt]))
        self.assertEqual((found["action_ranges"], found["reward"]), ([], 0))
        self.assertFalse(found["truncated"])
        with self.assertRaisesRegex(BridgeError, "expected at least one"):
            bridge.from_response({**found, "notes": {}, "tail_ids": []}, TOKENIZER)

    def test_an_episode_that_ran_out_of_room_is_not_called_truncated(self):
        """
        openrlhf: truncated is that of the last turn; if a tool's answer fills max_len, the
              episode is over and truncated is False
        here: finish_reason is length
        why:  the penalty for truncated samples never sees such an episode
        """
        path = agent_file(
            "room", step(done="False", environment_feedback="'word ' * 60")
        )
        found = play(
            GOLDEN_TASK, Script(said("a")), TOKENIZER, 64, agent_func_path=path
        )
        self.assertEqual(len(found["action_ranges"]), 1)
        self.assertFalse(found["truncated"])
        self.assertGreater(len(found["observation_tokens"]), 64)

    def test_nobody_tells_the_agent_that_a_turn_was_cut(self):
        """
        openrlhf: step gets the text of a turn that hit its limit like any other; the episode
              goes on, and a number that happens to be right so far is paid
        here: in our loop a cut turn is no answer and ends the episode;
              --reward.stop_properly_penalty_coef 0 takes the reward of a last turn away
        why:  what was cut off says nothing
        """
        episode = ACTS_WELL.run(GOLDEN_TASK, Limits(turn_tokens=12))
        self.assertEqual(episode.finish_reason, "length")
        script = script_of(episode, TOKENIZER)
        script.turns += said("Answer: 29842")
        found = play(GOLDEN_TASK, script, TOKENIZER)
        self.assertEqual(len(found["action_ranges"]), 2)
        self.assertFalse(found["truncated"])
        turn = said("Answer: 29842")[0]._replace(finish_reason="length")
        found = play(GOLDEN_TASK, Script([turn]), TOKENIZER)
        self.assertEqual((found["truncated"], found["reward"]), (True, 1.0))
        made = experience_of(found)
        args = SimpleNamespace(
            reward=SimpleNamespace(stop_properly_penalty_coef=0.0), rollout=None
        )
        apply_length_penalties([made], args)
        self.assertEqual(made.rewards.tolist(), [0.0])

    def test_there_is_no_limit_of_turns(self):
        """
        openrlhf: an episode goes on until step says done or max_len is used up
        here: our agent ends it after five turns
        why:  an agent that never answers costs most
        """
        count = 40
        found = played(
            "endless", Script(said(*["a"] * 999)), done=f"self.turns == {count}"
        )
        self.assertEqual(len(found["action_ranges"]), count)
        ours = play(GOLDEN_TASK, Script(said(*[CALL] * 9)), TOKENIZER)
        self.assertEqual(len(ours["action_ranges"]), 5)


class Agents(unittest.TestCase):
    def test_a_reward_that_is_a_plain_number_is_an_error(self):
        """
        openrlhf: step's rewards must be a tensor, for ``.item()`` is called; scores need not
        here: agent_func.py makes a tensor of float64
        why:  the error comes in the middle of a rollout, and names neither
        """
        with self.assertRaisesRegex(AttributeError, "'float' object has no attribute"):
            played("number", Script(said("a")), rewards="1.0")

    def test_an_error_in_step_ends_all_rollouts_of_its_prompt(self):
        """
        openrlhf: an exception in an agent is not caught: generate_responses fails, and with
              it the run
        here: what a model can cause is answered as text, never raised
        why:  a bad call is the model's fault, a bug is ours; only the second should stop
        """
        path = agent_file("raises", "raise RuntimeError('no disk')")
        with self.assertRaisesRegex(RuntimeError, "no disk"):
            play(GOLDEN_TASK, Script(said("a")), TOKENIZER, agent_func_path=path)
        broken = Script(said("<tool_call>{</tool_call>", "Answer: 1"))
        self.assertEqual(play(GOLDEN_TASK, broken, TOKENIZER)["reward"], 0.0)

    def test_the_chat_template_is_never_told_of_the_tools(self):
        """
        openrlhf: PromptDataset calls the template with the messages alone, no tools
        here: make_data.py --system writes their schemas into a first message
        why:  a model can't call what it never heard of
        """
        asked = []
        tokenizer = SimpleNamespace(
            apply_chat_template=lambda chat, **named: asked.append(named) or "text"
        )
        playing.prompt_of(GOLDEN_TASK, tokenizer)
        self.assertEqual(asked, [{"tokenize": False, "add_generation_prompt": True}])


class Rewards(unittest.TestCase):
    def reward_file(self, name, body):
        path = SCRATCH / f"{name}.py"
        path.write_text(f"def reward_func(queries, prompts, labels):\n    {body}\n")
        return str(path)

    def one_turn(self, name, body):
        path = self.reward_file(name, body)
        return play(GOLDEN_TASK, Script(said("a")), TOKENIZER, remote_rm_url=path)

    def test_rewards_add_up_and_the_rest_is_of_the_last_turn(self):
        """
        openrlhf: rewards are summed over turns; scores and extra_logs of all turns but the
              last are dropped
        here: nothing is paid before the end, and then all of it
        why:  a breakdown of the last turn does not add up to the reward
        """
        found = played(
            "sums",
            Script(said("a", "b")),
            scores="float(self.turns)",
            extra_logs="{'turn': self.turns}",
        )
        self.assertEqual(found["reward"], 2.0)
        self.assertEqual((found["scores"], found["extra_logs"]), (2.0, {"turn": 2}))

    def test_an_error_in_a_reward_function_is_only_logged(self):
        """
        openrlhf: an exception in reward_func is a line of the log at level INFO; the sample
              goes on with the reward None
        here: a reward that can't be computed raises, and names what is wrong
        why:  a scorer that always fails looks like a model without a reward
        """
        logging.disable(logging.NOTSET)
        try:
            with self.assertLogs(agent_logger, "INFO") as logged:
                found = self.one_turn("fails", "raise ValueError('no label')")
        finally:
            logging.disable(logging.WARNING)
        self.assertIn(
            "Failed to fetch reward from remote RM: no label", logged.output[-1]
        )
        self.assertEqual((found["reward"], found["scores"]), (None, None))

    def test_a_misspelt_key_of_a_reward_is_no_reward_either(self):
        """
        openrlhf: a dict without "rewards" leaves the reward None, and nothing is logged
        here: reward_func.py is tested through the real executor
        why:  the same: a spelling mistake should not look like a hard task
        """
        found = self.one_turn("misspelt", "return {'reward': 1.0}")
        self.assertIsNone(found["reward"])

    def test_one_reward_of_none_fails_far_from_its_cause(self):
        """
        openrlhf: if the first sample of a batch has no reward, a reward model is asked for;
              if another one has none, joining the batch fails on a missing method
        here: an unscored episode is refused by name, or left out, as the convention says
        why:  the error should say which one it is
        """
        made = [
            experience_of(self.one_turn(name, body))
            for name, body in (
                ("none", "raise ValueError"),
                ("one", "return {'rewards': 1.0}"),
            )
        ]
        self.assertIsNone(Experience.concat_experiences(made, 0).rewards)
        with self.assertRaises((AttributeError, TypeError)):
            Experience.concat_experiences(made[::-1], 0)

    def test_extra_logs_must_have_the_same_names_in_all_episodes(self):
        """
        openrlhf: an episode without one of the names makes the batch fall apart in the
              replay buffer: "Size of info[...] does not match batch_size"
        here: each term of the breakdown is there in every episode, 0.0 if it paid nothing
        why:  a name that only failures have would end a run at the first success
        """
        group = golden_group()[:2]
        fields = [bridge.response(x, GOLDEN_TASK, TOKENIZER) for x in group]
        fields[1]["extra_logs"] = {}
        whole = Experience.concat_experiences([experience_of(x) for x in fields], 0)
        with self.assertRaisesRegex(ValueError, r"Size of info\[right\]"):
            split_experience_batch(whole)

    def test_pass_at_k_is_read_from_rewards_not_from_scores(self):
        """
        openrlhf: eval's pass1 and passk are mean and maximum of rewards
        here: right is a term of its own in the breakdown, and success is told by it
        why:  with a price on calls, "pass4" is 0.9 for a task that is always solved
        """
        samples = [
            Experience(
                prompts=["p"], rewards=torch.tensor([0.9]), scores=torch.tensor([1.0])
            )
            for _ in range(4)
        ]
        found = compute_eval_metrics([(["tool-math"], ["p"], [""], [None])], samples, 4)
        self.assertAlmostEqual(found["eval_tool-math_pass4"], 0.9, places=6)

    def test_dynamic_filtering_reads_mean_scores_not_whether_rewards_differ(self):
        """
        openrlhf: a group stays if the mean of its scores lies between two bounds, both left
              out; with scores of 1 for right, four right answers of different price go
        here: "informative" keeps a group whose rewards differ
        why:  between 0.9 and 0.7 there is something to learn
        """
        group = [golden_group()[index] for index in (0, 2, 0, 2)]
        scripts = [script_of(episode, TOKENIZER) for episode in group]
        script = Script([turn for one in scripts for turn in one.turns])
        engine = cpu_stubs.rollout_actor(script, agent_func_path=str(playing.AGENT))
        prompt, label = playing.prompt_of(GOLDEN_TASK, TOKENIZER)
        rows = iter([([""], [prompt], [label], [None])])
        args = settings("--algo.dynamic_filtering_enable")
        cpu_stubs.without_ray()
        generator = SamplesGenerator(
            SimpleNamespace(args=args),
            rows,
            None,
            TOKENIZER,
            [cpu_stubs.Handle(engine)],
        )
        with cpu_stubs.hushed():
            kept, _, _ = generator._generate_vllm(rows, 1, True, max_len=MAX_LEN)
        self.assertEqual(kept, [])
        self.assertEqual(len(script.prompts), len(script.turns))  # all four were played


class Advantages(unittest.TestCase):
    def test_seven_equal_rewards_can_have_an_advantage(self):
        """
        openrlhf: seven float32 rewards of 1.2 get the advantage 0.9187 each, for the std of
              equal numbers is their rounding, and 1e-9 guards nothing
        here: equal rewards get exactly 0
        why:  nobody was better than anybody, and the policy is pushed all the same
        """
        for (value,) in advantages([1.2] * 7):
            # The mean is off by 2**-23, and so is each of them from it.
            apart = 2**-23
            std = apart * (7 / 6) ** 0.5
            self.assertAlmostEqual(abs(value), apart / (std + 1e-9), delta=1e-3)
        self.assertEqual(group_advantages([1.2] * 7, ["g"] * 7, COURSE), [0.0] * 7)

    def test_a_group_of_one_is_nan(self):
        """
        openrlhf: the program refuses groups of one; group_norm and rloo would give NaN, not
              the 0 that a remark in the program expects
        here: it gets 0
        why:  nothing was compared; one NaN ends a run in weights of NaN
        """
        for name in ("group_norm", "rloo"):
            ((value,),) = advantages([0.7], name)
            self.assertNotEqual(value, value)
        with self.assertRaisesRegex(
            AssertionError, "requires n_samples_per_prompt > 1"
        ):
            settings(
                *("--algo.advantage.estimator", "group_norm"),
                *("--rollout.n_samples_per_prompt", "1"),
            )
        self.assertEqual(group_advantages([0.7], ["g"], COURSE), [0.0])

    def test_a_group_is_whoever_stands_together(self):
        """
        openrlhf: rewards are cut into rows of n_samples_per_prompt; prompts are not looked at
        here: a group is named, and its members may stand anywhere
        why:  if one prompt has an episode less, all that follow are compared with strangers
        """
        rewards, names = [1.0, 0.0, 0.0, 1.0, 1.0, 1.0], [*"aaabbb"]  # three each
        theirs = [row[0] for row in advantages(rewards, "dr_grpo", size=2)]
        self.assertEqual(theirs, [0.5, -0.5, -0.5, 0.5, 0.0, 0.0])  # pairs
        ours = group_advantages(rewards, names, OPENRLHF.but(std="none"))
        self.assertEqual(ours[3:], [0.0] * 3)
        with self.assertRaisesRegex(RuntimeError, "shape .* is invalid"):
            advantages(rewards[:5], "dr_grpo", size=2)

    def test_the_index_says_where_an_episode_stands(self):
        """
        openrlhf: before groups are cut, rewards are put into the order of Experience.index;
              without an index it fails, with a wrong one the groups are others
        here: nothing but the group's name decides
        why:  who makes batches of their own has to write index as split_rollout_samples does
        """
        rewards = [1.0, 0.0, 0.0, 0.0]
        straight = advantages(rewards, "dr_grpo", size=2)
        moved = advantages(rewards, "dr_grpo", size=2, index=[0, 2, 1, 3])
        self.assertEqual([row[0] for row in straight], [0.5, -0.5, 0.0, 0.0])
        self.assertEqual([row[0] for row in moved], [0.5, 0.0, -0.5, 0.0])
        with self.assertRaises(TypeError):
            maker_of(settings()).compute_advantages_and_returns(
                [Experience(rewards=torch.ones(4))]
            )

    def test_what_a_tool_said_has_an_advantage(self):
        """
        openrlhf: returns run through places with mask 0, which get a number like the others;
              without whitening, those behind the last id of the assistant have 0; with it that
              0 is moved and scaled like the rest
        here: where the mask is 0 there is 0
        why:  compare advantages where the mask is 1; the loss looks nowhere else
        """
        rows = advantages([1.0, 0.0], "dr_grpo", mask=[[1, 0, 1, 0], [1, 0, 1, 0]])
        self.assertEqual(rows[0], [0.5, 0.5, 0.5, 0.0])
        # Whitened, by the mean 0.5 and the root 0.5 of the four places with a mark; what
        # was 0 behind the last id is moved with the rest.
        for name, mean in (("reinforce", 0.5), ("reinforce_baseline", 0.0)):
            rows = advantages([1.0, 0.0], name, mask=[[1, 0, 1, 0], [1, 0, 1, 0]])
            behind = (0 - mean) / 0.5
            for row, sign in zip(rows, (1.0, -1.0)):
                for value, wanted in zip(row, [sign, sign, sign, behind]):
                    self.assertAlmostEqual(value, wanted, places=6)

    def test_a_discount_counts_what_tools_said(self):
        """
        openrlhf: gamma decays the return at each place, tools' ids included; for all
              estimators but reinforce and gae it is set to 1, with a warning
        here: a masked place is passed over undecayed; flags refuses a discount
        why:  an action before a long answer of a tool would hardly see the reward
        """
        rows = advantages(
            [1.0, 0.0],
            "reinforce",
            mask=[[1, 0, 0, 1]] * 2,
            gamma=0.5,
            no_std_norm=True,
        )
        self.assertAlmostEqual((rows[0][0] - rows[1][0]), 0.5**3, places=6)
        rows = advantages([1.0, 0.0], "dr_grpo", mask=[[1, 0, 0, 1]] * 2, gamma=0.5)
        self.assertEqual(rows[0], [0.5] * 4)

    def test_the_clip_of_rewards_clips_advantages(self):
        """
        openrlhf: reward.clip_range, -10 to 10, is applied after the groups were compared
        here: flags sets it out of reach
        why:  one right among 128 has the advantage 11.2, and silently gets 10
        """
        rewards = [1.0] + [0.0] * 127
        self.assertEqual(advantages(rewards)[0], [10.0])
        self.assertGreater(group_advantages(rewards, ["g"] * 128, OPENRLHF)[0], 11.2)


class Settings(unittest.TestCase):
    def test_without_an_estimator_the_actor_is_loaded_again_as_a_critic(self):
        """
        openrlhf: the default estimator is gae; with an agent, the critic is then a second
              copy of the actor's model
        here: flags always names the estimator
        why:  a flag that is forgotten doubles the memory and is another algorithm
        """
        args = settings()
        self.assertEqual(args.algo.advantage.estimator, "gae")
        self.assertEqual(args.critic.model_name_or_path, args.actor.model_name_or_path)
        named = settings(*bridge.flags(OPENRLHF))
        self.assertIsNone(named.critic.model_name_or_path)

    def test_a_kl_is_charged_unless_it_is_switched_off(self):
        """
        openrlhf: kl.init_coef is 0.01 by default: a reference model is loaded, and k1 is taken
              off the reward of each id
        here: flags always says init_coef
        why:  GRPO as in 02 has no KL; and a model more is a matter of memory
        """
        args = settings("--algo.advantage.estimator", "group_norm")
        self.assertEqual((args.algo.kl.init_coef, args.algo.kl.estimator), (0.01, "k1"))
        self.assertFalse(args.algo.kl.use_loss)

    def test_dr_grpo_is_an_advantage_without_its_loss(self):
        """
        openrlhf: estimator dr_grpo leaves out the std; the loss stays a mean over tokens, and
              there is no constant to divide by
        here: unsaid names the aggregation
        why:  the constant is half of the paper's point
        """
        args = settings("--algo.advantage.estimator", "dr_grpo")
        self.assertEqual(args.actor.loss_agg_mode, "token-mean")
        constant = OPENRLHF.but(std="none", aggregation="constant", max_length=40)
        self.assertEqual(bridge.unsaid(constant)["aggregation"], "batch_mean")

    def test_gspo_takes_its_own_aggregation(self):
        """
        openrlhf: with policy_loss_type gspo, loss_agg_mode is ignored; it is a mean of means
        here: flags says seq-mean-token-mean beside gspo, and refuses another
        why:  a command should say what is done
        """
        loss = PolicyLoss(policy_loss_type="gspo", token_level_loss=True)
        self.assertFalse(loss.token_level_loss)
        with self.assertRaisesRegex(BridgeError, "aggregation='episode_mean'"):
            bridge.flags(OPENRLHF.but(ratio="sequence", log_ratio_clamp=None))

    def test_gspo_with_the_correction_has_another_ratio(self):
        """
        openrlhf: with is_correction_level on, gspo's ratio is to the sampler's log-probs
              instead of the old ones, and nothing is masked or clipped by the threshold
        here: is_correction_level stays off
        why:  one switch means two things
        """
        new, old, said_ = (torch.randn(3, 5, dtype=torch.float64) for _ in range(3))
        gains, mask = torch.ones(3, 5), torch.ones(3, 5)
        corrected = PolicyLoss(
            policy_loss_type="gspo",
            is_correction_level="token",
            is_correction_threshold=[0.99, 1.01],
        )(new, old, gains, mask, said_)
        plain = PolicyLoss(policy_loss_type="gspo")(new, said_, gains, mask)
        self.assertEqual(float(corrected[0]), float(plain[0]))

    def test_an_actor_that_is_given_a_model_can_not_be_called(self):
        """
        openrlhf: Actor(model) leaves out packing_samples, and forward then fails on it; only a
              name or a folder sets it
        here: train_grpo.py sets it to False
        why:  the table is no folder on a disk
        """
        actor = Actor(torch.nn.Linear(1, 1))
        row = torch.ones(1, 2, dtype=torch.int64)
        with self.assertRaisesRegex(AttributeError, "packing_samples"):
            actor(row, row[:, 1:], row)


class Training(unittest.TestCase):
    def trainer(self, *flags):
        """OpenRLHF's ActorPPOTrainer with an actor whose log-probs are given."""
        args = settings(*bridge.flags(OPENRLHF), *flags)
        logprobs = torch.nn.Parameter(
            torch.tensor([[-1.0, -2.0, -3.0], [-0.5, -9.0, -9.0]])
        )

        class Given(torch.nn.Module):
            def forward(self, sequences, *_, **__):
                return logprobs[: len(sequences)], None

        optimizer = torch.optim.SGD([logprobs], 0.0)
        strategy = train_grpo.cpu_strategy(args, optimizer)
        trainer = train_grpo.learner(strategy, Given(), optimizer).trainer
        trainer.actor = Given()
        return trainer, logprobs

    def batch(self, logprobs):
        mask = torch.tensor([[1, 1, 1], [1, 0, 0]])
        return Experience(
            sequences=torch.zeros(2, 4, dtype=torch.int64),
            attention_mask=torch.ones(2, 4, dtype=torch.int64),
            action_mask=mask,
            action_log_probs=logprobs.detach(),
            base_action_log_probs=torch.full((2, 3), -1.5),
            advantages=torch.zeros(2, 3),
            total_length=torch.tensor([4, 4]),
        )

    def test_a_kl_in_the_loss_is_a_mean_over_tokens_whatever_the_loss_is(self):
        """
        openrlhf: loss_agg_mode seq-mean-token-mean changes the policy's loss; the KL beside it
              stays a mean over tokens
        here: flags refuses the two together
        why:  one weight would stand before two kinds of mean
        """
        trainer, logprobs = self.trainer(
            *("--actor.loss_agg_mode", "seq-mean-token-mean", "--algo.kl.use_loss"),
            *("--algo.kl.init_coef", "0.5", "--algo.kl.estimator", "k1"),
        )
        batch = self.batch(logprobs)
        trainer.training_step(batch, kl_ctl=0.5, step=0)
        # k1 against -1.5: 0.5, -0.5, -1.5 and 1.0; by sequence it would be 0.25.
        self.assertAlmostEqual(float(batch.info["kl"]), -0.5 / 4, places=6)
        sequences = {"aggregation": "episode_mean", "empty_rows": "left_out"}
        both = OPENRLHF.but(
            kl_place="loss", kl_weight=0.5, mean_epsilon=1e-8, **sequences
        )
        with self.assertRaisesRegex(BridgeError, "kl_place='none'"):
            bridge.flags(both)

    def test_episodes_that_fill_no_micro_batch_are_dropped(self):
        """
        openrlhf: the replay buffer is read with drop_last: of seven episodes and micro-batches
              of two, one is not trained on, and nothing says so
        here: sizes in the commands divide each other
        why:  which one is lost is chance
        """
        trainer, logprobs = self.trainer("--train.micro_batch_size", "2")
        with cpu_stubs.no_cuda(), cpu_stubs.hushed():
            for rows in (2, 2, 2, 1):
                whole = self.batch(logprobs)
                part = {
                    name: value[:rows]
                    for name, value in vars(whole).items()
                    if isinstance(value, torch.Tensor)
                }
                trainer.replay_buffer.append(Experience(**part))
            seen = []
            trainer.training_step = lambda batch, *_: (
                seen.append(len(batch.action_mask))
                or {
                    "metrics": {"policy_loss": torch.tensor(0.0)},
                    "weights": {"policy_loss": "token"},
                    "num_samples": 1.0,
                    "num_action_tokens": 1.0,
                }
            )
            trainer.ppo_train(0.0)
        self.assertEqual((len(trainer.replay_buffer), seen), (7, [2, 2, 2]))


if __name__ == "__main__":
    unittest.main()
