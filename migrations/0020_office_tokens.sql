-- With what Agents and Computers that come into offices show whose they are. Of a token only its hash is
-- kept.

CREATE TABLE office_tokens (
    -- The part of the token that is no secret.
    token_id text COLLATE "C" PRIMARY KEY,
    -- SHA-256 of the whole token, which is random enough for that.
    hash bytea NOT NULL CHECK (octet_length(hash) = 32),
    -- Whose it is, as the operator calls them.
    owner text COLLATE "C" NOT NULL CHECK (octet_length(owner) BETWEEN 1 AND 255),
    -- As what one may come.
    roles text[] NOT NULL CHECK (roles <> '{}' AND roles <@ '{agent,computer}'),
    -- Into which offices: ids, or patterns with `*`. Empty: into every one.
    offices text[] NOT NULL,
    -- Milliseconds since 1970, as are the others.
    made_at bigint NOT NULL,
    -- Null: never.
    expires_at bigint,
    -- To the minute. Null: never.
    last_used_at bigint,
    revoked_at bigint
);
