-- name: insert_token
INSERT INTO office_tokens (token_id, hash, owner, roles, offices, made_at, expires_at)
SELECT $1, $2, $3, $4, $5, $6, $7
WHERE (SELECT count(*) FROM office_tokens) < $8
RETURNING true;

-- Two concurrent inserts could otherwise both pass the limit.
-- name: lock_tokens
SELECT pg_advisory_xact_lock(x'50414F54'::integer, 0);

-- name: fetch_token
SELECT token_id, hash, owner, roles, offices, made_at, expires_at, last_used_at, revoked_at
FROM office_tokens WHERE token_id = $1;

-- name: list_tokens
SELECT token_id, hash, owner, roles, offices, made_at, expires_at, last_used_at, revoked_at
FROM office_tokens ORDER BY owner, made_at, token_id;

-- name: list_valid_ids
SELECT token_id FROM office_tokens
WHERE token_id = ANY($1::text[]) AND revoked_at IS NULL AND (expires_at IS NULL OR $2 < expires_at);

-- Another process may have recorded a use meanwhile.
-- name: record_use
UPDATE office_tokens SET last_used_at = $2
WHERE token_id = $1 AND (last_used_at IS NULL OR last_used_at <= $2 - $3::bigint);

-- A revoked token keeps the time of its first revocation.
-- name: revoke_token
UPDATE office_tokens SET revoked_at = coalesce(revoked_at, $2) WHERE token_id = $1 RETURNING true;

-- name: delete_expired_tokens
DELETE FROM office_tokens WHERE revoked_at < $1 OR expires_at < $1;
