-- name: insert_messages
INSERT INTO to_device_messages (user_id, device_id, sender, type, content)
SELECT user_id, device_id, sender, type, content
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bytea[]) WITH ORDINALITY
    AS given (user_id, device_id, sender, type, content, number)
WHERE EXISTS (SELECT FROM users WHERE users.user_id = given.user_id)
ORDER BY number;

-- name: drop_oldest
DELETE FROM to_device_messages USING (
    SELECT user_id, position, row_number() OVER (PARTITION BY user_id ORDER BY position DESC) AS number
    FROM to_device_messages WHERE user_id = ANY($1::text[])
) AS numbered
WHERE number > $2
    AND to_device_messages.user_id = numbered.user_id
    AND to_device_messages.position = numbered.position;

-- name: transaction_id
SELECT pg_current_xact_id()::text;

-- name: fetch_messages
SELECT position, user_id, device_id, sender, type, content FROM to_device_messages
WHERE user_id = $1 ORDER BY position LIMIT $2;

-- name: delete_messages
DELETE FROM to_device_messages WHERE user_id = $1 AND position = ANY($2::bigint[]);
