"""Sends events, sets state and redacts events."""

from collections.abc import Mapping
from typing import Any, Final

from federation.auth_rules.auth_event_selection import POWER_LEVELS
from federation.auth_rules.levels import PowerLevels
from federation.events import CREATE
from federation.local_users.operations import Operations
from federation.matrix.canonical_json import is_equal
from federation.matrix.errors import MatrixError
from federation.matrix.identifiers import MAX_BYTES
from federation.rooms.server_acl import check_own_server_allowed

MAX_TS: Final = 2**53 - 1
_REDACTION: Final = "m.room.redaction"


class SendOperations(Operations):
    async def send(
        self,
        room_id: str,
        sender: str,
        type_: str,
        content: Mapping[str, Any],
        *,
        transaction_id: str | None = None,
        ts: int | None = None,
    ) -> str:
        self._require_local_user(sender)
        if type_ == _REDACTION:
            raise MatrixError("M_INVALID_PARAM", "Redactions are sent with the redact operation.", 400)
        _check_transaction_id_and_ts(transaction_id, ts)
        event = await self._services.graph.send_event(
            room_id, type_, content, sender, ts=ts, transaction_id=transaction_id
        )
        return event.event_id

    async def set_state(
        self,
        room_id: str,
        sender: str,
        type_: str,
        content: Mapping[str, Any],
        state_key: str = "",
        *,
        ts: int | None = None,
    ) -> str:
        self._require_local_user(sender)
        _check_transaction_id_and_ts(None, ts)
        match type_:
            case "m.room.member":
                raise MatrixError(
                    "M_INVALID_PARAM", "Memberships are changed with join, leave, invite, kick and ban.", 400
                )
            case "m.room.encryption":
                raise MatrixError("M_INVALID_PARAM", "This server does not support encrypted rooms.", 400)
            case "m.room.server_acl":
                check_own_server_allowed(self._services.server_name, dict(content))
        current = await self._current_event(room_id, (type_, state_key))
        if current is not None:
            # Compare the redacted form: a redacted event may have the same original content and has to be
            # replaced.
            (redacted,) = await self._services.graph.apply_redactions([current])
            if is_equal(dict(redacted.content), dict(content)):
                return redacted.event_id
        event = await self._services.graph.send_event(room_id, type_, content, sender, state_key, ts=ts)
        return event.event_id

    async def redact(
        self, room_id: str, sender: str, event_id: str, *, reason: str | None = None, transaction_id: str | None = None
    ) -> str:
        self._require_local_user(sender)
        _check_transaction_id_and_ts(transaction_id, None)
        await self._check_redaction(room_id, sender, event_id)
        content = {} if reason is None else {"reason": reason}
        event = await self._services.graph.send_event(
            room_id, _REDACTION, content, sender, redacts=event_id, transaction_id=transaction_id
        )
        return event.event_id

    async def _check_redaction(self, room_id: str, sender: str, event_id: str) -> None:
        """Servers apply a redaction if its sender's server is that of the redacted event. So this server
        must prevent its users from redacting each other's events without the power to do so."""
        target = (await self._services.graph.events([event_id])).get(event_id)
        if target is None or target.room_id != room_id:
            raise MatrixError("M_NOT_FOUND", f"There is no event {event_id[:255]} in this room.", 404)
        if target.sender == sender:
            return
        version = (await self._room(room_id)).version
        state = await self._services.graph.current_events(room_id, [CREATE, POWER_LEVELS])
        levels = PowerLevels(state.get(CREATE), state.get(POWER_LEVELS), version)
        if levels.of_user(sender) < levels.of_action("redact"):
            raise MatrixError("M_FORBIDDEN", "The user's power level is too low to redact other users' events.", 403)


def _check_transaction_id_and_ts(transaction_id: str | None, ts: int | None) -> None:
    if transaction_id is not None and (
        "\0" in transaction_id or not 0 < len(transaction_id.encode("utf-8", "replace")) <= MAX_BYTES
    ):
        raise MatrixError("M_INVALID_PARAM", f"A transaction id must have 1 to {MAX_BYTES} bytes and no NUL.", 400)
    if ts is not None and not (type(ts) is int and 0 <= ts <= MAX_TS):
        raise MatrixError("M_INVALID_PARAM", "The timestamp must be a non-negative integer of milliseconds.", 400)
