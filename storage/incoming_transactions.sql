-- name: fetch_answer
SELECT answer FROM incoming_transactions WHERE origin = $1 AND transaction_id = $2;

-- name: insert_answer
INSERT INTO incoming_transactions (origin, transaction_id, answer) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING;

-- name: prune
WITH forgotten AS (
    DELETE FROM incoming_transactions WHERE received_at < now() - $1::interval RETURNING 1
)
SELECT count(*) FROM forgotten;
