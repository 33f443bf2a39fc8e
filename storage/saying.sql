-- All that is written of messages at the head of a room, if the room still stands where they were made for and none
-- of them has been sent before. What follows the head waits for its row: so nothing is written unless it was the
-- writer's, and positions are taken under the room's lock. Those of the stream are taken after the lock that holds
-- its readers back, because the rows are sorted before. A place without a destination is one in the stream. The
-- transactions that take the events to servers are written down, unless one is in flight: in the place of one that
-- has been answered.
-- name: say
WITH head AS (
    UPDATE rooms SET generation = $2 + 1, forward_extremities = $3
    WHERE room_id = $1 AND generation = $2 AND NOT EXISTS (
        SELECT FROM sent_transactions
        JOIN unnest($5::text[], $6::text[]) AS asked (sender, transaction_id) USING (sender, transaction_id)
        WHERE sent_transactions.room_id = $1
    )
    RETURNING room_id
), written AS (
    INSERT INTO events SELECT given.* FROM head CROSS JOIN unnest($4::events[]) AS given
    ON CONFLICT (event_id) DO UPDATE SET
        verdict = excluded.verdict,
        refusal = excluded.refusal,
        state_before = excluded.state_before,
        state_after = excluded.state_after,
        canonical = excluded.canonical
    WHERE events.state_before IS NULL AND excluded.state_before IS NOT NULL
), named AS (
    INSERT INTO sent_transactions (room_id, sender, transaction_id, event_id)
    SELECT head.room_id, sender, transaction_id, event_id
    FROM head CROSS JOIN unnest($5::text[], $6::text[], $7::text[]) AS made (sender, transaction_id, event_id)
), related AS (
    INSERT INTO relations (target, rel_type, event_id)
    SELECT target, rel_type, event_id
    FROM head CROSS JOIN unnest($8::text[], $9::text[], $10::text[]) AS given (target, rel_type, event_id)
    ON CONFLICT DO NOTHING
), held_back AS MATERIALIZED (
    SELECT pg_advisory_xact_lock_shared(($11::bigint << 48) | (last_value - 1 + is_called::integer))
    FROM head CROSS JOIN room_stream_positions
), told AS (
    INSERT INTO room_stream (position, room_id, event_id, kind)
    SELECT nextval('room_stream_positions'), $1, event_id, 'timeline'
    FROM held_back CROSS JOIN unnest($12::text[]) WITH ORDINALITY AS given (event_id, number)
    ORDER BY number
    RETURNING event_id, position
), queued AS (
    INSERT INTO outbox_pdus (destination, room_id, event_id, queued_at)
    SELECT destination, head.room_id, event_id, $15
    FROM head
    CROSS JOIN unnest($13::text[], $14::text[]) WITH ORDINALITY AS given (destination, event_id, number)
    ORDER BY number
    RETURNING destination, event_id, position
), begun AS (
    INSERT INTO outbox_transactions (destination, transaction_id, origin_server_ts, pdus, edus)
    SELECT destination, transaction_id, $15, array_agg(position ORDER BY position), '{}'
    FROM queued JOIN unnest($16::text[], $17::text[]) AS offered (destination, transaction_id) USING (destination)
    GROUP BY destination, transaction_id ORDER BY destination
    ON CONFLICT (destination) DO UPDATE SET
        transaction_id = excluded.transaction_id,
        origin_server_ts = excluded.origin_server_ts,
        pdus = excluded.pdus,
        edus = excluded.edus
    WHERE outbox_transactions.transaction_id = ANY($18::text[])
    RETURNING destination, transaction_id, origin_server_ts
)
SELECT null AS destination, event_id, position, null AS transaction_id, null::bigint AS origin_server_ts FROM told
UNION ALL
SELECT destination, event_id, position, transaction_id, origin_server_ts
FROM queued LEFT JOIN begun USING (destination)
ORDER BY position;

-- The same of one message that relates to nothing and goes to one server, or to none: nearly all that agents say. There is no
-- list in it to be taken apart, which halves what it costs. Its row in the stream is the first that is asked for, and
-- with it the room's.
-- name: say_one
WITH head AS (
    UPDATE rooms SET generation = $2 + 1, forward_extremities = $3::text::text[]
    WHERE room_id = $1 AND generation = $2 AND NOT EXISTS (
        SELECT FROM sent_transactions
        WHERE sent_transactions.room_id = $1 AND sender = $6 AND transaction_id = $4::text
    )
    RETURNING room_id
), written AS (
    INSERT INTO events (
        event_id, room_id, type, sender, depth, origin_server_ts, prev_events, auth_events, verdict,
        state_before, state_after, canonical
    )
    SELECT $5, room_id, $7, $6, $8, $9, $10::text::text[], $11::text::text[], 'accepted', $12, $13, $14 FROM head
    ON CONFLICT (event_id) DO UPDATE SET
        verdict = excluded.verdict,
        refusal = excluded.refusal,
        state_before = excluded.state_before,
        state_after = excluded.state_after,
        canonical = excluded.canonical
    WHERE events.state_before IS NULL AND excluded.state_before IS NOT NULL
), named AS (
    INSERT INTO sent_transactions (room_id, sender, transaction_id, event_id)
    SELECT room_id, $6, $4, $5 FROM head WHERE $4 IS NOT NULL
), held_back AS MATERIALIZED (
    SELECT room_id, pg_advisory_xact_lock_shared(($15::bigint << 48) | (last_value - 1 + is_called::integer))
    FROM head CROSS JOIN room_stream_positions
), told AS (
    INSERT INTO room_stream (position, room_id, event_id, kind)
    SELECT nextval('room_stream_positions'), room_id, $5, 'timeline' FROM held_back
    RETURNING position
), queued AS (
    INSERT INTO outbox_pdus (destination, room_id, event_id, queued_at)
    SELECT $16, room_id, $5, $18 FROM head WHERE $16::text IS NOT NULL
    RETURNING position
), begun AS (
    INSERT INTO outbox_transactions (destination, transaction_id, origin_server_ts, pdus, edus)
    SELECT $16, $17, $18, ARRAY[position], '{}' FROM queued WHERE $17::text IS NOT NULL
    ON CONFLICT (destination) DO UPDATE SET
        transaction_id = excluded.transaction_id,
        origin_server_ts = excluded.origin_server_ts,
        pdus = excluded.pdus,
        edus = excluded.edus
    WHERE outbox_transactions.transaction_id = $19
    RETURNING origin_server_ts
)
SELECT told.position, queued.position, begun.origin_server_ts
FROM told LEFT JOIN queued ON true LEFT JOIN begun ON true;
