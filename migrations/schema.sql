-- The whole schema, kept by hand: the place to read what the tables are. A test holds it to the sum of the
-- migrations.

-- What has been applied. Kept by storage/migrate.py.
CREATE TABLE schema_migrations (
    version integer PRIMARY KEY,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);

-- What this database belongs to: one row, one server name.
CREATE TABLE node (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    server_name text NOT NULL CHECK (server_name <> ''),
    created_at timestamptz NOT NULL DEFAULT now()
);
