-- One row for each destination and event.
-- name: queue_pdus
INSERT INTO outbox_pdus (destination, room_id, event_id, queued_at)
SELECT destination, room_id, event_id, $4
FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS given (destination, room_id, event_id, number)
ORDER BY number
RETURNING destination, event_id, position;

-- name: queue_edu
INSERT INTO outbox_edus (destination, edu_type, content, queued_at)
SELECT destination, $2, $3, $4 FROM unnest($1::text[]) AS given (destination)
RETURNING destination, position;

-- name: list_oldest_pdus
SELECT position FROM outbox_pdus WHERE destination = $1 AND room_id = $2 ORDER BY position LIMIT $3;

-- name: list_oldest_edus
SELECT position FROM outbox_edus WHERE destination = $1 ORDER BY position LIMIT $2;

-- name: fetch_backlogs
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

-- name: skip_pdus
WITH skipped AS (
    DELETE FROM outbox_pdus WHERE destination = $1 AND room_id = $2 AND position < $3 RETURNING 1
)
SELECT count(*) FROM skipped;

-- A loose index scan: one index lookup for each destination, however long its queue.
-- name: list_destinations
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
SELECT destination FROM outbox_edus;

-- name: list_depths
SELECT destination, sum(pdus)::bigint, sum(edus)::bigint, min(oldest)
FROM (
    SELECT destination, count(*) AS pdus, 0 AS edus, min(queued_at) AS oldest
    FROM outbox_pdus GROUP BY destination
    UNION ALL
    SELECT destination, 0, count(*), min(queued_at) FROM outbox_edus GROUP BY destination
) AS queues
GROUP BY destination ORDER BY destination;

-- The identity of the database, generated at its first use. A backup does not contain it: see `storage.backup`.
-- name: insert_epoch
INSERT INTO outbox_epoch (epoch) VALUES (gen_random_uuid()::text) ON CONFLICT DO NOTHING;

-- name: fetch_epoch
SELECT epoch FROM outbox_epoch;

-- name: upsert_outage
INSERT INTO outages (destination, failing_since, failures, retry_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (destination) DO UPDATE SET
    failing_since = excluded.failing_since,
    failures = excluded.failures,
    retry_at = excluded.retry_at;

-- name: fetch_outage
SELECT failing_since, failures, retry_at FROM outages WHERE destination = $1;

-- name: list_outages
SELECT destination, failing_since, failures, retry_at FROM outages ORDER BY destination;

-- name: delete_outage
DELETE FROM outages WHERE destination = $1;
