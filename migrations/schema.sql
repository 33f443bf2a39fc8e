-- The complete schema, maintained by hand, for reading. A test checks that it equals the sum of the migrations.

-- The applied migrations, written by storage/migrate.py.
CREATE TABLE schema_migrations (
    version integer PRIMARY KEY,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);

-- The node to which this database belongs: one row with its server name and its Matrix backend.
CREATE TABLE node (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    server_name text NOT NULL CHECK (server_name <> ''),
    created_at timestamptz NOT NULL DEFAULT now(),
    -- The homeserver to which the node is attached as an application service. NULL for a node that is a homeserver.
    guest_of text CHECK (guest_of <> '')
);

-- Signing keys of other servers, each with the document that published it.
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

-- The room graph: rooms, their events, the state before each event, and the current state.
--
-- Identifiers compare by bytes: they are opaque, and processes that lock several rooms must use the same order.
-- References to events and rooms have no foreign keys, because each would cost a lookup for every row of the busiest
-- statements; all rows are written under the lock on the room's row.

CREATE TABLE rooms (
    room_id text COLLATE "C" PRIMARY KEY,
    version text NOT NULL,
    -- Incremented by every change to the room, so that a process can tell whether its cached room is current.
    generation bigint NOT NULL,
    forward_extremities text[] NOT NULL,
    -- The current state, which is the state after the forward extremities.
    state_group bigint NOT NULL
);

CREATE TABLE events (
    event_id text COLLATE "C" PRIMARY KEY,
    room_id text COLLATE "C" NOT NULL,
    type text NOT NULL,
    state_key text,
    sender text NOT NULL,
    depth bigint NOT NULL,
    -- Clamped: room versions before 6 admit integers of any size.
    origin_server_ts bigint NOT NULL,
    prev_events text[] NOT NULL,
    auth_events text[] NOT NULL,
    verdict text NOT NULL CHECK (verdict IN ('accepted', 'soft_failed', 'rejected')),
    -- The rule that rejected the event, with its number. Null for an accepted event.
    refusal text CHECK ((refusal IS NULL) = (verdict = 'accepted')),
    -- Null for an outlier: an event, such as an auth event, whose position in the room's history is unknown.
    state_before bigint,
    state_after bigint CHECK ((state_before IS NULL) = (state_after IS NULL)),
    -- The event in the form in which it is sent to peers.
    canonical bytea NOT NULL
);
CREATE INDEX events_by_depth ON events (room_id, depth) WHERE state_before IS NOT NULL;
CREATE INDEX events_by_time ON events (room_id, origin_server_ts)
    WHERE state_before IS NOT NULL AND verdict = 'accepted';

-- A state group is a snapshot, or the changes since its parent. The three arrays are parallel; an event id that is
-- null removes the key.
CREATE SEQUENCE state_group_ids INCREMENT BY 64;
CREATE TABLE state_groups (
    id bigint PRIMARY KEY,
    room_id text COLLATE "C" NOT NULL,
    parent bigint,
    -- The number of parents between this group and the snapshot. It is bounded.
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
    -- For m.room.member: the membership, if it is a string, and the server of the state key.
    membership text,
    server text COLLATE "C",
    PRIMARY KEY (room_id, type, state_key)
);
CREATE INDEX current_state_members ON current_state (room_id, membership, server) WHERE membership IS NOT NULL;
CREATE INDEX current_state_users ON current_state (state_key, membership) WHERE membership IS NOT NULL;
CREATE INDEX current_state_servers ON current_state (server, room_id) WHERE membership = 'join';

-- The stream: all events of which a reader must be notified, in the order in which they were committed. 'timeline' is
-- an accepted event; 'state' an older event that state resolution made current; 'unset' one that it removed from the
-- current state; 'invite' an invite into a room without local members, as long as it is pending.
CREATE SEQUENCE room_stream_positions;
CREATE TABLE room_stream (
    position bigint PRIMARY KEY,
    room_id text COLLATE "C" NOT NULL,
    event_id text COLLATE "C" NOT NULL,
    kind text NOT NULL CHECK (kind IN ('timeline', 'state', 'unset', 'invite'))
);
CREATE INDEX room_stream_of_room ON room_stream (room_id, position);

