"""What a reader of verl 0.9.1 would not guess, each pinned by calling it.

The text of each test is a row of the chapter's table: what verl does, what is done here,
and why.
"""

from __future__ import annotations

from checks.bridges.verl_world import (
    CONFIG,
    SCRATCH,
    TOKENIZER,
    TOOLS_FILE,
    AgentLoopOutput,
    Server,
    bridge,
    config,
    managed,
    objects,
    play,
    quiet,
    row_of,
    said,
    text_of,
    tools,
    torch,
)

# isort: split

import contextlib
import copy
import io
import unittest
from dataclasses import replace

import pyarrow
from omegaconf.errors import ConfigAttributeError
from tool_math_tools import Calculator
from verl.tools.tool_registry import load_all_tools
from verl.trainer.ppo import core_algos
from verl.utils.dataset.rl_dataset import RLHFDataset
from verl.utils.reward_score import default_compute_score
from verl.workers.config import MultiTurnConfig

from agentic_rl.advantage import group_advantages
from agentic_rl.agent_loop import Limits
from agentic_rl.bridges.frameworks import BridgeError
from agentic_rl.conventions import COURSE, VERL
from agentic_rl.golden import GOLDEN_TASK, LOOKUP_TASK, golden_group, golden_set
from agentic_rl.messages import parse_assistant
from agentic_rl.scripted import ACTS_WELL, scripted
from agentic_rl.tool_math import CALCULATOR, lookup_tool

CALL = '<tool_call>{"name": "calculator", "arguments": {"expression": "347 * 86"}}</tool_call>'
BROKEN = '<tool_call>{"name": "calculator", "arguments": {"expression": "347'
BROKEN += "</tool_call>"
MULTI_TURN = "actor_rollout_ref.rollout.multi_turn"


def advantages(name: str, rewards: list[float]) -> list[float]:
    """Of one group, one id an episode, by an estimator of verl, in float32 as it has it."""
    estimate = core_algos.get_adv_estimator_fn(name)
    values, _ = estimate(
        token_level_rewards=torch.tensor([[reward] for reward in rewards]),
        response_mask=torch.ones(len(rewards), 1, dtype=torch.int64),
        index=objects(["g"] * len(rewards)),
        config=CONFIG.algorithm,
    )
    return values.flatten().tolist()


def with_class(cls: type, name: str) -> list:
    """The tools, the one of this name turned into one of another class."""
    found = [copy.copy(tool) for tool in tools()]
    next(tool for tool in found if tool.name == name).__class__ = cls
    return found


