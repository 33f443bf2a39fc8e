-- The whole schema, kept by hand: the place to read what the tables are. A test holds it to the sum of the
-- migrations.

-- What has been applied. Kept by storage/migrate.py.
CREATE TABLE schema_migrations (
    version integer PRIMARY KEY,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);

-- What this database belongs to: one row, one server name, one side.
CREATE TABLE node (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    server_name text NOT NULL CHECK (server_name <> ''),
    created_at timestamptz NOT NULL DEFAULT now(),
    -- The homeserver of which the node is a guest; NULL of one that is a homeserver itself.
    guest_of text CHECK (guest_of <> '')
);

-- Keys of other servers, each with the document that published it.
CREATE TABLE server_keys (
    server_name text NOT NULL,
    key_id text NOT NULL,
    public_key bytea NOT NULL CHECK (octet_length(public_key) = 32),
    valid_until_ts bigint NOT NULL,
    expired_ts bigint,
    fetched_at bigint NOT NULL,
    source text NOT NULL,
    document bytea NOT NULL,
    PRIMARY KEY (server_name, key_id)
);

-- The room graph: rooms, their events, the state before every event, and the current state.
--
-- Identifiers compare by bytes: they are opaque, and two processes that lock several rooms must agree on the
-- order. What refers to an event or a room has no foreign key, because each would be looked up again for every
-- row of the busiest statements; all of it is written under the lock on the room's row.

CREATE TABLE rooms (
    room_id text COLLATE "C" PRIMARY KEY,
    version text NOT NULL,
    -- Raised by every change to the room, so that a process knows whether what it remembers still holds.
    generation bigint NOT NULL,
    forward_extremities text[] NOT NULL,
    -- The current state: that after the forward extremities.
    state_group bigint NOT NULL
);

CREATE TABLE events (
    event_id text COLLATE "C" PRIMARY KEY,
    room_id text COLLATE "C" NOT NULL,
    type text NOT NULL,
    state_key text,
    sender text NOT NULL,
    depth bigint NOT NULL,
    -- Capped: versions before 6 admit integers of any size.
    origin_server_ts bigint NOT NULL,
    prev_events text[] NOT NULL,
    auth_events text[] NOT NULL,
    verdict text NOT NULL CHECK (verdict IN ('accepted', 'soft_failed', 'rejected')),
    -- The rule that refused, with its number; null for an accepted event.
    refusal text CHECK ((refusal IS NULL) = (verdict = 'accepted')),
    -- Null for an outlier: an event that others rest on, of which nobody knows where in the history it stands.
    state_before bigint,
    state_after bigint CHECK ((state_before IS NULL) = (state_after IS NULL)),
    -- The event as it is sent to peers.
    canonical bytea NOT NULL
);
CREATE INDEX events_by_depth ON events (room_id, depth) WHERE state_before IS NOT NULL;
CREATE INDEX events_by_time ON events (room_id, origin_server_ts)
    WHERE state_before IS NOT NULL AND verdict = 'accepted';

-- A state is a snapshot, or what changed since its parent. The three arrays run in parallel; an event id that
-- is null takes the key out.
CREATE SEQUENCE state_group_ids INCREMENT BY 64;
CREATE TABLE state_groups (
    id bigint PRIMARY KEY,
    room_id text COLLATE "C" NOT NULL,
    parent bigint,
    -- How many parents lie between this and the snapshot. It is bounded.
    distance integer NOT NULL CHECK ((distance = 0) = (parent IS NULL)),
    types text[] NOT NULL,
    state_keys text[] NOT NULL,
    event_ids text[] NOT NULL
);

CREATE TABLE current_state (
    room_id text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    state_key text COLLATE "C" NOT NULL,
    event_id text COLLATE "C" NOT NULL,
    -- Of m.room.member, where it is a string: what the event says, and the server of whom it is said.
    membership text,
    server text COLLATE "C",
    PRIMARY KEY (room_id, type, state_key)
);
CREATE INDEX current_state_members ON current_state (room_id, membership, server) WHERE membership IS NOT NULL;
CREATE INDEX current_state_users ON current_state (state_key, membership) WHERE membership IS NOT NULL;
CREATE INDEX current_state_servers ON current_state (server, room_id) WHERE membership = 'join';

