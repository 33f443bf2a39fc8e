"""One office served by two processes of one node, which a broker connects."""

import asyncio
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest

from bridge.connectors.offices.connector import TOKEN_CHECK_INTERVAL
from bridge.connectors.offices.rooms.timeline import NAME as TIMELINE
from storage.database import connect_once
from storage.offices import records as office_records
from tests.bridge.connectors.offices.clients import TIMEOUT
from tests.bridge.connectors.offices.cluster.process_setup import Processes, adds, names, two_processes
from tests.federation.nodes import Node


@pytest.fixture(params=["zenoh", "redis"])
async def processes(
    node: Node, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Processes]:
    # The queue of a process that was killed is never sent.
    monkeypatch.setattr("bridge.connectors.offices.cluster.broker.CLOSE_TIMEOUT", 0.1)
    async with two_processes(node, request.param) as made:
        yield made


@pytest.fixture
def frequent_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a process has ended is known sooner."""
    monkeypatch.setattr("bridge.connectors.offices.cluster.members.CHECK_INTERVAL", 0.2)


async def test_an_agent_and_a_computer_in_two_processes(processes: Processes) -> None:
    """As within one process: notifications, lists, requests and answers."""
    boss = await processes.one.agent()
    hands = await processes.other.computer()
    hands.answers["client:tool_call"] = adds
    hands.answers["client:get_config"] = {"servers": {"x": {"env": {"KEY": "secret"}}}}
    assert await boss.wait_for("notify:enter_office") == {"office_id": "kitchen", "computer": "hands"}
    for client in (boss, hands):
        assert await names(client) == {"boss", "hands"}
    there = {one["name"]: one for one in (await boss.list_room("kitchen"))["sessions"]}
    assert there["hands"]["sid"] == hands.io.get_sid("/smcp")
    answer = await boss.call("hands", a=1, b=2)
    assert answer["content"] == [{"type": "text", "text": "3"}]
    config = await boss.request("client:get_config", {"agent": "x", "req_id": "c", "computer": "hands"})
    assert config == {"servers": {"x": {"env": {"KEY": "secret"}}}}
    await hands.emit("server:update_tool_list", {"computer": "hands"})
    assert await boss.wait_for("notify:update_tool_list") == {"computer": "hands"}
    await boss.leave("kitchen")
    assert await hands.wait_for("notify:leave_office") == {"office_id": "kitchen", "agent": "boss"}
    assert await names(hands) == {"hands"}
    assert await boss.join("agent", "boss", "kitchen") == [True, None]
    assert await hands.wait_for("notify:enter_office") == {"office_id": "kitchen", "agent": "boss"}
    await hands.leave("kitchen")
    assert await boss.wait_for("notify:leave_office") == {"office_id": "kitchen", "computer": "hands"}
    assert (await boss.call("hands", a=1, b=2))["code"] == 404


async def test_a_member_that_has_just_joined_is_found(processes: Processes) -> None:
    """Once its join is acknowledged, requests from every process reach it."""
    boss = await processes.one.agent()
    for number in range(10):
        hands = await processes.other.computer(f"c{number}")
        hands.answers["client:tool_call"] = adds
        answer = await boss.call(f"c{number}", str(number), a=1, b=number)
        assert answer["content"][0]["text"] == str(1 + number)


async def test_seats_and_names_are_unique_across_processes(processes: Processes) -> None:
    """The second join is refused, at whichever process."""
    await processes.one.agent("boss")
    await processes.one.computer("hands")
    other = await processes.other.client()
    assert await other.join("agent", "chief", "kitchen") == [False, "Room already has an agent"]
    assert await other.join("computer", "hands", "kitchen") == [False, "Name 'hands' is taken in the office"]
    assert await other.list_room("kitchen") == {"code": 403, "message": "Not in office"}
    assert await other.join("computer", "hands", "cellar") == [True, None]


async def test_concurrent_joins_at_two_processes(processes: Processes) -> None:
    """One of them gets the seat or the name, however often they are repeated."""
    here, there = await processes.one.client(), await processes.other.client()
    agents = [await processes.one.client(), await processes.other.client()]
    for number in range(30):
        office = f"o{number}"
        joined = await asyncio.gather(
            here.join("computer", "same", office),
            there.join("computer", "same", office),
            agents[0].join("agent", "first", office),
            agents[1].join("agent", "second", office),
        )
        assert sorted(one[0] for one in joined[:2]) == [False, True], joined
        assert sorted(one[0] for one in joined[2:]) == [False, True], joined
        seen = await names(here if joined[0][0] else there, office)
        assert seen == {"same", "first" if joined[2][0] else "second"}
        for agent, (is_in, _) in zip(agents, joined[2:], strict=True):
            if is_in:
                assert await agent.leave(office) == [True, None]


async def test_concurrent_calls(processes: Processes) -> None:
    """Each receives its own answer."""
    boss = await processes.one.agent()
    hands = [await processes.other.computer("left"), await processes.one.computer("right")]
    for one in hands:
        one.answers["client:tool_call"] = adds
    calls = [(hand, number) for number in range(40) for hand in ("left", "right")]
    answers = await asyncio.gather(
        *(boss.call(hand, f"{hand}{number}", seconds=20, a=number, b=1000) for hand, number in calls)
    )
    assert [one["content"][0]["text"] for one in answers] == [str(1000 + number) for _, number in calls]


async def test_a_large_answer_and_a_large_request(processes: Processes) -> None:
    boss, hands = await processes.one.agent(), await processes.other.computer()
    blob = "x" * 900_000
    hands.answers["client:get_blob"] = {"blob": blob, "req_id": "b"}
    hands.answers["client:put_blob"] = lambda payload: {"length": len(payload["blob"])}
    asked = {"agent": "x", "req_id": "b", "computer": "hands"}
    assert await boss.request("client:get_blob", {**asked, "blob_handle": "h"}) == {"blob": blob, "req_id": "b"}
    put = {**asked, "chunk_offset": 0, "eof": True, "blob": blob}
    assert await boss.request("client:put_blob", put) == {"length": len(blob)}


async def test_values_that_json_does_not_have_are_relayed(processes: Processes) -> None:
    """Bytes, which Socket.IO supports, and numbers of any size."""
    boss, hands = await processes.one.agent(), await processes.other.computer()
    hands.answers["client:get_config"] = {"data": b"\x00\xff", "many": [2**70, {"deep": b""}]}
    config = await boss.request("client:get_config", {"agent": "x", "req_id": "c", "computer": "hands"})
    assert config == {"data": b"\x00\xff", "many": [2**70, {"deep": b""}]}


async def test_a_call_is_cancelled(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the Agent, by its timeout, and when the Agent leaves."""
    monkeypatch.setattr("bridge.connectors.offices.protocol.relay.SLACK", 0.0)
    boss, hands = await processes.one.agent(), await processes.other.computer()
    release: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    hands.answers["client:tool_call"] = lambda payload: asyncio.shield(release)
    calling = asyncio.create_task(boss.call("hands", "first", seconds=60))
    await hands.wait_for("client:tool_call")
    await boss.emit("server:tool_call_cancel", {"agent": "x", "req_id": "first"})
    assert await hands.wait_for("notify:tool_call_cancel") == {"agent": "x", "req_id": "first"}
    release.set_result({"content": [], "isError": True, "meta": {"a2c_cancelled": True}})
    assert (await calling)["meta"] == {"a2c_cancelled": True}

    never: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    hands.answers["client:tool_call"] = lambda payload: asyncio.shield(never)
    assert (await boss.call("hands", "second", seconds=1))["meta"] == {"a2c_timeout": True}
    await hands.wait_for("client:tool_call")
    assert await hands.wait_for("notify:tool_call_cancel") == {"agent": "x", "req_id": "second"}

    calling = asyncio.create_task(boss.call("hands", "third", seconds=60))
    await hands.wait_for("client:tool_call")
    await boss.leave("kitchen")
    assert await hands.wait_for("notify:tool_call_cancel") == {"agent": "x", "req_id": "third"}
    await calling


