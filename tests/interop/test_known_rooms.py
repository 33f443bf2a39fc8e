"""The room state cached by an attached node equals that of a real Synapse."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from appservice.http.app import make_listener
from appservice.http.services import EndpointServices
from appservice.intake.intake import Intake
from appservice.intake.known_rooms import KnownRooms
from appservice.registration.namespaces import NODE_AGENT, AgentRoom, Namespaces
from appservice.registration.registration import Registration, RegistrationSettings
from bridge.node.registration import write
from federation.events.room_event import StreamedEvent
from federation.http.server.listener import Bind
from federation.matrix.canonical_json import encode
from federation.matrix.errors import MatrixError
from storage.database import Database
from tests.federation.http.running import Recorder
from tests.support.matrix_client import MatrixClient
from tests.support.matrix_client.homeserver import Refused
from tests.support.ports import lasting_port
from tests.support.synapse import Synapse
from tests.support.synapse.fixtures import SynapseFactory

pytestmark = pytest.mark.interop
TIMEOUT = 120.0
CHANGES = 200
SEED = 4
MEMBER = "m.room.member"


class NoPortals:
    """Creates nothing for a query."""

    async def provide_agent(self, agent_id: str, node_id: str) -> bool:
        return False

    async def provide_room(self, room: AgentRoom) -> bool:
        return False

    async def knows_agent(self, agent_id: str, node_id: str) -> bool:
        return False

    async def knows_room(self, room: AgentRoom) -> bool:
        return False


@dataclass
class Appservice:
    """An intake and its cached rooms, beside a Synapse. `fetched` counts requests for state."""

    synapse: Synapse
    registration: Registration
    namespaces: Namespaces
    database: Database
    told: set[str] = field(default_factory=set)
    fetched: int = 0
    _more: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.intake = Intake("palaver", self.database, is_ours=self.namespaces.owns_user, on_events=self._hear)
        self.known = KnownRooms(
            self.database,
            self._fetch,
            registration="palaver",
            is_ours=self.namespaces.owns_user,
            fetch_joined=self._fetch_joined,
            node_user=self.namespaces.node_user,
        )

    def _hear(self, entries: Sequence[StreamedEvent]) -> None:
        self.told |= {entry.event.event_id for entry in entries}
        self._more.set()

    async def heard(self, event_id: str) -> None:
        async with asyncio.timeout(TIMEOUT):
            while event_id not in self.told and not await self.known.knows_event(event_id):
                self._more.clear()
                await self._more.wait()

    async def ask(self, method: str, path: str, user: str, json: Any = None) -> Any:
        """Query as a ghost."""
        homeserver = self.synapse.homeserver
        status, _, body = await homeserver.raw(
            method,
            f"/_matrix/client/v3/{path}",
            token=self.registration.secrets.as_token,
            query={"user_id": user},
            data=None if json is None else encode(json, strict=False),
            content_type="application/json",
        )
        return homeserver.answer(status, body, f"{method} {path}")

    async def ghost(self, agent_id: str) -> str:
        user = self.namespaces.user(agent_id, self.namespaces.node_id)
        assert user is not None
        name = user.removeprefix("@").partition(":")[0]
        body = {"type": "m.login.application_service", "username": name, "inhibit_login": True}
        await self.ask("POST", "register", user, body)
        return user

    async def put_state(self, user: str, room_id: str, type_: str, key: str, content: Mapping[str, Any]) -> str:
        path = f"rooms/{quote(room_id)}/state/{quote(type_, safe='')}/{quote(key, safe='')}"
        return str((await self.ask("PUT", path, user, content))["event_id"])

    async def _fetch(self, room_id: str, as_user: str) -> Sequence[Mapping[str, Any]]:
        self.fetched += 1
        try:
            events: list[Mapping[str, Any]] = await self.ask("GET", f"rooms/{quote(room_id)}/state", as_user)
        except Refused as refused:
            raise MatrixError(refused.errcode or "", refused.error or "", refused.status) from None
        return events

    async def _fetch_joined(self, user: str) -> Sequence[str]:
        joined: list[str] = (await self.ask("GET", "joined_rooms", user))["joined_rooms"]
        return joined


@asynccontextmanager
async def appservice_of(make_synapse: SynapseFactory, database: Database, directory: Path) -> AsyncIterator[Appservice]:
    synapse = await make_synapse(start=False)
    port = lasting_port()
    namespaces = Namespaces(synapse.server_name, "kitchen.local", "_agent_")
    file = directory / "registration.yaml"
    registration = write(file, RegistrationSettings("palaver", f"http://127.0.0.1:{port}", namespaces))
    synapse.appservices = [file]
    await synapse.start()
    await synapse.settled()
    appservice = Appservice(synapse, registration, namespaces, database)
    services = EndpointServices(registration.secrets.hs_token, namespaces, appservice.intake, NoPortals())
    listener = make_listener(services, [Bind("127.0.0.1")], port, Recorder())
    async with AsyncExitStack() as stack:
        stack.push_async_callback(appservice.known.close)
        await listener.start()
        stack.push_async_callback(listener.close, 1.0)
        yield appservice


@dataclass
class Life:
    """Random actions in a room, by a person and by a ghost."""

    appservice: Appservice
    room_id: str
    alice: MatrixClient
    bob: MatrixClient
    ghost: str
    other: str
    chance: random.Random
    last: list[str] = field(default_factory=list)

    def content(self) -> dict[str, Any]:
        return {"n": self.chance.randrange(1_000_000), "text": "é\0 " * self.chance.randrange(3)}

    async def alice_says(self) -> None:
        key = self.chance.choice(["", "a", "b/c", "é", "#alice"])
        await self._alice_puts("io.palaver.thing", key, self.content())

    async def alice_names(self) -> None:
        await self._alice_puts("m.room.name", "", {"name": str(self.chance.random())})

    async def _alice_puts(self, type_: str, key: str, content: dict[str, Any]) -> None:
        path = "v3/rooms/{}/state/{}/{}"
        answer = await self.alice.call("PUT", path, self.room_id, type_, key, json=content)
        self.last.append(answer["event_id"])

    async def ghost_says(self) -> None:
        """In half of the cases the change is also recorded at once, sometimes after its event has arrived."""
        type_, key, content = "io.palaver.thing", self.chance.choice(["", "a", "c"]), self.content()
        event_id = await self.appservice.put_state(self.ghost, self.room_id, type_, key, content)
        self.last.append(event_id)
        if self.chance.random() < 0.5:
            if self.chance.random() < 0.5:
                await self.appservice.heard(event_id)
            await self.appservice.known.record_change(self.room_id, type_, key, self.ghost, content, event_id, 1)

    async def bob_moves(self) -> None:
        """Impossible actions are refused."""
        room_id, user = self.room_id, self.bob.user_id
        move = self.chance.choice(
            [
                lambda: self.bob.join(room_id),
                lambda: self.bob.leave(room_id),
                lambda: self.alice.kick(room_id, user),
                lambda: self.alice.ban(room_id, user),
                lambda: self.alice.unban(room_id, user),
                lambda: self.alice.invite(room_id, user),
            ]
        )
        await self._tried(move)

    async def other_moves(self) -> None:
        """A second ghost, by itself or by Alice."""
        path = f"rooms/{quote(self.room_id)}"
        move = self.chance.choice(
            [
                lambda: self.appservice.ask("POST", f"{path}/join", self.other, {}),
                lambda: self.appservice.ask("POST", f"{path}/leave", self.other, {}),
                lambda: self.alice.kick(self.room_id, self.other),
                lambda: self.alice.invite(self.room_id, self.other),
            ]
        )
        await self._tried(move)

    async def ghost_goes_and_comes(self) -> None:
        """Changes made meanwhile are not received, unless the other ghost is in the room."""
        path = f"rooms/{quote(self.room_id)}"
        await self._tried(lambda: self.alice.kick(self.room_id, self.ghost))
        for _ in range(self.chance.randrange(3)):
            await self.alice_says()
        await self.appservice.ask("POST", f"{path}/join", self.ghost, {})

    async def redact_something(self) -> None:
        if self.last:
            target = self.chance.choice(self.last)
            await self._tried(
                lambda: self.alice.call(
                    "PUT", "v3/rooms/{}/redact/{}/{}", self.room_id, target, self.alice.new_txn_id(), json={}
                )
            )

    async def look(self) -> None:
        """Compare while other changes, such as the ghost's return, may be in progress."""
        with suppress(MatrixError):
            await self.appservice.known.state(self.room_id)

    async def doubt(self) -> None:
        await self.appservice.known.invalidate(self.room_id)

    async def _tried(self, act: Callable[[], Any]) -> None:
        try:
            await act()
        except Refused as refused:
            if refused.status not in (400, 403):
                raise

    async def go_on(self) -> None:
        often = [self.alice_says, self.ghost_says, self.bob_moves]
        sometimes = [self.alice_names, self.other_moves, self.redact_something, self.look]
        seldom = [self.ghost_goes_and_comes, self.doubt]
        acts = [*often * 4, *sometimes * 2, *seldom]
        for _ in range(CHANGES):
            await self.chance.choice(acts)()


