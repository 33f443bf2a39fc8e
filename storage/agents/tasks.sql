-- Inserts a new task if its agent has the capacity. $23: an accepted task requires fewer active tasks of the agent
-- than this, and none queued; null: nothing is required, locked or counted. $24: a queued task requires fewer queued
-- tasks than this. $25 to $27, if given, are the position of the stream's reader, which is advanced together with the
-- task; the statement fails if another process is the reader now. Returns the id, null if nothing was written, and
-- the counts.
-- name: accept_task
WITH load AS MATERIALIZED (
    SELECT active, waiting, current_task FROM agent_load($5) WHERE $23::integer IS NOT NULL
), inserted AS (
    INSERT INTO tasks (
        requester_node, request_id, task_id, from_agent, to_agent, elsewhere, content, origin, reference, asked, state,
        version, received_at, deadline, started_at, finished_at, runner, lease_until, error_code, answer, due, desk
    )
    SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22
    WHERE $23::integer IS NULL OR (
        SELECT CASE $11::text WHEN 'accepted' THEN active < $23 AND waiting = 0 ELSE waiting < $24 END FROM load
    )
    ON CONFLICT (requester_node, request_id) DO NOTHING
    RETURNING id
)
SELECT
    (SELECT id FROM inserted WHERE $25::text IS NULL OR advance_reader($25, $26, $27)),
    load.active, load.waiting, load.current_task
FROM (VALUES (1)) AS always LEFT JOIN load ON true;

-- Of two steps decided on the same version only one is written.
-- name: step_task
UPDATE tasks SET
    origin = $3, reference = $4, asked = $5, state = $6, version = version + 1, started_at = $7, finished_at = $8,
    runner = $9, lease_until = $10, error_code = $11, answer = $12, due = $13, desk = $14
WHERE id = $1 AND version = $2
RETURNING true;

-- name: fetch_task
SELECT
    id, requester_node, request_id, task_id, from_agent, to_agent, elsewhere, content, origin, reference, asked, state,
    version, received_at, deadline, started_at, finished_at, runner, lease_until, error_code, answer, due, desk
FROM tasks WHERE requester_node = $1 AND request_id = $2;

-- The newest first.
-- name: find_tasks
SELECT
    id, requester_node, request_id, task_id, from_agent, to_agent, elsewhere, content, origin, reference, asked, state,
    version, received_at, deadline, started_at, finished_at, runner, lease_until, error_code, answer, due, desk
FROM tasks WHERE request_id = $1 OR task_id = $1 ORDER BY id DESC LIMIT $2;

-- Ids that begin with one of these texts, the newest first.
-- name: find_tasks_by_beginning
SELECT
    id, requester_node, request_id, task_id, from_agent, to_agent, elsewhere, content, origin, reference, asked, state,
    version, received_at, deadline, started_at, finished_at, runner, lease_until, error_code, answer, due, desk
FROM tasks
WHERE EXISTS (
    SELECT FROM unnest($1::text[]) AS beginning
    WHERE starts_with(request_id, beginning) OR starts_with(task_id, beginning)
)
ORDER BY id DESC LIMIT $2;

-- A filter that is null matches all.
-- name: list_tasks
SELECT
    id, requester_node, request_id, task_id, from_agent, to_agent, elsewhere, content, origin, reference, asked, state,
    version, received_at, deadline, started_at, finished_at, runner, lease_until, error_code, answer, due, desk
FROM tasks
WHERE ($1::text IS NULL OR to_agent = $1 OR from_agent = $1)
    AND ($2::text[] IS NULL OR state = ANY($2))
    AND ($3::bigint IS NULL OR id < $3)
ORDER BY id DESC LIMIT $4;

-- ---- an agent's queue ----

-- The counts are locked until the transaction ends.
-- name: lock_load
SELECT active, waiting, current_task FROM agent_load($1);

-- name: fetch_load
SELECT
    count(*) FILTER (WHERE state IN ('accepted', 'running')),
    count(*) FILTER (WHERE state = 'queued'),
    min(task_id) FILTER (WHERE state IN ('accepted', 'running'))
FROM tasks WHERE to_agent = $1 AND finished_at IS NULL AND NOT elsewhere;

-- name: fetch_first_queued
SELECT
    id, requester_node, request_id, task_id, from_agent, to_agent, elsewhere, content, origin, reference, asked, state,
    version, received_at, deadline, started_at, finished_at, runner, lease_until, error_code, answer, due, desk
FROM tasks WHERE to_agent = $1 AND finished_at IS NULL AND state = 'queued' ORDER BY id LIMIT 1;

-- name: list_agents_with_queues
SELECT DISTINCT to_agent FROM tasks WHERE finished_at IS NULL AND state = 'queued';

