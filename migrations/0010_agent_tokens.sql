-- With what agents show who they are that this node does not start itself. Of a token only its hash is kept.

CREATE TABLE agent_tokens (
    -- The part of the token that is no secret.
    token_id text COLLATE "C" PRIMARY KEY,
    -- On this node.
    agent_id text COLLATE "C" NOT NULL,
    -- SHA-256 of the whole token, which is random enough for that.
    hash bytea NOT NULL CHECK (octet_length(hash) = 32),
    note text NOT NULL,
    -- Milliseconds since 1970, as are the others.
    created_at bigint NOT NULL,
    -- Null: never.
    expires_at bigint,
    -- To the minute. Null: never.
    last_used_at bigint,
    revoked_at bigint
);
CREATE INDEX agent_tokens_of_agent ON agent_tokens (agent_id);
