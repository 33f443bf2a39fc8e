"""The process that is measured over HTTP: the smallest aiohttp application that both reads and responds.

`python -m bench._limits.web_server uvloop|asyncio [CERTIFICATE KEY]`: reports its port, and serves until the
benchmark ends.
"""

import asyncio
import ssl
import sys

import orjson
import uvloop
from aiohttp import web

from bench._harness.lifeline import tell_parent, until_abandoned
from bench._harness.ports import LOOPBACK

_LOOPS = {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}


async def version(request: web.Request) -> web.Response:
    """GET: an object so small that only HTTP has a cost."""
    body = orjson.dumps({"server": {"name": "Palaver", "version": "0"}})
    return web.Response(body=body, content_type="application/json")


async def receive(request: web.Request) -> web.Response:
    """PUT: the body is read and parsed; the response is empty, as for a transaction without errors."""
    orjson.loads(await request.read())
    return web.Response(body=b"{}", content_type="application/json")


def application() -> web.Application:
    """Both routes."""
    served = web.Application()
    served.router.add_get("/version", version)
    served.router.add_put("/send/{transaction}", receive)
    return served


async def serve(certificate: str | None, key: str | None) -> None:
    """Listen on a free port of loopback."""
    context = None
    if certificate is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, key)
    runner = web.AppRunner(application(), access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, LOOPBACK, 0, ssl_context=context).start()
        tell_parent(port=runner.addresses[0][1])
        await until_abandoned()
    finally:
        await runner.cleanup()


if __name__ == "__main__":
    loop, *files = sys.argv[1:]
    certificate_file, key_file = files or (None, None)
    with asyncio.Runner(loop_factory=_LOOPS[loop]) as running:
        running.run(serve(certificate_file, key_file))
