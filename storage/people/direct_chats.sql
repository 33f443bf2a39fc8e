-- name: upsert_chat
INSERT INTO direct_chats (user_id, agent, room_id) VALUES ($1, $2, $3)
ON CONFLICT (user_id, agent) DO UPDATE SET room_id = excluded.room_id;

-- name: fetch_chat
SELECT room_id FROM direct_chats WHERE user_id = $1 AND agent = $2;

-- name: fetch_chats
SELECT agent, room_id FROM direct_chats WHERE user_id = $1 AND agent = ANY($2::text[]);
