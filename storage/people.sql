-- ---- tasks as people see them ----

-- name: insert_shown
INSERT INTO people_tasks (
    task, requester_node, request_id, agent, room_id, root, request, asked_by, is_threaded, sign, sign_event, progress,
    answer, withdrawn_by, made_at
)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
ON CONFLICT (task) DO NOTHING;

-- A task that a person has asked for, if its agent may have it at once (`accept_task` in `tasks.sql`), and the thread in
-- which it is shown: both or neither. Its requester and its agent are those of the task.
-- name: accept_asked
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
INSERT INTO people_tasks (
    task, requester_node, request_id, agent, room_id, root, request, asked_by, is_threaded, made_at
)
SELECT id, $1, $2, $5, $24, $25, $26, $27, $28, $29 FROM taken
RETURNING task;

-- What is known of the task already stays. Either way this gives what is known of it now.
-- name: keep_shown
INSERT INTO people_tasks (
    task, requester_node, request_id, agent, room_id, root, request, asked_by, is_threaded, sign, sign_event, progress,
    answer, withdrawn_by, made_at
)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
ON CONFLICT (task) DO UPDATE SET task = excluded.task
RETURNING
    task, requester_node, request_id, agent, room_id, root, request, asked_by, is_threaded, sign, sign_event, progress,
    answer, withdrawn_by, made_at;

-- Many that no person has asked for, and of which nothing is to be added any more: a list of JSON objects. Gives
-- those that are new.
-- name: insert_ended
INSERT INTO people_tasks (
    task, requester_node, request_id, agent, room_id, root, request, is_threaded, sign, answer, made_at
)
SELECT task, requester_node, request_id, agent, room_id, root, root, true, sign, answer, made_at
FROM json_to_recordset($1::text::json) AS given (
    task bigint, requester_node text, request_id text, agent text, room_id text, root text, sign text, answer text,
    made_at bigint
)
ORDER BY task
ON CONFLICT (task) DO NOTHING
RETURNING task;

-- name: find_known
SELECT task FROM people_tasks WHERE task = ANY($1::text::bigint[]);

-- name: fetch_shown
SELECT
    task, requester_node, request_id, agent, room_id, root, request, asked_by, is_threaded, sign, sign_event, progress,
    answer, withdrawn_by, made_at
FROM people_tasks WHERE task = $1;

-- Of any of these messages, the newest first. Each kind is found by its own index.
-- name: find_shown
SELECT
    task, requester_node, request_id, agent, room_id, root, request, asked_by, is_threaded, sign, sign_event, progress,
    answer, withdrawn_by, made_at
FROM people_tasks
WHERE room_id = $1 AND (root = $2 OR request = $2 OR progress = $2 OR answer = $2)
ORDER BY task DESC LIMIT $3;

-- name: set_sign
UPDATE people_tasks SET sign = $2, sign_event = $3 WHERE task = $1;

-- name: set_progress
UPDATE people_tasks SET progress = $2 WHERE task = $1;

-- name: set_answer
UPDATE people_tasks SET answer = $2 WHERE task = $1;

-- The first to withdraw it has.
-- name: withdraw
UPDATE people_tasks SET withdrawn_by = coalesce(withdrawn_by, $2) WHERE task = $1
RETURNING withdrawn_by;

-- name: set_cancelled
UPDATE people_tasks SET cancelled_by = $2 WHERE task = $1;

-- name: is_cancelled_by
SELECT cancelled_by IS NOT DISTINCT FROM $2 FROM people_tasks WHERE task = $1;

-- name: prune_shown
WITH forgotten AS (
    DELETE FROM people_tasks WHERE task IN (
        SELECT task FROM people_tasks WHERE made_at < $1 ORDER BY made_at LIMIT $2
    )
    RETURNING 1
)
SELECT count(*) FROM forgotten;

-- ---- what is said once ----

-- name: was_said
SELECT true FROM people_said_once WHERE room_id = $1 AND what = $2;

-- name: insert_said
INSERT INTO people_said_once (room_id, what) VALUES ($1, $2) ON CONFLICT DO NOTHING;
