"""The endpoints that the homeserver and bridge supervisors call.

`GET /_matrix/mau/live` and `GET /_matrix/mau/ready`: health checks for supervisors. They need no token and
reveal nothing that an attacker could use.

`POST /_matrix/app/v1/ping`: the homeserver checks that it reaches this node. Application service API,
"Pinging".

`GET /_matrix/app/v1/users/{userId}` and `/rooms/{roomAlias}`: the homeserver asks for a user or alias of this
node's namespaces that it does not know yet. Application service API, "Querying".

`GET /_matrix/app/v1/thirdparty/…`: clients look up agents and their rooms. Application service API,
"Third-party networks".

`PUT /_matrix/app/v1/transactions/{txnId}`: new events. Application service API, "Pushing events".
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from appservice.http.services import SERVICES, UNSTABLE, V1, EndpointServices, begin
from appservice.intake.transaction import read
from appservice.registration.namespaces import AT, AgentRoom, Namespaces
from appservice.registration.registration import PROTOCOL
from federation.http.responses import json_response
from federation.matrix.canonical_json import NotJson, decode
from federation.matrix.errors import MatrixError
from federation.matrix.identifiers import has_valid_length

AGENT: Final = "agent"
NODE: Final = "node"
NAMESPACE: Final = "namespace"


def protocol(namespaces: Namespaces) -> dict[str, Any]:
    """The fields of an agent's address. There is one network: this node."""
    return {
        "user_fields": [NODE, AGENT],
        "location_fields": [NAMESPACE],
        "icon": "",
        "field_types": {
            AGENT: {"regexp": "[^@]+", "placeholder": "worker-1"},
            NODE: {"regexp": "[^@]+", "placeholder": namespaces.node_id},
            NAMESPACE: {"regexp": "[a-z0-9][a-z0-9._-]{0,63}", "placeholder": "default"},
        },
        "instances": [
            {
                "desc": f"Agents of {namespaces.node_id}",
                "network_id": namespaces.node_id,
                "fields": {NODE: namespaces.node_id},
            }
        ],
    }


def requested_agent(fields: Mapping[str, str], namespaces: Namespaces) -> tuple[str, str] | None:
    """Return agent id and node id. The node defaults to this one; the agent field may also hold a whole
    address."""
    agent_id, at, node_id = fields.get(AGENT, "").partition(AT)
    node_id = node_id if at else fields.get(NODE, namespaces.node_id)
    if not agent_id or not node_id or AT in node_id or not _is_text(agent_id) or not _is_text(node_id):
        return None
    return agent_id, node_id


def requested_room(fields: Mapping[str, str]) -> AgentRoom | None:
    namespace = fields.get(NAMESPACE, "")
    return AgentRoom("agents", namespace) if namespace and _is_text(namespace) else None


def third_party_user(agent: tuple[str, str], namespaces: Namespaces) -> dict[str, Any] | None:
    """None if the address fits no user id."""
    user_id = namespaces.user(*agent)
    if user_id is None:
        return None
    return {"userid": user_id, "protocol": PROTOCOL, "fields": {AGENT: agent[0], NODE: agent[1]}}


def location(room: AgentRoom, namespaces: Namespaces) -> dict[str, Any] | None:
    """None for a room that is not listed for people."""
    alias = namespaces.alias(room)
    if alias is None or room.kind != "agents":
        return None
    return {"alias": alias, "protocol": PROTOCOL, "fields": {NAMESPACE: room.namespace}}


def _is_text(value: str) -> bool:
    """Whether the decoded query value can be part of an address."""
    return has_valid_length(value) and "\0" not in value and not any("\ud800" <= one <= "\udfff" for one in value)


async def live(request: web.Request) -> web.Response:
    """The process responds."""
    return json_response({"status": "alive"})


async def ready(request: web.Request) -> web.Response:
    """Every check passes. Details of a failed check are only available on the node's own port."""
    is_ready = request.app[SERVICES].is_ready()
    return json_response({"status": "ready" if is_ready else "not ready"}, 200 if is_ready else 503)


async def ping(request: web.Request) -> web.Response:
    services = begin(request)
    try:
        body = decode(await request.read() or b"{}")
    except NotJson:
        raise MatrixError("M_NOT_JSON", "The body is not JSON.") from None
    if not isinstance(body, dict):
        raise MatrixError("M_BAD_JSON", "The body is not an object.")
    # "transaction_id: A transaction ID for the ping, copied directly from the POST call to the homeserver."
    transaction_id = body.get("transaction_id")
    services.ping_received(
        transaction_id if isinstance(transaction_id, str) and has_valid_length(transaction_id) else None
    )
    return json_response({})