-- Redactions by target. Whether a redaction is applied is decided when both events are known.
CREATE TABLE redactions (
    target text COLLATE "C" NOT NULL,
    event_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (target, event_id)
);

-- The responses to transactions of other servers, so that a repeated transaction gets the same response.
CREATE TABLE incoming_transactions (
    origin text COLLATE "C" NOT NULL,
    transaction_id text COLLATE "C" NOT NULL,
    received_at timestamptz NOT NULL DEFAULT now(),
    answer bytea NOT NULL,
    PRIMARY KEY (origin, transaction_id)
);
CREATE INDEX incoming_transactions_by_age ON incoming_transactions (received_at);

-- Queues to other servers, their outages, memberships in rooms without local members, and received EDUs.
--
-- All queues share one sequence of positions. Within a room positions grow in the order of its events, because they
-- are taken under the lock on the room's row.
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

-- EDUs that must be delivered: to-device messages and device lists. Other EDUs are not stored.
CREATE TABLE outbox_edus (
    destination text COLLATE "C" NOT NULL,
    position bigint NOT NULL DEFAULT nextval('outbox_positions'),
    edu_type text NOT NULL,
    -- Canonical JSON in bytes: jsonb cannot store NUL, and no query reads it.
    content bytea NOT NULL,
    queued_at bigint NOT NULL,
    PRIMARY KEY (destination, position)
);

-- The identity of this database. Transaction ids are made from it and from the queue rows that the transaction
-- contains. It is not part of backups: a restored database generates a new one, because it will give the same
-- positions to other events.
CREATE TABLE outbox_epoch (
    only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    epoch text NOT NULL
);

-- Servers that do not respond. A server without a row has no known outage.
CREATE TABLE outages (
    destination text COLLATE "C" PRIMARY KEY,
    failing_since bigint NOT NULL,
    failures integer NOT NULL,
    retry_at bigint NOT NULL
);

-- Invites and knocks of local users for rooms without local members. Only this server stores them.
CREATE TABLE outside_memberships (
    room_id text COLLATE "C" NOT NULL,
    user_id text COLLATE "C" NOT NULL,
    membership text NOT NULL CHECK (membership IN ('invite', 'knock')),
    version text NOT NULL,
    event_id text NOT NULL,
    -- The sender of the invite or the knock.
    sender text NOT NULL,
    -- The server that is known to be in the room.
    server text NOT NULL,
    -- The event in the form in which peers have it, and the stripped state that the user is shown.
    event bytea NOT NULL,
    stripped_state bytea NOT NULL,
    received_at bigint NOT NULL,
    PRIMARY KEY (room_id, user_id)
);
CREATE INDEX outside_memberships_of_user ON outside_memberships (user_id);

-- Read receipts of remote users. The thread is empty for an unthreaded receipt.
CREATE TABLE receipts (
    room_id text COLLATE "C" NOT NULL,
    user_id text COLLATE "C" NOT NULL,
    thread_id text COLLATE "C" NOT NULL,
    event_id text NOT NULL,
    ts bigint NOT NULL,
    PRIMARY KEY (room_id, user_id, thread_id)
);

-- The ids of received to-device messages, so that a repeated message is ignored.
CREATE TABLE received_to_device (
    origin text COLLATE "C" NOT NULL,
    message_id text COLLATE "C" NOT NULL,
    received_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (origin, message_id)
);
CREATE INDEX received_to_device_by_age ON received_to_device (received_at);

-- Media by mxc:// URI. The content is in files named by their hash, so that identical uploads are stored once. Media
-- without an uploader are remote and only cached. Times are in milliseconds.
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
-- For pruning cached remote media.
CREATE INDEX media_of_others_by_use ON media (last_used_at) WHERE uploader IS NULL;

