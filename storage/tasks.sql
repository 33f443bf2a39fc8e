-- name: insert_task
INSERT INTO tasks (
    requester_node, request_id, task_id, from_agent, to_agent, elsewhere, content, origin, reference, asked, state,
    version, received_at, deadline, started_at, finished_at, runner, lease_until, error_code, answer, due, desk
)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22)
ON CONFLICT (requester_node, request_id) DO NOTHING
RETURNING id;

-- The same for an agent of this node with room for it, together with the place of the reader that read of it. Either
-- all is written or nothing; what is not, is an error if the reader is another one by now. $23 is null for an agent
-- that takes as many as come: then nothing is locked, and nobody counts.
-- name: accept_task
WITH taken AS (
    INSERT INTO tasks (
        requester_node, request_id, task_id, from_agent, to_agent, elsewhere, content, origin, reference, asked, state,
        version, received_at, deadline, started_at, finished_at, runner, lease_until, error_code, answer, due, desk
    )
    SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22
    WHERE $23::integer IS NULL OR agent_has_room($5, $23)
    ON CONFLICT (requester_node, request_id) DO NOTHING
    RETURNING id
)
SELECT id FROM taken WHERE advance_reader($24, $25, $26);

-- Of two that decided upon the same version one is right.
-- name: update_task
UPDATE tasks SET
    origin = $3, reference = $4, asked = $5, state = $6, version = version + 1, started_at = $7, finished_at = $8,
    runner = $9, lease_until = $10, error_code = $11, answer = $12, due = $13, desk = $14
WHERE id = $1 AND version = $2
RETURNING true;

-- The same, together with the place of the reader that read of it: whether the step was taken, and whether the reader
-- has come there. It has not without the step, and the step stays when it has not.
-- name: update_task_and_advance
WITH taken AS (
    UPDATE tasks SET
        origin = $3, reference = $4, asked = $5, state = $6, version = version + 1, started_at = $7, finished_at = $8,
        runner = $9, lease_until = $10, error_code = $11, answer = $12, due = $13, desk = $14
    WHERE id = $1 AND version = $2
    RETURNING id
), advanced AS (
    UPDATE consumer_cursors SET position = $17 FROM taken
    WHERE consumer_cursors.name = $15 AND consumer_cursors.term = $16 AND consumer_cursors.position <= $17
    RETURNING consumer_cursors.position
)
SELECT EXISTS (SELECT FROM taken), EXISTS (SELECT FROM advanced);

-- name: fetch_task
SELECT
    id, requester_node, request_id, task_id, from_agent, to_agent, elsewhere, content, origin, reference, asked, state,
    version, received_at, deadline, started_at, finished_at, runner, lease_until, error_code, answer, due, desk
FROM tasks WHERE requester_node = $1 AND request_id = $2;

-- What people and programs call it, the newest first.
-- name: find_tasks
SELECT
    id, requester_node, request_id, task_id, from_agent, to_agent, elsewhere, content, origin, reference, asked, state,
    version, received_at, deadline, started_at, finished_at, runner, lease_until, error_code, answer, due, desk
FROM tasks WHERE request_id = $1 OR task_id = $1 ORDER BY id DESC LIMIT $2;

-- What is null is not looked at.
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

-- Held until the transaction ends, by whoever changes how much an agent has.
-- name: lock_agent
SELECT pg_advisory_xact_lock(x'50415141'::integer, hashtext($1));

-- name: fetch_load
SELECT
    count(*) FILTER (WHERE state IN ('accepted', 'running')),
    count(*) FILTER (WHERE state = 'queued'),
    min(task_id) FILTER (WHERE state IN ('accepted', 'running'))
FROM tasks WHERE to_agent = $1 AND finished_at IS NULL AND NOT elsewhere;

-- name: first_queued
SELECT
    id, requester_node, request_id, task_id, from_agent, to_agent, elsewhere, content, origin, reference, asked, state,
    version, received_at, deadline, started_at, finished_at, runner, lease_until, error_code, answer, due, desk
FROM tasks WHERE to_agent = $1 AND finished_at IS NULL AND state = 'queued' ORDER BY id LIMIT 1;

-- name: agents_with_queues
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

-- ---- desks ----

-- name: next_desk
SELECT nextval('task_desks')::integer;

-- name: try_lock_desk
SELECT pg_try_advisory_lock(x'5041444B'::integer, $1);

-- name: unlock_desk
SELECT pg_advisory_unlock(x'5041444B'::integer, $1);

-- Each desk is found by one look into the index.
-- name: list_desks
WITH RECURSIVE busy AS (
    (SELECT desk FROM tasks WHERE desk IS NOT NULL ORDER BY desk LIMIT 1)
    UNION ALL
    SELECT (SELECT tasks.desk FROM tasks WHERE tasks.desk > busy.desk ORDER BY tasks.desk LIMIT 1)
    FROM busy WHERE busy.desk IS NOT NULL
)
SELECT desk FROM busy WHERE desk IS NOT NULL;

-- name: list_tasks_of_desk
SELECT
    id, requester_node, request_id, task_id, from_agent, to_agent, elsewhere, content, origin, reference, asked, state,
    version, received_at, deadline, started_at, finished_at, runner, lease_until, error_code, answer, due, desk
FROM tasks WHERE desk = $1 AND id > $2 ORDER BY id LIMIT $3;

-- name: list_due_of_desk
SELECT
    id, requester_node, request_id, task_id, from_agent, to_agent, elsewhere, content, origin, reference, asked, state,
    version, received_at, deadline, started_at, finished_at, runner, lease_until, error_code, answer, due, desk
FROM tasks WHERE desk = $1 AND id > $2 AND due <> '{}' ORDER BY id LIMIT $3;

-- Nothing else is due and it has ended: it is nobody's any more. If a step was taken meanwhile, it is due again.
-- name: clear_due
UPDATE tasks SET
    due = ARRAY(SELECT unnest(tasks.due) EXCEPT SELECT unnest(string_to_array(done.due, ' '))),
    desk = CASE WHEN finished_at IS NOT NULL AND tasks.due <@ string_to_array(done.due, ' ') THEN NULL ELSE desk END
FROM unnest($1::bigint[], $2::integer[], $3::text[]) AS done (id, version, due)
WHERE tasks.id = done.id AND tasks.version = done.version AND tasks.due && string_to_array(done.due, ' ');

-- name: notify
SELECT pg_notify('palaver_tasks', $1);

-- ---- progress ----

-- Reports come one after the other, and none after the end.
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

-- ---- forgetting ----

-- Also what could not be answered for so long.
-- name: prune
WITH forgotten AS (
    DELETE FROM tasks WHERE id IN (SELECT id FROM tasks WHERE finished_at < $1 ORDER BY finished_at LIMIT $2)
    RETURNING 1
)
SELECT count(*) FROM forgotten;
