-- What goes to other servers and what stands between this one and them: queues, transactions in flight, what is
-- known of each server's reachability, memberships in rooms that this server is not in, and received EDUs.

-- Positions are shared by all queues. Those of one room grow in the order of its events, because its writer takes
-- them under the lock on the room's row.
CREATE SEQUENCE outbox_positions;

CREATE TABLE outbox_pdus (
    destination text COLLATE "C" NOT NULL,
    room_id text COLLATE "C" NOT NULL,
    position bigint NOT NULL DEFAULT nextval('outbox_positions'),
    event_id text COLLATE "C" NOT NULL,
    -- Milliseconds since 1970, as everywhere in Matrix.
    queued_at bigint NOT NULL,
    PRIMARY KEY (destination, room_id, position)
);

-- EDUs that must arrive: messages to devices, device lists. Others are not worth a row.
CREATE TABLE outbox_edus (
    destination text COLLATE "C" NOT NULL,
    position bigint NOT NULL DEFAULT nextval('outbox_positions'),
    edu_type text NOT NULL,
    -- Canonical JSON: jsonb holds no NUL, and nobody looks into it here.
    content bytea NOT NULL,
    queued_at bigint NOT NULL,
    PRIMARY KEY (destination, position)
);

-- The transaction that each server has been sent and has not answered. It is sent again as it was, under the same
-- id, however the process that sent it has ended.
CREATE TABLE outbox_transactions (
    destination text COLLATE "C" PRIMARY KEY,
    transaction_id text NOT NULL,
    origin_server_ts bigint NOT NULL,
    pdus bigint[] NOT NULL,
    edus bigint[] NOT NULL
);

-- Servers that do not answer. Absent: nothing is known against it.
CREATE TABLE outages (
    destination text COLLATE "C" PRIMARY KEY,
    failing_since bigint NOT NULL,
    failures integer NOT NULL,
    retry_at bigint NOT NULL
);

-- Invites into, and knocks at, rooms that this server is not in: nobody else keeps them for its users.
CREATE TABLE outside_memberships (
    room_id text COLLATE "C" NOT NULL,
    user_id text COLLATE "C" NOT NULL,
    membership text NOT NULL CHECK (membership IN ('invite', 'knock')),
    version text NOT NULL,
    event_id text NOT NULL,
    -- Who invited, or knocked.
    sender text NOT NULL,
    -- The server that knows of it for sure.
    server text NOT NULL,
    -- The event as peers have it, and what the user is shown of the room.
    event bytea NOT NULL,
    stripped_state bytea NOT NULL,
    received_at bigint NOT NULL,
    PRIMARY KEY (room_id, user_id)
);
CREATE INDEX outside_memberships_of_user ON outside_memberships (user_id);

-- How far people elsewhere have read. The thread is empty for a receipt that names none.
CREATE TABLE receipts (
    room_id text COLLATE "C" NOT NULL,
    user_id text COLLATE "C" NOT NULL,
    thread_id text COLLATE "C" NOT NULL,
    event_id text NOT NULL,
    ts bigint NOT NULL,
    PRIMARY KEY (room_id, user_id, thread_id)
);

-- Which messages to devices have been taken in, so that a repeated one is not taken in twice.
CREATE TABLE received_to_device (
    origin text COLLATE "C" NOT NULL,
    message_id text COLLATE "C" NOT NULL,
    received_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (origin, message_id)
);
CREATE INDEX received_to_device_by_age ON received_to_device (received_at);
