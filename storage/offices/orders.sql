-- name: insert_order
INSERT INTO office_orders (event_id, room_id, call_id, at_ms) VALUES ($1, $2, $3, $4)
ON CONFLICT (event_id) DO NOTHING RETURNING true;

-- name: is_order_known
SELECT true FROM office_orders WHERE event_id = $1;

-- The oldest first.
-- name: list_unreported
SELECT event_id, room_id, call_id, at_ms FROM office_orders WHERE NOT is_told ORDER BY at_ms, event_id LIMIT $1;

-- name: mark_reported
UPDATE office_orders SET is_told = true WHERE event_id = $1;

-- name: prune
WITH deleted AS (
    DELETE FROM office_orders WHERE event_id IN (
        SELECT event_id FROM office_orders WHERE at_ms < $1 ORDER BY at_ms, event_id LIMIT $2
    )
    RETURNING 1
)
SELECT count(*) FROM deleted;
