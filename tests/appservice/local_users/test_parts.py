"""Who may act on a homeserver of which this node is a guest."""

import pytest

from appservice.local_users.parts import UserOperations
from federation.matrix.errors import MatrixError
from tests.appservice.local_users.setup import Living


async def test_only_ghosts_act_here(living: Living) -> None:
    """As whom else the homeserver would not let us act; nor is it asked."""
    has = UserOperations(living.parts)
    has._require_ghost("@_agent_worker-1:their.server")
    has._require_ghost("@_agent_worker-1=40cellar.local:their.server")
    has._require_ghost("@_agent_palaver:their.server")
    for user in ("@alice:their.server", "@_agent_worker-1:other.server", "@_agent_:their.server", "x", "\0"):
        with pytest.raises(MatrixError, match="403 M_FORBIDDEN"):
            has._require_ghost(user)
    assert living.homeserver.targets == []
