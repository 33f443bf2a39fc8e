-- What an agent has, for a statement that accepts a task if there is room for it. A function, because each of its
-- statements sees what was committed before it begins, not before the whole began: it counts once it has the lock.
DROP FUNCTION agent_has_room(text, integer);

CREATE FUNCTION agent_load(agent text, OUT active integer, OUT waiting integer, OUT current_task text)
    LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(x'50415141'::integer, hashtext(agent));
    SELECT
        count(*) FILTER (WHERE state <> 'queued'),
        count(*) FILTER (WHERE state = 'queued'),
        min(task_id) FILTER (WHERE state <> 'queued')
    INTO active, waiting, current_task
    FROM tasks WHERE to_agent = agent AND finished_at IS NULL AND NOT elsewhere;
END
$$;
