"""Episodes through the real gateway: played by our agent, read back, the same.

The gateway is Agent Lightning's own application with its own lifespan, in this process; a
model server on 127.0.0.1 says what the assistants of our golden set say. Its schemas check
the bridge's dictionaries, and its local runner starts our agent's class.
"""

from __future__ import annotations

from checks.bridges.agent_lightning_world import (
    AGENT_CLASS,
    CONFIG,
    EXAMPLE,
    GOLDEN,
    GOLDEN_TASK,
    MODEL,
    Gateway,
    ModelServer,
    Table,
    Vocabulary,
    bridge,
    play,
    world,
)

# isort: split

import json
import os
import re
import unittest
from dataclasses import replace
from unittest import mock

import train_grpo
from agentlightning.controller.k8s_reconciler import build_job_spec
from agentlightning.controller.local_reconciler import (
    _build_env_from_map,
    _run_local_reconciler_worker,
)
from agentlightning.schemas import (
    EventCreate,
    ModelRequestData,
    RewardData,
    Rollout,
    RolloutCreate,
)
from omegaconf import OmegaConf

from agentic_rl.bridges.frameworks import BridgeError
from agentic_rl.evaluation import training_tasks
from agentic_rl.golden import LOOKUP_TASK
from agentic_rl.grpo import start
from agentic_rl.messages import parse_assistant, to_openai
from agentic_rl.tool_math import ToolMath


class TheSchemas(unittest.TestCase):
    def test_a_rollout_is_a_rollout_create_and_loses_nothing_in_it(self):
        fields = bridge.rollout(LOOKUP_TASK, 7, "0-0-0", AGENT_CLASS)
        kept = RolloutCreate.model_validate(fields).model_dump(exclude_none=True)
        self.assertEqual(kept, fields)

    def test_every_event_is_one_of_its_events(self):
        for name, (_, trajectory) in GOLDEN.items():
            for event in bridge.events(trajectory, Vocabulary()):
                self.assertEqual(EventCreate(**event).model_dump(), event, name)

    def test_a_model_call_has_its_well_known_form(self):
        for event in bridge.events(GOLDEN["two tools"][1], Vocabulary()):
            if event["event_type"] == bridge.MODEL_REQUEST:
                known = ModelRequestData.model_validate(event["data"])
                self.assertEqual(known.response, event["data"]["response"])

    def test_a_reward_has_its_well_known_form_and_no_field_beyond(self):
        *_, reward = bridge.events(GOLDEN["spam"][1], Vocabulary())
        self.assertEqual(RewardData(**reward["data"]).model_dump(), reward["data"])
        self.assertEqual(reward["data"]["value"], GOLDEN["spam"][1].reward)
        self.assertEqual(
            reward["data"]["message"], "right 1, calls -0.3, invalid_calls 0"
        )
        self.assertEqual(reward["data"]["reason"], "stop")