async def test_a_call_is_answered_if_its_computer_disconnects(processes: Processes) -> None:
    """The caller does not wait for the timeout."""
    boss, hands = await processes.one.agent(), await processes.other.computer()
    never: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    hands.answers["client:tool_call"] = lambda payload: asyncio.shield(never)
    calling = asyncio.create_task(boss.call("hands", seconds=60))
    await hands.wait_for("client:tool_call")
    await hands.io.disconnect()
    assert (await calling)["code"] == 404
    assert await boss.wait_for("notify:leave_office") == {"office_id": "kitchen", "computer": "hands"}


async def test_a_process_is_closed(processes: Processes) -> None:
    """Its members leave, and members of the other process are notified."""
    boss, hands = await processes.one.agent(), await processes.other.computer()
    await boss.wait_for("notify:enter_office")
    await processes.other.connector.server.close()
    assert await boss.wait_for("notify:leave_office") == {"office_id": "kitchen", "computer": "hands"}
    assert (await boss.call("hands"))["code"] == 404
    again = await processes.one.client()
    assert await again.join("computer", "hands", "kitchen") == [True, None]
    assert hands is not again


@pytest.mark.usefixtures("frequent_checks")
async def test_the_computers_process_is_killed_during_a_call(processes: Processes) -> None:
    """When that is noticed, the Agent receives an answer and the name is free."""
    boss, hands = await processes.one.agent(), await processes.other.computer()
    never: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    hands.answers["client:tool_call"] = lambda payload: asyncio.shield(never)
    calling = asyncio.create_task(boss.call("hands", seconds=60))
    await hands.wait_for("client:tool_call")
    await processes.other.die()
    async with asyncio.timeout(5):
        assert (await calling)["code"] == 404
    assert await boss.wait_for("notify:leave_office") == {"office_id": "kitchen", "computer": "hands"}
    again = await processes.one.client()
    assert await again.join("computer", "hands", "kitchen") == [True, None]


