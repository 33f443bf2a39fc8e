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

-- Keys of other servers, each with the document that published it.
CREATE TABLE server_keys (
    server_name text NOT NULL,
    key_id text NOT NULL,
    public_key bytea NOT NULL CHECK (octet_length(public_key) = 32),
    valid_until_ts bigint NOT NULL,
    expired_ts bigint,
    fetched_at bigint NOT NULL,
    source text NOT NULL,
    document bytea NOT NULL,
    PRIMARY KEY (server_name, key_id)
);