-- Everything that a reader must hear of, in the order in which it was taken in. 'timeline' is an accepted event;
-- 'state' an older one that state resolution made current; 'unset' one that it took out of the current state;
-- 'invite' one into a room that this server is not in, as long as it stands.
CREATE SEQUENCE room_stream_positions;
CREATE TABLE room_stream (
    position bigint PRIMARY KEY,
    room_id text COLLATE "C" NOT NULL,
    event_id text COLLATE "C" NOT NULL,
    kind text NOT NULL CHECK (kind IN ('timeline', 'state', 'unset', 'invite'))
);
CREATE INDEX room_stream_of_room ON room_stream (room_id, position);

-- Which redactions ask for an event. Whether they are obeyed is decided when both are known.
CREATE TABLE redactions (
    target text COLLATE "C" NOT NULL,
    event_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (target, event_id)
);

-- What was answered to the transactions of other servers, so that a repeated one gets the same answer.
CREATE TABLE incoming_transactions (
    origin text COLLATE "C" NOT NULL,
    transaction_id text COLLATE "C" NOT NULL,
    received_at timestamptz NOT NULL DEFAULT now(),
    answer bytea NOT NULL,
    PRIMARY KEY (origin, transaction_id)
);
CREATE INDEX incoming_transactions_by_age ON incoming_transactions (received_at);

-- What goes to other servers and what stands between this one and them: queues, what is
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

