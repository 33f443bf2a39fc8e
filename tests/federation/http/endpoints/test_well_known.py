"""`GET /.well-known/matrix/server`."""

from aiohttp import web

from federation.http.app import make_app
from federation.http.endpoints import well_known as well_known_server
from federation.http.server.listener import Bind, Listener, ListenerSettings
from federation.http.services import Node, Readiness
from federation.matrix.networks import AdmissionRules
from tests.federation.http.running import KEYS, PATIENT, Answer, Recorder, Running

PATH = "/.well-known/matrix/server"


async def ask(delegated: str | None) -> Answer:
    node = Node(lambda: KEYS, Readiness, "1", AdmissionRules(), delegated)
    app: web.Application = make_app(node, PATIENT, well_known_server.ROUTES)
    seen = Recorder()
    listener = Listener(app, ListenerSettings((Bind("127.0.0.1"),), 0), None, seen)
    [address] = await listener.start()
    try:
        async with await Running(listener, address.port, seen, None).connect() as client:
            return await client.ask(PATH)
    finally:
        await listener.close(1.0)


async def test_a_delegated_name_is_returned() -> None:
    """In JSON, as configured."""
    answer = await ask("matrix.kitchen.local:7676")
    assert (answer.status, answer.json) == (200, {"m.server": "matrix.kitchen.local:7676"})


async def test_without_delegation_the_file_does_not_exist() -> None:
    """404 M_NOT_FOUND: the server name is resolved instead."""
    answer = await ask(None)
    assert (answer.status, answer.json["errcode"]) == (404, "M_NOT_FOUND")
