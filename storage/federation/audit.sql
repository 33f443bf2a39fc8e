-- The rows are passed as one JSON text: the driver would visit every entry of nine lists three times.
-- name: insert_entries
INSERT INTO audit (at, peer, direction, act, user_id, room_id, subject, outcome, detail)
SELECT
    (entry ->> 0)::timestamptz, entry ->> 1, entry ->> 2, entry ->> 3, entry ->> 4, entry ->> 5, entry ->> 6, entry ->> 7,
    entry ->> 8
FROM json_array_elements($1::text::json) WITH ORDINALITY AS given (entry, number)
ORDER BY number;

-- The newest first. A filter that is null matches all.
-- name: search
SELECT at, peer, direction, act, user_id, room_id, subject, outcome, detail
FROM audit
WHERE ($1::text IS NULL OR peer = $1)
    AND ($2::text IS NULL OR user_id = $2)
    AND ($3::text IS NULL OR room_id = $3)
    AND ($4::timestamptz IS NULL OR at >= $4)
ORDER BY at DESC, id DESC
LIMIT $5;

-- In batches: the table may have many millions of rows, and deleting them at once would hold locks for long.
-- name: prune
WITH deleted AS (
    DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE at < $1 ORDER BY at LIMIT $2) RETURNING 1
)
SELECT count(*) FROM deleted;
