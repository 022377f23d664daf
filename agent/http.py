"""The agent's HTTP door: GET only, on loopback unless told otherwise, no secrets.

`/healthz` the event loop is alive · `/readyz` claimed, caught up, ticking · `/metrics` Prometheus ·
`/plan` what the core knows of every group, `/plan?group=ID` of one.
"""

import time
from collections.abc import Callable
from typing import Any, Final

import msgspec
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from agent.telemetry import Metrics

TICK_AGE_S_MAX: Final = 30.0
"""Without a tick for this long the agent is not ready: its loop or its ingestion is stuck."""


class Door:
    """What the pages show; the runtime sets it after every step."""

    def __init__(self, metrics: Metrics) -> None:
        self.metrics = metrics
        self.view: dict[str, Any] = {"groups": {}}
        self.ticked_s: float | None = None

    @property
    def why_not_ready(self) -> str | None:
        """Give why the agent is not ready, or None."""
        if self.ticked_s is None:
            return "catching up"
        age_s = time.monotonic() - self.ticked_s
        return f"no tick for {age_s:.0f} s" if age_s > TICK_AGE_S_MAX else None


async def serve(door: Door, host: str, port: int) -> tuple[web.AppRunner, int]:
    """Start serving; gives the runner, to be cleaned up, and the port (useful for port 0)."""
    app = web.Application(client_max_size=0)
    app.router.add_get("/healthz", _text(lambda: (200, "ok\n")))
    app.router.add_get(
        "/readyz",
        _text(lambda: (503, door.why_not_ready + "\n") if door.why_not_ready else (200, "ok\n")),
    )

    async def metrics(_: web.Request) -> web.Response:
        door.metrics.ready.set(door.why_not_ready is None)
        body = generate_latest(door.metrics.registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def plan(request: web.Request) -> web.Response:
        shown: Any = door.view
        group = request.query.get("group")
        if group is not None:
            shown = door.view["groups"].get(group)
            if shown is None:
                return web.json_response({"error": f"no group {group!r}"}, status=404)
        return web.Response(body=msgspec.json.encode(shown), content_type="application/json")

    app.router.add_get("/metrics", metrics)
    app.router.add_get("/plan", plan)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, host, port)
    await site.start()
    return runner, int(runner.addresses[0][1])


def _text(page: Callable[[], tuple[int, str]]) -> Callable[[web.Request], Any]:
    async def answer(_: web.Request) -> web.Response:
        status, text = page()
        return web.Response(status=status, text=text)

    return answer
