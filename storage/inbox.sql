-- Writes the entries and the position of the reader, or neither if another process is the reader now.
-- name: enqueue
WITH advanced AS (
    UPDATE consumer_cursors SET position = $3 WHERE name = $1 AND term = $2 AND position <= $3 RETURNING position
), moved AS (
    INSERT INTO inbox (reader, position, queue, room_id, event_id, entry)
    SELECT $1, given.position, queue, room_id, event_id, entry
    FROM advanced
    CROSS JOIN unnest($4::bigint[], $5::text[], $6::text[], $7::text[], $8::bytea[])
        AS given (position, queue, room_id, event_id, entry)
    ON CONFLICT DO NOTHING
)
SELECT EXISTS (SELECT FROM advanced);

-- No row: another process is the reader now. A row without a position: the queue is empty.
-- name: fetch_first
SELECT first.position, first.room_id, first.event_id, first.entry, first.attempts, first.due_in
FROM consumer_cursors
LEFT JOIN LATERAL (
    SELECT
        position, room_id, event_id, entry, attempts,
        greatest(0, extract(epoch FROM due_at - now()))::float8 AS due_in
    FROM inbox WHERE reader = $1 AND queue = $3 AND set_aside_at IS NULL
    ORDER BY position LIMIT 1
) AS first ON true
WHERE name = $1 AND term = $2;

-- Returns the next entry like `fetch_first`, explicitly behind the finished one: the statement does not see its own
-- deletion.
-- name: finish
WITH finished AS (
    DELETE FROM inbox USING consumer_cursors
    WHERE reader = $1 AND inbox.position = $4 AND name = $1 AND term = $2
)
SELECT first.position, first.room_id, first.event_id, first.entry, first.attempts, first.due_in
FROM consumer_cursors
LEFT JOIN LATERAL (
    SELECT
        position, room_id, event_id, entry, attempts,
        greatest(0, extract(epoch FROM due_at - now()))::float8 AS due_in
    FROM inbox WHERE reader = $1 AND queue = $3 AND set_aside_at IS NULL AND position > $4
    ORDER BY position LIMIT 1
) AS first ON true
WHERE name = $1 AND term = $2;

-- name: postpone
UPDATE inbox SET attempts = attempts + 1, due_at = now() + $4::interval, problem = $5
FROM consumer_cursors
WHERE reader = $1 AND inbox.position = $3 AND name = $1 AND term = $2;

-- name: set_aside
UPDATE inbox SET attempts = attempts + 1, problem = $4, set_aside_at = now(), entry = NULL
FROM consumer_cursors
WHERE reader = $1 AND inbox.position = $3 AND name = $1 AND term = $2;

-- name: list_queues
SELECT queue FROM inbox WHERE reader = $1 AND set_aside_at IS NULL
GROUP BY queue ORDER BY min(position) LIMIT $2;

-- name: list_set_aside
SELECT reader, room_id, event_id, problem, set_aside_at, count(*) OVER () FROM inbox
WHERE set_aside_at IS NOT NULL ORDER BY set_aside_at DESC LIMIT $1;

-- name: prune_set_aside
DELETE FROM inbox WHERE set_aside_at < now() - $1::interval;
