-- Waits for a transaction of the predecessor that is about to advance.
-- name: take_over
INSERT INTO consumer_cursors (name, position, term) VALUES ($1, $2, 1)
ON CONFLICT (name) DO UPDATE SET term = consumer_cursors.term + 1
RETURNING term;

-- name: fetch_position
SELECT position FROM consumer_cursors WHERE name = $1 AND term = $2;

-- name: advance
UPDATE consumer_cursors SET position = $3 WHERE name = $1 AND term = $2 AND position <= $3 RETURNING true;

-- name: list_cursors
SELECT name, position FROM consumer_cursors ORDER BY name;

-- name: try_lock_consumer
SELECT pg_try_advisory_lock(hashtextextended('consumer ' || $1::text, 0));

-- Together with all others that share it.
-- name: try_share_consumer
SELECT pg_try_advisory_lock_shared(hashtextextended('consumer ' || $1::text, 0));

-- name: unlock_consumer
SELECT pg_advisory_unlock(hashtextextended('consumer ' || $1::text, 0));
