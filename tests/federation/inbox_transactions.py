"""Transactions for the tests of the inbox."""

from collections.abc import Sequence
from typing import Any

from federation.events import Pdu


class NoEdus:
    """Takes EDUs and forgets them."""

    async def receive(self, origin: str, edus: Sequence[Any]) -> None:
        """There is nothing to be done."""


def in_transactions(pdus: Sequence[Pdu], size: int) -> list[dict[str, Any]]:
    """As a server sends them, so many at a time."""
    return [
        {"origin": "b.example", "pdus": [dict(pdu.event) for pdu in pdus[start : start + size]]}
        for start in range(0, len(pdus), size)
    ]
