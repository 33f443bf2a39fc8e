"""`GET /_matrix/mau/live` and `GET /_matrix/mau/ready`: where supervisors of bridges look.

They show no token, and are told nothing that an attacker could use.
"""

from aiohttp import web

from appservice.wire.services import SERVICES
from federation.wire.answers import json_answer


async def live(request: web.Request) -> web.Response:
    """The process answers."""
    return json_answer({"status": "alive"})


async def ready(request: web.Request) -> web.Response:
    """Every check is fine. Which one is not is told on the node's own port, to whoever may know."""
    is_ready = request.app[SERVICES].is_ready()
    return json_answer({"status": "ready" if is_ready else "not ready"}, 200 if is_ready else 503)


ROUTES = (web.get("/_matrix/mau/live", live), web.get("/_matrix/mau/ready", ready))
