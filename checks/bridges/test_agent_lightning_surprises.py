"""What a reader of Agent Lightning 1.0.2 would not guess, each pinned by calling it.

Each test is a row of the chapter's tables, which say what is done here and why. What its verl
adapter does is in test_verl_adapter.py.
"""

from __future__ import annotations

from checks.bridges.agent_lightning_world import (
    AGENT_CLASS,
    CONFIG,
    GOLDEN_TASK,
    MODEL,
    Gateway,
    Refused,
    bridge,
    play,
    world,
)

# isort: split

import importlib.metadata
import unittest
from unittest import mock

import agentlightning
from agentlightning.controller.local_reconciler import _build_env_from_map
from agentlightning.schemas import Event, Rollout
from agentlightning.server import proxy
from agentlightning.verl.agl_rollout_manager import (
    AglRolloutManagerBase,
    EnqueuedRollout,
)
from omegaconf import OmegaConf

from agentic_rl.bridges.frameworks import BridgeError
from agentic_rl.reward import Score


def kinds(events: list) -> list[str]:
    return [event["event_type"] for event in events]


class Manager(AglRolloutManagerBase):
    """Its manager, asking a gateway in this process."""

    def __init__(self, gateway: Gateway):
        self.gateway, self._hooks = gateway, None

    def _get_events(self, rollout_id, *, format=None, **_):
        found = self.gateway.events(rollout_id, triplet=format == "triplet")
        return [Event.model_validate(event) for event in found]

    def completed(self, name: str):
        """What its trainer gets of a rollout."""
        found = self.gateway("GET", f"/api/rollouts/{name}")["rollout"]
        asked = EnqueuedRollout(
            data_id="g", rollout_id=name, step=0, sample_idx_in_step=0, enqueue_time=0
        )
        return self._build_completed_rollout(asked, Rollout.model_validate(found))


class Triplets(unittest.TestCase):
    def test_a_prompt_that_was_asked_twice_leaves_its_last_answer(self):
        with world(["Answer: 1", "Answer: 2"]) as made:
            made.ask(made.rollout())
            made.ask("r")
            whole, trimmed = made.gateway.events("r"), made.gateway.events("r", True)
            self.assertEqual((len(whole), len(trimmed)), (2, 1))
            (call,) = bridge.triplets(whole)
            self.assertEqual(
                call.response_ids, trimmed[0]["data"]["response_token_ids"]
            )
            text = made.server.vocabulary.decode(call.response_ids)
            self.assertEqual(text, "Answer: 2<|im_end|>")

    def test_the_triplets_of_a_reward_keep_value_source_and_reason(self):
        score = Score(0.5, {"right": 1.0, "calls": -0.5})
        with world() as made:
            made.rollout()
            for event in bridge.score_events(score, "stop"):
                made.tell("r", event["event_type"], **event["data"])
            made.tell("r", "reward", value=0.5, breakdown={"right": 1.0})
            parts, whole, stuffed = made.gateway.events("r", True)
            self.assertEqual(
                whole["data"], {"value": 0.5, "source": "agent", "reason": "stop"}
            )
            self.assertEqual(stuffed["data"], {"value": 0.5})
            self.assertEqual(parts["data"], score.breakdown)  # an event of our own

    def test_of_several_rewards_the_last_one_counts(self):
        with world(["Answer: 1"]) as made:
            made.ask(made.rollout())
            for value in (1.0, 0.25):
                made.tell("r", "reward", value=value)
            self.assertEqual(Manager(made.gateway).completed("r").final_reward, 0.25)
            with self.assertRaisesRegex(BridgeError, "2 rewards"):
                bridge.score_of(made.gateway.events("r"))

    def test_a_reward_that_is_no_number_is_no_reward_without_a_word(self):
        for value in (True, "0.9", None):
            with world(["Answer: 1"]) as made:
                made.ask(made.rollout())
                made.tell("r", "reward", value=value)
                made.tell("r", "reward_breakdown", right=1.0)
                found = Manager(made.gateway).completed("r").final_reward
                self.assertIsNone(found, value)
                with self.assertRaisesRegex(BridgeError, "finite number"):
                    bridge.score_of(made.gateway.events("r"))

    def test_only_the_events_of_the_last_attempt_are_there(self):
        with world() as made:
            made.gateway.patch(made.rollout(), state="running", last_attempt_id="1")
            made.tell("r", "reward", value=1.0)  # of attempt 0
            self.assertEqual(made.gateway.events("r"), [])

    def test_an_event_may_come_after_the_end(self):
        with world() as made:
            made.played("guess")
            made.tell("guess", "reward", value=5.0)
            self.assertEqual(Manager(made.gateway).completed("guess").final_reward, 5.0)


