"""Outages between an attached node and its Synapse lose nothing."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.interop.appservice_node import AppserviceNode, appservice_company, asker, listener, send_with_retries
from tests.interop.staffed_node import TIMEOUT, Company, relation, repeated
from tests.support.matrix_client import MatrixClient
from tests.support.matrix_client.seen import Event
from tests.support.synapse.database import SQLite
from tests.support.synapse.fixtures import SynapseFactory
from tests.support.tls import Authority

pytestmark = [pytest.mark.interop, pytest.mark.process, pytest.mark.xdist_group("appservice outages")]
ASKERS, EACH = 20, 25
KILLS = 3
MOST_AHEAD = 60


@pytest.fixture(scope="module")
async def here(palaver: Path, authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Company]:
    """One node and one Synapse for all of these tests; a test that stops one of them starts it again."""
    factory = SynapseFactory(tmp_path_factory.mktemp("synapses"), authority)
    try:
        synapse = await factory(start=False)
        async with appservice_company(palaver, authority, synapse, askers=ASKERS) as made:
            yield made
    finally:
        await factory.clean_up()


@pytest.mark.timeout(600)
async def test_restarts_lose_and_repeat_nothing(here: Company, tmp_path: Path) -> None:
    """Each of five hundred tasks is received once, in the order of the room, and answered once in its thread,
    while the Synapse is restarted and the node is killed repeatedly."""
    node, synapse, alice = here.node, here.synapse, here.alice
    assert isinstance(node, AppserviceNode)
    heard = tmp_path / "heard"
    askers = [await synapse.person(asker(number)) for number in range(ASKERS)]
    for one in askers:
        await one.join(here.room_id)

    def question(number: int, count: int) -> dict[str, Any]:
        user, text = node.user("listener"), f"Question {number}.{count}"
        return {"msgtype": "m.text", "body": f"listener: {text}", "m.mentions": {"user_ids": [user]}}

    def lines() -> int:
        return len(heard.read_text().splitlines()) if heard.exists() else 0

    async def ask(one: MatrixClient, number: int) -> list[str]:
        asked = []
        for count in range(EACH):
            # An agent refuses tasks while a hundred are queued for it.
            while count * ASKERS - lines() > MOST_AHEAD:
                await asyncio.sleep(0.05)
            asked.append(await send_with_retries(one, here.room_id, question(number, count)))
        return asked

    async def until_heard(count: int) -> None:
        async with asyncio.timeout(TIMEOUT):
            while lines() < count:
                await asyncio.sleep(0.05)

    async def watch() -> None:
        """Wait without a sync after each event, which would slow the Synapse down."""
        while True:
            with suppress(aiohttp.ClientError):
                await alice.sync()
            await asyncio.sleep(0.5)

    watching = asyncio.create_task(watch())
    async with listener(node, heard):
        asking = asyncio.gather(*(ask(one, number) for number, one in enumerate(askers)))
        whole = ASKERS * EACH
        await until_heard(whole // 8)
        await synapse.stop()
        await synapse.start()
        for kill in range(1, KILLS + 1):
            await until_heard(kill * whole // (KILLS + 1))
            await node.kill()
            await node.start()
        asked = {event_id for events in await asking for event_id in events}
        await until_heard(whole)
        watching.cancel()
        is_answer = partial(_is_answer, sender=node.user("listener"))
        await alice.wait_until(lambda seen: sum(map(is_answer, seen.timeline)) >= whole)
    await here.asked_again()
    assert here.room_id not in alice.seen.gaps
    seen = {event["event_id"]: event for event in alice.seen.timeline if event["room_id"] == here.room_id}
    roots = [event_id for event_id in seen if event_id in asked]
    assert len(roots) == whole
    questions = [_question(seen[event_id]) for event_id in roots]
    in_order = heard.read_text().splitlines()
    assert Counter(in_order) == Counter(questions)
    # The homeserver tells of them in the order of its stream. What it has lost is fetched in the order of the
    # room's history, and that may be another one for what was asked at the same time.
    history = [event for event in await alice.history(here.room_id) if event["event_id"] in asked]
    told = {said: place for place, said in enumerate(questions)}
    stands = {_question(event): place for place, event in enumerate(history)}
    wrong = [
        (one, other)
        for one, other in combinations(in_order, 2)
        if told[one] > told[other] and stands[one] > stands[other]
    ]
    assert wrong == []
    answered = Counter(relation(event)[1] for event in seen.values() if is_answer(event))
    assert answered == Counter(roots)
    assert repeated(await alice.history(here.room_id), node.server_name) == []


async def test_a_lost_invite_is_found(here: Company) -> None:
    """An agent is invited while the node is stopped, and the Synapse loses its queued transactions."""
    node, synapse, alice = here.node, here.synapse, here.alice
    assert isinstance(synapse.database, SQLite)
    baker = node.user("baker")
    await node.stop()
    room_id = await alice.create_room(invite=[baker])
    invite = (await alice.full_state(room_id))["m.room.member", baker]
    async with asyncio.timeout(TIMEOUT):
        while not synapse.database.waits_for_appservice(invite["event_id"]):
            await asyncio.sleep(0.05)
    await synapse.stop()
    assert synapse.database.lose_transactions() > 0
    await synapse.start()
    await node.start()
    async with asyncio.timeout(TIMEOUT):
        while (await alice.members(room_id))[baker] != "join":
            await asyncio.sleep(0.2)
    await here.mention(alice, "baker", "Are you there?", room_id)
    await alice.wait_for(lambda event: event["sender"] == baker and event["content"].get("body") == "Are you there?")


def _question(event: Event) -> str:
    body: str = event["content"]["body"]
    return body.removeprefix("listener: ")


def _is_answer(event: Event, sender: str) -> bool:
    return event["sender"] == sender and event["type"] == "m.room.message" and relation(event)[0] == "m.thread"