class TheGoldenSet(unittest.TestCase):
    """Each episode once through agent, gateway and model server."""

    @classmethod
    def setUpClass(cls):
        cls.whole, cls.trimmed = {}, {}
        with world() as made:
            for name in GOLDEN:
                cls.whole[name] = made.played(name, triplet=False)
                cls.trimmed[name] = made.gateway.events(name, triplet=True)
            cls.vocabulary = made.server.vocabulary
            cls.asked = made.server.asked

    def test_comes_back_from_whole_events_as_it_was(self):
        for name, (_, trajectory) in GOLDEN.items():
            back = bridge.from_events(self.whole[name], self.vocabulary)
            self.assertEqual(back, trajectory, name)

    def test_comes_back_from_triplets_as_it_was(self):
        for name, (_, trajectory) in GOLDEN.items():
            back = bridge.from_events(self.trimmed[name], self.vocabulary)
            self.assertEqual(back, trajectory, name)

    def test_the_bridge_writes_the_events_that_the_gateway_keeps(self):
        for name, (_, trajectory) in GOLDEN.items():
            ours = bridge.events(trajectory, self.vocabulary)
            theirs = self.whole[name]
            self.assertEqual(
                [event["event_type"] for event in theirs],
                [event["event_type"] for event in ours],
                name,
            )
            for mine, kept in zip(ours, theirs):
                if mine["event_type"] != bridge.MODEL_REQUEST:
                    self.assertEqual(kept["data"], mine["data"], name)

    def test_its_triplets_are_ours_read_off_either_form(self):
        for name, (_, trajectory) in GOLDEN.items():
            ours = bridge.triplets(bridge.events(trajectory, self.vocabulary))
            for events in (self.whole[name], self.trimmed[name]):
                self.assertEqual(bridge.triplets(events), ours, name)

    def test_the_row_of_an_episode_has_the_mask_of_its_trajectory(self):
        for name, (_, trajectory) in GOLDEN.items():
            (row,) = bridge.merge(bridge.triplets(self.trimmed[name]))
            mask = [*[0] * len(row.prompt_ids), *row.response_mask]
            # A token of the course is an id here, so the masks are one and the same.
            self.assertEqual(mask, trajectory.loss_mask[: len(mask)], name)
            self.assertNotIn(1, trajectory.loss_mask[len(mask) :], name)

    def test_the_model_is_asked_in_openais_form(self):
        for name, (_, trajectory) in GOLDEN.items():
            *_, last = (
                x for x in self.whole[name] if x["event_type"] == "model_request"
            )
            told = last["data"]["request"]["messages"]
            self.assertEqual(told, to_openai(trajectory.messages)[: len(told)], name)
            self.assertEqual(trajectory.messages[len(told)]["role"], "assistant")

    def test_the_tools_reach_the_model(self):
        schemas = ToolMath(GOLDEN_TASK).tools.schemas()
        self.assertEqual([body["tools"] for body in self.asked[:2]], [schemas] * 2)

    def test_a_breakdown_comes_back_with_its_reward(self):
        for name, (_, trajectory) in GOLDEN.items():
            score = bridge.score_of(self.trimmed[name])
            self.assertEqual(score.total, trajectory.reward, name)
            self.assertEqual(score.breakdown, trajectory.breakdown, name)


class TheRunner(unittest.TestCase):
    """What its local runner does with a rollout of ours, by its own functions."""

    def test_the_agents_environment_holds_task_and_seed(self):
        fields = bridge.rollout(LOOKUP_TASK, 7, "0-0-0", AGENT_CLASS)
        made = _build_env_from_map(
            fields["input"], fields["config"]["local"]["env_map"]
        )
        self.assertEqual(bridge.task_of(made["TASK"]), LOOKUP_TASK)
        self.assertEqual(made["SEED"], "7")

    def test_an_agent_that_fails_exits_with_one(self):
        told = {"AGL_OPENAI_BASE_URL": "", "AGL_EVENT_URL": "", "AGL_KEY": ""}
        with (
            mock.patch.dict(os.environ, {**told, "TASK": "no task", "SEED": "0"}),
            mock.patch("traceback.print_exc"),
        ):
            self.assertEqual(_run_local_reconciler_worker(AGENT_CLASS), 1)


class TheSettings(unittest.TestCase):
    """Those that the chapter's page explains stand in its own files."""

    server = ("host", "port", "key", "default_proxy.model_name")
    controller = (
        "runner_type",
        "agl_server.url",
        "agl_server.agent_url",
        "local_runner.maximum_size",
        "local_runner.poll_interval",
        "k8s_runner.namespace",
        "k8s_runner.max_jobs_per_minute",
        "k8s_runner.ttl_after_finished",
    )

    def test_they_are_there(self):
        for part, names in (("server", self.server), ("controller", self.controller)):
            config = OmegaConf.load(CONFIG / f"{part}.yaml")
            for name in names:
                missing = object()
                found = OmegaConf.select(config, name, default=missing)
                self.assertIsNot(found, missing, name)


