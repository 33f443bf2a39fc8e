-- Writes everything that belongs to new messages of a room, local or received, if the room has the generation for
-- which they were built or authorised, none of them is stored or has been redacted, and neither their transaction ids
-- nor the received transaction is stored. All other parts depend on the row of `head`: so nothing is written unless
-- the room was updated, and positions are taken under the lock on the room's row. Positions in the stream are taken
-- after the lock that holds its readers back, because the rows are sorted before. A row without a destination is a
-- position in the stream.
-- name: append
WITH head AS (
    UPDATE rooms SET generation = $2 + 1, forward_extremities = $3
    WHERE room_id = $1 AND generation = $2
        AND NOT EXISTS (SELECT FROM events WHERE event_id = ANY($5::text[]))
        AND NOT EXISTS (SELECT FROM redactions WHERE target = ANY($5::text[]))
        AND NOT EXISTS (
            SELECT FROM sent_transactions
            JOIN unnest($6::text[], $7::text[]) AS asked (sender, transaction_id) USING (sender, transaction_id)
            WHERE sent_transactions.room_id = $1
        )
        AND NOT EXISTS (SELECT FROM incoming_transactions WHERE origin = $16 AND transaction_id = $17)
    RETURNING room_id
), written AS (
    INSERT INTO events SELECT given.* FROM head CROSS JOIN unnest($4::events[]) AS given
), named AS (
    INSERT INTO sent_transactions (room_id, sender, transaction_id, event_id)
    SELECT head.room_id, sender, transaction_id, event_id
    FROM head CROSS JOIN unnest($6::text[], $7::text[], $8::text[]) AS made (sender, transaction_id, event_id)
), related AS (
    INSERT INTO relations (target, rel_type, event_id)
    SELECT target, rel_type, event_id
    FROM head CROSS JOIN unnest($9::text[], $10::text[], $11::text[]) AS given (target, rel_type, event_id)
    ON CONFLICT DO NOTHING
), answered AS (
    INSERT INTO incoming_transactions (origin, transaction_id, answer)
    SELECT $16, $17, $18 FROM head WHERE $16 IS NOT NULL
), audited AS (
    INSERT INTO audit (at, peer, direction, act, user_id, room_id, subject, outcome, detail)
    SELECT
        $19::timestamptz, $20::text, $21::text, $22::text, $23::text, $24::text, $25::text, $26::text, $27::text
    FROM head
    WHERE $19 IS NOT NULL
), held_back AS MATERIALIZED (
    SELECT pg_advisory_xact_lock_shared(($12::bigint << 48) | (last_value - 1 + is_called::integer))
    FROM head CROSS JOIN room_stream_positions
), streamed AS (
    INSERT INTO room_stream (position, room_id, event_id, kind)
    SELECT nextval('room_stream_positions'), $1, event_id, 'timeline'
    FROM held_back CROSS JOIN unnest($5::text[]) WITH ORDINALITY AS given (event_id, number)
    ORDER BY number
    RETURNING event_id, position
), queued AS (
    INSERT INTO outbox_pdus (destination, room_id, event_id, queued_at)
    SELECT destination, head.room_id, event_id, $15
    FROM head
    CROSS JOIN unnest($13::text[], $14::text[]) WITH ORDINALITY AS given (destination, event_id, number)
    ORDER BY number
    RETURNING destination, event_id, position
)
SELECT null AS destination, event_id, position FROM streamed
UNION ALL
SELECT destination, event_id, position FROM queued
ORDER BY position;

-- Like `append`, for one message without relations to at most one server: nearly all that agents send and receive. It
-- has no arrays of rows to unnest, which halves its cost.
-- name: append_one
WITH head AS (
    UPDATE rooms SET generation = $2 + 1, forward_extremities = $3::text::text[]
    WHERE room_id = $1 AND generation = $2
        AND NOT EXISTS (SELECT FROM events WHERE event_id = $4)
        AND NOT EXISTS (SELECT FROM redactions WHERE target = $4)
        AND NOT EXISTS (
            SELECT FROM sent_transactions
            WHERE sent_transactions.room_id = $1 AND sender = $5 AND transaction_id = $15::text
        )
        AND NOT EXISTS (SELECT FROM incoming_transactions WHERE origin = $18 AND transaction_id = $19)
    RETURNING room_id
), written AS (
    INSERT INTO events (
        event_id, room_id, type, sender, depth, origin_server_ts, prev_events, auth_events, verdict,
        state_before, state_after, canonical
    )
    SELECT $4, room_id, $6, $5, $7, $8, $9::text::text[], $10::text::text[], 'accepted', $11, $12, $13 FROM head
), named AS (
    INSERT INTO sent_transactions (room_id, sender, transaction_id, event_id)
    SELECT room_id, $5, $15, $4 FROM head WHERE $15 IS NOT NULL
), answered AS (
    INSERT INTO incoming_transactions (origin, transaction_id, answer)
    SELECT $18, $19, $20 FROM head WHERE $18 IS NOT NULL
), audited AS (
    INSERT INTO audit (at, peer, direction, act, user_id, room_id, subject, outcome, detail)
    SELECT
        $21::timestamptz, $22::text, $23::text, $24::text, $25::text, $26::text, $27::text, $28::text, $29::text
    FROM head
    WHERE $21 IS NOT NULL
), held_back AS MATERIALIZED (
    SELECT room_id, pg_advisory_xact_lock_shared(($14::bigint << 48) | (last_value - 1 + is_called::integer))
    FROM head CROSS JOIN room_stream_positions
), streamed AS (
    INSERT INTO room_stream (position, room_id, event_id, kind)
    SELECT nextval('room_stream_positions'), room_id, $4, 'timeline' FROM held_back
    RETURNING position
), queued AS (
    INSERT INTO outbox_pdus (destination, room_id, event_id, queued_at)
    SELECT $16, room_id, $4, $17 FROM head WHERE $16::text IS NOT NULL
    RETURNING position
)
SELECT streamed.position, queued.position FROM streamed LEFT JOIN queued ON true;
