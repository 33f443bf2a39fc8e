-- In one order, so that two processes that need the same rooms never wait for each other.
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
