-- name: write_events
INSERT INTO events SELECT * FROM unnest($1::events[])
ON CONFLICT (event_id) DO UPDATE SET
    verdict = excluded.verdict,
    refusal = excluded.refusal,
    state_before = excluded.state_before,
    state_after = excluded.state_after,
    canonical = excluded.canonical
WHERE events.state_before IS NULL AND excluded.state_before IS NOT NULL;

-- name: fetch_events
SELECT event_id, version, verdict, refusal, state_before, state_after, canonical
FROM events JOIN rooms USING (room_id) WHERE event_id = ANY($1::text[]);

-- name: fetch_auth_edges
WITH RECURSIVE chain AS (
    SELECT event_id, auth_events FROM events WHERE event_id = ANY($1::text[])
    UNION
    SELECT events.event_id, events.auth_events
    FROM chain CROSS JOIN LATERAL unnest(chain.auth_events) AS auth_event
    JOIN events ON events.event_id = auth_event
)
SELECT event_id, auth_events FROM chain;

-- name: fetch_ancestors
SELECT event_id, depth, prev_events FROM events
WHERE room_id = $1 AND state_before IS NOT NULL
    AND depth <= (SELECT max(depth) FROM events WHERE event_id = ANY($2::text[]) AND room_id = $1)
ORDER BY depth DESC LIMIT $3;

-- name: fetch_graph_entries
SELECT event_id, depth, prev_events FROM events
WHERE room_id = $1 AND event_id = ANY($2::text[]) AND state_before IS NOT NULL;

-- name: fetch_backward_extremities
SELECT event_id FROM events
WHERE room_id = $1 AND state_before IS NOT NULL AND EXISTS (
    SELECT FROM unnest(events.prev_events) AS prev_event
    WHERE NOT EXISTS (
        SELECT FROM events AS before WHERE before.event_id = prev_event AND before.state_before IS NOT NULL
    )
)
ORDER BY depth DESC LIMIT $2;

-- name: fetch_least_depth
SELECT coalesce(min(depth), 0) FROM events WHERE room_id = $1 AND state_before IS NOT NULL;

-- name: find_nearest_after
SELECT event_id, origin_server_ts FROM events
WHERE room_id = $1 AND state_before IS NOT NULL AND verdict = 'accepted' AND origin_server_ts >= $2
ORDER BY origin_server_ts, event_id LIMIT 1;

-- name: find_nearest_before
SELECT event_id, origin_server_ts FROM events
WHERE room_id = $1 AND state_before IS NOT NULL AND verdict = 'accepted' AND origin_server_ts <= $2
ORDER BY origin_server_ts DESC, event_id DESC LIMIT 1;

-- name: insert_relations
INSERT INTO relations (target, rel_type, event_id) SELECT * FROM unnest($1::text[], $2::text[], $3::text[])
ON CONFLICT DO NOTHING;

-- name: fetch_relations
SELECT event_id FROM events
WHERE room_id = $2 AND state_before IS NOT NULL AND verdict = 'accepted' AND event_id IN (
    SELECT relations.event_id FROM relations
    WHERE target = $1 AND ($3::text IS NULL OR rel_type = $3)
)
ORDER BY depth, origin_server_ts, event_id LIMIT $4;

-- name: insert_redactions
INSERT INTO redactions (target, event_id) SELECT * FROM unnest($1::text[], $2::text[]) ON CONFLICT DO NOTHING;

-- name: fetch_redactions
SELECT target, event_id FROM redactions WHERE target = ANY($1::text[]) ORDER BY target, event_id;

-- Ordered by depth; senders choose depths freely, so times and ids break ties.
-- name: fetch_page_backwards
SELECT event_id, depth, origin_server_ts FROM events
WHERE room_id = $1 AND state_before IS NOT NULL AND verdict = 'accepted'
    AND depth <= $2 AND (depth, origin_server_ts, event_id) < ($2, $3, $4)
ORDER BY depth DESC, origin_server_ts DESC, event_id DESC LIMIT $5;

-- name: fetch_page_forwards
SELECT event_id, depth, origin_server_ts FROM events
WHERE room_id = $1 AND state_before IS NOT NULL AND verdict = 'accepted'
    AND depth >= $2 AND (depth, origin_server_ts, event_id) > ($2, $3, $4)
ORDER BY depth, origin_server_ts, event_id LIMIT $5;
