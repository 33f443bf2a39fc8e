-- What one database belongs to. The single row ties it to a server name, because every event and every id in it
-- carries that name: served under another one, all of it would be wrong.
CREATE TABLE node (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    server_name text NOT NULL CHECK (server_name <> ''),
    created_at timestamptz NOT NULL DEFAULT now()
);
