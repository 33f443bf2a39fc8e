"""The HTTP routes of the API for attached agents."""

from aiohttp import web
from aiohttp.typedefs import Handler

from bridge.agents.attached import websocket
from bridge.agents.attached.codec import parse_json_object
from bridge.agents.attached.handlers import call_operation
from bridge.agents.attached.messages import DOCUMENT, MAX_BODY, OPERATIONS, Operation, TakeResponse
from bridge.agents.attached.openapi import document
from bridge.agents.attached.services import SERVICES, AgentServices
from bridge.agents.attached.websocket import SOCKETS, Sockets
from federation.http.responses import body_too_large, json_response

_OPENAPI_DOCUMENT = document()


def _handler(operation: Operation) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        services = request.app[SERVICES]
        _, owner = await services.authenticate(request)
        work_id = request.match_info.get("work_id", "")
        if operation.in_query:
            body = {name: request.query[name] for name in request.query}
        elif operation.request_type is None:
            body = {}
        else:
            raw = await request.read()
            if len(raw) > MAX_BODY:
                raise body_too_large()
            body = parse_json_object(raw)
        answer = await call_operation(services, owner, operation, body, work_id)
        if isinstance(answer, TakeResponse) and answer.task is not None and _is_disconnected(request):
            session = services.agents.session(owner.agent_id, body["session"])
            session.withdraw_offer(answer.task.work_id)
        return json_response(answer.model_dump_json().encode())

    return handle


def _is_disconnected(request: web.Request) -> bool:
    return request.transport is None or request.transport.is_closing()


async def _openapi(request: web.Request) -> web.Response:
    return json_response(_OPENAPI_DOCUMENT)


def _path(operation: Operation) -> str:
    # The plain `{name}` of aiohttp does not match a segment that contains a brace.
    return operation.path.replace("{agent_id}", "{agent_id:[^/]+}").replace("{work_id}", "{work_id:[0-9]{1,32}}")


def _route(operation: Operation) -> web.RouteDef:
    only = {"allow_head": False} if operation.method == "GET" else {}
    return web.route(operation.method, _path(operation), _handler(operation), **only)


def add_routes(app: web.Application, services: AgentServices) -> None:
    """Add the routes. When the application shuts down, no more tasks are offered and the WebSockets are
    closed."""
    sockets = Sockets()
    app[SERVICES] = services
    app[SOCKETS] = sockets
    app.add_routes(ROUTES)
    services.tokens.on_revoked(sockets.close_revoked)
    services.tokens.on_revoked(services.agents.detach_revoked)

    async def close(_: web.Application) -> None:
        services.agents.stop()
        sockets.close()

    app.on_shutdown.append(close)


ROUTES = (*map(_route, OPERATIONS), web.get(DOCUMENT, _openapi, allow_head=False), *websocket.ROUTES)