-- The identity of this database. The id of a transaction is made from it and from the rows of the queues that the
-- transaction carries. It is in no backup: a database that was restored draws another one, because it gives the
-- same positions to other events.
CREATE TABLE outbox_epoch (
    only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    epoch text NOT NULL
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

-- Media by its address. The bytes lie in files named by their hash, so that what is uploaded twice is kept once.
-- Without an uploader it is another server's, and kept as long as there is room. Times are in milliseconds.
CREATE TABLE media (
    origin text COLLATE "C" NOT NULL,
    media_id text COLLATE "C" NOT NULL,
    sha256 bytea NOT NULL CHECK (octet_length(sha256) = 32),
    size bigint NOT NULL CHECK (size >= 0),
    content_type text NOT NULL,
    file_name text,
    uploader text COLLATE "C",
    created_at bigint NOT NULL,
    last_used_at bigint NOT NULL,
    quarantined boolean NOT NULL,
    PRIMARY KEY (origin, media_id)
);
CREATE INDEX media_by_bytes ON media (sha256);
-- For the pruning of what other servers have.
CREATE INDEX media_of_others_by_use ON media (last_used_at) WHERE uploader IS NULL;

-- Who and what other servers may ask for by name: the users of this server with what they say of themselves, the
-- aliases of its rooms, and the rooms that it lists in public.

CREATE TABLE users (
    user_id text COLLATE "C" PRIMARY KEY,
    created_at bigint NOT NULL,
    -- `displayname`, `avatar_url` and whatever else is set, by the names that profiles have on the wire.
    profile jsonb NOT NULL
);

-- Whose rooms have not all been told yet of what the profile says now. The number is another one after every
-- change, so that a change which comes while its predecessor is told of is not taken for told.
CREATE SEQUENCE profile_change_numbers;
CREATE TABLE profile_changes (
    user_id text COLLATE "C" PRIMARY KEY,
    number bigint NOT NULL DEFAULT nextval('profile_change_numbers')
);

CREATE TABLE aliases (
    alias text COLLATE "C" PRIMARY KEY,
    room_id text COLLATE "C" NOT NULL,
    creator text COLLATE "C" NOT NULL,
    created_at bigint NOT NULL
);
CREATE INDEX aliases_of_room ON aliases (room_id);

CREATE TABLE published_rooms (
    room_id text COLLATE "C" PRIMARY KEY
);

-- What servers did to each other: what others asked of this one, and what this one asked of others.
CREATE TABLE audit (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- When it was done, which may be a moment before the row was written.
    at timestamptz NOT NULL,
    -- The other server. Null for whoever has not shown who he is.
    peer text COLLATE "C",
    direction text NOT NULL CHECK (direction IN ('in', 'out')),
    act text NOT NULL,
    user_id text COLLATE "C",
    room_id text COLLATE "C",
    -- What it was done with: an event, a transaction, an alias, a medium.
    subject text,
    outcome text NOT NULL,
    detail text
);
CREATE INDEX audit_by_time ON audit (at);
CREATE INDEX audit_by_peer ON audit (peer, at) WHERE peer IS NOT NULL;
CREATE INDEX audit_by_user ON audit (user_id, at) WHERE user_id IS NOT NULL;
CREATE INDEX audit_by_room ON audit (room_id, at) WHERE room_id IS NOT NULL;

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

-- Events that a reader has taken out of the stream, together with its position, and that it still has to handle.
-- Those with the same queue are handled in their order; the queue is the room, or something in it.
CREATE TABLE inbox (
    reader text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    queue text COLLATE "C" NOT NULL,
    room_id text COLLATE "C" NOT NULL,
    event_id text COLLATE "C" NOT NULL,
    -- JSON. Nothing of what was said is kept of an entry that was set aside.
    entry bytea,
    attempts smallint NOT NULL DEFAULT 0,
    due_at timestamptz NOT NULL DEFAULT now(),
    problem text,
    set_aside_at timestamptz,
    PRIMARY KEY (reader, position),
    CHECK ((entry IS NULL) = (set_aside_at IS NOT NULL))
);
CREATE INDEX inbox_by_queue ON inbox (reader, queue, position) WHERE set_aside_at IS NULL;
CREATE INDEX inbox_set_aside ON inbox (set_aside_at) WHERE set_aside_at IS NOT NULL;

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

-- Agents: which there are, where they live and what they do; and the tasks that they are given. Times are in
-- milliseconds since 1970, by this node's clock where nothing else is said.

-- Nodes on which agents live, this one among them.
CREATE TABLE agent_nodes (
    node_id text COLLATE "C" PRIMARY KEY,
    -- Null for one that is found by its name.
    url text,
    trusted boolean NOT NULL,
    first_seen_at bigint NOT NULL,
    -- When it was last heard from, and the time that this heartbeat bore by the node's own clock.
    last_heartbeat bigint,
    heartbeat_said_at bigint,
    -- Since when it counts as silent. Null: it is heard.
    silent_since bigint,
    -- The transaction that changed more than the heartbeat: what processes ask for when they follow each other.
    changed_in bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint
);

CREATE TABLE agents (
    node_id text COLLATE "C" NOT NULL,
    agent_id text COLLATE "C" NOT NULL,
    -- Which connector brings it its tasks.
    connector text NOT NULL,
    runtime text NOT NULL,
    capabilities text[] NOT NULL,
    status text NOT NULL CHECK (status IN ('running', 'idle', 'busy', 'error', 'shutdown')),
    current_task text,
    registered_at bigint NOT NULL,
    -- The time that the newest word on it bore, by the clock of its node. What is older is not taken any more.
    said_at bigint NOT NULL,
    -- When it was heard from by itself. Null: it lives as long as its node is heard from.
    last_seen bigint,
    -- Since when it is no longer there, and why. The row stays for a while: an old word must not bring it back.
    gone_at bigint,
    gone_reason text,
    -- Whether that has still to be announced.
    untold boolean NOT NULL DEFAULT false,
    changed_in bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
    PRIMARY KEY (node_id, agent_id),
    CHECK ((gone_at IS NULL) = (gone_reason IS NULL)),
    CHECK (gone_at IS NOT NULL OR NOT untold)
);
CREATE INDEX agents_by_change ON agents (changed_in);
CREATE INDEX agents_by_silence ON agents (last_seen) WHERE last_seen IS NOT NULL AND gone_at IS NULL;
CREATE INDEX agents_by_end ON agents (gone_at) WHERE gone_at IS NOT NULL;
CREATE INDEX agents_untold ON agents (node_id, agent_id) WHERE untold;

-- From when to when some process of this node has been hearing others without a break: silence that nobody
-- listened to is nobody's fault.
CREATE TABLE agent_watch (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    listening_since bigint NOT NULL,
    listening_until bigint NOT NULL
);

-- A desk is a process that works on tasks. It holds an advisory lock on its number as long as it lives.
CREATE SEQUENCE task_desks AS integer CYCLE;

CREATE TABLE tasks (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- Asked for again under the same id by the same node, it is the same task.
    requester_node text COLLATE "C" NOT NULL,
    request_id text COLLATE "C" NOT NULL,
    task_id text COLLATE "C" NOT NULL,
    -- Addresses, `agent-id@node-id`.
    from_agent text COLLATE "C" NOT NULL,
    to_agent text COLLATE "C" NOT NULL,
    -- Whether another node runs it.
    elsewhere boolean NOT NULL,
    -- JSON, as are the other columns of bytes: jsonb holds no NUL, and nobody looks into it here.
    content bytea NOT NULL,
    -- The protocol by which it came, and what that needs for answering.
    origin text NOT NULL,
    reference bytea NOT NULL,
    -- How often it was asked for.
    asked integer NOT NULL,
    state text NOT NULL CHECK (
        state IN ('received', 'queued', 'accepted', 'running', 'done', 'failed', 'cancelled', 'timed_out')
    ),
    -- Raised by every step: a step that was decided upon an older version is not taken.
    version integer NOT NULL,
    received_at bigint NOT NULL,
    deadline bigint NOT NULL,
    started_at bigint,
    finished_at bigint,
    -- Who runs it: as long as its desk lives, or up to a time.
    runner text,
    lease_until bigint,
    error_code text CHECK (
        error_code IN ('AGENT_NOT_FOUND', 'AGENT_BUSY', 'TIMEOUT', 'NODE_UNREACHABLE', 'INVALID_PAYLOAD')
    ),
    answer bytea,
    -- What follows from the newest step and has not been done yet.
    due text[] NOT NULL,
    -- The desk that took the newest step; null when nothing is left to do.
    desk integer,
    UNIQUE (requester_node, request_id),
    CHECK ((finished_at IS NULL) = (state IN ('received', 'queued', 'accepted', 'running')))
);
CREATE INDEX tasks_of_agent ON tasks (to_agent, id) WHERE finished_at IS NULL;
CREATE INDEX tasks_of_desk ON tasks (desk) WHERE desk IS NOT NULL;
CREATE INDEX tasks_by_end ON tasks (finished_at) WHERE finished_at IS NOT NULL;

-- The newest that an agent has said of its work.
CREATE TABLE task_progress (
    task bigint NOT NULL REFERENCES tasks ON DELETE CASCADE,
    number integer NOT NULL,
    at bigint NOT NULL,
    content bytea NOT NULL,
    PRIMARY KEY (task, number)
);

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

-- What people see of tasks, and where they ask for them.

-- A task as people see it. The messages are named by the ids of their events.
CREATE TABLE people_tasks (
    -- That of the task, which is forgotten earlier.
    task bigint PRIMARY KEY,
    requester_node text COLLATE "C" NOT NULL,
    request_id text COLLATE "C" NOT NULL,
    -- The address of whoever works on it.
    agent text COLLATE "C" NOT NULL,
    room_id text COLLATE "C" NOT NULL,
    -- The message that the thread hangs on, and the one that asks: another one when it is asked in the thread.
    root text COLLATE "C" NOT NULL,
    request text COLLATE "C" NOT NULL,
    -- The user who asked. Null: no person did, and the request is a message of this node.
    asked_by text COLLATE "C",
    -- Whether it is answered in a thread, or in the room itself, as in a chat of two.
    is_threaded boolean NOT NULL,
    -- What can be seen of how it stands, and the reaction that says so, if it is one.
    sign text CHECK (sign IN ('waiting', 'done', 'failed')),
    sign_event text COLLATE "C",
    -- The one message that is edited while it is worked on, and the answer.
    progress text COLLATE "C",
    answer text COLLATE "C",
    -- The edit or the redaction by which the request was withdrawn: nothing more is said of it.
    withdrawn_by text COLLATE "C",
    -- Milliseconds since 1970.
    made_at bigint NOT NULL,
    -- The word or the reaction by which it was taken back last.
    cancelled_by text COLLATE "C"
);
CREATE INDEX people_tasks_by_root ON people_tasks (root);
CREATE INDEX people_tasks_by_request ON people_tasks (request);
CREATE INDEX people_tasks_by_progress ON people_tasks (progress) WHERE progress IS NOT NULL;
CREATE INDEX people_tasks_by_answer ON people_tasks (answer) WHERE answer IS NOT NULL;
CREATE INDEX people_tasks_by_age ON people_tasks (made_at);

-- What is said once in a room and not again.
CREATE TABLE people_said_once (
    room_id text COLLATE "C" NOT NULL,
    what text COLLATE "C" NOT NULL,
    PRIMARY KEY (room_id, what)
);

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
    event bytea NOT NULL,
    -- By what our own messages are known when they come back.
    mark text COLLATE "C"
);
CREATE INDEX appservice_events_of_members ON appservice_events (room_id, member, position) WHERE member IS NOT NULL;
CREATE INDEX appservice_events_by_age ON appservice_events (received_at);
CREATE INDEX appservice_events_by_mark ON appservice_events (mark) WHERE mark IS NOT NULL;

