"""The agents' rooms."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from structlog.testing import capture_logs

from bridge.agents.updates import Registration
from federation.rooms.creation import CreateRoomRequest
from storage.database import Database
from tests.bridge.people.service.running_node import HERE, NODE, TIMEOUT, WORKER, RunningNode, running_node
from tests.federation.local_users.homes import Home, homeserver_without_port
from tests.federation.nodes import now_ms
from tests.support.agents import address


@pytest.fixture
async def home(database: Database) -> AsyncIterator[Home]:
    """A node alone, without a port."""
    async with homeserver_without_port(HERE, database) as made:
        yield made


async def until_in(one: RunningNode, room_id: str, *users: str) -> None:
    """All of them are in the room."""
    async with asyncio.timeout(TIMEOUT):
        for user in users:
            await Home.until_member(one.node, room_id, user, "join")  # type: ignore[arg-type]


async def test_each_namespace_has_a_room(home: Home) -> None:
    """With its alias and version, and the agents of the namespace with their names."""
    namespaces = {"worker-1": ("default",), "worker-2": ("team",)}
    async with running_node(
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


async def test_a_failed_join_does_not_stop_the_others(home: Home) -> None:
    """The failure is logged."""
    failed = asyncio.Event()

    def namespaces_of(agent: object) -> tuple[str, ...]:
        if agent == address(f"worker-1@{HERE}"):
            failed.set()
            raise ZeroDivisionError
        return ("default",)

    with capture_logs() as logs:
        async with running_node(
            home,  # type: ignore[arg-type]
            agents=("worker-1", "worker-2"),
            namespaces_of=namespaces_of,
        ) as one:
            await failed.wait()
            await until_in(one, one.room_id, f"@worker-2:{HERE}")
    assert [log["task"] for log in logs if log["log_level"] == "error"] == ["agents join their rooms"]


async def test_existing_rooms_are_found(home: Home) -> None:
    """Their settings are updated from the configuration."""
    async with running_node(home) as one:  # type: ignore[arg-type]
        room_id = one.room_id
        await until_in(one, room_id, WORKER)
    async with running_node(home, join_rule="invite", agents=("worker-1", "worker-2")) as one:  # type: ignore[arg-type]
        assert one.room_id == room_id
        assert await home.state(room_id, "m.room.join_rules") == {"join_rule": "invite"}
        # Agents do not join by themselves; the connector joins them.
        await until_in(one, room_id, f"@worker-2:{HERE}")
        assert one.notebook.problems == []


async def test_agents_that_register_later_join(home: Home) -> None:
    """Up to the configured number of members. Others join with their first message."""
    async with running_node(home, members=2) as one:  # type: ignore[arg-type]
        await until_in(one, one.room_id, WORKER)
        for number in range(2, 6):
            await one.register_agents(f"worker-{number}@{HERE}")
        await one.register_agents("cook@kitchen.test")
        while one.people.rooms._to_join:
            await asyncio.sleep(0)
        await until_in(one, one.room_id, f"@worker-2:{HERE}")
        assert len(await home.rooms.members(one.room_id)) == 3
        assert await one.people.rooms.join(one.room_id, f"@worker-5:{HERE}")
        assert await home.rooms.membership(one.room_id, f"@worker-5:{HERE}") == "join"


async def test_agents_have_profiles(home: Home) -> None:
    """With the configured names. The avatar follows the runtime."""
    async with running_node(home, names={"worker-1": "The worker"}) as one:  # type: ignore[arg-type]
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


async def test_a_room_that_cannot_be_created_does_not_affect_others(home: Home) -> None:
    """Nor the tasks that would be shown in it."""
    await home.rooms.ensure_user(WORKER)
    await home.rooms.create_room(CreateRoomRequest(creator=WORKER, alias="agents-default"))
    async with running_node(home, namespaces=("default", "team")) as one:  # type: ignore[arg-type]
        assert set(one.people.rooms.all()) == {"team"}
        [problem] = one.notebook.problems
        assert problem == f"The room #agents-default:{HERE} could not be created."
        await one.request_task()
        await one.complete(await one.given(), "Done.")
        answered = await one.requester.answered.get()
        assert answered.answer is not None


async def test_an_encrypted_room_is_reported(home: Home) -> None:
    """The homeserver may encrypt all new rooms, and agents could not answer there."""
    async with running_node(home) as one:  # type: ignore[arg-type]
        room_id = one.room_id
        assert one.notebook.problems == []
    algorithm = {"algorithm": "m.megolm.v1.aes-sha2"}
    await home.homeserver.graph.send_event(room_id, "m.room.encryption", algorithm, NODE, "")
    async with running_node(home) as one:  # type: ignore[arg-type]
        [problem] = one.notebook.problems
        assert problem.startswith(f"The room #agents-default:{HERE} is encrypted")
