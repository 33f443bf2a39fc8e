-- name: count_ghosts
SELECT count(*) FROM users;

-- name: count_rooms
SELECT count(DISTINCT room_id) FROM guest_state WHERE is_ours AND membership = 'join';

-- name: list_rooms
SELECT room_id, count(*) AS ghosts FROM guest_state
WHERE is_ours AND membership = 'join' AND room_id > $1 GROUP BY room_id ORDER BY room_id LIMIT $2;

-- name: list_ghosts
SELECT convert_from(state_key, 'UTF8'), membership FROM guest_state
WHERE room_id = $1 AND is_ours AND membership = ANY($2) AND state_key > convert_to($3, 'UTF8')
ORDER BY state_key LIMIT $4;
