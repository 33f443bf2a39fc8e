-- name: list_peers
SELECT
    node_id, trusted, profile, url, namespaces, networks, signing_key, require_signature, authority, added_at,
    changed_at
FROM agent_peers ORDER BY node_id;

-- An update keeps `added_at`.
-- name: write_peer
INSERT INTO agent_peers (
    node_id, trusted, profile, url, namespaces, networks, signing_key, require_signature, authority, added_at,
    changed_at
) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
ON CONFLICT (node_id) DO UPDATE SET
    trusted = excluded.trusted,
    profile = excluded.profile,
    url = excluded.url,
    namespaces = excluded.namespaces,
    networks = excluded.networks,
    signing_key = excluded.signing_key,
    require_signature = excluded.require_signature,
    authority = excluded.authority,
    changed_at = excluded.changed_at;

-- name: delete_peer
DELETE FROM agent_peers WHERE node_id = $1;

-- A change is decided on the current peers, which must not change meanwhile.
-- name: lock
SELECT pg_advisory_xact_lock(x'50415045'::integer, 1);