-- What a statement needs that takes a task in, and keeps with it how far a reader has come. These are functions
-- because each statement in a function sees what was committed before it begins, not before the whole began.

-- What an agent has. It stays so until the transaction ends: the lock is the one under which agents are given tasks,
-- and what they have is counted after it was taken.
CREATE FUNCTION agent_load(agent text, OUT active integer, OUT waiting integer, OUT current_task text)
    LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(x'50415141'::integer, hashtext(agent));
    SELECT
        count(*) FILTER (WHERE state <> 'queued'),
        count(*) FILTER (WHERE state = 'queued'),
        min(task_id) FILTER (WHERE state <> 'queued')
    INTO active, waiting, current_task
    FROM tasks WHERE to_agent = agent AND finished_at IS NULL AND NOT elsewhere;
END
$$;

-- How far a reader has come, as in `advance`. If it is no longer the reader, nothing else of the statement holds.
CREATE FUNCTION advance_reader(reader text, its_term bigint, place bigint) RETURNS boolean
    LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    UPDATE consumer_cursors SET position = place WHERE name = reader AND term = its_term AND position <= place;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'Another process reads under the name %.', reader;
    END IF;
    RETURN true;
END
$$;

-- The state of the rooms in which the node's users are on a homeserver of which it is a guest: as the homeserver tells
-- it, event by event, and fetched whole where that is not enough.