@pytest.mark.usefixtures("frequent_checks")
async def test_the_agents_process_is_killed_during_a_call(processes: Processes) -> None:
    """The Computer is notified of the leave and of the cancel, the call has an answer in the records, and the
    seat is free."""
    boss, hands = await processes.one.agent(), await processes.other.computer()
    never: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    hands.answers["client:tool_call"] = lambda payload: asyncio.shield(never)
    calling = asyncio.create_task(boss.call("hands", "lost", seconds=60))
    await hands.wait_for("client:tool_call")
    await processes.one.die()
    assert await hands.wait_for("notify:leave_office") == {"office_id": "kitchen", "agent": "boss"}
    assert await hands.wait_for("notify:tool_call_cancel") == {"agent": "boss", "req_id": "lost"}
    async with processes.other.connector._records._database.transaction() as connection:
        assert await office_records.fetch_unanswered(connection) == []
    assert await (await processes.other.client()).join("agent", "chief", "kitchen") == [True, None]
    calling.cancel()


@pytest.mark.usefixtures("frequent_checks")
async def test_a_process_is_treated_as_ended_while_it_runs(processes: Processes) -> None:
    """It has lost its lease in Postgres. Its members are restored, except those whose names are taken by now:
    these are evicted and learn the reason."""
    boss, hands = await processes.one.agent(), await processes.other.computer()
    feet = await processes.other.computer("feet")
    for _ in range(2):
        await boss.wait_for("notify:enter_office")
    await processes.other.die()
    for _ in range(2):
        await boss.wait_for("notify:leave_office")
    newcomer = await processes.one.client()
    assert await newcomer.join("computer", "feet", "kitchen") == [True, None]
    await processes.other.resume()
    async with asyncio.timeout(TIMEOUT):
        while await names(boss) != {"boss", "hands", "feet"}:
            await asyncio.sleep(0.05)
    assert await feet.wait_for("notify:leave_office") == {"office_id": "kitchen", "computer": "feet"}
    answer = await feet.request("client:get_tools", {"agent": "x", "req_id": "t", "computer": "hands"})
    assert "another member has taken its name" in answer["details"]["reason"]
    hands.answers["client:tool_call"] = newcomer.answers["client:tool_call"] = adds
    for name in ("hands", "feet"):
        assert (await boss.call(name, a=1, b=2))["content"][0]["text"] == "3"


