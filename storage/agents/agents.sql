-- ---- agents ----

-- name: list_agents
SELECT
    agent_id, node_id, connector, runtime, capabilities, status, current_task, registered_at, said_at, last_seen,
    gone_at, gone_reason
FROM agents;

-- name: find_agents
SELECT
    agent_id, node_id, connector, runtime, capabilities, status, current_task, registered_at, said_at, last_seen,
    gone_at, gone_reason
FROM agents
WHERE ($1::text IS NULL OR node_id = $1) AND ($2::text IS NULL OR agent_id = $2)
ORDER BY node_id, agent_id LIMIT $3;

-- Locks in a fixed order, so that two processes that write the same agents do not deadlock.
-- name: lock_agents
SELECT
    agent_id, node_id, connector, runtime, capabilities, status, current_task, registered_at, said_at, last_seen,
    gone_at, gone_reason
FROM agents
JOIN unnest($1::text[], $2::text[]) AS wanted (node_id, agent_id) USING (node_id, agent_id)
ORDER BY node_id, agent_id
FOR UPDATE OF agents;

-- An array of arrays must be rectangular, so each list of capabilities is passed as JSON. If two processes register the
-- same new agent, the newer registration wins.
-- name: write_agents
INSERT INTO agents (
    node_id, agent_id, connector, runtime, capabilities, status, current_task, registered_at, said_at, last_seen,
    gone_at, gone_reason
)
SELECT
    node_id, agent_id, connector, runtime, ARRAY(SELECT jsonb_array_elements_text(capabilities::jsonb)), status,
    current_task, registered_at, said_at, last_seen, gone_at, gone_reason
FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[], $9::bigint[],
    $10::bigint[], $11::bigint[], $12::text[]
) AS given (
    node_id, agent_id, connector, runtime, capabilities, status, current_task, registered_at, said_at, last_seen,
    gone_at, gone_reason
)
ORDER BY node_id, agent_id
ON CONFLICT (node_id, agent_id) DO UPDATE SET
    connector = excluded.connector,
    runtime = excluded.runtime,
    capabilities = excluded.capabilities,
    status = excluded.status,
    current_task = excluded.current_task,
    registered_at = excluded.registered_at,
    said_at = excluded.said_at,
    last_seen = excluded.last_seen,
    gone_at = excluded.gone_at,
    gone_reason = excluded.gone_reason,
    untold = agents.untold AND excluded.gone_at IS NOT NULL,
    changed_in = excluded.changed_in
WHERE agents.said_at <= excluded.said_at;

-- Only the times have changed; followers do not need this, so `changed_in` stays.
-- name: touch_agents
UPDATE agents SET said_at = given.said_at, last_seen = given.last_seen
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) AS given (node_id, agent_id, said_at, last_seen)
WHERE agents.node_id = given.node_id AND agents.agent_id = given.agent_id AND agents.said_at <= given.said_at;

-- ---- nodes ----

-- name: list_nodes
SELECT node_id, url, trusted, first_seen_at, last_heartbeat, heartbeat_said_at, silent_since FROM agent_nodes;

-- name: lock_nodes
SELECT node_id, url, trusted, first_seen_at, last_heartbeat, heartbeat_said_at, silent_since
FROM agent_nodes WHERE node_id = ANY($1::text[]) ORDER BY node_id FOR UPDATE;

-- name: insert_nodes
INSERT INTO agent_nodes (node_id, trusted, first_seen_at) SELECT node_id, false, $2
FROM unnest($1::text[]) AS given (node_id) ORDER BY node_id
ON CONFLICT (node_id) DO NOTHING;

