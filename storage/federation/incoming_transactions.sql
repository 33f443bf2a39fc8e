-- name: fetch_response
SELECT answer FROM incoming_transactions WHERE origin = $1 AND transaction_id = $2;

-- name: insert_response
INSERT INTO incoming_transactions (origin, transaction_id, answer) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING;

-- One statement to save a round trip for each transaction of a peer.
-- name: insert_response_and_audit
WITH answered AS (
    INSERT INTO incoming_transactions (origin, transaction_id, answer) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING
)
INSERT INTO audit (at, peer, direction, act, user_id, room_id, subject, outcome, detail)
VALUES ($4, $5, $6, $7, $8, $9, $10, $11, $12);

-- name: prune
WITH deleted AS (
    DELETE FROM incoming_transactions WHERE received_at < now() - $1::interval RETURNING 1
)
SELECT count(*) FROM deleted;
