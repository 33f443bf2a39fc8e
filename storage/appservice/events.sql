-- One process at a time receives a transaction of a homeserver.
-- name: lock_registration
SELECT pg_advisory_xact_lock(hashtextextended('appservice ' || $1::text, 0));

-- name: receive_transaction
SELECT * FROM take_in_for_guest($1, $2, $3, $4::guest_state[], $5, $6, $7, $8, $9, $10, $11, $12, $13, $14);

-- name: fetch_known_ids
SELECT event_id FROM appservice_events WHERE event_id = ANY($1::text[]);

-- name: fetch_sent
SELECT event_id FROM appservice_events WHERE mark = $2 AND room_id = $1 ORDER BY position LIMIT 1;

-- A redaction applies only in its own room. An invite is superseded by any later member event of the invited user.
-- name: fetch_events
SELECT
    event_id,
    event,
    EXISTS (
        SELECT FROM redactions JOIN appservice_events AS redaction USING (event_id)
        WHERE redactions.target = found.event_id AND redaction.room_id = found.room_id
    ) AS is_redacted,
    EXISTS (
        SELECT FROM appservice_events AS later
        WHERE later.room_id = found.room_id AND later.member = found.member AND later.position > found.position
    ) AS is_superseded
FROM appservice_events AS found WHERE event_id = ANY($1::text[]);

-- An event stays until every reader has passed it.
-- name: prune_events
WITH deleted AS (
    DELETE FROM appservice_events
    WHERE received_at < now() - $1::interval AND position <= (SELECT min(position) FROM consumer_cursors)
    RETURNING event_id, position
), deleted_from_stream AS (
    DELETE FROM room_stream USING deleted WHERE room_stream.position = deleted.position
), deleted_redactions AS (
    DELETE FROM redactions USING deleted WHERE redactions.event_id = deleted.event_id
)
SELECT count(*) FROM deleted;

-- name: prune_transactions
WITH deleted AS (
    DELETE FROM appservice_transactions WHERE received_at < now() - $1::interval RETURNING 1
)
SELECT count(*) FROM deleted;
