-- These columns compare by bytes, so that the texts with a prefix are those between the prefix and the prefix followed
-- by the last code point.
-- name: list_rooms_with_prefix
SELECT room_id FROM rooms WHERE room_id BETWEEN $1::text AND $1::text || chr(1114111) ORDER BY room_id LIMIT $2;

-- name: list_events_with_prefix
SELECT event_id FROM events WHERE event_id BETWEEN $1::text AND $1::text || chr(1114111) ORDER BY event_id LIMIT $2;

-- name: list_room_ids
SELECT room_id FROM rooms WHERE room_id > $1 ORDER BY room_id LIMIT $2;

-- name: fetch_state_entries
SELECT room_id, type, state_key, event_id FROM current_state
WHERE room_id = ANY($1::text[]) AND type = ANY($2::text[]) AND state_key = '';

-- name: count_joined
SELECT room_id, count(*), count(*) FILTER (WHERE server = $2), count(DISTINCT server)
FROM current_state WHERE room_id = ANY($1::text[]) AND membership = 'join' GROUP BY room_id;

-- name: count_memberships
SELECT membership, count(*) FROM current_state
WHERE room_id = $1 AND membership IS NOT NULL GROUP BY membership ORDER BY membership;

-- name: list_members_of_server
SELECT state_key, membership FROM current_state
WHERE room_id = $1 AND server = $2 AND membership = ANY($3::text[]) AND state_key > $4
ORDER BY state_key LIMIT $5;

-- name: list_outside_members
SELECT user_id, membership FROM outside_memberships WHERE room_id = $1 AND user_id > $2 ORDER BY user_id LIMIT $3;

-- name: list_latest_events
SELECT event_id FROM room_stream WHERE room_id = $1 AND kind = 'timeline' ORDER BY position DESC LIMIT $2;

-- name: fetch_graph_nodes
SELECT event_id, type, state_key, sender, depth, origin_server_ts, prev_events, verdict, refusal
FROM events WHERE room_id = $1 AND state_before IS NOT NULL AND depth <= $2
ORDER BY depth DESC, event_id LIMIT $3;

-- name: fetch_verdicts
SELECT event_id, verdict, state_before IS NULL FROM events WHERE event_id = ANY($1::text[]);

-- References to an event are not indexed. An honest sender gives the referring event a greater depth, so only the next
-- $4 events by depth are searched.
-- name: find_references
SELECT event_id, $3 = ANY(prev_events), $3 = ANY(auth_events)
FROM (
    SELECT event_id, depth, prev_events, auth_events FROM events
    WHERE room_id = $1 AND state_before IS NOT NULL AND depth >= $2 ORDER BY depth LIMIT $4
) AS behind
WHERE $3 = ANY(prev_events) OR $3 = ANY(auth_events)
ORDER BY depth, event_id LIMIT $5;

-- name: count_rooms_by_server
SELECT server, count(DISTINCT room_id) FROM current_state WHERE membership = 'join' GROUP BY server;

-- name: list_first_pdus
SELECT outbox_pdus.position, outbox_pdus.room_id, outbox_pdus.event_id, outbox_pdus.queued_at, events.type
FROM outbox_pdus LEFT JOIN events USING (event_id)
WHERE destination = $1 ORDER BY position LIMIT $2;

-- name: list_first_edus
SELECT position, edu_type, queued_at FROM outbox_edus WHERE destination = $1 ORDER BY position LIMIT $2;
