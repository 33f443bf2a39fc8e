-- What the users of this server and whoever reads its streams must find again after a kill: what a message became,
-- which room was made, how far a reader has come, which invites have come, which messages to devices wait.

-- A message under the transaction id that its sender gave it: sent again, it is the same event.
CREATE TABLE sent_transactions (
    room_id text COLLATE "C" NOT NULL,
    sender text COLLATE "C" NOT NULL,
    transaction_id text COLLATE "C" NOT NULL,
    event_id text COLLATE "C" NOT NULL,
    sent_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (room_id, sender, transaction_id)
);
-- Rows are written in the order of time, and only pruning asks by it.
CREATE INDEX sent_transactions_by_age ON sent_transactions USING brin (sent_at);

-- A room under the key that its creator asked for it with: asked for again, it is the same room.
CREATE TABLE created_rooms (
    creator text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    room_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (creator, key)
);

-- How far each reader of room_stream has come. The term is another one whenever another process becomes the reader:
-- what its predecessor still wants to commit is refused.
CREATE TABLE consumer_cursors (
    name text COLLATE "C" PRIMARY KEY,
    position bigint NOT NULL,
    term bigint NOT NULL
);

-- An invite into a room that this server is not in has its place in the stream too, as long as it stands.
ALTER TABLE room_stream
    DROP CONSTRAINT room_stream_kind_check,
    ADD CONSTRAINT room_stream_kind_check CHECK (kind IN ('timeline', 'state', 'unset', 'invite'));

-- Which events relate to which: replies, edits, reactions, threads.
CREATE TABLE relations (
    target text COLLATE "C" NOT NULL,
    rel_type text COLLATE "C" NOT NULL,
    event_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (target, rel_type, event_id)
);

-- Messages to devices of this server's users, until they are read.
CREATE TABLE to_device_messages (
    position bigint GENERATED ALWAYS AS IDENTITY,
    user_id text COLLATE "C" NOT NULL,
    device_id text NOT NULL,
    sender text NOT NULL,
    type text NOT NULL,
    -- Canonical JSON: jsonb holds no NUL.
    content bytea NOT NULL,
    PRIMARY KEY (user_id, position)
);
