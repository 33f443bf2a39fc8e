-- One row for each destination and event. The id of the transaction comes with them, because nobody may be told
-- of the rows before it has ended.
-- name: queue_pdus
INSERT INTO outbox_pdus (destination, room_id, event_id, queued_at)
SELECT destination, room_id, event_id, $4
FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS given (destination, room_id, event_id, number)
ORDER BY number
RETURNING destination, room_id, position, pg_current_xact_id()::text;

-- name: queue_edu
INSERT INTO outbox_edus (destination, edu_type, content, queued_at)
SELECT destination, $2, $3, $4 FROM unnest($1::text[]) AS given (destination)
RETURNING destination, position, pg_current_xact_id()::text;

-- 'in progress', 'committed' or 'aborted'; null when it is so long ago that Postgres has forgotten.
-- name: transaction_states
SELECT given, pg_xact_status(given::xid8) FROM unnest($1::text[]) AS given;

-- name: oldest_pdus
SELECT position FROM outbox_pdus WHERE destination = $1 AND room_id = $2 ORDER BY position LIMIT $3;

-- name: oldest_edus
SELECT position FROM outbox_edus WHERE destination = $1 ORDER BY position LIMIT $2;

-- name: survey
SELECT room_id, count(*), max(position) FROM outbox_pdus WHERE destination = $1 GROUP BY room_id;

-- name: fetch_pdus
SELECT outbox_pdus.position, events.event_id, events.canonical
FROM unnest($2::text[], $3::bigint[]) AS wanted (room_id, position)
JOIN outbox_pdus ON outbox_pdus.destination = $1
    AND outbox_pdus.room_id = wanted.room_id
    AND outbox_pdus.position = wanted.position
JOIN events ON events.event_id = outbox_pdus.event_id
ORDER BY outbox_pdus.position;

-- name: fetch_edus
SELECT position, edu_type, content FROM outbox_edus
WHERE destination = $1 AND position = ANY($2::bigint[]) ORDER BY position;

-- name: delete_pdus
DELETE FROM outbox_pdus USING unnest($2::text[], $3::bigint[]) AS gone (room_id, position)
WHERE outbox_pdus.destination = $1
    AND outbox_pdus.room_id = gone.room_id
    AND outbox_pdus.position = gone.position;

-- name: delete_edus
DELETE FROM outbox_edus WHERE destination = $1 AND position = ANY($2::bigint[]);

-- What was in the transaction, and the transaction.
-- name: delete_sent
WITH gone AS (
    DELETE FROM outbox_pdus USING unnest($2::text[], $3::bigint[]) AS gone (room_id, position)
    WHERE outbox_pdus.destination = $1
        AND outbox_pdus.room_id = gone.room_id
        AND outbox_pdus.position = gone.position
)
DELETE FROM outbox_transactions WHERE destination = $1;

-- What was in several transactions that have been answered, and the last of them, if no other one has taken its place.
-- name: delete_answered
WITH gone AS (
    DELETE FROM outbox_pdus USING unnest($2::text[], $3::bigint[]) AS gone (room_id, position)
    WHERE outbox_pdus.destination = $1
        AND outbox_pdus.room_id = gone.room_id
        AND outbox_pdus.position = gone.position
)
DELETE FROM outbox_transactions WHERE destination = $1 AND transaction_id = $4;

-- What was in the transaction before, and the one that takes its place.
-- name: replace_sent
WITH gone AS (
    DELETE FROM outbox_pdus USING unnest($2::text[], $3::bigint[]) AS gone (room_id, position)
    WHERE outbox_pdus.destination = $1
        AND outbox_pdus.room_id = gone.room_id
        AND outbox_pdus.position = gone.position
)
INSERT INTO outbox_transactions (destination, transaction_id, origin_server_ts, pdus, edus)
VALUES ($1, $4, $5, $6, $7)
ON CONFLICT (destination) DO UPDATE SET
    transaction_id = excluded.transaction_id,
    origin_server_ts = excluded.origin_server_ts,
    pdus = excluded.pdus,
    edus = excluded.edus;

-- name: skip_pdus
WITH skipped AS (
    DELETE FROM outbox_pdus WHERE destination = $1 AND room_id = $2 AND position < $3 RETURNING 1
)
SELECT count(*) FROM skipped;

-- Each destination is found by one look into the index, however long its queue.
-- name: destinations
WITH RECURSIVE waiting AS (
    (SELECT destination FROM outbox_pdus ORDER BY destination LIMIT 1)
    UNION ALL
    SELECT (
        SELECT outbox_pdus.destination FROM outbox_pdus
        WHERE outbox_pdus.destination > waiting.destination ORDER BY outbox_pdus.destination LIMIT 1
    )
    FROM waiting WHERE waiting.destination IS NOT NULL
)
SELECT destination FROM waiting WHERE destination IS NOT NULL
UNION
SELECT destination FROM outbox_edus
UNION
SELECT destination FROM outbox_transactions;

-- name: depths
SELECT destination, sum(pdus)::bigint, sum(edus)::bigint, min(oldest)
FROM (
    SELECT destination, count(*) AS pdus, 0 AS edus, min(queued_at) AS oldest
    FROM outbox_pdus GROUP BY destination
    UNION ALL
    SELECT destination, 0, count(*), min(queued_at) FROM outbox_edus GROUP BY destination
) AS queues
GROUP BY destination ORDER BY destination;

-- name: insert_transaction
INSERT INTO outbox_transactions (destination, transaction_id, origin_server_ts, pdus, edus)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (destination) DO UPDATE SET
    transaction_id = excluded.transaction_id,
    origin_server_ts = excluded.origin_server_ts,
    pdus = excluded.pdus,
    edus = excluded.edus;

-- name: fetch_transaction
SELECT transaction_id, origin_server_ts, pdus, edus FROM outbox_transactions WHERE destination = $1;

-- name: delete_transaction
DELETE FROM outbox_transactions WHERE destination = $1;

-- name: fetch_rooms_of_positions
SELECT position, room_id FROM outbox_pdus WHERE destination = $1 AND position = ANY($2::bigint[]);

-- One process sends to a server: it holds this for as long as it does. Ended with the session.
-- name: try_lock_destination
SELECT pg_try_advisory_lock(hashtextextended('outbox ' || $1::text, 0));

-- name: unlock_destination
SELECT pg_advisory_unlock(hashtextextended('outbox ' || $1::text, 0));

-- name: notify
SELECT pg_notify('palaver_outbox', $1);
