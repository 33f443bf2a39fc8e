-- Single events over HTTP, from and to published CIS nodes. Times are in milliseconds since 1970.

-- What such a node has sent: an event that comes again is ignored, and another one under its id is refused.
CREATE TABLE cis_received (
    peer text COLLATE "C" NOT NULL,
    event_id text COLLATE "C" NOT NULL,
    -- SHA-256 of what was said.
    digest bytea NOT NULL CHECK (octet_length(digest) = 32),
    received_at bigint NOT NULL,
    PRIMARY KEY (peer, event_id)
);
CREATE INDEX cis_received_by_time ON cis_received (received_at);

-- What is sent to such a node, until it takes it or nobody wants it any more.
CREATE TABLE cis_outgoing (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    peer text COLLATE "C" NOT NULL,
    -- Asked for again under its name it is the same event; after it was sent, too.
    name text COLLATE "C" NOT NULL,
    -- The envelope, JSON; empty once it was sent.
    body bytea NOT NULL,
    -- The task that fails if the node will not take it.
    requester_node text COLLATE "C",
    request_id text COLLATE "C",
    deadline bigint NOT NULL,
    is_sent boolean NOT NULL DEFAULT false,
    UNIQUE (peer, name),
    CHECK ((requester_node IS NULL) = (request_id IS NULL))
);
CREATE INDEX cis_outgoing_waiting ON cis_outgoing (peer, id) WHERE NOT is_sent;
CREATE INDEX cis_outgoing_by_deadline ON cis_outgoing (deadline);