CREATE TABLE guest_rooms (
    room_id text COLLATE "C" PRIMARY KEY,
    -- When the whole state was fetched last. Null: never, or something has happened since of which it is not told what
    -- became of the state.
    whole_since timestamptz,
    -- How often that was so: what was fetched meanwhile may be too old.
    doubts bigint NOT NULL DEFAULT 0
);

-- In the order in which this node heard of them.
CREATE SEQUENCE guest_state_changes;

CREATE TABLE guest_state (
    room_id text COLLATE "C" NOT NULL REFERENCES guest_rooms ON DELETE CASCADE,
    -- UTF-8: text holds no NUL.
    type bytea NOT NULL,
    state_key bytea NOT NULL,
    -- Empty where nobody knows it: of a room that is only known to be one that a user of ours has joined.
    event_id text COLLATE "C" NOT NULL,
    sender text COLLATE "C" NOT NULL,
    ts bigint NOT NULL,
    content bytea NOT NULL,
    is_redacted boolean NOT NULL,
    -- Of m.room.member.
    membership text COLLATE "C",
    -- It says what a user of ours is there.
    is_ours boolean NOT NULL,
    -- Of an invite of ours: what is shown of the room, JSON.
    invite_state bytea,
    -- noted: what we did, before the homeserver tells it.
    known_by text NOT NULL CHECK (known_by IN ('told', 'fetched', 'noted', 'joined')),
    -- Of what is noted: until when it is believed.
    ahead_until timestamptz CHECK ((known_by = 'noted') = (ahead_until IS NOT NULL)),
    change bigint NOT NULL,
    PRIMARY KEY (room_id, type, state_key)
);
CREATE INDEX guest_state_events ON guest_state (event_id);
CREATE INDEX guest_state_of_ours ON guest_state (state_key, membership) WHERE is_ours;
CREATE INDEX guest_state_residents ON guest_state (room_id) WHERE is_ours AND membership = 'join';
CREATE INDEX guest_state_ahead ON guest_state (room_id, ahead_until) WHERE ahead_until IS NOT NULL;

