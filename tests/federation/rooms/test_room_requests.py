"""Requests for events and states, and their responses as a peer reads them."""

import json

import pytest

from federation.matrix.errors import MatrixError
from federation.rooms.requests import RoomRequestHandler
from storage.database import Database
from tests.support.graph import HERE, graph_on, join, raw
from tests.support.rooms import ALICE, BOB, CAROL, public_room


async def test_hidden_events_are_returned_redacted(database: Database) -> None:
    """To a server that joined later; the graph is the same."""
    room = public_room("12", BOB)
    room.send("m.room.history_visibility", ALICE, {"history_visibility": "joined"}, "")
    async with graph_on(database, room) as here:
        await join(here, room)
        early, joined = room.say(BOB, "early"), room.join(CAROL)
        await here.graph.receive("b.example", raw(early, joined))
        requests = RoomRequestHandler(HERE, here.graph)
        for server, content in (("b.example", early.content), ("c.example", {})):
            given = json.loads(await requests.event(server, early.event_id, 5))
            assert given["pdus"][0]["content"] == content
            assert given["pdus"][0]["prev_events"] == list(early.prev_events)
            assert (given["origin"], given["origin_server_ts"]) == (HERE, 5)
            given = json.loads(await requests.backfill(server, room.room_id, [early.event_id], "1", 5))
            assert given["pdus"][0]["content"] == content
            body = {"latest_events": [joined.event_id], "earliest_events": [room.head[0].event_id]}
            body["earliest_events"] = list(early.prev_events)
            given = json.loads(await requests.missing_events(server, room.room_id, body))
            assert given["events"][0]["content"] == content


async def test_rejected_events_are_not_returned(database: Database) -> None:
    """As if they were unknown."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        bad = room.propose("m.room.topic", CAROL, {}, "")
        await here.graph.receive("c.example", raw(bad))
        with pytest.raises(MatrixError, match="404"):
            await RoomRequestHandler(HERE, here.graph).event("a.example", bad.event_id, 5)


async def test_only_servers_of_the_room_are_answered(database: Database) -> None:
    """A server that has left the room is not."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        message = room.say(BOB)
        await here.graph.receive("b.example", raw(message))
        requests, query = RoomRequestHandler(HERE, here.graph), {"event_id": message.event_id, "ts": "1"}
        assert json.loads(await requests.state_ids("b.example", room.room_id, query))["pdu_ids"]
        left = room.member(BOB, BOB, "leave")
        await here.graph.receive("b.example", raw(left))
        for asked in (
            requests.state_ids("b.example", room.room_id, query),
            requests.state("b.example", room.room_id, query),
            requests.event("b.example", message.event_id, 5),
            requests.event_auth("b.example", room.room_id, message.event_id),
            requests.backfill("b.example", room.room_id, [message.event_id], "1", 5),
            requests.missing_events("b.example", room.room_id, {}),
            requests.timestamp_to_event("b.example", room.room_id, query),
        ):
            with pytest.raises(MatrixError, match="403 M_FORBIDDEN"):
                await asked
