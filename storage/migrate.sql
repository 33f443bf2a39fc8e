-- Written by this module itself, so that the first migration finds the table in which it is entered.
-- name: create_migrations_table
CREATE TABLE IF NOT EXISTS schema_migrations (
    version integer PRIMARY KEY,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);

-- name: migrations_table_exists
SELECT to_regclass('schema_migrations') IS NOT NULL;

-- Held by the session, not by a transaction: each migration has a transaction of its own.
-- name: lock
SELECT pg_advisory_lock($1);

-- name: fetch_applied
SELECT version, name, checksum FROM schema_migrations ORDER BY version;

-- name: insert_applied
INSERT INTO schema_migrations (version, name, checksum) VALUES ($1, $2, $3);
