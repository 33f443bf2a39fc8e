-- Keys of other servers, each with the document that published it, so that a notary's question can be answered
-- with what the server itself has signed. What is merged with what is decided in federation/key_documents.py.
CREATE TABLE server_keys (
    server_name text NOT NULL,
    key_id text NOT NULL,
    public_key bytea NOT NULL CHECK (octet_length(public_key) = 32),
    -- Milliseconds since 1970, as everywhere in Matrix.
    valid_until_ts bigint NOT NULL,
    -- Since when the server does not sign with it any more; null for a key in use.
    expired_ts bigint,
    fetched_at bigint NOT NULL,
    -- 'direct', or the name of the notary that gave it.
    source text NOT NULL,
    document bytea NOT NULL,
    PRIMARY KEY (server_name, key_id)
);
