"""A model server whose model is the course's table of logits.

It speaks OpenAI's chat completions, and vLLM's additions to it that Agent Lightning asks
for: prompt_token_ids, token_ids and one log-prob an id. Messages become ids by the
course's template; an id is a token of the course. The policy reads its state off the
messages, chooses one of six actions and says it: the choice's log-prob stands on the first
id of the turn, the others follow from it and have log 1 = 0.

A real model would choose every id. And two fields of its answer are ours. ``choice``: two
actions may say the same text, and a table has to know which of them it was. ``text``: two
texts may mean the same message, and the next prompt has to hold the one that was written;
where that is not the course's own, the agent sends it back in ``texts``.
"""

from __future__ import annotations

import json
import random
import sys
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from agentic_rl.bridges import agent_lightning as bridge
from agentic_rl.bridges.vocabulary import Vocabulary
from agentic_rl.messages import Message, from_openai, parse_assistant, to_openai
from agentic_rl.policy import SoftmaxPolicy
from agentic_rl.tasks import Task
from agentic_rl.tokens import IM_END
from agentic_rl.tool_math import ToolMath

MODEL = "tool-math-table"


class Said(NamedTuple):
    """What a model says in one turn: its text, its choice, that choice's log-prob."""

    text: str
    choice: str | None
    logprob: float


Speaker = Callable[[list[Message], dict[str, Any]], Said]  # (messages, the body)


class Table:
    """The softmax policy as a model: it sees messages and says one of its actions."""

    def __init__(self, policy: SoftmaxPolicy, tasks: Sequence[Task]):
        self.policy = policy
        self.tasks = {task.question: task for task in tasks}

    def __call__(self, messages: list[Message], body: dict[str, Any]) -> Said:
        world = self.world(messages)
        temperature = float(body.get("temperature", 1.0))
        policy = self.policy
        if temperature != 1.0:
            row = [x / temperature for x in policy.logits[world.state]]
            policy = SoftmaxPolicy([world.state], policy.actions, {world.state: row})
        # Seeded by what is asked, not by who asks first: agents run at the same time.
        rng = random.Random(f"{body.get('seed', 0)} {len(messages)}")
        choice, logprob = policy.sample(world.state, rng)
        return Said(world.speak(choice), choice, logprob)

    def world(self, messages: Sequence[Message]) -> ToolMath:
        """Where the conversation stands, as its last tool answer tells."""
        world = ToolMath(self.tasks[messages[0]["content"]])
        calls = {
            call["id"]: call["function"]["name"]
            for message in messages
            for call in message.get("tool_calls", ())
        }
        for message in messages:
            if message["role"] != "tool":
                continue
            world.last_content = message["content"]
            if message["content"].startswith("error: "):
                world.event = "error"
            elif calls[message["tool_call_id"]] == "lookup":
                world.event, world.price = "price", message["content"]
            else:
                world.event = "result"
        return world


class Script:
    """Says these turns, whoever asks, and then nothing more: for a fixed episode."""

    def __init__(self, turns: Sequence[Said]):
        self.turns = list(turns)

    def __call__(self, messages: list[Message], body: dict[str, Any]) -> Said:
        return self.turns.pop(0)


def completion(
    speaker: Speaker, vocabulary: Vocabulary, body: dict[str, Any]
) -> dict[str, Any]:
    """The response to the body of a chat completion."""
    messages = from_openai(body["messages"])
    said = speaker(messages, body)
    prompt = bridge.prompt_ids(messages, vocabulary, body.get("texts", ()))
    end = vocabulary.convert_tokens_to_ids(IM_END)
    # No tokenizer has an id for half of a pair; a detokenizer would write U+FFFD.
    text = said.text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    ids, ended = [*bridge.ordinary(text, vocabulary), end], None
    if len(ids) > body.get("max_tokens", len(ids)):
        ids, ended = ids[: body["max_tokens"]], "length"
        text = vocabulary.decode(ids)
    calls = sum(len(message.get("tool_calls", ())) for message in messages)
    message = parse_assistant(text, calls + 1)
    if ended == "length":
        message = {"role": "assistant", "content": text}
    choice: dict[str, Any] = {
        "index": 0,
        "message": to_openai([*messages, message])[-1],
        "finish_reason": ended or ("tool_calls" if "tool_calls" in message else "stop"),
        "choice": said.choice,
        "text": text,
    }
    found: dict[str, Any] = {"object": "chat.completion", "model": body["model"]}
    if body.get("return_token_ids"):
        found["prompt_token_ids"] = prompt
        choice["token_ids"] = ids
    if body.get("logprobs"):
        values = [said.logprob, *[0.0] * (len(ids) - 1)]
        content = [
            {"token": vocabulary.texts[token], "logprob": value}
            for token, value in zip(ids, values)
        ]
        choice["logprobs"] = {"content": content}
    return {**found, "choices": [choice]}


class ModelServer:
    """The server in a thread of this process, on a port that the system chooses.

    ``speaker`` and ``status`` may be changed while it runs; ``asked`` holds each body.
    """

    def __init__(self, speaker: Speaker, vocabulary: Vocabulary):
        self.speaker, self.vocabulary = speaker, vocabulary
        self.status = 200
        self.asked: list[dict[str, Any]] = []

    def __enter__(self) -> ModelServer:
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # or head and body go 40 ms apart

            def log_message(self, *_: Any) -> None:
                pass

            def do_POST(self) -> None:
                length = int(self.headers["content-length"])
                status, found = owner.answer(json.loads(self.rfile.read(length)))
                data = json.dumps(found).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    @property
    def endpoint(self) -> str:
        """The base of its addresses, as a model is registered with."""
        return f"http://127.0.0.1:{self.server.server_port}/v1"

    def answer(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """(status, JSON)."""
        self.asked.append(body)
        if self.status != 200:
            return self.status, {"error": {"message": "out of order"}}
        return 200, completion(self.speaker, self.vocabulary, body)
