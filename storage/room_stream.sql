-- Positions are taken after the rows have been sorted, and so after the lock.
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

-- A sequence that was never asked says 1, too.
-- name: last_position
SELECT last_value - 1 + is_called::integer FROM room_stream_positions;

-- First what was given out, and then, because it refers to that, what is still held back. A lock whose number has
-- 64 bits is shown as two halves.
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

-- name: notify
SELECT pg_notify('palaver_room_stream', $1);

-- name: lock_listener
SELECT pg_advisory_lock_shared(hashtextextended('listens to the stream', 0));

-- All who listen share the lock; a session's own part in it does not keep it from having it alone for a moment.
-- name: is_only_listener
SELECT CASE
    WHEN pg_try_advisory_lock(hashtextextended('listens to the stream', 0))
    THEN pg_advisory_unlock(hashtextextended('listens to the stream', 0))
    ELSE false
END;
