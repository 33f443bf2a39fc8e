"""The bodies of other servers' answers."""

import asyncio
from typing import Any, Final

from federation.canonical_json import NotJson, decode
from federation.peer_errors import PeerMalformed

# Reading more than this at once would keep everything else waiting; a thread does it.
_READ_AT_ONCE: Final = 256 * 1024


async def read_json(peer: str, body: bytes) -> Any:
    """Raises `PeerMalformed`."""
    try:
        return await asyncio.to_thread(decode, body) if len(body) > _READ_AT_ONCE else decode(body)
    except NotJson as error:
        raise PeerMalformed(peer, "answered with something that is not JSON") from error


def is_object(peer: str, answer: Any) -> dict[str, Any]:
    """What every answer of federation is. Raises `PeerMalformed`."""
    if not isinstance(answer, dict):
        raise PeerMalformed(peer, "answered with something that is not a JSON object")
    return answer


def too_large(peer: str, limit: int) -> PeerMalformed:
    return PeerMalformed(peer, f"answered with more than the {limit} bytes that were expected")