-- What other servers may query by name: local users with their profiles, local room aliases, and the public room
-- list.

CREATE TABLE users (
    user_id text COLLATE "C" PRIMARY KEY,
    created_at bigint NOT NULL,
    -- `displayname`, `avatar_url` and other fields, by their names in the profile API.
    profile jsonb NOT NULL
);

-- Profile changes that have not been sent to all rooms of the user. Each change gets a new number, so that a change
-- during the sending of the previous one is not lost.
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

-- The audit log: requests of other servers to this one, and of this one to others.
CREATE TABLE audit (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- The time of the request, which may be a moment before the row was written.
    at timestamptz NOT NULL,
    -- The other server. Null for an unauthenticated requester.
    peer text COLLATE "C",
    direction text NOT NULL CHECK (direction IN ('in', 'out')),
    act text NOT NULL,
    user_id text COLLATE "C",
    room_id text COLLATE "C",
    -- The object of the request: an event, a transaction, an alias, media.
    subject text,
    outcome text NOT NULL,
    detail text
);
CREATE INDEX audit_by_time ON audit (at);
CREATE INDEX audit_by_peer ON audit (peer, at) WHERE peer IS NOT NULL;
CREATE INDEX audit_by_user ON audit (user_id, at) WHERE user_id IS NOT NULL;
CREATE INDEX audit_by_room ON audit (room_id, at) WHERE room_id IS NOT NULL;

-- What local users and readers of the stream must find again after a kill: the events of sent messages, created
-- rooms, positions of readers, received invites, and queued to-device messages.

-- Sent messages by the transaction id of their sender: a message that is sent again is the same event.
CREATE TABLE sent_transactions (
    room_id text COLLATE "C" NOT NULL,
    sender text COLLATE "C" NOT NULL,
    transaction_id text COLLATE "C" NOT NULL,
    event_id text COLLATE "C" NOT NULL,
    sent_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (room_id, sender, transaction_id)
);
-- Rows are written in the order of time, and only pruning queries the time.
CREATE INDEX sent_transactions_by_age ON sent_transactions USING brin (sent_at);

-- Created rooms by the key of their creator: a creation that is repeated returns the same room.
CREATE TABLE created_rooms (
    creator text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    room_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (creator, key)
);

-- The position of each reader of room_stream. The term changes whenever another process becomes the reader; commits
-- of the previous reader are then refused.
CREATE TABLE consumer_cursors (
    name text COLLATE "C" PRIMARY KEY,
    position bigint NOT NULL,
    term bigint NOT NULL
);

