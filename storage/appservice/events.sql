-- Of all processes on the database one at a time takes in a transaction of a homeserver.
-- name: lock_registration
SELECT pg_advisory_xact_lock(hashtextextended('appservice ' || $1::text, 0));

-- name: receive_transaction
SELECT * FROM take_in_for_guest($1, $2, $3, $4::guest_state[], $5, $6, $7, $8, $9, $10, $11, $12, $13, $14);

-- name: fetch_known_ids
SELECT event_id FROM appservice_events WHERE event_id = ANY($1::text[]);

-- name: fetch_sent
SELECT event_id FROM appservice_events WHERE mark = $2 AND room_id = $1 ORDER BY position LIMIT 1;

-- A redaction is obeyed in its own room. An invite is answered by whatever is said later of whom it invites.
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

-- Nothing goes before every reader has passed it.
-- name: prune_events
WITH forgotten AS (
    DELETE FROM appservice_events
    WHERE received_at < now() - $1::interval AND position <= (SELECT min(position) FROM consumer_cursors)
    RETURNING event_id, position
), no_more_streamed AS (
    DELETE FROM room_stream USING forgotten WHERE room_stream.position = forgotten.position
), no_more_asked_for AS (
    DELETE FROM redactions USING forgotten WHERE redactions.event_id = forgotten.event_id
)
SELECT count(*) FROM forgotten;

-- name: prune_transactions
WITH forgotten AS (
    DELETE FROM appservice_transactions WHERE received_at < now() - $1::interval RETURNING 1
)
SELECT count(*) FROM forgotten;
