"""The rooms of agents."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from structlog.testing import capture_logs

from bridge.agents.updates import Registration
from federation.rooms.creation import CreateRoomRequest
from storage.database import Database
from tests.bridge.people.service.scene import HERE, NODE, TIMEOUT, WORKER, Scene, scene
from tests.federation.local_users.homes import Home, homeserver_without_port
from tests.federation.nodes import now_ms
from tests.support.agents import address


@pytest.fixture
async def home(database: Database) -> AsyncIterator[Home]:
    """A node alone, without a port."""
    async with homeserver_without_port(HERE, database) as made:
        yield made


async def until_in(one: Scene, room_id: str, *users: str) -> None:
    """All of them are in the room."""
    async with asyncio.timeout(TIMEOUT):
        for user in users:
            await Home.until_member(one.node, room_id, user, "join")  # type: ignore[arg-type]


async def test_a_room_for_each_namespace(home: Home) -> None:
    """With its alias, its version, and the agents of that namespace in it, under their names."""
    namespaces = {"worker-1": ("default",), "worker-2": ("team",)}
    async with scene(
        home,  # type: ignore[arg-type]
        agents=tuple(namespaces),
        namespaces=("default", "team"),
        namespaces_of=lambda address: namespaces[address.agent_id],
    ) as one:
        rooms = one.people.rooms.all()
        assert set(rooms) == {"default", "team"}
        await until_in(one, rooms["default"], WORKER)
        await until_in(one, rooms["team"], f"@worker-2:{HERE}")
        for namespace, room_id in rooms.items():
            assert await home.rooms.resolve_alias(f"#agents-{namespace}:{HERE}") == (room_id, (HERE,))
            assert (await home.state(room_id, "m.room.create"))["room_version"] == "12"
            assert await home.state(room_id, "m.room.join_rules") == {"join_rule": "public"}
        assert await home.rooms.membership(rooms["default"], f"@worker-2:{HERE}") is None
        assert (await home.state(rooms["default"], "m.room.member", WORKER))["displayname"] == "worker-1"
        assert (await home.state(rooms["default"], "m.room.member", NODE))["displayname"] == "Palaver"


async def test_agents_come_into_their_rooms_after_one_failed(home: Home) -> None:
    """What failed, for whatever reason, is logged."""
    failed = asyncio.Event()

    def namespaces_of(agent: object) -> tuple[str, ...]:
        if agent == address(f"worker-1@{HERE}"):
            failed.set()
            raise ZeroDivisionError
        return ("default",)

    with capture_logs() as logs:
        async with scene(
            home,  # type: ignore[arg-type]
            agents=("worker-1", "worker-2"),
            namespaces_of=namespaces_of,
        ) as one:
            await failed.wait()
            await until_in(one, one.room_id, f"@worker-2:{HERE}")
    assert [log["task"] for log in logs if log["log_level"] == "error"] == ["agents come into their rooms"]


async def test_they_are_found_again(home: Home) -> None:
    """And are then as the configuration has them."""
    async with scene(home) as one:  # type: ignore[arg-type]
        room_id = one.room_id
        await until_in(one, room_id, WORKER)
    async with scene(home, join_rule="invite", agents=("worker-1", "worker-2")) as one:  # type: ignore[arg-type]
        assert one.room_id == room_id
        assert await home.state(room_id, "m.room.join_rules") == {"join_rule": "invite"}
        # Nobody comes in by himself; agents are brought in.
        await until_in(one, room_id, f"@worker-2:{HERE}")
        assert one.notebook.problems == []


async def test_agents_that_come_later(home: Home) -> None:
    """As long as there is room for them; of others it is seen when they speak."""
    async with scene(home, members=2) as one:  # type: ignore[arg-type]
        await until_in(one, one.room_id, WORKER)
        for number in range(2, 6):
            await one.come(f"worker-{number}@{HERE}")
        await one.come("cook@kitchen.test")
        while one.people.rooms._to_come:
            await asyncio.sleep(0)
        await until_in(one, one.room_id, f"@worker-2:{HERE}")
        assert len(await home.rooms.members(one.room_id)) == 3
        assert await one.people.rooms.let_in(one.room_id, f"@worker-5:{HERE}")
        assert await home.rooms.membership(one.room_id, f"@worker-5:{HERE}") == "join"


async def test_they_are_seen_with_their_faces(home: Home) -> None:
    """Under the names that the configuration has; who runs on something else from now on looks otherwise."""
    async with scene(home, names={"worker-1": "The worker"}) as one:  # type: ignore[arg-type]
        await until_in(one, one.room_id, WORKER)
        first = await home.state(one.room_id, "m.room.member", WORKER)
        assert first["displayname"] == "The worker"
        worker = address(f"worker-1@{HERE}")
        await one.routes.update([Registration(worker, "cis", "kimi", ("coding",), now_ms() + 1)])
        changed = await home.until(
            lambda event: (
                (event.room_id, event.state_key) == (one.room_id, WORKER)
                and event.content.get("avatar_url") not in (None, first["avatar_url"])
            )
        )
        assert changed.event.content["displayname"] == "The worker"
        assert one.notebook.problems == []


async def test_a_room_that_cannot_be_made_is_no_harm(home: Home) -> None:
    """To the others, nor to the tasks that would be shown in it."""
    await home.rooms.ensure_user(WORKER)
    await home.rooms.create_room(CreateRoomRequest(creator=WORKER, alias="agents-default"))
    async with scene(home, namespaces=("default", "team")) as one:  # type: ignore[arg-type]
        assert set(one.people.rooms.all()) == {"team"}
        [problem] = one.notebook.problems
        assert problem == f"The room #agents-default:{HERE} is not there."
        await one.ask()
        await one.do(await one.given(), "Done.")
        answered = await one.requester.answered.get()
        assert answered.answer is not None


async def test_a_room_that_is_encrypted_is_told_of(home: Home) -> None:
    """A homeserver may encrypt each room that is made on it; then nobody would know why agents do not
    answer."""
    async with scene(home) as one:  # type: ignore[arg-type]
        room_id = one.room_id
        assert one.notebook.problems == []
    algorithm = {"algorithm": "m.megolm.v1.aes-sha2"}
    await home.homeserver.graph.send_event(room_id, "m.room.encryption", algorithm, NODE, "")
    async with scene(home) as one:  # type: ignore[arg-type]
        [problem] = one.notebook.problems
        assert problem.startswith(f"The room #agents-default:{HERE} is encrypted")
