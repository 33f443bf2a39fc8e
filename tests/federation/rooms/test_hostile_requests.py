"""Invalid requests to every endpoint.

`tests/federation/http/test_hostile.py` sends random ones.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.federation.http import well_meant
from tests.federation.http.besieged import Besieged, Room, besieged
from tests.federation.http.hostility import FEW, METHODS, SEGMENTS, everywhere, written
from tests.support.postgres import Server


@pytest.fixture
async def siege(postgres_server: Server, migrated_template: str, tmp_path: Path) -> AsyncIterator[Besieged]:
    async with besieged(postgres_server, migrated_template, tmp_path) as made:
        yield made


@pytest.fixture
async def room(siege: Besieged) -> Room:
    return await siege.make_room("12")


async def test_every_path_parameter(siege: Besieged, room: Room) -> None:
    """Of every endpoint, with every method."""
    for method, template in siege.routes():
        right = well_meant.filled(template, room.room_id, room.event_id)
        for place in well_meant.PLACE.findall(template):
            for segment in SEGMENTS:
                target = template.replace(f"{{{place}}}", segment)
                await siege.throw(method, well_meant.filled(target, room.room_id, room.event_id), b"{}")
        for wrong in METHODS:
            await siege.throw(wrong, right, b"{}")
            await siege.throw(wrong, right, is_signed=False)


async def test_every_part_of_every_body(siege: Besieged, room: Room) -> None:
    """Each part is replaced or removed in turn."""
    for method, template in siege.routes():
        target = well_meant.filled(template, room.room_id, room.event_id)
        # The events and EDUs of transactions are covered by test_hostile_events.
        if method in ("PUT", "POST") and "/send/" not in template:
            right = well_meant.body(template, room.version, room.room_id, room.event_id, {})
            for body in everywhere(right, FEW):
                await siege.throw(method, target, written(body))
