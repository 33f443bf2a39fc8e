"""The application service with all parts, on a fake homeserver."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from appservice.appservice import Appservice, open_appservice
from appservice.intake.transaction import Transaction, read
from appservice.registration.registration import make
from federation.matrix.capabilities import BackendCapability
from storage.database import Database
from tests.appservice.events import message, transaction
from tests.appservice.registration.test_registration import SECRETS, WANTED
from tests.support.loopback_server import LoopbackServer

GHOST = "@_agent_worker-1:their.server"


@dataclass
class Observed:
    """Records what is reported."""

    kinds: list[str] = field(default_factory=list)
    taken: list[bool] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def request_finished(self, method: str, kind: str, outcome: str, seconds: float) -> None:
        self.kinds.append(kind)

    def transaction_received(self, transaction: Transaction, *, is_new: bool, seconds: float) -> None:
        assert seconds >= 0
        self.taken.append(is_new)

    def unavailable(self, wrong: str) -> None:
        self.problems.append(wrong)

    def available(self, seconds: float) -> None:
        self.problems.append("back")

    def unreachable(self, wrong: str) -> None:
        self.problems.append(wrong)

    def reachable(self) -> None:
        self.problems.append("reached")

    def ping_received(self) -> None:
        self.problems.append("pinged")

    def problem(self, sentence: str, error: BaseException | None) -> None:
        self.problems.append(sentence)


@dataclass
class Homeserver:
    """Has some users already, and knows their rooms."""

    made: set[str] = field(default_factory=set)
    asked: list[tuple[str, str | None]] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        user = request.query.get("user_id")
        self.asked.append((request.path.rpartition("/")[2], user))
        match request.path:
            case "/_matrix/client/v3/register":
                name = (await request.json())["username"]
                if name in self.made:
                    return web.json_response({"errcode": "M_USER_IN_USE", "error": "No."}, status=400)
                return web.json_response({"user_id": f"@{name}:their.server"})
            case "/_matrix/client/v3/joined_rooms":
                return web.json_response({"joined_rooms": ["!a:their.server", 7]})
        return web.json_response({"errcode": "M_UNRECOGNIZED", "error": "No."}, status=404)


@asynccontextmanager
async def opened(database: Database, house: Homeserver) -> AsyncIterator[tuple[Appservice, Observed]]:
    server, observed = LoopbackServer(house.answer), Observed()
    async with server.running(None):
        url, registration = f"http://127.0.0.1:{server.port}", make(WANTED, SECRETS)
        async with open_appservice(
            url, registration, WANTED, database, now_ms=lambda: 1, observer=observed
        ) as appservice:
            yield appservice, observed


async def test_opening_makes_no_request(database: Database) -> None:
    """Its capabilities are those of an application service."""
    house = Homeserver()
    async with opened(database, house) as (appservice, observed):
        assert appservice.local_users.server_name == "their.server"
        assert appservice.local_users.capabilities == frozenset({BackendCapability.TO_DEVICE})
        assert appservice.monitor.is_available
    assert (house.asked, observed.problems) == ([], [])


async def test_new_ghost_has_no_rooms(database: Database) -> None:
    """The rooms of an existing user are requested once."""
    for made, rooms in ((set[str](), []), ({"_agent_worker-2"}, ["!a:their.server"])):
        house = Homeserver(made)
        user = GHOST if not made else "@_agent_worker-2:their.server"
        async with opened(database, house) as (appservice, observed):
            await appservice.local_users.ensure_user(user)
            for _ in range(2):
                assert await appservice.local_users.joined_rooms(user) == rooms
        assert house.asked == [("register", None), *([("joined_rooms", user)] if made else [])]
        assert observed.kinds == [name for name, _ in house.asked]


async def test_received_transactions_are_reported(database: Database) -> None:
    """Also repetitions: the homeserver has reached the node."""
    body = read(transaction(message("$1")))
    async with opened(database, Homeserver()) as (appservice, observed):
        assert await appservice.intake.receive("1", body)
        assert not await appservice.intake.receive("1", body)
        entries = (await appservice.incoming.stream.read(0, 10)).entries
    assert observed.taken == [True, False]
    assert [one.event.event_id for one in entries] == ["$1"]
