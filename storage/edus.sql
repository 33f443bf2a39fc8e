-- An older receipt that arrives late changes nothing.
-- name: upsert_receipts
INSERT INTO receipts (room_id, user_id, thread_id, event_id, ts)
SELECT DISTINCT ON (room_id, user_id, thread_id) room_id, user_id, thread_id, event_id, ts
FROM unnest($1::receipts[]) ORDER BY room_id, user_id, thread_id, ts DESC
ON CONFLICT (room_id, user_id, thread_id) DO UPDATE SET event_id = excluded.event_id, ts = excluded.ts
WHERE receipts.ts <= excluded.ts;

-- name: fetch_receipts
SELECT room_id, user_id, thread_id, event_id, ts FROM receipts WHERE room_id = $1 ORDER BY user_id, thread_id;

-- name: insert_to_device
INSERT INTO received_to_device (origin, message_id) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING true;

-- name: prune_to_device
WITH forgotten AS (
    DELETE FROM received_to_device WHERE received_at < now() - $1::interval RETURNING 1
)
SELECT count(*) FROM forgotten;
