"""A Matrix backend attached to a real Synapse as an application service, with its port, in this process."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from appservice.appservice import Appservice, open_appservice
from appservice.http.app import make_listener
from appservice.http.services import EndpointServices
from appservice.intake.transaction import Transaction
from appservice.local_users.local_users import AppserviceUsers
from appservice.registration.namespaces import AgentRoom, Namespaces
from appservice.registration.registration import Registration, RegistrationSettings
from bridge.node.registration import write
from federation.http.server.listener import Bind
from federation.rooms.creation import CreateRoomRequest
from storage.database import Database
from tests.federation.http.running import Recorder
from tests.federation.nodes import now_ms
from tests.support.ports import lasting_port
from tests.support.synapse import Synapse
from tests.support.synapse.configuration import homeserver

NODE = "kitchen.local"


@dataclass
class Observed:
    """Implements `AppserviceObserver` and records what a test needs."""

    problems: list[str] = field(default_factory=list)
    asked_for: list[tuple[str, str, str]] = field(default_factory=list)

    def request_finished(self, method: str, kind: str, outcome: str, seconds: float) -> None:
        self.asked_for.append((method, kind, outcome))

    def transaction_received(self, transaction: Transaction, *, is_new: bool, seconds: float) -> None: ...

    def problem(self, sentence: str, error: BaseException | None) -> None:
        self.problems.append(sentence)

    def unavailable(self, wrong: str) -> None: ...

    def available(self, seconds: float) -> None: ...

    def unreachable(self, wrong: str) -> None: ...

    def reachable(self) -> None: ...

    def ping_received(self) -> None: ...


class Empty:
    """Has no user that a homeserver could query."""

    async def provide_agent(self, agent_id: str, node_id: str) -> bool:
        return False

    async def provide_room(self, room: AgentRoom) -> bool:
        return False

    async def knows_agent(self, agent_id: str, node_id: str) -> bool:
        return False

    async def knows_room(self, room: AgentRoom) -> bool:
        return False


@dataclass
class Invited:
    """A Synapse that has the node's registration."""

    synapse: Synapse
    url: str
    """Its plain HTTP address."""
    port: int
    wanted: RegistrationSettings
    registration: Registration

    def user(self, agent_id: str) -> str:
        user = self.wanted.namespaces.user(agent_id, NODE)
        assert user is not None
        return user

    def alias(self, name: str) -> str:
        return f"#agents-{name}:{self.synapse.server_name}"


async def invited_to(synapse: Synapse, directory: Path, **settings: Any) -> Invited:
    """The Synapse has not been started before."""
    port, plain = lasting_port(), lasting_port()
    wanted = RegistrationSettings(
        "palaver", f"http://127.0.0.1:{port}", Namespaces(synapse.server_name, NODE, "_agent_")
    )
    file = directory / "registration.yaml"
    registration = write(file, wanted)
    base = homeserver(
        server_name=synapse.server_name, port=synapse.port, directory=directory, trusted=(),
        certificate=synapse.certificate, private_key=synapse.private_key, database={},
    )  # fmt: skip
    client = {
        "port": plain,
        "type": "http",
        "bind_addresses": ["127.0.0.1"],
        "resources": [{"names": ["client", "media"]}],
    }
    synapse.appservices = [file]
    synapse.settings = {**synapse.settings, **settings, "listeners": [*base["listeners"], client]}
    await synapse.start()
    await synapse.settled()
    return Invited(synapse, f"http://127.0.0.1:{plain}", port, wanted, registration)


@dataclass
class Side:
    appservice: Appservice
    observed: Observed
    invited: Invited

    @property
    def rooms(self) -> AppserviceUsers:
        return self.appservice.local_users

    async def user(self, agent_id: str) -> str:
        """A user that exists from now on."""
        user = self.invited.user(agent_id)
        await self.rooms.ensure_user(user)
        return user

    async def room(self, creator: str, **request: Any) -> str:
        asked = {"preset": "public_chat", **request}
        return (await self.rooms.create_room(CreateRoomRequest(creator=creator, **asked))).room_id

    async def say(self, room_id: str, user: str, body: str, **how: Any) -> str:
        content = {"msgtype": "m.text", "body": body}
        return await self.rooms.send(room_id, user, "m.room.message", content, **how)


@asynccontextmanager
async def side_on(invited: Invited, database: Database, *, listens: bool = True) -> AsyncIterator[Side]:
    observed = Observed()
    async with AsyncExitStack() as stack:
        appservice = await stack.enter_async_context(
            open_appservice(
                invited.url, invited.registration, invited.wanted, database, now_ms=now_ms, observer=observed
            )
        )
        if listens:
            services = EndpointServices(
                invited.registration.secrets.hs_token,
                invited.wanted.namespaces,
                appservice.intake,
                Empty(),
                connection_used=appservice.missed_events.connection_used,
            )
            listener = make_listener(services, [Bind("127.0.0.1")], invited.port, Recorder())
            await listener.start()
            stack.push_async_callback(listener.close, 1.0)
        appservice.monitor.start()
        yield Side(appservice, observed, invited)
