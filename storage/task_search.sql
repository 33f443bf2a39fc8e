-- What a list shows of each, and no more: a task may hold megabytes. What is null is not looked at. An agent is its
-- address or its id alone, a requester also a node or a protocol.
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
