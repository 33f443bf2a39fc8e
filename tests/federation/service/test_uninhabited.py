"""A homeserver on which nobody lives."""

from typing import cast

import pytest

from federation.errors import MatrixError
from federation.service.room_graph import RoomGraph
from federation.service.uninhabited import uninhabited


async def test_nobody_can_be_invited_and_no_alias_leads_anywhere() -> None:
    """404, as for any user and any alias that a homeserver does not have."""
    doors = uninhabited(cast(RoomGraph, None))
    assert await doors.local_alias("#a:kitchen.local") is None
    with pytest.raises(MatrixError, match="404"):
        await doors.may_be_invited("@a:kitchen.local", "@b:cellar.local", "!r:cellar.local")
