-- name: fetch_sent
SELECT sender, transaction_id, event_id FROM sent_transactions
JOIN unnest($2::text[], $3::text[]) AS asked (sender, transaction_id) USING (sender, transaction_id)
WHERE room_id = $1;

-- name: insert_sent
WITH inserted AS (
    INSERT INTO sent_transactions (room_id, sender, transaction_id, event_id)
    SELECT $1, sender, transaction_id, event_id
    FROM unnest($2::text[], $3::text[], $4::text[]) AS made (sender, transaction_id, event_id)
    ON CONFLICT DO NOTHING
    RETURNING 1
)
SELECT count(*) FROM inserted;

-- name: prune_sent
WITH deleted AS (
    DELETE FROM sent_transactions WHERE sent_at < now() - $1::interval RETURNING 1
)
SELECT count(*) FROM deleted;