class Advantages(unittest.TestCase):
    def test_a_group_of_one_gets_its_raw_reward(self):
        """
        verl: grpo and rloo give an episode without peers its reward as its advantage
        here: it gets 0
        why:  nothing was compared; a positive reward would be reinforced whatever it is
        """
        self.assertAlmostEqual(advantages("rloo", [0.7])[0], 0.7, places=6)
        self.assertAlmostEqual(advantages("grpo", [0.7])[0], 0.7, places=5)
        self.assertEqual(advantages("rloo_vectorized", [0.7]), [0.0])
        self.assertEqual(group_advantages([0.7], ["g"], COURSE), [0.0])

    def test_seven_equal_rewards_can_have_an_advantage(self):
        """
        verl: seven float32 rewards of 1.2 get the advantage 0.1056 each
        here: equal rewards get exactly 0
        why:  the mean is off by one rounding, and the quotient of noise and 1e-6 is a signal
        """
        for value in advantages("grpo", [1.2] * 7):
            self.assertAlmostEqual(value, 0.1056, delta=5e-4)
        self.assertEqual(group_advantages([1.2] * 7, ["g"] * 7, COURSE), [0.0] * 7)

    def test_whitening_makes_a_signal_of_rounding_too(self):
        """
        verl: reinforce_plus_plus divides the rounding of seven equal rewards by 1e-4
        here: equal values are whitened to exactly 0
        why:  the same: noise must not be scaled up
        """
        values = advantages("reinforce_plus_plus", [1.2] * 7)
        self.assertGreater(max(map(abs, values)), 1e-4)

    def test_a_reward_where_the_mask_is_zero_is_lost(self):
        """
        verl: the reward stands on the last id of the response; if a tool wrote that id,
              reinforce_plus_plus and remax see no reward at all
        here: a response ends with the last id that the assistant wrote
        why:  an estimator that reads masked places must find the reward at an open one
        """
        for mask, seen in (([1, 1, 1], True), ([1, 1, 0], False)):
            _, returns = core_algos.compute_reinforce_plus_plus_outcome_advantage(
                torch.tensor([[0.0, 0.0, 1.0]]), torch.tensor([mask]), CONFIG.algorithm
            )
            self.assertEqual(bool(returns.any()), seen)
            _, returns = core_algos.compute_remax_outcome_advantage(
                torch.tensor([[0.0, 0.0, 1.0]]), torch.zeros(1), torch.tensor([mask])
            )
            self.assertEqual(bool(returns.any()), seen)
        for _, trajectory in golden_set().values():
            self.assertEqual(
                bridge.output(trajectory, TOKENIZER)["response_mask"][-1], 1
            )

    def test_one_reward_of_nan_takes_the_whole_group(self):
        """
        verl: a reward of NaN makes every advantage of its group NaN, without a word
        here: a reward that is no finite number is an error
        why:  one broken scorer would end a run in weights of NaN
        """
        self.assertTrue(
            all(x != x for x in advantages("grpo", [0.5, float("nan"), 1.0]))
        )

    def test_an_episode_without_a_reward_takes_the_rewards_of_its_batch(self):
        """
        verl: a score of None passes the reward manager; the batch then has no rm_scores,
              and the trainer fails far from the cause
        here: an unscored episode next to scored ones is refused by name
        why:  the error should say which one it is
        """
        fields = bridge.output(golden_group()[0], TOKENIZER)
        output = AgentLoopOutput(**{**fields, "reward_score": None})
        self.assertNotIn("rm_scores", output.as_dict())
        reward_file = SCRATCH / "unscored.py"
        reward_file.write_text("def compute_score(**_):\n    return {'score': None}\n")
        path = f"reward.custom_reward_function.path={reward_file}"
        self.assertIsNone(managed(GOLDEN_TASK, output, config(path))["reward_score"])

    def test_the_constant_of_dr_grpo_is_the_width_of_the_batch(self):
        """
        verl: seq-mean-token-sum-norm divides by the padded length of what it is given,
              unless loss_scale_factor is set: a longer neighbour makes a loss smaller
        here: overrides always sets loss_scale_factor
        why:  a constant should be one
        """
        for width in (2, 4):
            mask = torch.tensor([[1, 1, *[0] * (width - 2)]])
            value = core_algos.agg_loss(
                torch.ones(1, width), mask, "seq-mean-token-sum-norm"
            )
            self.assertAlmostEqual(float(value), 2 / width)
        wanted = VERL.but(aggregation="constant", max_length=40, empty_rows="counted")
        self.assertIn(
            "actor_rollout_ref.actor.loss_scale_factor=40", bridge.overrides(wanted)
        )


