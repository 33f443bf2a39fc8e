-- People as whom this node may speak, each by a token of the homeserver that they gave it.
CREATE TABLE double_puppets (
    user_id text COLLATE "C" PRIMARY KEY,
    -- By which its owner takes it back.
    login_id text COLLATE "C" NOT NULL UNIQUE,
    -- Encrypted: the key is no part of the database.
    sealed bytea NOT NULL CHECK (octet_length(sealed) <= 8192),
    -- Milliseconds since 1970, as is the other one.
    made_at bigint NOT NULL,
    -- Since when the homeserver refuses it. Null: it does not.
    refused_at bigint
);

-- The chat of a person and an agent that was made because the person asked for one.
CREATE TABLE direct_chats (
    user_id text COLLATE "C" NOT NULL,
    -- Its address.
    agent text COLLATE "C" NOT NULL,
    room_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (user_id, agent)
);
