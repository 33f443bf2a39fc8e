-- What a homeserver sends to this node as its application service: transactions that have been taken in, and events,
-- whose order is that of room_stream.

CREATE TABLE appservice_transactions (
    -- The id of the registration.
    registration text COLLATE "C" NOT NULL,
    transaction_id text COLLATE "C" NOT NULL,
    -- SHA-256 of what it is known by.
    digest bytea NOT NULL CHECK (octet_length(digest) = 32),
    received_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (registration, transaction_id)
);
CREATE INDEX appservice_transactions_by_age ON appservice_transactions (received_at);

-- Kept until every reader has passed it, and long enough to know it when it is sent again.
CREATE TABLE appservice_events (
    event_id text COLLATE "C" PRIMARY KEY,
    -- In room_stream.
    position bigint NOT NULL UNIQUE,
    room_id text COLLATE "C" NOT NULL,
    -- Of m.room.member: of whom it is said.
    member text COLLATE "C",
    received_at timestamptz NOT NULL DEFAULT now(),
    -- JSON: jsonb holds no NUL.
    event bytea NOT NULL
);
CREATE INDEX appservice_events_of_members ON appservice_events (room_id, member, position) WHERE member IS NOT NULL;
CREATE INDEX appservice_events_by_age ON appservice_events (received_at);
