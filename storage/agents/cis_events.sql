-- name: insert_received
INSERT INTO cis_received (peer, event_id, digest, received_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (peer, event_id) DO NOTHING
RETURNING true;

-- name: fetch_digest
SELECT digest FROM cis_received WHERE peer = $1 AND event_id = $2;

-- name: prune_received
WITH old AS (
    DELETE FROM cis_received WHERE (peer, event_id) IN (
        SELECT peer, event_id FROM cis_received WHERE received_at < $1 LIMIT $2
    ) RETURNING 1
)
SELECT count(*) FROM old;

-- name: insert_outgoing
INSERT INTO cis_outgoing (peer, name, body, requester_node, request_id, deadline)
SELECT $1, $2, $3, $4, $5, $6
WHERE (SELECT count(*) FROM (SELECT 1 FROM cis_outgoing WHERE peer = $1 AND NOT is_sent LIMIT $7) AS waiting) < $7
    OR EXISTS (SELECT FROM cis_outgoing WHERE peer = $1 AND name = $2)
ON CONFLICT (peer, name) DO UPDATE SET name = excluded.name
RETURNING true;

-- name: list_queued
SELECT id, body, requester_node, request_id, deadline FROM cis_outgoing
WHERE peer = $1 AND NOT is_sent ORDER BY id LIMIT $2;

-- name: list_peers_with_queue
SELECT DISTINCT peer FROM cis_outgoing WHERE NOT is_sent;

-- name: mark_sent
UPDATE cis_outgoing SET is_sent = true, body = '' WHERE id = $1;

-- The names of sent events are kept until the deadline, because a task may be delivered a second time.
-- name: prune_outgoing
WITH old AS (
    DELETE FROM cis_outgoing WHERE id IN (
        SELECT id FROM cis_outgoing WHERE deadline < $1 LIMIT $2
    ) RETURNING 1
)
SELECT count(*) FROM old;
