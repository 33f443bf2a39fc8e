-- Transactions that add or delete content hold this until they end: a file must not be deleted while another
-- transaction starts to refer to it. Two numbers, so that it does not collide with other locks.
-- name: lock_bytes
SELECT pg_advisory_xact_lock($1, $2);

-- Remote media are fetched again when their file has been deleted. Local media are written once.
-- name: upsert
INSERT INTO media (origin, media_id, sha256, size, content_type, file_name, uploader, created_at, last_used_at, quarantined)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $8, EXISTS (SELECT FROM media AS known WHERE known.sha256 = $3 AND known.quarantined)
ON CONFLICT (origin, media_id) DO UPDATE
SET sha256 = excluded.sha256,
    size = excluded.size,
    content_type = excluded.content_type,
    file_name = excluded.file_name,
    last_used_at = excluded.last_used_at,
    quarantined = media.quarantined OR excluded.quarantined
WHERE media.uploader IS NULL AND excluded.uploader IS NULL;

-- name: fetch
SELECT origin, media_id, sha256, size, content_type, file_name, uploader, created_at, last_used_at, quarantined
FROM media
WHERE origin = $1 AND media_id = $2;

-- name: touch
UPDATE media SET last_used_at = $3 WHERE origin = $1 AND media_id = $2 AND last_used_at < $3;

-- name: is_referenced
SELECT EXISTS (SELECT FROM media WHERE sha256 = $1);

-- The hashes to which no URI refers.
-- name: fetch_unreferenced
SELECT given.sha256
FROM unnest($1::bytea[]) AS given (sha256)
WHERE NOT EXISTS (SELECT FROM media WHERE media.sha256 = given.sha256);

-- name: set_quarantined
UPDATE media SET quarantined = $2 WHERE sha256 = $1;

-- The oldest, if there are several.
-- name: find_upload
SELECT media_id FROM media WHERE sha256 = $1 AND origin = $2 AND uploader = $3 ORDER BY created_at, media_id LIMIT 1;

-- Remote media that have not been used since $1, and beyond that the least recently used, until the rest has at most
-- $2 bytes. The same content under two URIs counts twice. Media used after $3 stay, because a request that has just
-- fetched them is about to open the file.
-- name: fetch_evictable
SELECT origin, media_id, sha256
FROM (
    SELECT origin, media_id, sha256, last_used_at,
           sum(size) OVER (ORDER BY last_used_at DESC, origin, media_id) AS kept
    FROM media
    WHERE uploader IS NULL AND NOT quarantined
) AS remote
WHERE (last_used_at < $1 OR kept > $2) AND last_used_at <= $3
ORDER BY last_used_at, origin, media_id
LIMIT $4;

-- name: delete_remote
DELETE FROM media
WHERE origin = $1 AND media_id = $2 AND sha256 = $3 AND uploader IS NULL AND NOT quarantined;
