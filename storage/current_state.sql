-- name: upsert_entries
INSERT INTO current_state SELECT * FROM unnest($1::current_state[])
ON CONFLICT (room_id, type, state_key) DO UPDATE SET
    event_id = excluded.event_id,
    membership = excluded.membership,
    server = excluded.server;

-- name: delete_entries
DELETE FROM current_state USING unnest($1::text[], $2::text[], $3::text[]) AS gone (room_id, type, state_key)
WHERE current_state.room_id = gone.room_id
    AND current_state.type = gone.type
    AND current_state.state_key = gone.state_key;

-- name: fetch_members
SELECT state_key, membership, event_id FROM current_state
WHERE room_id = $1 AND membership = ANY($2::text[]) ORDER BY state_key;

-- name: fetch_rooms_of_user
SELECT room_id FROM current_state WHERE state_key = $1 AND membership = ANY($2::text[]) ORDER BY room_id;

-- name: count_joined_by_server
SELECT server, count(*) FROM current_state WHERE room_id = $1 AND membership = 'join' GROUP BY server;

-- name: has_member_of_server
SELECT EXISTS (
    SELECT FROM current_state WHERE room_id = $1 AND membership = ANY($2::text[]) AND server = $3
);

-- name: fetch_rooms_of_server
SELECT DISTINCT room_id FROM current_state WHERE server = $1 AND membership = 'join' ORDER BY room_id;

-- name: fetch_entries
SELECT state_key, event_id FROM current_state
WHERE room_id = $1 AND type = $2 AND ($3::text[] IS NULL OR state_key = ANY($3::text[]));

-- name: fetch_rooms_of_users
SELECT state_key, room_id FROM current_state
WHERE state_key = ANY($1::text[]) AND membership = 'join' ORDER BY state_key, room_id;

-- name: fetch_entries_of_rooms
SELECT room_id, event_id FROM current_state
WHERE room_id = ANY($1::text[]) AND type = $2 AND state_key = $3 ORDER BY room_id;