class Calls(unittest.TestCase):
    def test_calls_beyond_the_limit_are_dropped_in_silence(self):
        """
        verl: max_parallel_calls is 1; the second call of a turn is not run, not answered
              and not logged, and is trained on as what the assistant wrote
        here: every call is answered; the chapter sets max_parallel_calls
        why:  a model that gets no answer to a call can't learn what the call does
        """
        one = config(f"{MULTI_TURN}.max_parallel_calls=1")
        with self.assertNoLogs(level="WARNING"):
            output = play(GOLDEN_TASK, Server(said(CALL + CALL, "Answer: 29842")), one)
        self.assertEqual(len(output.extra_fields["tool_rewards"]), 1)
        self.assertEqual(text_of(output, 1)[0].count("<tool_call>"), 2)

    def test_a_call_that_is_no_json_ends_the_episode(self):
        """
        verl: a malformed call is dropped; if the turn has no other, the episode is over
        here: it is answered with what is wrong, costs 0.2 and the episode goes on
        why:  to repair a call is a thing to learn
        """
        with self.assertLogs(level="ERROR") as logged:
            output = play(GOLDEN_TASK, Server(said(BROKEN)))
        self.assertIn("Failed to decode tool call", logged.output[0])
        self.assertEqual(output.num_turns, 2)
        ours = scripted("broken JSON").run(GOLDEN_TASK)
        self.assertEqual([seen.kind for seen in ours.observations], ["invalid_call"])

    def test_a_call_that_is_no_json_beside_a_good_one_is_never_answered(self):
        """
        verl: of a good and a malformed call, only the good one is answered
        here: both are
        why:  the same
        """
        output = play(GOLDEN_TASK, Server(said(BROKEN + CALL, "Answer: 29842")))
        self.assertEqual(output.extra_fields[bridge.TOOL_KINDS], ["result"])
        self.assertEqual(text_of(output, 0)[0].count("<|im_start|>tool"), 1)

    def test_a_call_drafted_in_a_thought_is_run(self):
        """
        verl: format hermes takes every well-formed <tool_call>, inside <think> too
        here: a call inside a thought is no call
        why:  a thought is no act
        """
        turn = f"<think>perhaps {CALL}, but no</think>Answer: 29842"
        output = play(GOLDEN_TASK, Server(said(turn, "Answer: 29842")))
        self.assertEqual(output.extra_fields[bridge.TOOL_KINDS], ["result"])
        self.assertEqual(parse_assistant(turn).get("tool_calls"), None)

    def test_a_tool_that_crashes_is_an_observation(self):
        """
        verl: an exception in create or execute becomes text for the model, and a warning
        here: a wrong row of data is an error of the bridge; look for the warning
        why:  a bug in a tool looks like a hard task
        """

        class Crashes(Calculator):
            async def execute(self, instance_id, parameters, **kwargs):
                raise RuntimeError("no disk")

        with self.assertLogs(level="WARNING"):
            output = play(
                GOLDEN_TASK,
                Server(said(CALL, "Answer: 1")),
                with_tools=with_class(Crashes, "calculator"),
            )
        self.assertIn(
            "Error executing tool 'calculator': no disk", text_of(output, 0)[0]
        )
        self.assertEqual(output.extra_fields["tool_rewards"], [0.0])

    def test_what_execute_pays_only_lies_in_extra_fields(self):
        """
        verl: the reward that execute returns is put into extra_fields["tool_rewards"] and
              never added to anything
        here: our tools pay nothing; the whole episode is scored
        why:  our prices are charged on a right answer only, which no call can know
        """

        class Pays(Calculator):
            async def execute(self, instance_id, parameters, **kwargs):
                answer, _, more = await super().execute(
                    instance_id, parameters, **kwargs
                )
                return answer, 5.0, more

        output = play(
            GOLDEN_TASK,
            Server(said(CALL, "Answer: 29842")),
            with_tools=with_class(Pays, "calculator"),
        )
        self.assertEqual(output.extra_fields["tool_rewards"], [5.0])
        self.assertIsNone(output.reward_score)
        self.assertAlmostEqual(managed(GOLDEN_TASK, output)["reward_score"], 0.9)

    def test_calc_reward_is_never_called(self):
        """
        verl: BaseTool.calc_reward is part of the interface, and nothing calls it
        here: it is left as it is
        why:  a reward written there would be silently missing
        """

        class Refuses(Calculator):
            async def calc_reward(self, instance_id, **kwargs):
                raise AssertionError("called")

        with self.assertNoLogs(level="WARNING"):
            play(
                GOLDEN_TASK,
                Server(said(CALL, "Answer: 29842")),
                with_tools=with_class(Refuses, "calculator"),
            )

    def test_a_tool_is_made_and_let_go_for_each_single_call(self):
        """
        verl: create, execute and release run for every call, not for every episode
        here: what a tool must know comes from the row; what it leaves goes to agent_data
        why:  state kept in an instance is gone at the next call
        """
        made: list[str] = []

        class Counts(Calculator):
            async def create(self, instance_id=None, **kwargs):
                found = await super().create(instance_id, **kwargs)
                made.append(found[0])
                return found

        play(
            GOLDEN_TASK,
            Server(said(CALL, CALL, "Answer: 29842")),
            with_tools=with_class(Counts, "calculator"),
        )
        self.assertEqual(len(set(made)), 2)