-- Events that a reader has moved out of the stream, together with its position, and still has to handle. The entries
-- of a queue are handled in order; a queue is a room, or part of one.
CREATE TABLE inbox (
    reader text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    queue text COLLATE "C" NOT NULL,
    room_id text COLLATE "C" NOT NULL,
    event_id text COLLATE "C" NOT NULL,
    -- JSON. Deleted when the entry is set aside.
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

-- Relations between events: replies, edits, reactions, threads.
CREATE TABLE relations (
    target text COLLATE "C" NOT NULL,
    rel_type text COLLATE "C" NOT NULL,
    event_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (target, rel_type, event_id)
);

-- To-device messages for local users, until they are read.
CREATE TABLE to_device_messages (
    position bigint GENERATED ALWAYS AS IDENTITY,
    user_id text COLLATE "C" NOT NULL,
    device_id text NOT NULL,
    sender text NOT NULL,
    type text NOT NULL,
    -- Canonical JSON in bytes: jsonb cannot store NUL.
    content bytea NOT NULL,
    PRIMARY KEY (user_id, position)
);

-- Agents, their nodes and their status, and tasks. Times are in milliseconds since 1970, by this node's clock unless
-- stated otherwise.

-- The nodes of agents, including this one.
CREATE TABLE agent_nodes (
    node_id text COLLATE "C" PRIMARY KEY,
    -- Null for a node that is found by its name.
    url text,
    trusted boolean NOT NULL,
    first_seen_at bigint NOT NULL,
    -- When the last heartbeat was received, and when it was sent by the clock of its node.
    last_heartbeat bigint,
    heartbeat_said_at bigint,
    -- Since when the node counts as silent. Null: it is not silent.
    silent_since bigint,
    -- The transaction that made the last change other than a heartbeat. Processes that follow this table query it.
    changed_in bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint
);

CREATE TABLE agents (
    node_id text COLLATE "C" NOT NULL,
    agent_id text COLLATE "C" NOT NULL,
    -- The connector that delivers tasks to the agent.
    connector text NOT NULL,
    runtime text NOT NULL,
    capabilities text[] NOT NULL,
    status text NOT NULL CHECK (status IN ('running', 'idle', 'busy', 'error', 'shutdown')),
    current_task text,
    registered_at bigint NOT NULL,
    -- When the newest message about the agent was sent, by the clock of its node. Older messages are ignored.
    said_at bigint NOT NULL,
    -- When the agent's own last heartbeat was received. Null: the agent is alive as long as its node is.
    last_seen bigint,
    -- Since when the agent is offline, and why. The row stays for a while, so that an old message does not register
    -- the agent again.
    gone_at bigint,
    gone_reason text,
    -- Whether that still has to be announced.
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

-- From when to when a process of this node has received heartbeats without interruption: silence during an
-- interruption does not count.
CREATE TABLE agent_watch (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    listening_since bigint NOT NULL,
    listening_until bigint NOT NULL
);

-- A desk is the number of a process that runs tasks. The process holds an advisory lock on it as long as it runs.
CREATE SEQUENCE task_desks AS integer CYCLE;

CREATE TABLE tasks (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- A request with the same id from the same node is the same task.
    requester_node text COLLATE "C" NOT NULL,
    request_id text COLLATE "C" NOT NULL,
    task_id text COLLATE "C" NOT NULL,
    -- Addresses, `agent-id@node-id`.
    from_agent text COLLATE "C" NOT NULL,
    to_agent text COLLATE "C" NOT NULL,
    -- Whether another node runs the task.
    elsewhere boolean NOT NULL,
    -- JSON in bytes, like the other bytea columns: jsonb cannot store NUL, and no query reads it.
    content bytea NOT NULL,
    -- The protocol of the request, and the data that its connector needs for the answer.
    origin text NOT NULL,
    reference bytea NOT NULL,
    -- How often the task was requested.
    asked integer NOT NULL,
    state text NOT NULL CHECK (
        state IN ('received', 'queued', 'accepted', 'running', 'done', 'failed', 'cancelled', 'timed_out')
    ),
    -- Incremented by every step: a step decided on an older version is refused.
    version integer NOT NULL,
    received_at bigint NOT NULL,
    deadline bigint NOT NULL,
    started_at bigint,
    finished_at bigint,
    -- The runner: until its process ends, or until the time in lease_until.
    runner text,
    lease_until bigint,
    error_code text CHECK (
        error_code IN ('AGENT_NOT_FOUND', 'AGENT_BUSY', 'TIMEOUT', 'NODE_UNREACHABLE', 'INVALID_PAYLOAD')
    ),
    answer bytea,
    -- The effects of the newest step that have not been performed yet.
    due text[] NOT NULL,
    -- The process that wrote the newest step. Null when nothing is left to do.
    desk integer,
    UNIQUE (requester_node, request_id),
    CHECK ((finished_at IS NULL) = (state IN ('received', 'queued', 'accepted', 'running')))
);
CREATE INDEX tasks_of_agent ON tasks (to_agent, id) WHERE finished_at IS NULL;
CREATE INDEX tasks_of_desk ON tasks (desk) WHERE desk IS NOT NULL;
CREATE INDEX tasks_by_end ON tasks (finished_at) WHERE finished_at IS NOT NULL;

-- The newest progress reports of the agent.
CREATE TABLE task_progress (
    task bigint NOT NULL REFERENCES tasks ON DELETE CASCADE,
    number integer NOT NULL,
    at bigint NOT NULL,
    content bytea NOT NULL,
    PRIMARY KEY (task, number)
);

-- Tokens of agents that this node does not start itself. Only the hash of a token is stored.

CREATE TABLE agent_tokens (
    -- The public part of the token.
    token_id text COLLATE "C" PRIMARY KEY,
    -- An agent of this node.
    agent_id text COLLATE "C" NOT NULL,
    -- SHA-256 of the whole token, which is random enough for that.
    hash bytea NOT NULL CHECK (octet_length(hash) = 32),
    note text NOT NULL,
    -- Milliseconds since 1970, like the other times.
    created_at bigint NOT NULL,
    -- Null: the token does not expire.
    expires_at bigint,
    -- Updated at most once a minute. Null: never used.
    last_used_at bigint,
    revoked_at bigint
);
CREATE INDEX agent_tokens_of_agent ON agent_tokens (agent_id);

-- Events exchanged over HTTP with published CIS nodes. Times are in milliseconds since 1970.

-- Received events: a repeated event is ignored, and a different event with the same id is refused.
CREATE TABLE cis_received (
    peer text COLLATE "C" NOT NULL,
    event_id text COLLATE "C" NOT NULL,
    -- SHA-256 of the event.
    digest bytea NOT NULL CHECK (octet_length(digest) = 32),
    received_at bigint NOT NULL,
    PRIMARY KEY (peer, event_id)
);
CREATE INDEX cis_received_by_time ON cis_received (received_at);

-- Outgoing events, until the node accepts them or their deadline has passed.
CREATE TABLE cis_outgoing (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    peer text COLLATE "C" NOT NULL,
    -- An event that is queued again under the same name is the same event, even after it was sent.
    name text COLLATE "C" NOT NULL,
    -- The JSON envelope. Empty once it was sent.
    body bytea NOT NULL,
    -- The task that fails if the node does not accept the event.
    requester_node text COLLATE "C",
    request_id text COLLATE "C",
    deadline bigint NOT NULL,
    is_sent boolean NOT NULL DEFAULT false,
    UNIQUE (peer, name),
    CHECK ((requester_node IS NULL) = (request_id IS NULL))
);
CREATE INDEX cis_outgoing_waiting ON cis_outgoing (peer, id) WHERE NOT is_sent;
CREATE INDEX cis_outgoing_by_deadline ON cis_outgoing (deadline);

-- The messages by which people see and request tasks.

-- The messages of a task, by event id.
CREATE TABLE people_tasks (
    -- The id of the task, which is deleted earlier than this row.
    task bigint PRIMARY KEY,
    requester_node text COLLATE "C" NOT NULL,
    request_id text COLLATE "C" NOT NULL,
    -- The address of the agent that runs the task.
    agent text COLLATE "C" NOT NULL,
    room_id text COLLATE "C" NOT NULL,
    -- The root of the thread, and the message that requests the task; they differ if it is requested in the thread.
    root text COLLATE "C" NOT NULL,
    request text COLLATE "C" NOT NULL,
    -- The user who requested the task. Null: no person did, and the request is a message of this node.
    asked_by text COLLATE "C",
    -- Whether the answer is sent in a thread, or in the room itself, as in a direct chat.
    is_threaded boolean NOT NULL,
    -- The status that people see, and the event of the reaction that shows it, if it is one.
    sign text CHECK (sign IN ('waiting', 'done', 'failed')),
    sign_event text COLLATE "C",
    -- The progress message, which is edited while the task runs, and the answer.
    progress text COLLATE "C",
    answer text COLLATE "C",
    -- The edit or redaction that withdrew the request; after it no more messages are sent for the task.
    withdrawn_by text COLLATE "C",
    -- Milliseconds since 1970.
    made_at bigint NOT NULL,
    -- The message or reaction that cancelled the task last.
    cancelled_by text COLLATE "C"
);
CREATE INDEX people_tasks_by_root ON people_tasks (root);
CREATE INDEX people_tasks_by_request ON people_tasks (request);
CREATE INDEX people_tasks_by_progress ON people_tasks (progress) WHERE progress IS NOT NULL;
CREATE INDEX people_tasks_by_answer ON people_tasks (answer) WHERE answer IS NOT NULL;
CREATE INDEX people_tasks_by_age ON people_tasks (made_at);

-- Notices that are sent to a room only once.
CREATE TABLE people_said_once (
    room_id text COLLATE "C" NOT NULL,
    what text COLLATE "C" NOT NULL,
    PRIMARY KEY (room_id, what)
);

-- Agent peers that operators have added at run time, and peers of the configuration whose trust they have changed.
-- Times are in milliseconds since 1970.

CREATE TABLE agent_peers (
    node_id text COLLATE "C" PRIMARY KEY,
    trusted boolean NOT NULL,
    -- The protocol profile. Null: the configuration has this and the following columns, and only `trusted` is stored
    -- here.
    profile text CHECK (profile IN ('matrix', 'cis-1.1')),
    url text,
    -- Null: the default namespace of this node.
    namespaces text[],
    -- The networks from which a published node may send.
    networks text[],
    signing_key bytea CHECK (octet_length(signing_key) = 32),
    require_signature boolean,
    -- CA certificates that are trusted for this peer only, PEM.
    authority text,
    added_at bigint NOT NULL,
    changed_at bigint NOT NULL,
    CHECK ((profile IS NULL) = (networks IS NULL) AND (profile IS NULL) = (require_signature IS NULL)),
    CHECK (
        profile IS NOT NULL OR (url IS NULL AND namespaces IS NULL AND signing_key IS NULL AND authority IS NULL)
    )
);

-- Transactions and events that a homeserver has sent to this node as its application service. The order of the events
-- is that of room_stream.

CREATE TABLE appservice_transactions (
    -- The id of the registration.
    registration text COLLATE "C" NOT NULL,
    transaction_id text COLLATE "C" NOT NULL,
    -- SHA-256 of the ids in the transaction.
    digest bytea NOT NULL CHECK (octet_length(digest) = 32),
    received_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (registration, transaction_id)
);
CREATE INDEX appservice_transactions_by_age ON appservice_transactions (received_at);

-- Events are kept until every reader has passed them, and long enough to recognise a repeated one.
CREATE TABLE appservice_events (
    event_id text COLLATE "C" PRIMARY KEY,
    -- The position in room_stream.
    position bigint NOT NULL UNIQUE,
    room_id text COLLATE "C" NOT NULL,
    -- For m.room.member: the target.
    member text COLLATE "C",
    received_at timestamptz NOT NULL DEFAULT now(),
    -- JSON in bytes: jsonb cannot store NUL.
    event bytea NOT NULL,
    -- Identifies an event that this node has sent, when it is received back.
    mark text COLLATE "C"
);
CREATE INDEX appservice_events_of_members ON appservice_events (room_id, member, position) WHERE member IS NOT NULL;
CREATE INDEX appservice_events_by_age ON appservice_events (received_at);
CREATE INDEX appservice_events_by_mark ON appservice_events (mark) WHERE mark IS NOT NULL;

-- Functions of the statement that accepts a task and advances a reader. They are functions because each statement in
-- a function sees what was committed before that statement began, not before the whole began.

-- The tasks of an agent, locked until the transaction ends: takes the lock under which the agent is given tasks, and
-- counts afterwards.
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

-- Advances a reader, like the statement `advance`. Raises if the process is no longer the reader, which undoes the
-- whole statement.
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

-- Cached state of the homeserver's rooms in which this node has users: updated from received events, and fetched
-- completely where these are not enough.

CREATE TABLE guest_rooms (
    room_id text COLLATE "C" PRIMARY KEY,
    -- When the complete state was fetched last. Null: never, or an event was received since whose effect on the state
    -- is unknown.
    whole_since timestamptz,
    -- How often the state was marked incomplete: a state fetched meanwhile may be too old.
    doubts bigint NOT NULL DEFAULT 0
);

-- Numbers changes in the order in which this node received them.
CREATE SEQUENCE guest_state_changes;

CREATE TABLE guest_state (
    room_id text COLLATE "C" NOT NULL REFERENCES guest_rooms ON DELETE CASCADE,
    -- UTF-8 in bytes: text cannot store NUL.
    type bytea NOT NULL,
    state_key bytea NOT NULL,
    -- Empty if unknown: the room is only known as one that a local user has joined.
    event_id text COLLATE "C" NOT NULL,
    sender text COLLATE "C" NOT NULL,
    ts bigint NOT NULL,
    content bytea NOT NULL,
    is_redacted boolean NOT NULL,
    -- For m.room.member.
    membership text COLLATE "C",
    -- Whether it is the membership of a local user.
    is_ours boolean NOT NULL,
    -- For an invite of a local user: the stripped state of the room, JSON.
    invite_state bytea,
    -- noted: recorded when this node sent it, before the homeserver has sent it back.
    known_by text NOT NULL CHECK (known_by IN ('told', 'fetched', 'noted', 'joined')),
    -- For a noted entry: until when it is trusted.
    ahead_until timestamptz CHECK ((known_by = 'noted') = (ahead_until IS NOT NULL)),
    change bigint NOT NULL,
    PRIMARY KEY (room_id, type, state_key)
);
CREATE INDEX guest_state_events ON guest_state (event_id);
CREATE INDEX guest_state_of_ours ON guest_state (state_key, membership) WHERE is_ours;
CREATE INDEX guest_state_residents ON guest_state (room_id) WHERE is_ours AND membership = 'join';
CREATE INDEX guest_state_ahead ON guest_state (room_id, ahead_until) WHERE ahead_until IS NOT NULL;

-- Local users whose joined rooms have been requested from the homeserver once.
CREATE TABLE guest_users (
    user_id text COLLATE "C" PRIMARY KEY
);

-- The following are functions because each statement in a function sees what was committed before it began, including
-- what another process did before this one had the lock; and because a transaction is then received in one round
-- trip.
--
-- Applies received state events, in order, and redactions. They are applied one at a time by index: plans for many at
-- once scan whole small tables. An entry that is ahead waits for its own event: until then the homeserver sends older
-- state.
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

-- Records a state event that a local user has sent, unless the homeserver has already sent it back.
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

-- Stores a transaction of the homeserver, unless it is a repeated one: its state, its redactions and, last, because
-- they hold back the readers of the stream, its new events. A different transaction with a used id is a new one: the
-- homeserver has restarted its numbering. Returns the positions of the events, null for an event received before;
-- they are taken after the rows have been sorted, and so after the lock of room_stream.
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

-- Double puppets: people in whose name this node may send, each with an access token that they have given it.
CREATE TABLE double_puppets (
    user_id text COLLATE "C" PRIMARY KEY,
    -- The id by which the owner revokes it.
    login_id text COLLATE "C" NOT NULL UNIQUE,
    -- Encrypted. The key is not in the database.
    sealed bytea NOT NULL CHECK (octet_length(sealed) <= 8192),
    -- Milliseconds since 1970, like the other time.
    made_at bigint NOT NULL,
    -- Since when the homeserver rejects the token. Null: it does not.
    refused_at bigint
);

-- Direct chats of a person with an agent that were created at the person's request.
CREATE TABLE direct_chats (
    user_id text COLLATE "C" NOT NULL,
    -- The address of the agent.
    agent text COLLATE "C" NOT NULL,
    room_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (user_id, agent)
);

-- Tokens with which Agents and Computers join offices. Only the hash of a token is stored.

CREATE TABLE office_tokens (
    -- The public part of the token.
    token_id text COLLATE "C" PRIMARY KEY,
    -- SHA-256 of the whole token, which is random enough for that.
    hash bytea NOT NULL CHECK (octet_length(hash) = 32),
    -- The owner, by a name that the operator chooses.
    owner text COLLATE "C" NOT NULL CHECK (octet_length(owner) BETWEEN 1 AND 255),
    -- The roles in which the owner may join.
    roles text[] NOT NULL CHECK (roles <> '{}' AND roles <@ '{agent,computer}'),
    -- The offices that the owner may join: ids, or patterns with `*`. Empty: all offices.
    offices text[] NOT NULL,
    -- Milliseconds since 1970, like the other times.
    made_at bigint NOT NULL,
    -- Null: the token does not expire.
    expires_at bigint,
    -- Updated at most once a minute. Null: never used.
    last_used_at bigint,
    revoked_at bigint
);

-- Records of what happens in offices, for the messages in their rooms and for the call log.
CREATE TABLE office_records (
    position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    office_id text COLLATE "C" NOT NULL,
    kind text NOT NULL CHECK (kind IN ('joined', 'left', 'tools', 'called', 'answered')),
    -- For a call and its answer.
    call_id text COLLATE "C",
    -- JSON.
    body bytea NOT NULL,
    -- Milliseconds since 1970.
    at_ms bigint NOT NULL,
    -- The position of the first record that the same message shows. It is decided before the message is sent, so that
    -- a repeated attempt sends the same message. Null: not decided yet.
    told_as bigint,
    -- The event of the message. Null: not sent yet. Empty: the room does not accept it.
    event_id text COLLATE "C"
);
CREATE INDEX office_records_untold ON office_records (position) WHERE event_id IS NULL;
CREATE INDEX office_records_of_office ON office_records (office_id, position);
CREATE INDEX office_records_of_call ON office_records (call_id) WHERE call_id IS NOT NULL;
CREATE INDEX office_records_by_event ON office_records (event_id) WHERE event_id <> '';
CREATE INDEX office_records_by_age ON office_records (at_ms);

-- The last use of each office, so that the rooms of unused offices are archived.
CREATE TABLE office_rooms (
    office_id text COLLATE "C" PRIMARY KEY,
    -- The newest record that was considered, and its time in milliseconds since 1970.
    position bigint NOT NULL,
    used_at_ms bigint NOT NULL,
    -- Since when the room is archived. Null: it is in use.
    archived_at_ms bigint,
    -- Whether the room shows that it is archived.
    is_told boolean NOT NULL DEFAULT false
);
CREATE INDEX office_rooms_by_use ON office_rooms (used_at_ms) WHERE archived_at_ms IS NULL;
CREATE INDEX office_rooms_archived ON office_rooms (office_id) WHERE archived_at_ms IS NOT NULL;

-- Tool calls that people have requested in the rooms of offices, by the requesting message: a message that is read
-- again is the same call.
CREATE TABLE office_orders (
    -- The event id of the message.
    event_id text COLLATE "C" PRIMARY KEY,
    room_id text COLLATE "C" NOT NULL,
    -- The id under which the call is recorded, if it was made.
    call_id text COLLATE "C" NOT NULL,
    -- Milliseconds since 1970.
    at_ms bigint NOT NULL,
    -- Whether the result has been reported to the requester.
    is_told boolean NOT NULL DEFAULT false
);
CREATE INDEX office_orders_untold ON office_orders (at_ms) WHERE NOT is_told;
CREATE INDEX office_orders_by_age ON office_orders (at_ms);

-- Approval requests to people.
CREATE TABLE approvals (
    -- The requester's reference.
    reference text COLLATE "C" PRIMARY KEY,
    -- Milliseconds since 1970.
    asked_at bigint NOT NULL,
    until bigint NOT NULL,
    -- 'approved', 'refused', 'expired' or 'withdrawn'. NULL while people may answer.
    verdict text COLLATE "C",
    -- The user who has answered.
    decided_by text COLLATE "C",
    -- Why an approval is no longer needed.
    reason text
);
CREATE INDEX approvals_by_age ON approvals (until);