class TheJob(unittest.TestCase):
    """The template of a Kubernetes job, filled in by its controller's own function."""

    def test_its_environment_holds_task_seed_and_addresses(self):
        fields = bridge.rollout(LOOKUP_TASK, 7, "0-0-0", AGENT_CLASS)
        template = (EXAMPLE / "k8s_job.yaml").read_text(encoding="utf-8")
        fields["config"]["k8s"] = {"job_template": template}
        status = {"created_at": 0.0, "updated_at": 0.0}
        config = OmegaConf.load(CONFIG / "controller.yaml")
        config.agl_server.agent_url = "http://gateway:8080"
        job = build_job_spec(
            Rollout.model_validate({**fields, "status": status}), config
        )
        (container,) = job["spec"]["template"]["spec"]["containers"]
        told = {item["name"]: item["value"] for item in container["env"]}
        self.assertEqual(bridge.task_of(told["TASK"]), LOOKUP_TASK)
        self.assertEqual(told["SEED"], "7")
        self.assertEqual(
            told["AGL_OPENAI_BASE_URL"],
            "http://gateway:8080/proxy/rollout/0-0-0/attempt/0/mode/train/openai/v1",
        )
        self.assertEqual(job["spec"]["activeDeadlineSeconds"], 60)
        self.assertEqual(
            job["spec"]["backoffLimit"], 0
        )  # one attempt, whatever happens


class YourOwnTask(unittest.TestCase):
    """The block of the chapter's page, through the gateway."""

    def block(self, page: str) -> str:
        text = (EXAMPLE / page).read_text(encoding="utf-8")
        (found,) = re.findall(r"(?ms)^```python\n(.*?)^```$", text)
        return found

    def test_both_pages_have_the_same_one(self):
        self.assertEqual(self.block("README.md"), self.block("README.en.md"))

    def test_it_is_played_and_paid(self):
        written: dict = {}
        exec(self.block("README.en.md"), written)
        for answer, reward in (("Friday", 1.0), ("Monday", 0.0)):
            with world([answer]) as made:
                fields = {**written["ROLLOUTS"][0], "rollout_id": "r"}
                RolloutCreate.model_validate(fields)
                told = _build_env_from_map(fields["input"], written["ENV_MAP"])

                def agent(ask, tell, told=told):
                    def post(url, body, key):
                        return (ask if url.endswith("/chat/completions") else tell)(
                            body
                        )

                    addresses = {
                        "AGL_OPENAI_BASE_URL": "",
                        "AGL_EVENT_URL": "events",
                        "AGL_KEY": "k",
                    }
                    with mock.patch.dict(os.environ, {**addresses, **told}):
                        written["post"] = post
                        written["DueDay"]().run()

                made.gateway.attempt({**fields, "is_train": True}, agent)
                self.assertEqual(made.gateway.state("r"), "succeeded")
                call, event = made.gateway.events("r", triplet=True)
                self.assertEqual(event["data"], {"value": reward, "source": "agent"})
                self.assertEqual(
                    made.server.asked[0]["messages"][0]["content"],
                    "When is order 17 due? Say only the day.",
                )
                self.assertEqual(len(bridge.triplets([call])), 1)


class TheLifecycle(unittest.TestCase):
    def test_an_agent_that_raises_makes_a_failed_rollout(self):
        def agent(ask, tell):
            raise ValueError("no answer")

        with world() as made:
            made.gateway.attempt(
                bridge.rollout(GOLDEN_TASK, 0, "r", AGENT_CLASS), agent
            )
            found = made.gateway("GET", "/api/rollouts/r")["rollout"]["status"]
        self.assertEqual(
            (found["state"], found["error_message"]), ("failed", "no answer")
        )

    def test_the_list_of_finished_ones_names_the_label(self):
        with world() as made:
            made.played("guess")
            page = made.gateway("GET", "/api/rollouts/terminal", after=0)
        self.assertEqual(
            page["items"],
            [
                {
                    "rollout_id": "guess",
                    "state": "succeeded",
                    "data_id": GOLDEN_TASK.id,
                    "is_train": True,
                }
            ],
        )