@pytest.mark.parametrize("version", ["10", "12"])
async def test_the_cached_state_equals_the_homeservers(
    make_synapse: SynapseFactory, database: Database, tmp_path: Path, version: str
) -> None:
    """After two hundred changes by people and ghosts, entry by entry, including redactions, and with checks
    in between. The state is not fetched for that."""
    async with appservice_of(make_synapse, database, tmp_path) as appservice:
        alice, bob = await appservice.synapse.person(), await appservice.synapse.person()
        ghost, other, _ = [await appservice.ghost(name) for name in ("worker-1", "worker-2", NODE_AGENT)]
        power = {"users": {ghost: 50, **({} if version == "12" else {alice.user_id: 100})}}
        room_id = await alice.create_room(version=version, preset="public_chat", invite=[ghost], power_levels=power)
        await appservice.ask("POST", f"rooms/{quote(room_id)}/join", ghost, {})
        life = Life(appservice, room_id, alice, bob, ghost, other, random.Random(SEED))
        await life.go_on()
        await appservice.ask("POST", f"rooms/{quote(room_id)}/join", ghost, {})
        await appservice.heard(await alice.say(room_id, "done"))

        known = {(event.type, event.state_key): event for event in await appservice.known.state(room_id)}
        fetched = appservice.fetched
        state = await appservice.ask("GET", f"rooms/{quote(room_id)}/state", ghost)
        assert {key: event.event_id for key, event in known.items()} == {
            (event["type"], event["state_key"]): event["event_id"] for event in state
        }
        for event in state:
            ours = known[event["type"], event["state_key"]]
            assert (ours.content, ours.sender) == (event["content"], event["sender"]), ours
            assert ours.origin_server_ts == event["origin_server_ts"]
        members = {member.user_id: member.membership for member in await appservice.known.members(room_id)}
        assert members == {
            event["state_key"]: "join"
            for event in state
            if event["type"] == MEMBER and event["content"]["membership"] == "join"
        }
        assert await appservice.known.joined_rooms(ghost) == [room_id]

        # What was known all the time is right as well: nothing hides behind the last fetch.
        await life.alice_says()
        await life.ghost_says()
        await appservice.heard(life.last[-1])
        known_ids = {event.event_id for event in await appservice.known.state(room_id)}
        again = await appservice.ask("GET", f"rooms/{quote(room_id)}/state", ghost)
        assert known_ids == {event["event_id"] for event in again}
        assert appservice.fetched == fetched
        assert appservice.fetched < CHANGES / 2
