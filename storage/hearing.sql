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

-- The same of one message that relates to nothing: nearly all that servers send to each other. There is no list in it
-- to be taken apart, which halves what it costs, and it is the end of the room.
-- name: hear_one
WITH head AS (
    UPDATE rooms SET generation = $2 + 1, forward_extremities = ARRAY[$3::text]
    WHERE room_id = $1 AND generation = $2
        AND NOT EXISTS (SELECT FROM incoming_transactions WHERE origin = $13 AND transaction_id = $14)
        AND NOT EXISTS (SELECT FROM events WHERE event_id = $3)
        AND NOT EXISTS (SELECT FROM redactions WHERE target = $3)
    RETURNING room_id
), written AS (
    INSERT INTO events (
        event_id, room_id, type, sender, depth, origin_server_ts, prev_events, auth_events, verdict,
        state_before, state_after, canonical
    )
    SELECT $3, room_id, $4, $5, $6, $7, $8::text::text[], $9::text::text[], 'accepted', $10, $11, $12 FROM head
), answered AS (
    INSERT INTO incoming_transactions (origin, transaction_id, answer) SELECT $13, $14, $15 FROM head
), audited AS (
    INSERT INTO audit (at, peer, direction, act, user_id, room_id, subject, outcome, detail)
    SELECT
        $17::timestamptz, $18::text, $19::text, $20::text, $21::text, $22::text, $23::text, $24::text, $25::text
    FROM head
    WHERE $17 IS NOT NULL
), held_back AS MATERIALIZED (
    SELECT room_id, pg_advisory_xact_lock_shared(($16::bigint << 48) | (last_value - 1 + is_called::integer))
    FROM head CROSS JOIN room_stream_positions
)
INSERT INTO room_stream (position, room_id, event_id, kind)
SELECT nextval('room_stream_positions'), room_id, $3, 'timeline' FROM held_back
RETURNING position;
