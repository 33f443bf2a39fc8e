"""Takes in the transactions of other servers, each once, one at a time of each server."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final

from federation.matrix.errors import MatrixError, limit_exceeded
from federation.matrix.identifiers import MAX_BYTES
from federation.rooms.engine import RoomGraph
from federation.rooms.ports import Results
from federation.rooms.receive import Repeated, Transaction
from federation.transactions.incoming_edus import IncomingEdus
from federation.transactions.transaction import NotATransaction, answer, read
from storage.database import Database
from storage.federation.audit import AuditRow
from storage.federation.incoming_transactions import TransactionResponse, fetch_response, prune

LATER_MS: Final = 500
"""When a server may try again whose transaction before has not been answered."""
KEPT: Final = timedelta(days=7)
"""How long answers are remembered: longer than servers repeat a transaction."""


Audit = Callable[[str, str, Sequence[Any], Sequence[Any], Results], AuditRow | None]
"""What is to be written down of who sent which transaction of what PDUs and EDUs, and what became of it."""


def _no_audit(*_: object) -> None:
    """Nobody wants to know."""


class Inbox:
    """What `audit` says is written with the answer of each transaction that is taken in."""

    def __init__(
        self, database: Database, rooms: RoomGraph, edus: IncomingEdus, *, audit: Audit = _no_audit
    ) -> None:
        self._database = database
        self._rooms = rooms
        self._edus = edus
        self._audit = audit
        self._in_flight: set[str] = set()

    async def take_in(self, origin: str, transaction_id: str, body: object) -> bytes:
        """The answer, as JSON, which has been committed together with everything it speaks of."""
        transaction = read(body)
        if isinstance(transaction, NotATransaction):
            raise MatrixError(transaction.errcode, transaction.problem)
        if "\0" in transaction_id or len(transaction_id) > MAX_BYTES:
            raise MatrixError("M_INVALID_PARAM", "That is no transaction id.")
        if origin in self._in_flight:
            raise limit_exceeded("Too many concurrent transactions: send one after the other.", 429, LATER_MS)
        self._in_flight.add(origin)
        try:
            return await self._once(origin, transaction_id, transaction.pdus, transaction.edus)
        finally:
            self._in_flight.discard(origin)

    async def prune(self) -> int:
        """Forget answers that nobody will ask for any more; how many they were."""
        async with self._database.transaction() as connection:
            return await prune(connection, KEPT)

    async def _once(
        self, origin: str, transaction_id: str, pdus: Sequence[Any], edus: Sequence[Any]
    ) -> bytes:
        if edus:
            # They are received before it is known whether the rest can be, and are not to be received again.
            given = await self._database.read(
                lambda connection: fetch_response(connection, origin, transaction_id)
            )
            if given is not None:
                return given
            # First, because when one of them cannot be stored the transaction must not count as taken in.
            await self._edus.receive(origin, edus)

        def answered(results: Results) -> TransactionResponse:
            row = self._audit(origin, transaction_id, pdus, edus, results)
            return TransactionResponse(origin, transaction_id, answer(results), row)

        # Hardly ever is one repeated: that it was is seen when it is written, and then nothing is.
        received = await self._rooms.receive_transaction(origin, pdus, Transaction(transaction_id, answered))
        return received.answer if isinstance(received, Repeated) else answer(received)