-- A node that becomes trusted stays silent until its next heartbeat, unless it has never sent one.
-- name: write_node
INSERT INTO agent_nodes (node_id, url, trusted, first_seen_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (node_id) DO UPDATE SET
    url = excluded.url,
    trusted = excluded.trusted,
    silent_since = CASE
        WHEN excluded.trusted AND agent_nodes.last_heartbeat IS NULL THEN NULL ELSE agent_nodes.silent_since
    END,
    changed_in = excluded.changed_in
WHERE agent_nodes.url IS DISTINCT FROM excluded.url OR agent_nodes.trusted <> excluded.trusted;

-- name: mark_node_silent
UPDATE agent_nodes SET silent_since = $2, changed_in = pg_current_xact_id()::text::bigint
WHERE node_id = $1 AND silent_since IS NULL;

-- Needs no announcement: the agents' node is not trusted any more.
-- name: distrust_agents
UPDATE agents SET
    gone_at = $2, gone_reason = 'untrusted', changed_in = pg_current_xact_id()::text::bigint
WHERE node_id = $1 AND gone_at IS NULL;

-- Followers need to know that a silent node is alive again, but not of other heartbeats.
-- name: write_heartbeat
UPDATE agent_nodes SET
    last_heartbeat = greatest(last_heartbeat, $2),
    heartbeat_said_at = $3,
    changed_in = CASE WHEN silent_since IS NULL THEN changed_in ELSE pg_current_xact_id()::text::bigint END,
    silent_since = NULL
WHERE node_id = $1;

-- For nodes whose agents have been registered, although the node has sent no heartbeat yet or was silent.
-- name: start_heartbeat_monitoring
UPDATE agent_nodes SET
    last_heartbeat = $2, silent_since = NULL, changed_in = pg_current_xact_id()::text::bigint
WHERE node_id = ANY($1::text[]) AND (last_heartbeat IS NULL OR silent_since IS NOT NULL);

-- ---- following ----

-- The rows written by transactions that had not ended at the time of the horizon, or began after it.
-- name: list_changed_agents
SELECT
    agent_id, node_id, connector, runtime, capabilities, status, current_task, registered_at, said_at, last_seen,
    gone_at, gone_reason
FROM agents WHERE changed_in >= $1;

-- name: list_changed_nodes
SELECT node_id, url, trusted, first_seen_at, last_heartbeat, heartbeat_said_at, silent_since
FROM agent_nodes WHERE changed_in >= $1;

-- name: fetch_horizon
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint;

-- The transaction ids of the server on which a backup was made may be greater than those of this server.
-- name: reset_agent_change_numbers
UPDATE agents SET changed_in = pg_current_xact_id()::text::bigint
WHERE changed_in > pg_current_xact_id()::text::bigint;

-- name: reset_node_change_numbers
UPDATE agent_nodes SET changed_in = pg_current_xact_id()::text::bigint
WHERE changed_in > pg_current_xact_id()::text::bigint;

-- ---- monitoring ----

-- name: fetch_monitoring_period
SELECT listening_since, listening_until FROM agent_watch FOR UPDATE;

-- name: write_monitoring_period
INSERT INTO agent_watch (listening_since, listening_until) VALUES ($1, $2)
ON CONFLICT (only_row) DO UPDATE SET
    listening_since = excluded.listening_since, listening_until = excluded.listening_until;

-- The oldest last heartbeat of all nodes, and of agents that send their own heartbeats.
-- name: fetch_oldest_heartbeat
SELECT least(
    (SELECT min(last_heartbeat) FROM agent_nodes WHERE silent_since IS NULL AND node_id <> $1),
    (SELECT min(last_seen) FROM agents WHERE last_seen IS NOT NULL AND gone_at IS NULL)
);

-- Excludes this node itself.
-- name: mark_nodes_silent
UPDATE agent_nodes SET silent_since = $2, changed_in = pg_current_xact_id()::text::bigint
WHERE silent_since IS NULL AND last_heartbeat < $1 AND node_id <> $3
RETURNING node_id;

-- name: expire_agents_of_nodes
UPDATE agents SET
    gone_at = $2, gone_reason = 'timeout', untold = true, changed_in = pg_current_xact_id()::text::bigint
WHERE node_id = ANY($1::text[]) AND last_seen IS NULL AND gone_at IS NULL
RETURNING node_id, agent_id;

-- name: expire_agents
UPDATE agents SET
    gone_at = $2, gone_reason = 'timeout', untold = true, changed_in = pg_current_xact_id()::text::bigint
WHERE last_seen < $1 AND gone_at IS NULL
RETURNING node_id, agent_id;

-- name: list_unannounced
SELECT
    agent_id, node_id, connector, runtime, capabilities, status, current_task, registered_at, said_at, last_seen,
    gone_at, gone_reason
FROM agents WHERE untold ORDER BY node_id, agent_id LIMIT $1;

-- name: mark_announced
UPDATE agents SET untold = false
FROM unnest($1::text[], $2::text[], $3::bigint[]) AS announced (node_id, agent_id, gone_at)
WHERE agents.node_id = announced.node_id AND agents.agent_id = announced.agent_id AND agents.gone_at = announced.gone_at
    AND agents.untold;

-- Held until the end of the transaction, so that one process at a time announces.
-- name: try_lock_announcements
SELECT pg_try_advisory_xact_lock(x'50414741'::integer, 1);

-- ---- pruning ----

-- name: prune_agents
WITH deleted AS (
    DELETE FROM agents WHERE (node_id, agent_id) IN (
        SELECT node_id, agent_id FROM agents WHERE gone_at < $1 AND NOT untold ORDER BY gone_at LIMIT $2
    )
    RETURNING 1
)
SELECT count(*) FROM deleted;
