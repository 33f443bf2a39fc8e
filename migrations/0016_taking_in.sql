-- What a statement needs that takes a task in, and keeps with it how far a reader has come. These are functions
-- because each statement in a function sees what was committed before it begins, not before the whole began.

-- Whether an agent has room for one more task while nobody waits for it. It stays so until the transaction ends: the
-- lock is the one under which agents are given tasks (`lock_agent`), and what they have is counted after it was taken.
CREATE FUNCTION agent_has_room(agent text, at_once integer) RETURNS boolean
    LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(x'50415141'::integer, hashtext(agent));
    RETURN (
        SELECT count(*) FILTER (WHERE state <> 'queued') < at_once AND count(*) FILTER (WHERE state = 'queued') = 0
        FROM tasks WHERE to_agent = agent AND finished_at IS NULL AND NOT elsewhere
    );
END
$$;

-- How far a reader has come, as in `advance`. If it is no longer the reader, nothing else of the statement holds.
CREATE FUNCTION advance_reader(reader text, its_term bigint, place bigint) RETURNS boolean
    LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    UPDATE consumer_cursors SET position = place WHERE name = reader AND term = its_term AND position <= place;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'Another process reads under the name %.', reader;
    END IF;
    RETURN true;
END
$$;