class WhateverAModelWrites(unittest.TestCase):
    """A text is not always the one that the course would write for its message."""

    texts = (
        '<tool_call>\n{"name": "calculator", "arguments": {}}\n</tool_call>',
        '<tool_call>{"name": "calculator", "arguments": [1]}</tool_call>',
        '<tool_call>{"name": "calc\nx", "arguments": {}}</tool_call>',
        '<tool_call>{"name": "calculator", "arguments": {"expression": "\\u0031"}}'
        "</tool_call>",
        '<think>a<think>b</think><tool_call>{"name": "calculator"}</tool_call>c</think>',
        'a<think>b</think><tool_call>{"name": "calculator"}</tool_call>',
        'a\ud800<tool_call>{"name": "calculator"}</tool_call>',
    )

    def test_the_episode_comes_back_as_the_agent_has_it(self):
        for text in self.texts:
            with world([text, "Answer: 29842"]) as made:
                seen = []
                made.gateway.attempt(
                    bridge.rollout(GOLDEN_TASK, 0, "r", AGENT_CLASS),
                    lambda ask, tell, seen=seen: seen.append(
                        play(GOLDEN_TASK, 0, ask, tell)
                    ),
                )
                self.assertEqual(made.gateway.state("r"), "succeeded", text)
                told = made.gateway.events("r", triplet=True)
                back = bridge.from_events(told, made.server.vocabulary)
                self.assertEqual(back.messages, seen[0].messages, text)
                self.assertEqual(back.tokens, seen[0].tokens, text)
                self.assertEqual(len(back.actions), 2, text)

    def test_without_the_text_another_one_for_it_splits_the_episode(self):
        """What a server without the field makes of it; our training leaves it out."""
        with world([self.texts[0], "Answer: 29842"]) as made:

            def agent(ask, tell):
                def plain(body):
                    response = ask(body)
                    del response["choices"][0]["text"]
                    return response

                play(GOLDEN_TASK, 0, plain, tell)

            fields = bridge.rollout(GOLDEN_TASK, 0, "r", AGENT_CLASS)
            made.gateway.attempt(fields, agent)
            self.assertEqual(made.gateway.state("r"), "succeeded")
            told = made.gateway.events("r", triplet=True)
            with self.assertRaisesRegex(BridgeError, "2 rows: a prompt was rewritten"):
                bridge.from_events(told, made.server.vocabulary)
            with mock.patch.object(train_grpo, "complain") as said:
                self.assertIsNone(train_grpo.read_back("r", told, made.server))
            said.assert_called_once()


