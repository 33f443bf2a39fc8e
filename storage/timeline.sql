-- The order is that of the history: depths are made up by senders, so that times and ids break what ties they make.
-- name: page_backwards
SELECT event_id, depth, origin_server_ts FROM events
WHERE room_id = $1 AND state_before IS NOT NULL AND verdict = 'accepted'
    AND depth <= $2 AND (depth, origin_server_ts, event_id) < ($2, $3, $4)
ORDER BY depth DESC, origin_server_ts DESC, event_id DESC LIMIT $5;

-- name: page_forwards
SELECT event_id, depth, origin_server_ts FROM events
WHERE room_id = $1 AND state_before IS NOT NULL AND verdict = 'accepted'
    AND depth >= $2 AND (depth, origin_server_ts, event_id) > ($2, $3, $4)
ORDER BY depth, origin_server_ts, event_id LIMIT $5;
