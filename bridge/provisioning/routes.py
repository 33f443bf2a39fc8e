"""Adds the provisioning API to the application of the homeserver's port."""

from typing import Final

from aiohttp import web

from bridge.provisioning import contacts as chatting
from bridge.provisioning import login as logging_in
from bridge.provisioning.services import SERVICES_HOLDER, ServicesHolder, preflight, with_cors_and_errors

V3: Final = "/_matrix/provision/v3"

_HANDLERS: Final = (
    ("GET", "whoami", logging_in.whoami),
    ("GET", "capabilities", logging_in.capabilities),
    ("GET", "login/flows", logging_in.flows),
    ("POST", "login/start/{flow:[^/]+}", logging_in.start),
    ("POST", "login/step/{process:[^/]+}/{step:[^/]+}/{type:[^/]+}", logging_in.step),
    ("POST", "login/cancel/{process:[^/]+}", logging_in.cancel),
    ("GET", "logins", logging_in.logins),
    ("POST", "logout/{login:[^/]+}", logging_in.logout),
    ("GET", "contacts", chatting.contacts),
    ("POST", "search_users", chatting.search_users),
    ("GET", "resolve_identifier/{identifier:[^/]+}", chatting.resolve_identifier),
    ("POST", "create_dm/{identifier:[^/]+}", chatting.create_dm),
    # Older managers omit the type.
    ("POST", "create_group", chatting.create_group),
    ("POST", "create_group/{type:[^/]+}", chatting.create_group),
    ("POST", "backfill/{room:[^/]+}", chatting.backfill),
)

ROUTES: Final = tuple(
    route
    for method, path, handler in _HANDLERS
    for route in (
        web.route(method, f"{V3}/{path}", with_cors_and_errors(handler)),
        web.options(f"{V3}/{path}", preflight),
    )
)


def serve(app: web.Application, holder: ServicesHolder) -> None:
    app[SERVICES_HOLDER] = holder
    app.add_routes(ROUTES)
