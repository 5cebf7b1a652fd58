"""The gateway in this process, and what stands in for its controller.

The application is Agent Lightning's own, started by its own lifespan in an event loop of
its own thread; requests reach it without a socket. Only what the controller does around an
agent is written out here, state by state, so that an episode need not be a process.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

KEY = "course"
PROXY = {  # the part of its server.yaml that the application reads
    "include_log_probs": True,
    "include_routed_experts": False,
    "train": {"temperature": 1},
    "val": {"temperature": 0.7},
}


class Refused(RuntimeError):
    """A status that is no success; ``status`` and what was said."""

    def __init__(self, status: int, text: str):
        super().__init__(f"status {status}: {text}")
        self.status = status


def without_proxy(environ: Mapping[str, str]) -> dict[str, str]:
    """An environment that names no proxy: all that is asked is on this machine."""
    return {
        name: value
        for name, value in environ.items()
        if not name.lower().endswith("_proxy")
    }


def quiet() -> None:
    """Without what it logs of each request, and without a proxy."""
    import structlog

    level = logging.CRITICAL
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(level))
    logging.getLogger("httpx").setLevel(level)
    for name in set(os.environ) - set(without_proxy(os.environ)):
        del os.environ[name]


class Gateway:
    """``with Gateway(model) as gateway``: the application, and requests to it.

    Its store is of the module, not of the application: what an earlier gateway of this
    process left behind is cleared first.
    """

    def __init__(self, model: str, **proxy: Any):
        self.config = {"key": KEY, "default_proxy": {**PROXY, "model_name": model}}
        self.config["default_proxy"].update(proxy)

    def __enter__(self) -> Gateway:
        import httpx
        from agentlightning.server import store
        from agentlightning.server.app import create_app

        for kept in (store._rollouts, store._events, store._models):
            kept.clear()
        store._terminal_order.clear()
        self.app = create_app(self.config)
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.open = contextlib.AsyncExitStack()

        async def start() -> Any:
            await self.open.enter_async_context(
                self.app.router.lifespan_context(self.app)
            )
            return await self.open.enter_async_context(
                httpx.AsyncClient(
                    transport=httpx.ASGITransport(app=self.app),
                    base_url="http://gateway",
                    headers={"authorization": f"Bearer {KEY}"},
                    timeout=60.0,
                )
            )

        self.client = self.wait(start())
        return self

    def __exit__(self, *_: object) -> None:
        self.wait(self.open.aclose())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()

    def wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        """What a coroutine returns in the gateway's loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    def __call__(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """The JSON of a request's answer. Raises Refused."""
        asked = self.client.request(method, path, json=body, params=query or None)
        response = self.wait(asked)
        if response.status_code >= 400:
            raise Refused(response.status_code, response.text)
        return response.json() if response.content else None

    def register(self, model: str, endpoint: str, version: int = 0) -> None:
        """Tell it where the model is served; version counts updates."""
        known = {"model": model, "endpoint": endpoint, "version": version}
        self("POST", "/api/models", [known])

    def attempt(
        self, rollout: dict[str, Any], agent: Callable[[Any, Any], Any]
    ) -> None:
        """What its controller does with a rollout: queuing, running, succeeded or failed.

        ``agent(ask, tell)`` plays it. An exception ends the rollout as failed and goes no
        further, as the exit status of a process.
        """
        name, mode = rollout["rollout_id"], "train" if rollout["is_train"] else "val"
        self("POST", "/api/rollouts", [rollout])
        self.patch(name, state="running", last_attempt_id="0")
        chat = f"/proxy/rollout/{name}/attempt/0/mode/{mode}/openai/v1/chat/completions"
        told = f"/api/rollouts/{name}/attempt/0/events"
        try:
            agent(
                lambda body: self("POST", chat, body),
                lambda event: self("POST", told, event),
            )
        except Exception as error:
            self.patch(name, state="failed", error_message=str(error))
        else:
            self.patch(name, state="succeeded")

    def patch(self, name: str, **status: str) -> None:
        """Change the state of a rollout, as its controller does."""
        self("PATCH", f"/api/rollouts/{name}", {"status": status})

    def state(self, name: str) -> str:
        """queuing, running, succeeded or failed."""
        found = self("GET", f"/api/rollouts/{name}")
        return str(found["rollout"]["status"]["state"])

    def events(self, name: str, triplet: bool = False) -> list[dict[str, Any]]:
        """The events of a rollout, whole or as triplets."""
        query = {"format": "triplet"} if triplet else {}
        return list(self("GET", f"/api/rollouts/{name}/events", **query))
