-- name: lock
SELECT pg_try_advisory_lock(hashtextextended($1::text, 0));

-- name: lock_shared
SELECT pg_try_advisory_lock_shared(hashtextextended($1::text, 0));

-- name: unlock
SELECT pg_advisory_unlock(hashtextextended($1::text, 0));

-- name: unlock_shared
SELECT pg_advisory_unlock_shared(hashtextextended($1::text, 0));

-- name: notify
SELECT pg_notify('palaver', payload) FROM unnest($1::text[]) WITH ORDINALITY AS given (payload, number) ORDER BY number;

-- The start time distinguishes a session from a later one with the same pid.
-- name: session_started_at
SELECT backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid();

-- Waits for at most a second.
-- name: end_previous
SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity WHERE pid = $1 AND backend_start = $2;

-- Every session that listens holds this lock, shared.
-- name: register_listener
SELECT pg_advisory_lock_shared(hashtextextended('palaver session', 0));

-- A session's own shared lock does not prevent it from taking the lock exclusively for a moment.
-- name: is_alone
SELECT CASE
    WHEN pg_try_advisory_lock(hashtextextended('palaver session', 0))
    THEN pg_advisory_unlock(hashtextextended('palaver session', 0))
    ELSE false
END;