-- Users of ours of whom the homeserver was asked once in which rooms they are.
CREATE TABLE guest_users (
    user_id text COLLATE "C" PRIMARY KEY
);

-- What follows are functions because each statement in a function sees what was committed before it begins, and so what
-- another process did before this one had the lock; and because a transaction is taken in by one round trip.

-- State that the homeserver tells, in its order, and redactions. One by one, each by its index: plans for many at once
-- read whole tables where there are few. An entry that is ahead waits for its own event: until it comes, the homeserver
-- tells what was before.
CREATE FUNCTION keep_guest_state(given guest_state[], targets text[], redacting text[], rooms_of_targets text[])
    RETURNS void
    LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    entry guest_state;
    before guest_state;
    is_known boolean;
    is_doubtful boolean;
BEGIN
    FOREACH entry IN ARRAY given LOOP
        IF entry.is_ours THEN
            INSERT INTO guest_rooms (room_id) VALUES (entry.room_id) ON CONFLICT (room_id) DO NOTHING;
        END IF;
    END LOOP;
    FOREACH entry IN ARRAY given LOOP
        -- What a redaction leaves of it the room's version says.
        SELECT
            EXISTS (SELECT FROM appservice_events WHERE event_id = entry.event_id),
            EXISTS (SELECT FROM redactions WHERE target = entry.event_id)
        INTO is_known, is_doubtful FROM guest_rooms WHERE room_id = entry.room_id;
        IF NOT FOUND OR is_known THEN
            CONTINUE;
        END IF;
        SELECT * INTO before FROM guest_state
        WHERE room_id = entry.room_id AND type = entry.type AND state_key = entry.state_key;
        -- What was fetched may be newer than what is still told.
        IF before.known_by = 'fetched' AND entry.ts < before.ts AND NOT EXISTS (
            SELECT FROM unnest(given) AS later WHERE later.event_id = before.event_id
        ) THEN
            is_doubtful = true;
        END IF;
        -- What happens in a room while nobody of ours is there is not told.
        IF entry.is_ours AND entry.membership <> 'join' AND NOT EXISTS (
            SELECT FROM guest_state AS other
            WHERE other.room_id = entry.room_id AND other.is_ours AND other.membership = 'join'
                AND other.state_key <> entry.state_key
        ) THEN
            is_doubtful = true;
        END IF;
        IF is_doubtful THEN
            UPDATE guest_rooms SET whole_since = NULL, doubts = doubts + 1 WHERE room_id = entry.room_id;
        END IF;
        IF before.ahead_until >= now() AND before.event_id <> entry.event_id THEN
            CONTINUE;
        END IF;
        entry.known_by = 'told';
        entry.change = nextval('guest_state_changes');
        INSERT INTO guest_state SELECT entry.*
        ON CONFLICT (room_id, type, state_key) DO UPDATE SET
            event_id = excluded.event_id,
            sender = excluded.sender,
            ts = excluded.ts,
            content = excluded.content,
            is_redacted = excluded.is_redacted,
            membership = excluded.membership,
            is_ours = excluded.is_ours,
            invite_state = excluded.invite_state,
            known_by = excluded.known_by,
            ahead_until = excluded.ahead_until,
            change = excluded.change;
    END LOOP;
    FOR number IN 1 .. cardinality(targets) LOOP
        INSERT INTO redactions (target, event_id) VALUES (targets[number], redacting[number]) ON CONFLICT DO NOTHING;
        UPDATE guest_rooms SET whole_since = NULL, doubts = doubts + 1
        WHERE room_id = (
            SELECT room_id FROM guest_state
            WHERE event_id = targets[number] AND room_id = rooms_of_targets[number] LIMIT 1
        );
    END LOOP;
END
$$;

