-- A receipt that is older than the stored one changes nothing.
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
WITH deleted AS (
    DELETE FROM received_to_device WHERE received_at < now() - $1::interval RETURNING 1
)
SELECT count(*) FROM deleted;

-- name: insert_messages
INSERT INTO to_device_messages (user_id, device_id, sender, type, content)
SELECT user_id, device_id, sender, type, content
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bytea[]) WITH ORDINALITY
    AS given (user_id, device_id, sender, type, content, number)
WHERE EXISTS (SELECT FROM users WHERE users.user_id = given.user_id)
ORDER BY number;

-- name: delete_oldest_messages
DELETE FROM to_device_messages USING (
    SELECT user_id, position, row_number() OVER (PARTITION BY user_id ORDER BY position DESC) AS number
    FROM to_device_messages WHERE user_id = ANY($1::text[])
) AS numbered
WHERE number > $2
    AND to_device_messages.user_id = numbered.user_id
    AND to_device_messages.position = numbered.position;

-- name: fetch_messages
SELECT position, user_id, device_id, sender, type, content FROM to_device_messages
WHERE user_id = $1 ORDER BY position LIMIT $2;

-- name: delete_messages
DELETE FROM to_device_messages WHERE user_id = $1 AND position = ANY($2::bigint[]);
