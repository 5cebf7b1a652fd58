"""Chapter 06. One group through Agent Lightning's gateway, and back.

    python3 examples/06_agent_lightning/one_group.py

A model server says what the four assistants of chapter 01 said, the agent of this chapter
plays, and the real gateway writes down events. They are read back, and compared with what
we sent: tokens, mask, log-probs, reward. Without Agent Lightning it prints the same events
as the bridge writes them, and how to install it.

Exit status 1 unless each episode comes back as it was.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

from course_agent import AGENT_CLASS, play
from gateway import Gateway, quiet
from model_server import MODEL, ModelServer, Said, Script

from agentic_rl.advantage import group_advantages
from agentic_rl.bridges import agent_lightning as bridge
from agentic_rl.bridges import frameworks
from agentic_rl.bridges.vocabulary import Vocabulary
from agentic_rl.cli import render
from agentic_rl.cli.terminal import run
from agentic_rl.conventions import AGENT_LIGHTNING, COURSE
from agentic_rl.golden import GOLDEN_NAMES, GOLDEN_TASK, golden_group
from agentic_rl.messages import assistant_text
from agentic_rl.trajectory import Trajectory

Events = list[dict[str, Any]]


def turns_of(trajectory: Trajectory) -> list[Said]:
    """What a model has to say for this episode to happen again."""
    spoken = [m for m in trajectory.messages if m["role"] == "assistant"]
    values = [trajectory.logprob(place) for place in trajectory.positions("decision")]
    choices = [action.get("choice") for action in trajectory.actions]
    return [Said(assistant_text(m), c, v) for m, c, v in zip(spoken, choices, values)]


def promise(holds: bool, what: str) -> None:
    """End with an error unless what comes back is what was sent."""
    if not holds:
        raise SystemExit(f"not as it was promised: {what}")


# --------------------------------------------------------------- without any framework


def show_interface() -> None:
    print(render.heading("A task and a convention in Agent Lightning's words", "06.1"))
    fields = bridge.rollout(GOLDEN_TASK, 0, "0-0-0", AGENT_CLASS)
    print("The fields of one RolloutCreate:\n")
    rows = []
    for name, value in fields.items():
        parts = value.items() if isinstance(value, dict) else [("", value)]
        rows += [(f"{name}.{key}".rstrip("."), _short(x)) for key, x in parts]
    print(render.table(("field", "value"), rows))
    print("\nIts verl config with grpo, as overrides:\n")
    for override in bridge.overrides(AGENT_LIGHTNING):
        print(f"  {override}")
    print("\nThe course's own convention can't be said there. It would become:\n")
    for switch, value in bridge.unsaid(COURSE).items():
        print(f"  {switch:16} {value}")


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 52 else f"{text[:49]}..."


def bridge_events(vocabulary: Vocabulary) -> dict[str, Events]:
    """The group's events as the bridge writes them, for want of a gateway."""
    return {
        name: bridge.events(episode, vocabulary)
        for name, episode in zip(GOLDEN_NAMES, golden_group())
    }


# -------------------------------------------------------------------- with the gateway


def gateway_events(vocabulary: Vocabulary) -> dict[str, Events]:
    """The group's events as the real gateway keeps them, whole."""
    found = {}
    with ModelServer(Script([]), vocabulary) as server, Gateway(MODEL) as gateway:
        gateway.register(MODEL, server.endpoint)
        for place, (name, episode) in enumerate(zip(GOLDEN_NAMES, golden_group())):
            server.speaker = Script(turns_of(episode))
            fields = bridge.rollout(GOLDEN_TASK, 0, f"0-0-{place}", AGENT_CLASS)
            gateway.attempt(fields, partial(play, GOLDEN_TASK, 0))
            state = gateway.state(fields["rollout_id"])
            promise(state == "succeeded", f"{name!r} is {state}")
            found[name] = gateway.events(fields["rollout_id"])
    return found


