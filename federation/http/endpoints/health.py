"""`GET /health/live` and `GET /health/ready`, for supervisors and load balancers."""

from aiohttp import web

from federation.http.responses import json_response
from federation.http.services import NODE, Node
from federation.matrix.networks import is_within, read_address


async def live(request: web.Request) -> web.Response:
    """Respond with 200 while the process runs."""
    return json_response({"status": "alive"})


async def ready(request: web.Request) -> web.Response:
    """Respond with 200 if all checks pass, else with 503. Only clients in the plain-HTTP networks get the
    single checks, which could help an attacker."""
    node = request.app[NODE]
    checks = node.readiness().checks
    failing = {name: sentence for name, sentence in checks.items() if sentence is not None}
    body: dict[str, object] = {"status": "not ready" if failing else "ready"}
    if _may_see_details(request, node):
        body["checks"] = {name: sentence or "fine" for name, sentence in checks.items()}
        if failing:
            body["error"] = " ".join(f"{name}: {sentence}" for name, sentence in failing.items())
    return json_response(body, 503 if failing else 200)


def _may_see_details(request: web.Request, node: Node) -> bool:
    return request.remote is not None and is_within(read_address(request.remote), node.rules.plain_networks)


ROUTES = (web.get("/health/live", live), web.get("/health/ready", ready))