-- What a user of ours did, unless the homeserver has told it already.
CREATE FUNCTION note_guest_state(registration text, given guest_state, believed interval) RETURNS void
    LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('appservice ' || registration, 0));
    IF EXISTS (SELECT FROM appservice_events WHERE event_id = given.event_id) THEN
        RETURN;
    END IF;
    INSERT INTO guest_rooms (room_id) VALUES (given.room_id) ON CONFLICT (room_id) DO NOTHING;
    given.known_by = 'noted';
    given.ahead_until = now() + believed;
    given.change = nextval('guest_state_changes');
    INSERT INTO guest_state SELECT given.*
    ON CONFLICT (room_id, type, state_key) DO UPDATE SET
        event_id = excluded.event_id,
        sender = excluded.sender,
        ts = excluded.ts,
        content = excluded.content,
        is_redacted = excluded.is_redacted,
        membership = excluded.membership,
        is_ours = excluded.is_ours,
        invite_state = excluded.invite_state,
        known_by = excluded.known_by,
        ahead_until = excluded.ahead_until,
        change = excluded.change;
    IF given.is_ours AND given.membership <> 'join' THEN
        UPDATE guest_rooms SET whole_since = NULL, doubts = doubts + 1
        WHERE room_id = given.room_id AND NOT EXISTS (
            SELECT FROM guest_state AS entry
            WHERE entry.room_id = given.room_id AND entry.is_ours AND entry.membership = 'join'
        );
    END IF;
END
$$;

-- A transaction of the homeserver, if it has not come before: its state, its redactions and, last, because they hold
-- back the readers of the stream, its events, but for those that have come before. Another one under an id that was used
-- is a new one: the homeserver has begun to count anew. The positions are those of the events, null where one has come
-- before; they are taken after the rows have been sorted, and so after the lock of room_stream.
CREATE FUNCTION take_in_for_guest(
    of_registration text,
    its_id text,
    its_digest bytea,
    state guest_state[],
    targets text[],
    redacting text[],
    rooms_of_targets text[],
    tag bigint,
    event_ids text[],
    room_ids text[],
    kinds text[],
    members text[],
    marks text[],
    contents bytea[],
    OUT is_new boolean,
    OUT positions bigint[],
    OUT some_are_redacted boolean
)
    LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    known_ids text[];
    is_out_of_step boolean;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('appservice ' || of_registration, 0));
    INSERT INTO appservice_transactions AS known (registration, transaction_id, digest)
    VALUES (of_registration, its_id, its_digest)
    ON CONFLICT (registration, transaction_id)
    DO UPDATE SET digest = excluded.digest, received_at = now() WHERE known.digest <> excluded.digest
    -- Whether there was one under this id.
    RETURNING xmax <> 0 INTO is_out_of_step;
    is_new = FOUND;
    some_are_redacted = false;
    IF NOT is_new THEN
        RETURN;
    END IF;
    -- Where they were counted without a gap, one that is missing was taken in by a database that is no more.
    IF its_id ~ '^[1-9][0-9]{0,17}$' AND NOT EXISTS (
        SELECT FROM appservice_transactions
        WHERE registration = of_registration AND transaction_id = (its_id::bigint - 1)::text
    ) THEN
        is_out_of_step = is_out_of_step OR EXISTS (
            SELECT FROM (
                SELECT transaction_id FROM appservice_transactions
                WHERE registration = of_registration AND transaction_id <> its_id ORDER BY received_at DESC LIMIT 1
            ) AS last
            JOIN appservice_transactions AS before
                ON before.registration = of_registration
                AND before.transaction_id = CASE
                    WHEN last.transaction_id ~ '^[1-9][0-9]{0,17}$' THEN (last.transaction_id::bigint - 1)::text
                END
        );
    END IF;
    -- Ours or the homeserver's was restored: what is known of rooms may be of another past.
    IF is_out_of_step THEN
        UPDATE guest_rooms SET whole_since = NULL, doubts = doubts + 1;
        DELETE FROM guest_users;
    END IF;
    IF cardinality(event_ids) = 0 THEN
        RETURN;
    END IF;
    IF cardinality(state) + cardinality(targets) > 0 THEN
        PERFORM keep_guest_state(state, targets, redacting, rooms_of_targets);
    END IF;
    some_are_redacted = EXISTS (SELECT FROM redactions WHERE target = ANY(event_ids));
    known_ids = ARRAY(SELECT event_id FROM appservice_events WHERE event_id = ANY(event_ids));
    PERFORM pg_advisory_xact_lock_shared((tag << 48) | (last_value - 1 + is_called::integer))
    FROM room_stream_positions;
    WITH arrived AS MATERIALIZED (
        SELECT
            CASE WHEN event_id <> ALL(known_ids) THEN nextval('room_stream_positions') END AS position,
            event_id, room_id, kind, member, mark, content, number
        FROM unnest(event_ids, room_ids, kinds, members, marks, contents) WITH ORDINALITY
            AS given (event_id, room_id, kind, member, mark, content, number)
        ORDER BY number
    ), streamed AS (
        INSERT INTO room_stream (position, room_id, event_id, kind)
        SELECT position, room_id, event_id, kind FROM arrived WHERE position IS NOT NULL
    ), kept AS (
        INSERT INTO appservice_events (position, event_id, room_id, member, mark, event)
        SELECT position, event_id, room_id, member, mark, content FROM arrived WHERE position IS NOT NULL
    )
    SELECT array_agg(position ORDER BY number) INTO positions FROM arrived;
