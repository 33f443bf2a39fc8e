-- All that is written of messages that another server has sent, if they stand at the head of a room as it is, are
-- new, came in a transaction that has not been answered, and no redaction of them came before. As in `saying.sql`,
-- what follows the head waits for its row, and positions are taken after the lock that holds readers back.
-- name: hear
WITH head AS (
    UPDATE rooms SET generation = $2 + 1, forward_extremities = $3
    WHERE room_id = $1 AND generation = $2
        AND NOT EXISTS (SELECT FROM incoming_transactions WHERE origin = $9 AND transaction_id = $10)
        AND NOT EXISTS (SELECT FROM events WHERE event_id = ANY($8::text[]))
        AND NOT EXISTS (SELECT FROM redactions WHERE target = ANY($8::text[]))
    RETURNING room_id
), written AS (
    INSERT INTO events SELECT given.* FROM head CROSS JOIN unnest($4::events[]) AS given
), related AS (
    INSERT INTO relations (target, rel_type, event_id)
    SELECT target, rel_type, event_id
    FROM head CROSS JOIN unnest($5::text[], $6::text[], $7::text[]) AS given (target, rel_type, event_id)
    ON CONFLICT DO NOTHING
), answered AS (
    INSERT INTO incoming_transactions (origin, transaction_id, answer) SELECT $9, $10, $11 FROM head
), audited AS (
    INSERT INTO audit (at, peer, direction, act, user_id, room_id, subject, outcome, detail)
    SELECT
        $13::timestamptz, $14::text, $15::text, $16::text, $17::text, $18::text, $19::text, $20::text, $21::text
    FROM head
    WHERE $13 IS NOT NULL
), held_back AS MATERIALIZED (
    SELECT pg_advisory_xact_lock_shared(($12::bigint << 48) | (last_value - 1 + is_called::integer))
    FROM head CROSS JOIN room_stream_positions
)
INSERT INTO room_stream (position, room_id, event_id, kind)
SELECT nextval('room_stream_positions'), $1, event_id, 'timeline'
FROM held_back CROSS JOIN unnest($8::text[]) WITH ORDINALITY AS given (event_id, number)
ORDER BY number
RETURNING position, room_id, event_id, kind;
