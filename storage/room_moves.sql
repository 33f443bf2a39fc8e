-- name: move_aliases
UPDATE aliases SET room_id = $2 WHERE room_id = $1;

-- name: move_publication
UPDATE published_rooms SET room_id = $2 WHERE room_id = $1;
