-- Positions are taken after the rows have been sorted, and therefore after the lock.
-- name: append
WITH held_back AS MATERIALIZED (
    SELECT pg_advisory_xact_lock_shared(($1::bigint << 48) | (last_value - 1 + is_called::integer))
    FROM room_stream_positions
)
INSERT INTO room_stream (position, room_id, event_id, kind)
SELECT nextval('room_stream_positions'), room_id, event_id, kind
FROM held_back
CROSS JOIN unnest($2::text[], $3::text[], $4::text[]) WITH ORDINALITY AS given (room_id, event_id, kind, number)
ORDER BY number
RETURNING position;

-- Reads the last assigned position first, and the locks of the writers after it, because the subquery refers to it. An
-- unused sequence also has the last_value 1. pg_locks shows a 64-bit lock number as two halves.
-- name: horizon
WITH given_out AS MATERIALIZED (
    SELECT last_value - 1 + is_called::integer AS position FROM room_stream_positions
)
SELECT (
    SELECT least(given_out.position, min(((classid::bigint & 65535) << 32) | objid::bigint)) FROM pg_locks
    WHERE locktype = 'advisory' AND objsubid = 1 AND classid::bigint >> 16 = $1::bigint
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
)
FROM given_out;

-- name: read
SELECT position, room_id, event_id, kind FROM room_stream
WHERE position > $1 AND position <= $2 ORDER BY position LIMIT $3;

-- Waits for a transaction of the previous reader that is advancing.
-- name: begin_term
INSERT INTO consumer_cursors (name, position, term) VALUES ($1, $2, 1)
ON CONFLICT (name) DO UPDATE SET term = consumer_cursors.term + 1
RETURNING term;

-- name: fetch_position
SELECT position FROM consumer_cursors WHERE name = $1 AND term = $2;

-- name: advance
UPDATE consumer_cursors SET position = $3 WHERE name = $1 AND term = $2 AND position <= $3 RETURNING true;

-- name: list_cursors
SELECT name, position FROM consumer_cursors ORDER BY name;
