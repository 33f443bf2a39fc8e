"""Malicious requests never cause a server error: each response is a Matrix error or a valid result, a
refusal changes nothing, and no problem is reported.

The endpoints are taken from the application, so that new ones are covered.
"""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.federation.http import well_meant
from tests.federation.http.besieged import Besieged, Room, besieged, signed_event
from tests.federation.http.hostility import METHODS, hostile, mutated, mutations, queries, segments, written
from tests.support.postgres import Server

HEADERS = (
    ("Authorization", "X-Matrix"),
    ("Authorization", 'X-Matrix origin="evil.test",key="ed25519:test",sig="AAAA"'),
    ("Authorization", 'X-Matrix origin="\x00",key="",sig=""'),
    ("Authorization", 'X-Matrix origin="' + "a" * 5_000 + '"'),
    ("Authorization", "Bearer x"),
    ("Content-Type", "text/plain; charset=utf-16"),
    ("Content-Type", "application/json; charset=no-such"),
    ("Content-Encoding", "gzip"),
    ("Expect", "nothing"),
    ("Cookie", "a=\xff; " * 300),
    ("X", "y" * 12_000),
    ("Host", "\xe9.test:99999"),
    ("If-Modified-Since", "never"),
    ("Range", "bytes=-1,0-0"),
    ("Connection", "upgrade"),
    ("Upgrade", "websocket"),
)


@pytest.fixture
async def siege(postgres_server: Server, migrated_template: str, tmp_path: Path) -> AsyncIterator[Besieged]:
    async with besieged(postgres_server, migrated_template, tmp_path) as made:
        yield made


@pytest.fixture
async def room(siege: Besieged) -> Room:
    return await siege.make_room("12")


@hostile(300)
@given(data=st.data())
async def test_heads(siege: Besieged, room: Room, data: st.DataObject) -> None:
    """Arbitrary paths, queries, methods and headers; signed and unsigned."""
    method, template = data.draw(st.sampled_from(siege.routes()))

    def filled(place: re.Match[str]) -> str:
        right = quote(well_meant.fitting(place[1], room.room_id, room.event_id), safe="")
        return data.draw(st.just(right) | segments)

    target = well_meant.PLACE.sub(filled, template)
    if query := data.draw(st.sampled_from(["", well_meant.query("12", room.event_id)]) | queries):
        target = f"{target}?{query}"
    method = data.draw(st.just(method) | st.sampled_from(METHODS))
    headers = dict(data.draw(st.lists(st.sampled_from(HEADERS), max_size=2)))
    body = data.draw(st.none() | st.sampled_from([b"{}", b"[]", b"\x00", b"{" * 50]))
    await siege.throw(method, target, body, headers, is_signed=data.draw(st.booleans()))


@hostile(300)
@given(data=st.data())
async def test_bodies(siege: Besieged, room: Room, data: st.DataObject) -> None:
    """Mutated valid bodies, and arbitrary ones."""
    with_bodies = [(method, template) for method, template in siege.routes() if method in ("PUT", "POST")]
    method, template = data.draw(st.sampled_from(with_bodies))
    membership = data.draw(st.sampled_from(["join", "leave", "knock", "invite", None]))
    event, event_id = signed_event(await siege.template(room, membership), room.version)
    right = well_meant.body(template, room.version, room.room_id, room.event_id, event)
    body = written(mutated(right, data.draw(mutations())))

    target = well_meant.filled(template, room.room_id, event_id)
    await siege.throw(method, target, body, is_signed=data.draw(st.integers(0, 9)) > 0)
