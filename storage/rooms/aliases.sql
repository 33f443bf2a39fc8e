-- name: insert_alias
INSERT INTO aliases (alias, room_id, creator, created_at) VALUES ($1, $2, $3, $4)
ON CONFLICT DO NOTHING RETURNING true;

-- name: fetch_alias
SELECT alias, room_id, creator, created_at FROM aliases WHERE alias = $1;

-- name: delete_alias
DELETE FROM aliases WHERE alias = $1 RETURNING true;

-- name: list_aliases_of_room
SELECT alias FROM aliases WHERE room_id = $1 ORDER BY created_at, alias;

-- name: publish_room
INSERT INTO published_rooms (room_id) VALUES ($1) ON CONFLICT DO NOTHING;

-- name: unpublish_room
DELETE FROM published_rooms WHERE room_id = $1;

-- name: is_published
SELECT EXISTS (SELECT FROM published_rooms WHERE room_id = $1);

-- name: list_published_rooms
SELECT room_id FROM published_rooms ORDER BY room_id;

-- name: fetch_created
SELECT room_id FROM created_rooms WHERE creator = $1 AND key = $2;

-- name: insert_created
INSERT INTO created_rooms (creator, key, room_id) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING RETURNING true;

-- name: delete_created
DELETE FROM created_rooms WHERE creator = $1 AND key = $2;

-- name: delete_created_room
DELETE FROM created_rooms WHERE room_id = $1;

-- name: move_aliases
UPDATE aliases SET room_id = $2 WHERE room_id = $1;

-- name: move_publication
UPDATE published_rooms SET room_id = $2 WHERE room_id = $1;
