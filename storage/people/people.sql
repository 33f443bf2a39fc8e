-- ---- messages of tasks ----

-- name: insert_task_messages
INSERT INTO people_tasks (
    task, requester_node, request_id, agent, room_id, root, request, asked_by, is_threaded, sign, sign_event, progress,
    answer, withdrawn_by, made_at
)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
ON CONFLICT (task) DO NOTHING;

-- The update changes nothing; it makes RETURNING give the existing row.
-- name: insert_or_fetch_task_messages
INSERT INTO people_tasks (
    task, requester_node, request_id, agent, room_id, root, request, asked_by, is_threaded, sign, sign_event, progress,
    answer, withdrawn_by, made_at
)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
ON CONFLICT (task) DO UPDATE SET task = excluded.task
RETURNING
    task, requester_node, request_id, agent, room_id, root, request, asked_by, is_threaded, sign, sign_event, progress,
    answer, withdrawn_by, made_at;

-- name: fetch_task_messages
SELECT
    task, requester_node, request_id, agent, room_id, root, request, asked_by, is_threaded, sign, sign_event, progress,
    answer, withdrawn_by, made_at
FROM people_tasks WHERE task = $1;

-- The newest first. Each column has its own index.
-- name: find_task_messages
SELECT
    task, requester_node, request_id, agent, room_id, root, request, asked_by, is_threaded, sign, sign_event, progress,
    answer, withdrawn_by, made_at
FROM people_tasks
WHERE room_id = $1 AND (root = $2 OR request = $2 OR progress = $2 OR answer = $2)
ORDER BY task DESC LIMIT $3;

-- name: set_reaction
UPDATE people_tasks SET sign = $2, sign_event = $3 WHERE task = $1;

-- name: set_progress
UPDATE people_tasks SET progress = $2 WHERE task = $1;

-- name: set_answer
UPDATE people_tasks SET answer = $2 WHERE task = $1;

-- The first event that withdraws the task is kept.
-- name: set_withdrawn
UPDATE people_tasks SET withdrawn_by = coalesce(withdrawn_by, $2) WHERE task = $1
RETURNING withdrawn_by;

-- name: set_cancelled
UPDATE people_tasks SET cancelled_by = $2 WHERE task = $1;

-- name: is_cancelled_by
SELECT cancelled_by IS NOT DISTINCT FROM $2 FROM people_tasks WHERE task = $1;

-- name: prune_task_messages
WITH deleted AS (
    DELETE FROM people_tasks WHERE task IN (
        SELECT task FROM people_tasks WHERE made_at < $1 ORDER BY made_at LIMIT $2
    )
    RETURNING 1
)
SELECT count(*) FROM deleted;

-- ---- notices that are sent once ----

-- name: is_notice_sent
SELECT true FROM people_said_once WHERE room_id = $1 AND what = $2;

-- name: insert_sent_notice
INSERT INTO people_said_once (room_id, what) VALUES ($1, $2) ON CONFLICT DO NOTHING;
