"""Receives transactions from other servers: the PDUs of each take effect once. A process handles one transaction of a
server at a time."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final

from federation.matrix.errors import MatrixError, limit_exceeded
from federation.matrix.identifiers import MAX_BYTES
from federation.rooms.engine import RoomGraph
from federation.rooms.ports import Results
from federation.rooms.receive import IncomingTransaction, RepeatedTransaction
from federation.transactions.incoming_edus import IncomingEdus
from federation.transactions.transaction import InvalidTransaction, encode_results, parse_transaction
from storage.database import Database
from storage.federation.audit import AuditRow
from storage.federation.incoming_transactions import TransactionResponse, fetch_response, prune

RETRY_AFTER_MS: Final = 500
"""`retry_after_ms` for a server that sends a transaction while its previous one is being processed."""
RESPONSE_RETENTION: Final = timedelta(days=7)
"""How long responses are stored: longer than servers repeat a transaction."""


AuditTransaction = Callable[[str, str, Sequence[Any], Sequence[Any], Results], AuditRow | None]
"""Makes the audit entry from origin, transaction id, PDUs, EDUs and results; None to write no entry."""


def _no_audit(*_: object) -> None:
    """The default: no audit entries."""


class Inbox:
    """Receives transactions from other servers: the PDUs of each take effect once. A process handles one transaction
    of a server at a time.

    The entry that `audit` returns is committed together with the response to the transaction."""

    def __init__(
        self, database: Database, rooms: RoomGraph, edus: IncomingEdus, *, audit: AuditTransaction = _no_audit
    ) -> None:
        self._database = database
        self._rooms = rooms
        self._edus = edus
        self._audit = audit
        self._in_flight: set[str] = set()

    async def receive(self, origin: str, transaction_id: str, body: object) -> bytes:
        """Return the JSON response, committed together with the events it reports on."""
        transaction = parse_transaction(body)
        if isinstance(transaction, InvalidTransaction):
            raise MatrixError(transaction.errcode, transaction.problem)
        if "\0" in transaction_id or len(transaction_id) > MAX_BYTES:
            raise MatrixError("M_INVALID_PARAM", "The transaction id is too long or contains NUL.")
        if origin in self._in_flight:
            raise limit_exceeded(
                "A previous transaction from this server is still being processed: send one at a time.",
                429,
                RETRY_AFTER_MS,
            )
        self._in_flight.add(origin)
        try:
            return await self._receive_once(origin, transaction_id, transaction.pdus, transaction.edus)
        finally:
            self._in_flight.discard(origin)

    async def prune(self) -> int:
        """Delete responses that are older than `RESPONSE_RETENTION`; return how many were deleted."""
        async with self._database.transaction() as connection:
            return await prune(connection, RESPONSE_RETENTION)

    async def _receive_once(self, origin: str, transaction_id: str, pdus: Sequence[Any], edus: Sequence[Any]) -> bytes:
        if edus:
            # EDUs have effects before the response is stored. Those of a repeated transaction must not have
            # them again, so a stored response is looked up first.
            stored = await self._database.read(lambda connection: fetch_response(connection, origin, transaction_id))
            if stored is not None:
                return stored
            # Before the PDUs: if an EDU cannot be stored, the transaction must not count as received.
            await self._edus.receive(origin, edus)

        def response_to_store(results: Results) -> TransactionResponse:
            row = self._audit(origin, transaction_id, pdus, edus, results)
            return TransactionResponse(origin, transaction_id, encode_results(results), row)

        # Transactions are rarely repeated, so this is not checked beforehand: storing the response fails for
        # a repeated one, and then nothing is written.
        received = await self._rooms.receive_transaction(
            origin, pdus, IncomingTransaction(transaction_id, response_to_store)
        )
        return received.response if isinstance(received, RepeatedTransaction) else encode_results(received)
