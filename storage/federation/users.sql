-- name: insert_user
INSERT INTO users (user_id, created_at, profile) VALUES ($1, $2, '{}') ON CONFLICT DO NOTHING RETURNING true;

-- name: is_user
SELECT EXISTS (SELECT FROM users WHERE user_id = $1);

-- name: list_users
SELECT user_id FROM users WHERE user_id > $1 ORDER BY user_id LIMIT $2;

-- name: fetch_profile
SELECT profile FROM users WHERE user_id = $1;

-- name: lock_profile
SELECT profile FROM users WHERE user_id = $1 FOR NO KEY UPDATE;

-- name: update_profile
UPDATE users SET profile = $2 WHERE user_id = $1;

-- name: insert_change
INSERT INTO profile_changes (user_id) VALUES ($1)
ON CONFLICT (user_id) DO UPDATE SET number = nextval('profile_change_numbers');

-- name: list_changes
SELECT user_id, number FROM profile_changes WHERE number > $1 ORDER BY number LIMIT $2;

-- name: delete_change
DELETE FROM profile_changes WHERE user_id = $1 AND number = $2;