class Ends(unittest.TestCase):
    def test_there_is_no_limit_of_turns_by_default(self):
        """
        verl: max_assistant_turns and max_user_turns are unset: only the length ends it
        here: five assistant turns; the chapter sets max_assistant_turns=5
        why:  an agent that never answers costs most
        """
        none = config(f"{MULTI_TURN}.max_assistant_turns=null")
        output = play(GOLDEN_TASK, Server(said(*[CALL] * 7, "Answer: 29842")), none)
        self.assertEqual(output.num_turns, 16)

    def test_a_limit_of_user_turns_counts_the_tools_turns(self):
        """
        verl: max_user_turns=1 ends the episode with the turn after the first tool answer
        here: max_turns counts the assistant's turns
        why:  no user says anything in these episodes
        """
        one = config(f"{MULTI_TURN}.max_user_turns=1")
        output = play(GOLDEN_TASK, Server(said(CALL, CALL)), one)
        self.assertEqual(len(output.extra_fields["tool_rewards"]), 1)

    def test_the_calls_of_the_last_turn_are_not_run(self):
        """
        verl: at max_assistant_turns the loop stops before it reads the turn's calls
        here: they are run and answered, and then the episode is over
        why:  ours keeps each call with its answer; neither of them is paid
        """
        one = config(f"{MULTI_TURN}.max_assistant_turns=1")
        output = play(GOLDEN_TASK, Server(said(CALL)), one)
        self.assertEqual(output.extra_fields["tool_rewards"], [])
        ours = ACTS_WELL.run(GOLDEN_TASK, Limits(max_turns=1))
        self.assertEqual(len(ours.observations), 1)
        self.assertEqual(managed(GOLDEN_TASK, output)["reward_score"], 0.0)

    def test_a_tools_answer_is_cut_in_the_middle_by_characters(self):
        """
        verl: max_tool_response_length is 256 characters, not ids; the middle goes, and
              a long number comes back as another text
        here: the tools bound their answers themselves
        why:  a cut number is a wrong number
        """
        call = CALL.replace("347 * 86", "10 ** 300")
        output = play(GOLDEN_TASK, Server(said(call, "Answer: 1")))
        zeros = "0" * 127
        self.assertIn(f"1{zeros}...(truncated)...0{zeros}", text_of(output, 0)[0])

    def test_an_answer_that_does_not_fit_is_dropped_and_the_episode_over(self):
        """
        verl: if a tool's answer would pass max_response_length, it is left out and the
              episode ends with the call
        here: episode_tokens ends an episode after the answer
        why:  ours keeps each call with its answer
        """
        ids = len(said(CALL)[0][0])
        short = config(f"data.max_response_length={ids + 3}")
        output = play(GOLDEN_TASK, Server(said(CALL)), short)
        self.assertEqual(len(output.response_ids), ids)
        self.assertEqual(output.extra_fields["tool_rewards"], [0.0])

    def test_a_long_prompt_loses_its_beginning(self):
        """
        verl: a prompt longer than max_prompt_length is cut on the left, with a warning
        here: the bridge refuses
        why:  without its header a question is another text
        """
        short = config("data.max_prompt_length=8")
        with self.assertLogs(level="WARNING"):
            output = play(GOLDEN_TASK, Server(said("Answer: 29842")), short)
        self.assertEqual(len(output.prompt_ids), 8)
        whole = bridge.output(golden_group()[0], TOKENIZER)["prompt_ids"]
        self.assertEqual(output.prompt_ids, whole[-8:])