END
$$;

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

-- What happens in offices: for their rooms, which are told of it afterwards, and for whoever looks back.
CREATE TABLE office_records (
    position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    office_id text COLLATE "C" NOT NULL,
    kind text NOT NULL CHECK (kind IN ('joined', 'left', 'tools', 'called', 'answered')),
    -- Of a call and of its answer.
    call_id text COLLATE "C",
    -- JSON.
    body bytea NOT NULL,
    -- Milliseconds since 1970.
    at_ms bigint NOT NULL,
    -- In which message the room is told: its own position, or that of the first call of several. It is decided before
    -- the message is sent, so that whoever sends it again sends the same. Null: it has not been.
    told_as bigint,
    -- The event. Null: the room has not been told. Empty: it does not take it.
    event_id text COLLATE "C"
);
CREATE INDEX office_records_untold ON office_records (position) WHERE event_id IS NULL;
CREATE INDEX office_records_of_office ON office_records (office_id, position);
CREATE INDEX office_records_of_call ON office_records (call_id) WHERE call_id IS NOT NULL;
CREATE INDEX office_records_by_event ON office_records (event_id) WHERE event_id <> '';
CREATE INDEX office_records_by_age ON office_records (at_ms);

-- When offices were used last, so that the room of one in which nothing happens any more is archived.
CREATE TABLE office_rooms (
    office_id text COLLATE "C" PRIMARY KEY,
    -- The newest of its records that was looked at, and its time in milliseconds since 1970.
    position bigint NOT NULL,
    used_at_ms bigint NOT NULL,
    -- Since when its room is archived. Null: it is in use.
    archived_at_ms bigint,
    -- Whether the room says so.
    is_told boolean NOT NULL DEFAULT false
);
CREATE INDEX office_rooms_by_use ON office_rooms (used_at_ms) WHERE archived_at_ms IS NULL;
CREATE INDEX office_rooms_archived ON office_rooms (office_id) WHERE archived_at_ms IS NOT NULL;

-- Calls of tools that people have asked for in the rooms of offices, by their messages: one that is read again
-- is the same call.
CREATE TABLE office_orders (
    -- The message.
    event_id text COLLATE "C" PRIMARY KEY,
    room_id text COLLATE "C" NOT NULL,
    -- Under which the call is written down, if it has come to that.
    call_id text COLLATE "C" NOT NULL,
    -- Milliseconds since 1970.
    at_ms bigint NOT NULL,
    -- Whether whoever has asked knows what came of it.
    is_told boolean NOT NULL DEFAULT false
);
CREATE INDEX office_orders_untold ON office_orders (at_ms) WHERE NOT is_told;
CREATE INDEX office_orders_by_age ON office_orders (at_ms);

-- Questions that people are asked before something is done.
CREATE TABLE approvals (
    -- By which whoever asks finds it again.
    reference text COLLATE "C" PRIMARY KEY,
    -- Milliseconds since 1970.
    asked_at bigint NOT NULL,
    until bigint NOT NULL,
    -- 'approved', 'refused', 'expired' or 'withdrawn'; NULL while people may answer.
    verdict text COLLATE "C",
    -- The user who has answered.
    decided_by text COLLATE "C",
    -- Why there was nothing to decide any more.
    reason text
);
CREATE INDEX approvals_by_age ON approvals (until);
