"""Transactions for the tests of the inbox."""

from collections.abc import Sequence
from typing import Any

from federation.events import Pdu


class NoEdus:
    """Ignores EDUs."""

    async def receive(self, origin: str, edus: Sequence[Any]) -> None:
        """Do nothing."""


def in_transactions(pdus: Sequence[Pdu], size: int) -> list[dict[str, Any]]:
    """Return transactions as a server sends them, with `size` events each."""
    return [
        {"origin": "b.example", "pdus": [dict(pdu.event) for pdu in pdus[start : start + size]]}
        for start in range(0, len(pdus), size)
    ]
