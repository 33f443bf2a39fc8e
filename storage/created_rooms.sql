-- name: fetch_created
SELECT room_id FROM created_rooms WHERE creator = $1 AND key = $2;

-- name: insert_created
INSERT INTO created_rooms (creator, key, room_id) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING RETURNING true;

-- name: delete_created
DELETE FROM created_rooms WHERE creator = $1 AND key = $2;

-- name: delete_created_room
DELETE FROM created_rooms WHERE room_id = $1;
