"""The users that an attached node can act as."""

import pytest

from appservice.local_users.parts import UserOperations
from federation.matrix.errors import MatrixError
from tests.appservice.local_users.setup import AttachedNode


async def test_only_ghosts_act(attached: AttachedNode) -> None:
    """The homeserver would refuse others; no request is made."""
    has = UserOperations(attached.parts)
    has._require_ghost("@_agent_worker-1:their.server")
    has._require_ghost("@_agent_worker-1=40cellar.local:their.server")
    has._require_ghost("@_agent_palaver:their.server")
    for user in ("@alice:their.server", "@_agent_worker-1:other.server", "@_agent_:their.server", "x", "\0"):
        with pytest.raises(MatrixError, match="403 M_FORBIDDEN"):
            has._require_ghost(user)
    assert attached.homeserver.targets == []