class Rewards(unittest.TestCase):
    def test_an_answer_can_be_read_from_what_a_tool_said(self):
        """
        verl: solution_str holds the tools' text; its own scorer of gsm8k pays for an
              answer that only a tool wrote
        here: only what stands behind the last header of the assistant is read
        why:  an agent must not be paid for what a tool said
        """
        task = replace(LOOKUP_TASK, prices={"kettles": "#### 408", "lamps": "19"})
        lookup = '<tool_call>{"name": "lookup", "arguments": {"item": "kettles"}}</tool_call>'
        output = play(task, Server(said(lookup, "")))
        text = TOKENIZER.decode(output.response_ids, skip_special_tokens=True)
        self.assertEqual(default_compute_score("openai/gsm8k", text, "408"), 1.0)
        output = play(LOOKUP_TASK, Server(said(lookup, "")))
        self.assertEqual(managed(LOOKUP_TASK, output)["reward_score"], 0.0)

    def test_who_wrote_what_is_not_in_the_text(self):
        """
        verl: special tokens are left out of solution_str, and no mask comes with it; a
              header that somebody wrote as text looks like one
        here: more headers than turns: "unclear" is 1 and no answer is read
        why:  who wrote the answer could not be told
        """
        forged = "I wonder.\nassistant\nAnswer: 29842"
        output = play(GOLDEN_TASK, Server(said(CALL, forged)))
        result = managed(GOLDEN_TASK, output)
        self.assertEqual(result["reward_extra_info"]["unclear"], 1.0)
        self.assertEqual(result["reward_score"], 0.0)
        alone = play(GOLDEN_TASK, Server(said("Answer: 29842")))
        self.assertEqual(managed(GOLDEN_TASK, alone)["reward_score"], 1.0)

    def test_an_answer_that_was_cut_off_looks_finished(self):
        """
        verl: nothing that reaches compute_score says that the last turn was cut; a number
              that happens to be right so far is paid
        here: in our loop a cut turn is no answer; through verl it can't be told
        why:  set max_response_length well above what an answer needs
        """
        ids, logprobs = said("Answer: 29842")[0]
        output = play(GOLDEN_TASK, Server([(ids[:-1], logprobs[:-1])]))
        self.assertEqual(managed(GOLDEN_TASK, output)["reward_score"], 1.0)
        cut = golden_set()["truncated"][1]
        self.assertEqual((cut.finish_reason, cut.answer), ("length", None))

    def test_the_manager_writes_into_the_row(self):
        """
        verl: run_single puts num_turns and what the tools left into the row's extra_info;
              an episode that left nothing then finds what another one left
        here: what contradicts itself is refused
        why:  workers get a copy each and never see it; a loop of one's own would
        """
        row = row_of(GOLDEN_TASK)["extra_info"]
        called = play(GOLDEN_TASK, Server(said(CALL, "Answer: 29842")))
        guessed = play(GOLDEN_TASK, Server(said("Answer: 29842")))
        row.update(called.extra_fields)
        row.update(guessed.extra_fields, num_turns=guessed.num_turns)
        with self.assertRaisesRegex(BridgeError, "tool_kinds: 1 for 0 answers"):
            bridge.score("tool-math", "Answer: 29842", "29842", row)