async def test_the_broker_is_unavailable(processes: Processes) -> None:
    """Requests to another process fail at once; joins and leaves still take effect; and everything works when
    the broker is back."""
    boss, hands = await processes.one.agent(), await processes.other.computer()
    hands.answers["client:tool_call"] = adds
    await boss.call("hands", a=1, b=2)
    await processes.broker.close()
    async with asyncio.timeout(TIMEOUT):
        while (answer := await boss.call("hands", seconds=1)).get("code") != 500:
            pass
    assert "another process" in answer["message"]
    feet = await processes.other.computer("feet")
    feet.answers["client:tool_call"] = adds
    assert await names(boss) == {"boss", "hands", "feet"}
    taken = await processes.one.client()
    assert await taken.join("computer", "feet", "kitchen") == [False, "Name 'feet' is taken in the office"]
    await processes.broker.open()
    # A call waits for its timeout if the other process does not listen yet.
    async with asyncio.timeout(TIMEOUT):
        for _, broker in (processes.one.parts, processes.other.parts):
            await broker._subscribed.wait()
    async with asyncio.timeout(TIMEOUT):
        while "content" not in (answer := await boss.call("feet", a=1, b=2)) or answer["isError"]:
            await asyncio.sleep(0.05)
    assert answer["content"][0]["text"] == "3"
    for one in (processes.one, processes.other):
        assert len(one.running.problems) == 1
        assert one.running.problems.pop().startswith("The broker of offices is unavailable: ")


async def test_a_direct_call(processes: Processes) -> None:
    """It reaches a Computer of another process and can be cancelled."""
    hands = await processes.other.computer()
    hands.answers["client:tool_call"] = adds
    calls = processes.one.connector.gateway.calls
    called = await calls.call("kitchen", "hands", "add", {"a": 1, "b": 2}, seconds=5, by="@alice:a.test")
    assert called.answer["content"][0]["text"] == "3"
    assert calls.computers("kitchen") == calls.local_computers("kitchen") == ["hands"]
    never: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    hands.answers["client:tool_call"] = lambda payload: asyncio.shield(never)
    await hands.wait_for("client:tool_call")
    calling = asyncio.create_task(
        calls.call("kitchen", "hands", "add", {}, seconds=60, by="@alice:a.test", call_id="direct-1")
    )
    await hands.wait_for("client:tool_call")
    calling.cancel()
    assert (await hands.wait_for("notify:tool_call_cancel"))["req_id"] == "direct-1"


@pytest.mark.usefixtures("frequent_checks")
async def test_a_process_without_members_is_killed_during_its_call(processes: Processes) -> None:
    """An operator's call has an answer in the records, and the Computer is notified of the cancel."""
    hands = await processes.other.computer()
    never: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    hands.answers["client:tool_call"] = lambda payload: asyncio.shield(never)
    async with asyncio.timeout(TIMEOUT):
        while processes.one.connector.gateway.calls.computers("kitchen") != ["hands"]:
            await asyncio.sleep(0.02)
    calling = asyncio.create_task(
        processes.one.connector.gateway.calls.call(
            "kitchen", "hands", "add", {}, seconds=60, by="somebody", call_id="direct-1"
        )
    )
    await hands.wait_for("client:tool_call")
    await processes.one.die()
    assert (await hands.wait_for("notify:tool_call_cancel"))["req_id"] == "direct-1"
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)


