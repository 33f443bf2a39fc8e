-- Created here and not by a migration, so that the first migration can be recorded in it.
-- name: create_migrations_table
CREATE TABLE IF NOT EXISTS schema_migrations (
    version integer PRIMARY KEY,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);

-- name: migrations_table_exists
SELECT to_regclass('schema_migrations') IS NOT NULL;

-- A session-level lock, because each migration has its own transaction.
-- name: lock
SELECT pg_advisory_lock($1);

-- name: fetch_applied
SELECT version, name, checksum FROM schema_migrations ORDER BY version;

-- name: insert_applied
INSERT INTO schema_migrations (version, name, checksum) VALUES ($1, $2, $3);
