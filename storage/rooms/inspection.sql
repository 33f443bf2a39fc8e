-- A text compares by bytes here, and what begins with a prefix lies between it and it with the last of all
-- characters behind it.
-- name: rooms_beginning_with
SELECT room_id FROM rooms WHERE room_id BETWEEN $1::text AND $1::text || chr(1114111) ORDER BY room_id LIMIT $2;

-- name: events_beginning_with
SELECT event_id FROM events WHERE event_id BETWEEN $1::text AND $1::text || chr(1114111) ORDER BY event_id LIMIT $2;

-- name: room_ids_after
SELECT room_id FROM rooms WHERE room_id > $1 ORDER BY room_id LIMIT $2;

-- name: state_entries
SELECT room_id, type, state_key, event_id FROM current_state
WHERE room_id = ANY($1::text[]) AND type = ANY($2::text[]) AND state_key = '';

-- name: count_joined
SELECT room_id, count(*), count(*) FILTER (WHERE server = $2), count(DISTINCT server)
FROM current_state WHERE room_id = ANY($1::text[]) AND membership = 'join' GROUP BY room_id;

-- name: count_memberships
SELECT membership, count(*) FROM current_state
WHERE room_id = $1 AND membership IS NOT NULL GROUP BY membership ORDER BY membership;

-- name: members_of_server
SELECT state_key, membership FROM current_state
WHERE room_id = $1 AND server = $2 AND membership = ANY($3::text[]) AND state_key > $4
ORDER BY state_key LIMIT $5;

-- name: outside_members
SELECT user_id, membership FROM outside_memberships WHERE room_id = $1 AND user_id > $2 ORDER BY user_id LIMIT $3;

-- name: latest_events
SELECT event_id FROM room_stream WHERE room_id = $1 AND kind = 'timeline' ORDER BY position DESC LIMIT $2;

-- name: nodes_of_graph
SELECT event_id, type, state_key, sender, depth, origin_server_ts, prev_events, verdict, refusal
FROM events WHERE room_id = $1 AND state_before IS NOT NULL AND depth <= $2
ORDER BY depth DESC, event_id LIMIT $3;

-- name: verdicts
SELECT event_id, verdict, state_before IS NULL FROM events WHERE event_id = ANY($1::text[]);

-- What refers to an event is not indexed, but has a greater depth where its sender is honest: so many events behind
-- it are looked at, and no more.
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

-- name: first_pdus
SELECT outbox_pdus.position, outbox_pdus.room_id, outbox_pdus.event_id, outbox_pdus.queued_at, events.type
FROM outbox_pdus LEFT JOIN events USING (event_id)
WHERE destination = $1 ORDER BY position LIMIT $2;

-- name: first_edus
SELECT position, edu_type, queued_at FROM outbox_edus WHERE destination = $1 ORDER BY position LIMIT $2;