class Learning(unittest.TestCase):
    def test_an_episode_that_can_not_be_read_back_is_left_out_and_counted(self):
        config = replace(train_grpo.CONFIG, updates=1)
        state = start(config)
        server = ModelServer(Table(state.policy, train_grpo.tasks()), Vocabulary())
        with server, Gateway(MODEL) as gateway:
            collect = train_grpo.in_process(gateway, server)
            kept = {}

            def without_two(wanted, version):
                found = collect(wanted, version)
                for place in (0, 9):
                    found[place] = None
                kept["rewards"] = [x.reward for x in found if x]
                kept["solved"] = [
                    train_grpo.right(x, job.task) for job, x in zip(wanted, found) if x
                ]
                return found

            with mock.patch.object(
                train_grpo, "group_advantages", wraps=train_grpo.group_advantages
            ) as compared:
                train_grpo.learn(state, config, without_two)
        (update,) = state.metrics
        self.assertEqual(update["unread"], 2)
        mean = sum(kept["rewards"]) / 30
        self.assertAlmostEqual(update["reward"], mean)
        self.assertAlmostEqual(update["success"], sum(kept["solved"]) / 30)
        groups = compared.call_args.args[1]
        self.assertEqual(groups, [0] * 7 + [1] * 7 + [2] * 8 + [3] * 8)

    def test_the_reward_rises_through_the_gateway(self):
        state = train_grpo.trained(replace(train_grpo.CONFIG, updates=5))
        rewards = [update["reward"] for update in state.metrics]
        self.assertLess(rewards[0], 0.3)
        self.assertGreater(rewards[-1], 0.9)

    def test_the_gateway_changes_nothing(self):
        """The same jobs asked of the model without any HTTP are the same episodes."""
        state = start(train_grpo.CONFIG)
        table = Table(state.policy, train_grpo.tasks())
        wanted = train_grpo.jobs(state, train_grpo.CONFIG, train_grpo.tasks())[::4]
        with ModelServer(table, Vocabulary()) as server, Gateway(MODEL) as gateway:
            episodes = train_grpo.in_process(gateway, server)(wanted, 0)
        for episode, job in zip(episodes, wanted):
            told = []

            def ask(body):
                said = table(body["messages"], body)
                (message,) = to_openai([parse_assistant(said.text)])
                choice = {"message": message, "finish_reason": "stop"}
                return {"choices": [{**choice, "choice": said.choice}]}

            alone = play(job.task, job.seed, ask, told.append)
            self.assertEqual(alone.messages, episode.messages)
            self.assertEqual(alone.actions, episode.actions)
            self.assertEqual(alone.tokens, episode.tokens)
            self.assertEqual(alone.reward, episode.reward)

    def test_log_probs_of_another_policy_are_an_error(self):
        state = start(train_grpo.CONFIG)
        episode = GOLDEN["one call"][1].fork()
        train_grpo.check_on_policy(state, [episode])
        state.policy.logits["hard/start"][0] += 0.1
        with self.assertRaisesRegex(SystemExit, "another policy"):
            train_grpo.check_on_policy(state, [episode])

    def test_the_model_reads_its_state_off_the_messages(self):
        for name, (task, trajectory) in GOLDEN.items():
            table = Table(start(train_grpo.CONFIG).policy, [task])
            spoken = [
                place
                for place, message in enumerate(trajectory.messages)
                if message["role"] == "assistant"
            ]
            found = [table.world(trajectory.messages[:i]).state for i in spoken]
            ours = [action["state"] for action in trajectory.actions]
            self.assertEqual(found, ours, name)

    def test_all_tasks_survive_the_environment(self):
        for task in training_tasks():
            self.assertEqual(bridge.task_of(json.dumps(task.to_dict())), task)


class WhatIsRefused(unittest.TestCase):
    def test_a_rollout_without_notes(self):
        with world(["Answer: 1"]) as made:
            made.ask(made.rollout())
            with self.assertRaisesRegex(BridgeError, "0 trajectory_notes"):
                bridge.from_events(made.gateway.events("r"), made.server.vocabulary)

    def test_a_model_call_that_nobody_noted(self):
        with world() as made:
            made.played("guess")
            made.says("Answer: 1")
            made.ask("guess", "And 2 + 2?")
            with self.assertRaisesRegex(
                BridgeError, "2 model requests for 1 decisions"
            ):
                bridge.from_events(made.gateway.events("guess"), made.server.vocabulary)

    def test_an_episode_played_for_validation_can_not_be_read_back(self):
        with world(["Answer: 1"]) as made:
            fields = {
                **bridge.rollout(GOLDEN_TASK, 0, "r", AGENT_CLASS),
                "is_train": False,
            }
            made.gateway.attempt(
                fields, lambda ask, tell: play(GOLDEN_TASK, 0, ask, tell)
            )
            self.assertEqual(made.gateway.state("r"), "succeeded")
            with self.assertRaisesRegex(BridgeError, "mode val"):
                bridge.from_events(made.gateway.events("r"), made.server.vocabulary)


if __name__ == "__main__":
    unittest.main()
