-- name: insert_token
INSERT INTO agent_tokens (token_id, agent_id, hash, note, created_at, expires_at)
SELECT $1, $2, $3, $4, $5, $6
WHERE (SELECT count(*) FROM agent_tokens WHERE agent_id = $2) < $7
RETURNING true;

-- Two concurrent inserts could otherwise both pass the limit.
-- name: lock_agent
SELECT pg_advisory_xact_lock(x'50415154'::integer, hashtext($1));

-- name: fetch_token
SELECT token_id, agent_id, hash, note, created_at, expires_at, last_used_at, revoked_at
FROM agent_tokens WHERE token_id = $1;

-- name: list_tokens
SELECT token_id, agent_id, hash, note, created_at, expires_at, last_used_at, revoked_at
FROM agent_tokens WHERE $1::text IS NULL OR agent_id = $1 ORDER BY agent_id, created_at, token_id LIMIT $2;

-- name: record_use
UPDATE agent_tokens SET last_used_at = $2 WHERE token_id = $1 AND (last_used_at IS NULL OR last_used_at < $2);

-- A revoked token keeps the time of its first revocation.
-- name: revoke_tokens
UPDATE agent_tokens SET revoked_at = coalesce(revoked_at, $3)
WHERE agent_id = $1 AND ($2::text IS NULL OR token_id = $2)
RETURNING token_id;

-- name: delete_expired_tokens
DELETE FROM agent_tokens WHERE agent_id = $1 AND (revoked_at < $2 OR expires_at < $2);
