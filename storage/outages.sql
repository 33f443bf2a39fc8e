-- name: upsert_outage
INSERT INTO outages (destination, failing_since, failures, retry_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (destination) DO UPDATE SET
    failing_since = excluded.failing_since,
    failures = excluded.failures,
    retry_at = excluded.retry_at;

-- name: fetch_outage
SELECT failing_since, failures, retry_at FROM outages WHERE destination = $1;

-- name: list_outages
SELECT destination, failing_since, failures, retry_at FROM outages ORDER BY destination;

-- name: delete_outage
DELETE FROM outages WHERE destination = $1;
