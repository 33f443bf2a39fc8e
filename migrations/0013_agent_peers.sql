-- Peers of the federation of agents that operators have added while the node ran, and those of the configuration
-- that are trusted otherwise than it says. Times are in milliseconds since 1970.

CREATE TABLE agent_peers (
    node_id text COLLATE "C" PRIMARY KEY,
    trusted boolean NOT NULL,
    -- How it speaks. Null: the configuration says this and all that follows, and here it is only trusted or not.
    profile text CHECK (profile IN ('matrix', 'cis-1.1')),
    url text,
    -- Null: the first one of this node.
    namespaces text[],
    -- From where a published node sends.
    networks text[],
    signing_key bytea CHECK (octet_length(signing_key) = 32),
    require_signature boolean,
    -- Certificates to believe from this peer alone, PEM.
    authority text,
    added_at bigint NOT NULL,
    changed_at bigint NOT NULL,
    CHECK ((profile IS NULL) = (networks IS NULL) AND (profile IS NULL) = (require_signature IS NULL)),
    CHECK (
        profile IS NOT NULL OR (url IS NULL AND namespaces IS NULL AND signing_key IS NULL AND authority IS NULL)
    )
);