async def users(request: web.Request) -> web.Response:
    # "200: The application service indicates that this user exists. The application service MUST have created
    # the user using the client-server API."
    services = begin(request)
    agent = services.namespaces.agent(request.match_info["user_id"])
    if agent is None or not await services.require_queries().provide_agent(*agent):
        raise MatrixError("M_NOT_FOUND", "There is no such agent.", 404)
    return json_response({})


async def rooms(request: web.Request) -> web.Response:
    # "200: The application service indicates that this room alias exists. The application service MUST have
    # created a room and associated it with the queried room alias using the client-server API."
    services = begin(request)
    room = services.namespaces.room(request.match_info["alias"])
    if room is not None and services.queries is None:
        services.room_queried(room.namespace)
    if room is None or not await services.require_queries().provide_room(room):
        raise MatrixError("M_NOT_FOUND", "There is no such room of agents.", 404)
    return json_response({})


def _begin(request: web.Request) -> EndpointServices:
    services = begin(request)
    if request.match_info.get("protocol", PROTOCOL) != PROTOCOL:
        raise MatrixError("M_NOT_FOUND", f"The only protocol here is {PROTOCOL}.", 404)
    return services


async def protocols(request: web.Request) -> web.Response:
    return json_response(protocol(_begin(request).namespaces))


async def third_party_users(request: web.Request) -> web.Response:
    services = _begin(request)
    return await _users(services, requested_agent(request.query, services.namespaces))


async def user_by_id(request: web.Request) -> web.Response:
    services = _begin(request)
    return await _users(services, services.namespaces.agent(request.query.get("userid", "")))


async def _users(services: EndpointServices, agent: tuple[str, str] | None) -> web.Response:
    found = third_party_user(agent, services.namespaces) if agent is not None else None
    if agent is None or found is None or not await services.require_queries().knows_agent(*agent):
        raise MatrixError("M_NOT_FOUND", "There is no such agent.", 404)
    return json_response([found])


async def locations(request: web.Request) -> web.Response:
    return await _locations(_begin(request), requested_room(request.query))


async def location_by_alias(request: web.Request) -> web.Response:
    services = _begin(request)
    return await _locations(services, services.namespaces.room(request.query.get("alias", "")))


async def _locations(services: EndpointServices, room: AgentRoom | None) -> web.Response:
    found = location(room, services.namespaces) if room is not None else None
    if room is None or found is None or not await services.require_queries().knows_room(room):
        raise MatrixError("M_NOT_FOUND", "There is no such room of agents.", 404)
    return json_response([found])


_MAX_PARSED_INLINE: Final = 512 * 1024
"""Larger bodies are parsed in a thread, because parsing them would block the event loop."""


async def transactions(request: web.Request) -> web.Response:
    services = begin(request)
    body = await request.read()
    transaction = await asyncio.to_thread(read, body) if len(body) > _MAX_PARSED_INLINE else read(body)
    # "Note that the application service should distinguish between transactions by txnId": after a 200 the
    # homeserver does not repeat the transaction, so the response follows the commit.
    if request.transport is not None:
        services.connection_used(request.transport.get_extra_info("peername"))
    await services.receive(request.match_info["txn_id"], transaction)
    return json_response({})


ROUTES = (
    web.get("/_matrix/mau/live", live),
    web.get("/_matrix/mau/ready", ready),
    web.post(f"{V1}/ping", ping),
    *tuple(
        route
        # Homeservers fall back to the paths without a prefix, from before v1.0.
        for prefix in (V1, "")
        for route in (
            web.get(f"{prefix}/users/{{user_id:[^/]+}}", users),
            web.get(f"{prefix}/rooms/{{alias:[^/]+}}", rooms),
        )
    ),
    *tuple(
        web.get(f"{prefix}/thirdparty/{path}", handler)
        for prefix in (V1, UNSTABLE)
        for path, handler in (
            ("protocol/{protocol:[^/]+}", protocols),
            ("user/{protocol:[^/]+}", third_party_users),
            ("user", user_by_id),
            ("location/{protocol:[^/]+}", locations),
            ("location", location_by_alias),
        )
    ),
    *tuple(
        web.put(f"{prefix}/transactions/{{txn_id:[^/]+}}", transactions)
        # Homeservers fall back to the paths without a prefix, from before v1.0.
        for prefix in (V1, "")
    ),
)