async def test_random_joins_and_leaves(processes: Processes) -> None:
    """At no time do two members share a name or a seat, and in the end every process lists exactly the
    present members."""
    random = Random(7)
    both = (processes.one, processes.other)
    clients = [await random.choice(both).client() for _ in range(10)]
    inside: dict[int, tuple[str, str, str]] = {}

    async def wander(number: int) -> None:
        client = clients[number]
        for _ in range(12):
            if number in inside:
                _, office, _ = inside.pop(number)
                if random.random() < 0.2:
                    await client.close()
                    clients[number] = client = await random.choice(both).client()
                else:
                    assert await client.leave(office) == [True, None]
                continue
            role = "agent" if number % 3 == 0 else "computer"
            name, office = random.choice("abc"), random.choice(("kitchen", "cellar"))
            joined, reason = await client.join(role, name, office)
            if joined:
                taken = [one for one in inside.values() if one[:2] == (name, office)]
                assert taken == [], taken
                inside[number] = name, office, role
            else:
                assert "taken" in reason or "already has an agent" in reason, reason

    await asyncio.gather(*map(wander, range(len(clients))))
    for office in ("kitchen", "cellar"):
        there = {name for name, where, _ in inside.values() if where == office}
        assert len([one for one in inside.values() if one[1:] == (office, "agent")]) <= 1
        for number, (_, where, _) in inside.items():
            if where == office:
                async with asyncio.timeout(TIMEOUT):
                    while await names(clients[number], office) != there:
                        await asyncio.sleep(0.05)
        for one in both:
            async with asyncio.timeout(TIMEOUT):
                while {m.name for m in one.connector.server.members() if m.office_id == office} != there:
                    await asyncio.sleep(0.05)


async def test_postgres_ends_all_sessions(processes: Processes) -> None:
    """As in a restart: no member is treated as gone, and everything works afterwards."""
    boss, hands = await processes.one.agent(), await processes.other.computer()
    hands.answers["client:tool_call"] = adds
    await boss.wait_for("notify:enter_office")
    database = processes.one.connector._records._database
    admin = await connect_once(database.address)
    await admin.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    await admin.close()
    await asyncio.sleep(4)
    assert (await boss.call("hands", a=1, b=2))["content"][0]["text"] == "3"
    feet = await processes.other.computer("feet")
    assert await boss.wait_for("notify:enter_office") == {"office_id": "kitchen", "computer": "feet"}
    assert await names(boss) == await names(hands) == await names(feet) == {"boss", "hands", "feet"}
    assert not any(event == "notify:leave_office" for event, _ in [*boss.received, *hands.received])
    sessions = [one.connector._records._database.session for one in (processes.one, processes.other)]
    async with asyncio.timeout(TIMEOUT):  # one of them sends to rooms, and the other waits for its lease
        while await sessions[0].try_lease(TIMELINE) or await sessions[1].try_lease(TIMELINE):
            await asyncio.sleep(0.05)
    for one in (processes.one, processes.other):
        one.running.problems.clear()


async def test_a_token_is_revoked_by_another_process(processes: Processes) -> None:
    """Its connections are closed at once, at every process."""
    boss, hands = await processes.one.agent(), await processes.other.computer()
    rows = await processes.one.tokens.list_tokens()
    async with asyncio.timeout(TOKEN_CHECK_INTERVAL / 2):
        for row in rows:
            await processes.one.tokens.revoke(row.token_id)
        await asyncio.gather(boss.io.eio.wait(), hands.io.eio.wait())


async def test_an_agent_changes_offices_quickly(processes: Processes) -> None:
    """In whatever order the other process learns of it, the Agent ends up in one office."""
    boss = await processes.one.client()
    offices = ("kitchen", "cellar", "attic")
    there = {office: await processes.other.computer("hands", office) for office in offices}
    for number in range(30):
        office = offices[number % 3]
        assert await boss.join("agent", "boss", office) == [True, None]
        assert await there[office].wait_for("notify:enter_office") == {"office_id": office, "agent": "boss"}
        assert await boss.leave(office) == [True, None]
    assert await boss.join("agent", "boss", "kitchen") == [True, None]
    server = processes.other.connector.server
    async with asyncio.timeout(5):
        while {m.office_id for m in server.members() if m.name == "boss"} != {"kitchen"}:
            await asyncio.sleep(0.02)


async def test_a_missed_change_is_found_by_a_reload(processes: Processes) -> None:
    """Whatever the reason why it was missed."""
    await processes.one.agent()
    server, (cluster, _) = processes.other.connector.server, processes.other.parts
    async with asyncio.timeout(5):
        while not server.cluster_members("kitchen"):
            await asyncio.sleep(0.02)
    [sid] = server.cluster_members("kitchen")
    await server._memberships._remove_remote(sid)
    assert server.cluster_members("kitchen") == frozenset()
    cluster._request_reload()
    async with asyncio.timeout(5):
        while server.cluster_members("kitchen") != {sid}:
            await asyncio.sleep(0.02)
