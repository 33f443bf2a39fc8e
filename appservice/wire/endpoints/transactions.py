"""`PUT /_matrix/app/v1/transactions/{txnId}`: what has happened. Application service API, "Pushing
events"."""

import asyncio
from typing import Final

from aiohttp import web

from appservice.transaction import read
from appservice.wire.services import V1, begin
from federation.wire.answers import json_answer

_READ_AT_ONCE: Final = 512 * 1024
"""Reading more than this at once would keep everything else waiting; a thread does it."""


async def transactions(request: web.Request) -> web.Response:
    services = begin(request)
    body = await request.read()
    transaction = await asyncio.to_thread(read, body) if len(body) > _READ_AT_ONCE else read(body)
    # "Note that the application service should distinguish between transactions by txnId": 200 says that it
    # will not be needed again, so it is said once all of it is on disk.
    if request.transport is not None:
        services.came_by(request.transport.get_extra_info("peername"))
    await services.intake.take_in(request.match_info["txn_id"], transaction)
    return json_answer({})


ROUTES = tuple(
    web.put(f"{prefix}/transactions/{{txn_id:[^/]+}}", transactions)
    # The second one is the path of before v1.0, to which homeservers fall back.
    for prefix in (V1, "")
)
