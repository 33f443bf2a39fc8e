-- Serialises processes that have fetched keys of the same server and merge them with the stored ones.
-- name: lock_server
SELECT pg_advisory_xact_lock($1, hashtext($2));

-- name: fetch_keys
SELECT server_name, key_id, public_key, valid_until_ts, expired_ts, fetched_at, source
FROM server_keys WHERE server_name = ANY ($1::text[]);

-- name: fetch_documents
SELECT DISTINCT document FROM server_keys WHERE server_name = $1 AND key_id = ANY ($2::text[]);

-- name: store_keys
INSERT INTO server_keys
    (server_name, key_id, public_key, valid_until_ts, expired_ts, fetched_at, source, document)
SELECT new.*, $8::bytea
FROM unnest($1::text[], $2::text[], $3::bytea[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[]) AS new
ON CONFLICT (server_name, key_id) DO UPDATE SET
    public_key = excluded.public_key,
    valid_until_ts = excluded.valid_until_ts,
    expired_ts = excluded.expired_ts,
    fetched_at = excluded.fetched_at,
    source = excluded.source,
    document = excluded.document;