class TheProxy(unittest.TestCase):
    def test_streaming_is_refused_with_400(self):
        with world(["Answer: 1"]) as made:
            made.rollout()
            with self.assertRaises(Refused) as caught:
                made.ask("r", stream=True)
            self.assertEqual(caught.exception.status, 400)
            self.assertEqual(made.gateway.events("r"), [])
            self.assertEqual(made.server.asked, [])

    def test_validation_has_no_log_probs(self):
        with world(["Answer: 1"]) as made:
            response = made.ask(made.rollout(), mode="val")
            (trimmed,) = made.gateway.events("r", True)
            self.assertNotIn("logprobs", response["choices"][0])
            self.assertIsNone(trimmed["data"]["response_log_probs"])
            (call,) = bridge.triplets([trimmed])
            self.assertIsNone(call.logprobs)
            self.assertEqual(made.server.asked[0]["temperature"], 0.7)

    def test_model_and_temperature_that_an_agent_asks_for_are_replaced(self):
        with world(["Answer: 1"]) as made:
            made.ask(made.rollout(), model="mine", temperature=0.1, top_p=0.5)
            (body,) = made.server.asked
        self.assertEqual((body["model"], body["temperature"]), (MODEL, 1.0))
        self.assertEqual(body["top_p"], 0.5)  # the rest is passed on

    def test_a_model_that_fails_is_asked_six_times(self):
        with (
            world() as made,
            mock.patch.object(proxy, "_RETRY_BACKOFF_BASE_SECONDS", 0),
        ):
            made.server.status = 500
            with self.assertRaises(Refused) as caught:
                made.ask(made.rollout())
            self.assertEqual(caught.exception.status, 500)
            self.assertEqual(len(made.server.asked), 6)
            (kept,) = made.gateway.events("r", True)
            self.assertEqual(kept["data"]["status"], "error")
            self.assertEqual(bridge.triplets([kept]), [])
            self.assertEqual(Manager(made.gateway).completed("r").triplets, [])

    def test_a_paused_gateway_answers_429(self):
        with world(["Answer: 1"]) as made:
            made.rollout()
            made.gateway("POST", "/proxy/pause", {"retry_after_seconds": 1})
            with self.assertRaises(Refused) as caught:
                made.ask("r")
            self.assertEqual(caught.exception.status, 429)
            made.gateway("POST", "/proxy/resume")
            made.ask("r")
            self.assertEqual(kinds(made.gateway.events("r")), ["model_request"])

    def test_without_a_key_everybody_may_come_in(self):
        config = OmegaConf.load(CONFIG / "server.yaml")
        self.assertEqual((config.host, config.key), ("0.0.0.0", ""))
        with world() as made:
            made.gateway.client.headers.pop("authorization")
            with self.assertRaises(Refused) as caught:
                made.gateway("GET", "/api/rollouts/terminal")
            self.assertEqual(caught.exception.status, 401)
        gateway = Gateway(MODEL)
        gateway.config["key"] = ""
        with gateway:
            gateway.client.headers.pop("authorization")
            self.assertEqual(gateway("GET", "/api/rollouts/terminal")["items"], [])


class TheStore(unittest.TestCase):
    def test_all_apps_of_a_process_share_one_store(self):
        from agentlightning.server.app import create_app

        with world() as made:
            made.rollout("of the first")
            second = Gateway(MODEL)
            # Without clearing it, which entering a gateway of ours does.
            with mock.patch.object(made.gateway, "app", create_app(second.config)):
                import httpx

                made.gateway.client = httpx.AsyncClient(
                    transport=httpx.ASGITransport(app=made.gateway.app),
                    base_url="http://other",
                    headers={"authorization": "Bearer course"},
                )
                self.assertEqual(made.gateway.state("of the first"), "queuing")

    def test_a_rollout_id_that_is_there_keeps_its_old_input(self):
        with world() as made:
            made.rollout("r")
            made.rollout("r", input={"data_id": "other"})
            found = made.gateway("GET", "/api/rollouts/r")["rollout"]
        self.assertEqual(found["input"]["data_id"], GOLDEN_TASK.id)

    def test_what_was_deleted_still_counts_among_the_finished(self):
        with world() as made:
            made.played("guess")
            made.gateway("DELETE", "/api/rollouts/guess")
            page = made.gateway("GET", "/api/rollouts/terminal", after=0)
        self.assertEqual(page, {"items": [], "next_after": 1, "total_terminal": 1})

    def test_what_has_ended_can_not_begin_again(self):
        with world() as made:
            made.played("guess")
            with self.assertRaises(Refused) as caught:
                made.gateway.patch("guess", state="running")
        self.assertEqual(caught.exception.status, 409)


class TheAgents(unittest.TestCase):
    def test_a_failed_agent_is_trained_on_like_any_other(self):
        def agent(ask, tell):
            play(GOLDEN_TASK, 0, ask, tell)
            raise RuntimeError("after the reward")

        with world(["Answer: 29842"]) as made:
            made.gateway.attempt(
                bridge.rollout(GOLDEN_TASK, 0, "r", AGENT_CLASS), agent
            )
            self.assertEqual(made.gateway.state("r"), "failed")
            found = Manager(made.gateway).completed("r")
        self.assertEqual((found.final_reward, len(found.triplets)), (1.0, 1))

    def test_a_place_that_is_misspelt_becomes_the_agents_input(self):
        made = _build_env_from_map({"task": 1}, {"TASK": "inputs.task"})
        self.assertEqual(made, {"TASK": "inputs.task"})
        with self.assertRaisesRegex(BridgeError, "TASK: expected JSON"):
            bridge.task_of(made["TASK"])

    def test_an_agent_waits_up_to_ten_seconds_for_its_start(self):
        config = OmegaConf.load(CONFIG / "controller.yaml")
        self.assertEqual(config.local_runner.poll_interval, 10)
        self.assertEqual(config.runner_type, "k8s")

    def test_python_3_11_is_not_served_by_this_version(self):
        told = importlib.metadata.metadata("agentlightning")
        self.assertEqual(
            (told["Version"], told["Requires-Python"]), ("1.0.2", ">=3.12")
        )
        for gone in ("LitAgent", "Trainer", "rollout", "emit_reward"):
            self.assertFalse(hasattr(agentlightning, gone), gone)


if __name__ == "__main__":
    unittest.main()
