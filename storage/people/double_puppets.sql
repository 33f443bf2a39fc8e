-- A person has one double puppet; a new one replaces it.
-- name: upsert_puppet
INSERT INTO double_puppets (user_id, login_id, sealed, made_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (user_id) DO UPDATE SET
    login_id = excluded.login_id, sealed = excluded.sealed, made_at = excluded.made_at, refused_at = NULL;

-- name: fetch_puppet
SELECT user_id, login_id, sealed, made_at, refused_at FROM double_puppets WHERE user_id = $1;

-- Checks `login_id`, because the token may have been replaced meanwhile.
-- name: mark_puppet_refused
UPDATE double_puppets SET refused_at = $3 WHERE user_id = $1 AND login_id = $2 AND refused_at IS NULL;

-- name: delete_puppet
DELETE FROM double_puppets WHERE user_id = $1 AND login_id = $2 RETURNING true;
