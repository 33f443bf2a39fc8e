-- Locks in a fixed order, so that two processes that need the same rooms do not deadlock.
-- name: lock_rooms
SELECT room_id, version, generation, forward_extremities, state_group
FROM rooms WHERE room_id = ANY($1::text[]) ORDER BY room_id FOR NO KEY UPDATE;

-- name: fetch_rooms
SELECT room_id, version, generation, forward_extremities, state_group
FROM rooms WHERE room_id = ANY($1::text[]);

-- name: list_rooms
SELECT room_id, version, generation, forward_extremities, state_group FROM rooms ORDER BY room_id;

-- name: insert_room
INSERT INTO rooms (room_id, version, generation, forward_extremities, state_group)
VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING RETURNING true;

-- name: update_rooms
UPDATE rooms SET
    generation = given.generation,
    forward_extremities = given.forward_extremities,
    state_group = given.state_group
FROM unnest($1::rooms[]) AS given WHERE rooms.room_id = given.room_id;

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

-- name: reserve_ids
SELECT nextval('state_group_ids');

-- name: insert_state_groups
INSERT INTO state_groups SELECT * FROM unnest($1::state_groups[]);

-- name: fetch_chain
WITH RECURSIVE chain AS (
    SELECT * FROM state_groups WHERE id = $1
    UNION ALL
    SELECT parents.* FROM state_groups AS parents JOIN chain ON parents.id = chain.parent
)
SELECT id, room_id, parent, distance, types, state_keys, event_ids FROM chain ORDER BY distance;
