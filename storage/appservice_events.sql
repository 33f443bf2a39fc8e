-- Of all processes on the database one at a time takes in a transaction of a homeserver.
-- name: lock_registration
SELECT pg_advisory_xact_lock(hashtextextended('appservice ' || $1::text, 0));

-- name: fetch_digest
SELECT digest FROM appservice_transactions WHERE registration = $1 AND transaction_id = $2;

-- name: write_digest
INSERT INTO appservice_transactions (registration, transaction_id, digest) VALUES ($1, $2, $3)
ON CONFLICT (registration, transaction_id) DO UPDATE SET digest = excluded.digest, received_at = now();

-- name: fetch_known
SELECT event_id FROM appservice_events WHERE event_id = ANY($1::text[]);

-- name: insert_events
INSERT INTO appservice_events (position, event_id, room_id, member, event)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::bytea[]);

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
    ) AS is_answered
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