def show_messages(events: Events) -> None:
    print(render.heading("What the agent asks, and what it is answered", "06.2"))
    calls = [e["data"] for e in events if e["event_type"] == bridge.MODEL_REQUEST]
    last = calls[-1]
    answer = last["response"]["choices"][0]["message"]
    print(f"{GOLDEN_NAMES[0]}, model call {len(calls)} of {len(calls)}\n")
    print(render.messages([*last["request"]["messages"], answer]))
    added = sorted(set(last["request"]) - {"messages", "tools", "seed"})
    if added:
        print(f"\nAdded by the gateway: {', '.join(added)}")


def show_events(events: Events) -> None:
    print(render.heading("The events of one rollout", "06.3"))
    rows = []
    for event in events:
        data = event["data"]
        if event["event_type"] == bridge.MODEL_REQUEST:
            (call,) = bridge.triplets([event])
            said = f"{len(call.prompt_ids)} ids -> {len(call.response_ids)} ids"
        elif event["event_type"] == bridge.NOTES:
            said = f"choices {', '.join(choice for _, choice in data['choices'])}"
        else:
            said = ", ".join(f"{name} {value}" for name, value in data.items())
        rows.append((event["event_type"], _short(said)))
    print(render.table(("event", "what it says"), rows))
    print("\nIts triplets: ids of the prompt, ids of the response, log-probs\n")
    for call in bridge.triplets(events):
        values = [render.number(value) for value in call.logprobs or ()]
        for label, shown in (
            ("prompt  ", _ends(call.prompt_ids, 8)),
            ("response", _ends(call.response_ids, 8)),
            ("log pi  ", _ends(values, 3)),
        ):
            print(f"  {label}  {shown}")


def _ends(values: Sequence[object], count: int) -> str:
    """The first and the last ones of a long list."""
    texts = [str(value) for value in values]
    if len(texts) > 2 * count:
        texts = [*texts[:count], "...", *texts[-count:]]
    return " ".join(texts)


def show_return(found: dict[str, Events], vocabulary: Vocabulary) -> None:
    print(render.heading("Read back into trajectories", "06.4"))
    episodes, rows = [], []
    for (name, events), sent in zip(found.items(), golden_group()):
        calls = bridge.triplets(events)
        (row,) = bridge.merge(calls)
        back = bridge.from_events(events, vocabulary)
        promise(back == sent, f"{name!r} comes back as it was")
        same = row == bridge.merged(sent, vocabulary)
        promise(same, f"the mask of {name!r} is ours")
        episodes.append(back)
        counts = (len(calls), len(row.response_ids), sum(row.response_mask))
        parts = [render.number(part, 1) for part in back.breakdown.values()]
        reward = render.number(back.reward, 1)
        rows.append((name, *map(str, counts), *parts, reward, "equal"))
    terms = [name.replace("_calls", "") for name in episodes[0].breakdown]
    head = ("episode", "turns", "ids", "mask 1", *terms, "reward", "and ours")
    print(render.table(head, rows))
    print(f"\n{GOLDEN_NAMES[0]}, as it came back\n")
    print(render.tokens(episodes[0]))
    rewards = [episode.reward for episode in episodes]
    advantages = group_advantages(rewards, [GOLDEN_TASK.id] * len(rewards))
    print("\nThe advantages of the group\n")
    print(render.table(("episode", "advantage"), list(zip(GOLDEN_NAMES, advantages))))


def main() -> None:
    print("Chapter 06: one group of the course through Agent Lightning.")
    vocabulary = Vocabulary()
    show_interface()
    problem = frameworks.missing("agent_lightning")
    if not problem:
        quiet()
    found = (bridge_events if problem else gateway_events)(vocabulary)
    show_messages(found[GOLDEN_NAMES[0]])
    show_events(found[GOLDEN_NAMES[0]])
    show_return(found, vocabulary)
    if problem:
        print("\nThese events the bridge wrote, and no gateway.")
        print(render.wrapped("", f"Not run: {problem}."))
        return
    print("\nNext: train_grpo.py, a policy that learns through the gateway.")


if __name__ == "__main__":
    run(main, __doc__)