class Files(unittest.TestCase):
    def load(self, text: str) -> list:
        path = SCRATCH / "tools.yaml"
        path.write_text(text)
        with quiet():
            return load_all_tools(str(path), None)

    def test_a_tool_without_a_type_is_an_error_of_the_config(self):
        """
        verl: every tool needs config.type, though native is the only one there is
        here: tool_config.yaml has it
        why:  the error is a ConfigAttributeError that names no tool
        """
        text = TOOLS_FILE.read_text().replace(
            "      type: native\n", "      speed: 1\n"
        )
        self.assertRaises(ConfigAttributeError, self.load, text)

    def test_a_tool_prints_its_schema_when_it_is_made(self):
        """
        verl: BaseTool.__init__ prints the schema, once a tool, worker and data set
        here: the scripts catch it
        why:  it is noise in a log
        """
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            load_all_tools(str(TOOLS_FILE), None)
        self.assertEqual(out.getvalue().count('"type": "function"'), 2)

    def test_a_schema_loses_what_verl_has_no_field_for(self):
        """
        verl: additionalProperties, and any other key it does not know, is dropped
        here: the tool itself refuses an argument that it does not know
        why:  the model is never told that other arguments are wrong
        """
        for tool, ours in zip(tools(), (CALCULATOR, lookup_tool({}))):
            self.assertIn("additionalProperties", str(ours.schema()))
            self.assertNotIn("additionalProperties", str(tool.tool_schema.model_dump()))
        extra = CALL.replace('"}}', '", "digits": 3}}')
        output = play(GOLDEN_TASK, Server(said(extra, "Answer: 1")))
        self.assertEqual(output.extra_fields[bridge.TOOL_KINDS], ["invalid_call"])

    def test_a_wrong_path_of_the_tools_is_only_a_warning_of_the_data_set(self):
        """
        verl: data.tool_config_path follows rollout.multi_turn.tool_config_path unless it is
              set; if no tools can be loaded from it, prompts are measured without them
        here: only the rollout's is set
        why:  set alone, the data set's path gives the loop no tools
        """
        rollout = config(f"{MULTI_TURN}.tool_config_path={TOOLS_FILE}")
        self.assertEqual(rollout.data.tool_config_path, str(TOOLS_FILE))
        alone = config(f"data.tool_config_path={TOOLS_FILE}")
        self.assertIsNone(alone.actor_rollout_ref.rollout.multi_turn.tool_config_path)
        path = SCRATCH / "one.json"
        path.write_text('{"prompt": [{"role": "user", "content": "?"}]}\n')
        wrong = config("data.tool_config_path=nowhere.yaml")
        with quiet(), self.assertLogs(level="WARNING"):
            found = RLHFDataset([str(path)], TOKENIZER, wrong.data)
        self.assertIsNone(found.tool_schemas)

    def test_price_lists_as_objects_get_the_items_of_all_rows(self):
        """
        verl: rows come from parquet, where a column has one type: an object whose keys
              differ comes back with the keys of all rows, and None for what it had not
        here: a price list is text, and so is a task
        why:  a tool would sell what is not on its list, for None
        """
        lists = [{"prices": {"kettles": "34"}}, {"prices": {"lamps": "19"}}]
        back = pyarrow.Table.from_pylist(lists).to_pylist()
        self.assertEqual(back[0], {"prices": {"kettles": "34", "lamps": None}})
        rows = list(bridge.rows([LOOKUP_TASK, GOLDEN_TASK], "train"))
        self.assertEqual(pyarrow.Table.from_pylist(rows).to_pylist(), rows)


class Defaults(unittest.TestCase):
    def test_the_limits_are_what_the_rows_above_say(self):
        limits = MultiTurnConfig()
        self.assertEqual(limits.max_parallel_calls, 1)
        self.assertEqual(limits.max_tool_response_length, 256)
        self.assertEqual(
            (limits.max_assistant_turns, limits.max_user_turns), (None, None)
        )


class TheTable(unittest.TestCase):
    def test_each_surprise_says_what_it_is_what_is_done_and_why(self):
        for case in (Advantages, Calls, Ends, Rewards, Files):
            for name in unittest.TestLoader().getTestCaseNames(case):
                text = getattr(case, name).__doc__ or ""
                for label in ("verl: ", "here: ", "why:  "):
                    self.assertEqual(text.count(label), 1, (name, label))


if __name__ == "__main__":
    unittest.main()