-- name: list_live_of_agents
SELECT
    id, requester_node, request_id, task_id, from_agent, to_agent, elsewhere, content, origin, reference, asked, state,
    version, received_at, deadline, started_at, finished_at, runner, lease_until, error_code, answer, due, desk
FROM tasks WHERE to_agent = ANY($1::text[]) AND finished_at IS NULL AND id > $2 ORDER BY id LIMIT $3;

-- name: list_live_of_requester
SELECT
    id, requester_node, request_id, task_id, from_agent, to_agent, elsewhere, content, origin, reference, asked, state,
    version, received_at, deadline, started_at, finished_at, runner, lease_until, error_code, answer, due, desk
FROM tasks WHERE requester_node = $1 AND finished_at IS NULL AND id > $2 ORDER BY id LIMIT $3;

-- ---- processes: the column is called desk ----

-- name: next_process_number
SELECT nextval('task_desks')::integer;

-- A loose index scan: one index lookup for each process.
-- name: list_processes
WITH RECURSIVE busy AS (
    (SELECT desk FROM tasks WHERE desk IS NOT NULL ORDER BY desk LIMIT 1)
    UNION ALL
    SELECT (SELECT tasks.desk FROM tasks WHERE tasks.desk > busy.desk ORDER BY tasks.desk LIMIT 1)
    FROM busy WHERE busy.desk IS NOT NULL
)
SELECT desk FROM busy WHERE desk IS NOT NULL;

-- name: list_tasks_of_process
SELECT
    id, requester_node, request_id, task_id, from_agent, to_agent, elsewhere, content, origin, reference, asked, state,
    version, received_at, deadline, started_at, finished_at, runner, lease_until, error_code, answer, due, desk
FROM tasks WHERE desk = $1 AND id > $2 ORDER BY id LIMIT $3;

-- name: list_due_tasks_of_process
SELECT
    id, requester_node, request_id, task_id, from_agent, to_agent, elsewhere, content, origin, reference, asked, state,
    version, received_at, deadline, started_at, finished_at, runner, lease_until, error_code, answer, due, desk
FROM tasks WHERE desk = $1 AND id > $2 AND due <> '{}' ORDER BY id LIMIT $3;

-- A task that has ended and has nothing due any more belongs to no process. If a step was written meanwhile, the
-- version does not match and the effects stay due.
-- name: clear_due
UPDATE tasks SET
    due = ARRAY(SELECT unnest(tasks.due) EXCEPT SELECT unnest(string_to_array(done.due, ' '))),
    desk = CASE WHEN finished_at IS NOT NULL AND tasks.due <@ string_to_array(done.due, ' ') THEN NULL ELSE desk END
FROM unnest($1::bigint[], $2::integer[], $3::text[]) AS done (id, version, due)
WHERE tasks.id = done.id AND tasks.version = done.version AND tasks.due && string_to_array(done.due, ' ');

-- ---- progress ----

-- Serialises the reports of a task, and allows none after its end.
-- name: lock_live
SELECT true FROM tasks WHERE id = $1 AND finished_at IS NULL FOR NO KEY UPDATE;

-- name: insert_progress
INSERT INTO task_progress (task, number, at, content)
SELECT $1, coalesce(max(number), 0) + 1, $2, $3 FROM task_progress WHERE task = $1
RETURNING number;

-- name: prune_progress
DELETE FROM task_progress WHERE task = $1 AND number <= $2;

-- name: list_progress
SELECT number, at, content FROM task_progress WHERE task = $1 AND number > $2 ORDER BY number;

-- ---- pruning and searching ----

-- Includes tasks whose answer could not be delivered in all that time.
-- name: prune
WITH deleted AS (
    DELETE FROM tasks WHERE id IN (SELECT id FROM tasks WHERE finished_at < $1 ORDER BY finished_at LIMIT $2)
    RETURNING 1
)
SELECT count(*) FROM deleted;

-- Selects only the columns that a list shows: a task may hold megabytes. A filter that is null matches all. An agent is
-- given by its address or its id, a requester also by a node or a protocol.
-- name: search_tasks
SELECT
    id, requester_node, request_id, task_id, from_agent, to_agent, origin, state, elsewhere, received_at, started_at,
    finished_at, deadline, error_code
FROM tasks
WHERE ($1::text IS NULL OR to_agent = $1 OR split_part(to_agent, '@', 1) = $1)
    AND (
        $2::text IS NULL OR from_agent = $2 OR split_part(from_agent, '@', 1) = $2 OR requester_node = $2 OR origin = $2
    )
    AND ($3::text[] IS NULL OR state = ANY($3))
    AND ($4::bigint IS NULL OR id < $4)
ORDER BY id DESC LIMIT $5;
