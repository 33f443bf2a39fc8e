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
