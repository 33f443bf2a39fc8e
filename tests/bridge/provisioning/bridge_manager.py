"""A node with agents whose provisioning API a bridge manager uses. The node is a homeserver, and Alice and
Bob have accounts on another one. Only the owners of tokens come from a fake homeserver."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import aiohttp
from aiohttp import web
from yarl import URL

from appservice.people.double_puppets import DoublePuppets
from appservice.people.send_as_person import PersonSender
from appservice.registration.namespaces import Namespaces
from appservice.registration.tokens import KEY_BYTES
from bridge.matrix.ghost import HomeserverGhostNames
from bridge.matrix.ghosts import Ghosts
from bridge.people.permissions import Level, Rights
from bridge.provisioning.authorization import Authentication, Limits
from bridge.provisioning.direct_chats import DirectChats
from bridge.provisioning.routes import serve
from bridge.provisioning.services import ProvisioningServices, ServicesHolder
from tests.appservice.homeservers import Homeserver, homeserver
from tests.bridge.people.service.running_node import ALICE, BOB, HERE, THERE, RunningNode, Servers
from tests.federation.nodes import now_ms

SECRET = "s" * 32
RIGHTS = Rights({THERE: Level.LOOK, ALICE: Level.WORK, f"@eve:{THERE}": Level.NONE})


@dataclass
class Accounts:
    """The owners of tokens. It counts requests."""

    tokens: dict[str, str] = field(
        default_factory=lambda: {
            "of-alice": ALICE,
            "of-alice-too": ALICE,
            "of-bob": BOB,
            "of-eve": f"@eve:{THERE}",
            "of-a-ghost": f"@_agent_worker-1:{THERE}",
            "of-another": "@alice:another.test",
        }
    )
    openids: dict[str, str] = field(default_factory=lambda: {"who-alice-is": ALICE})
    status: int = 200
    asked: int = 0

    def __call__(self, request: web.Request) -> Any:
        self.asked += 1
        if self.status != 200:
            return web.Response(status=self.status)
        if "openid" in request.path:
            user = self.openids.get(request.query["access_token"])
            found = {"sub": user}
        else:
            user = self.tokens.get(request.headers["Authorization"].removeprefix("Bearer "))
            found = {"user_id": user}
        return found if user is not None else (401, {"errcode": "M_UNKNOWN_TOKEN", "error": "Unknown."})


@dataclass(frozen=True)
class Said:
    status: int
    body: Any
    headers: Mapping[str, str]


@dataclass
class Manager:
    servers: Servers
    node: RunningNode
    accounts: Accounts
    at: Homeserver
    services: ProvisioningServices
    door: ServicesHolder
    url: str
    http: aiohttp.ClientSession
    clock: list[float]

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = "of-alice",
        query: str = "",
        data: bytes | None = None,
    ) -> Said:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        raw = data if data is not None else None if body is None else json.dumps(body).encode()
        url = URL(f"{self.url}/_matrix/provision/v3/{path}{query}", encoded=True)
        async with self.http.request(method, url, headers=headers, data=raw) as answer:
            text = await answer.text()
            return Said(answer.status, json.loads(text) if text else None, dict(answer.headers))

    async def get(self, path: str, **more: Any) -> Any:
        said = await self.ask("GET", path, **more)
        assert said.status == 200, said.body
        return said.body

    async def refused(self, method: str, path: str, body: Any = None, **more: Any) -> tuple[int, str]:
        """Status and errcode, readable for a browser."""
        said = await self.ask(method, path, body, **more)
        assert said.status >= 400
        assert said.body.keys() >= {"errcode", "error"}
        assert said.headers["Access-Control-Allow-Origin"] == "*"
        return said.status, said.body["errcode"]

    async def log_in(self, token: str, *, as_: str = "of-alice") -> Said:
        begun = await self.ask("POST", "login/start/access_token", token=as_)
        process, step = begun.body["login_id"], begun.body["step_id"]
        path = f"login/step/{process}/{step}/user_input"
        return await self.ask("POST", path, {"access_token": token}, token=as_)


def quoted(text: str) -> str:
    return quote(text, safe="")


@asynccontextmanager
async def manager(
    servers: Servers,
    *,
    secret: str | None = SECRET,
    key: bytes | None = b"k" * KEY_BYTES,
    limits: Limits | None = None,
    agents: tuple[str, ...] = ("worker-1",),
    person_sender: PersonSender | None = None,
    is_open: bool = True,
) -> AsyncIterator[Manager]:
    node = await servers.start_node(agents=agents)
    accounts, clock = Accounts(), [0.0]
    async with AsyncExitStack() as stack:
        at = await stack.enter_async_context(homeserver(accounts))
        names = HomeserverGhostNames(HERE)
        puppets = DoublePuppets(
            at.client, servers.here.database, Namespaces(THERE, HERE, "_agent_"), key=key, now_ms=now_ms
        )
        services = ProvisioningServices(
            authentication=Authentication(
                at.client,
                RIGHTS,
                homeserver=THERE,
                is_person=puppets.is_person,
                secret=secret,
                limits=limits,
                monotonic=lambda: clock[0],
            ),
            puppets=puppets,
            chats=chats_of(servers, node, person_sender),
            side=servers.here.rooms,
            routes=node.routes,
            names=names,
            name_of=lambda agent: None,
            prefix="!agents",
            monotonic=lambda: clock[0],
        )
        app, door = web.Application(), ServicesHolder()
        if is_open:
            door.set_services(services)
        stack.push_async_callback(door.close)
        serve(app, door)
        runner = web.AppRunner(app)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        http = await stack.enter_async_context(aiohttp.ClientSession())
        yield Manager(servers, node, accounts, at, services, door, url, http, clock)


def chats_of(servers: Servers, node: RunningNode, person_sender: PersonSender | None = None) -> DirectChats:
    names = HomeserverGhostNames(HERE)
    ghosts = Ghosts(servers.here.rooms, servers.here.database, node.routes, names=names, report=node.notebook.problem)
    return DirectChats(
        servers.here.rooms,
        servers.here.database,
        ghosts,
        names,
        person_sender=person_sender,
        is_of_agents=lambda room_id: room_id in node.people.rooms.all().values(),
        report=node.notebook.problem,
    )
