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
