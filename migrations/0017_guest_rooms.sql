-- The state of the rooms in which the node's users are on a homeserver of which it is a guest: as the homeserver tells
-- it, event by event, and fetched whole where that is not enough.

CREATE TABLE guest_rooms (
    room_id text COLLATE "C" PRIMARY KEY,
    -- When the whole state was fetched last. Null: never, or something has happened since of which it is not told what
    -- became of the state.
    whole_since timestamptz,
    -- How often that was so: what was fetched meanwhile may be too old.
    doubts bigint NOT NULL DEFAULT 0
);

-- In the order in which this node heard of them.
CREATE SEQUENCE guest_state_changes;

CREATE TABLE guest_state (
    room_id text COLLATE "C" NOT NULL REFERENCES guest_rooms ON DELETE CASCADE,
    -- UTF-8: text holds no NUL.
    type bytea NOT NULL,
    state_key bytea NOT NULL,
    -- Empty where nobody knows it: of a room that is only known to be one that a user of ours has joined.
    event_id text COLLATE "C" NOT NULL,
    sender text COLLATE "C" NOT NULL,
    ts bigint NOT NULL,
    content bytea NOT NULL,
    is_redacted boolean NOT NULL,
    -- Of m.room.member.
    membership text COLLATE "C",
    -- It says what a user of ours is there.
    is_ours boolean NOT NULL,
    -- Of an invite of ours: what is shown of the room, JSON.
    invite_state bytea,
    -- noted: what we did, before the homeserver tells it.
    known_by text NOT NULL CHECK (known_by IN ('told', 'fetched', 'noted', 'joined')),
    -- Of what is noted: until when it is believed.
    ahead_until timestamptz CHECK ((known_by = 'noted') = (ahead_until IS NOT NULL)),
    change bigint NOT NULL,
    PRIMARY KEY (room_id, type, state_key)
);
CREATE INDEX guest_state_events ON guest_state (event_id);
CREATE INDEX guest_state_of_ours ON guest_state (state_key, membership) WHERE is_ours;
CREATE INDEX guest_state_residents ON guest_state (room_id) WHERE is_ours AND membership = 'join';
CREATE INDEX guest_state_ahead ON guest_state (room_id, ahead_until) WHERE ahead_until IS NOT NULL;

-- Users of ours of whom the homeserver was asked once in which rooms they are.
CREATE TABLE guest_users (
    user_id text COLLATE "C" PRIMARY KEY
);

-- By what our own messages are known when they come back.
ALTER TABLE appservice_events ADD COLUMN mark text COLLATE "C";
CREATE INDEX appservice_events_by_mark ON appservice_events (mark) WHERE mark IS NOT NULL;

-- What follows are functions because each statement in a function sees what was committed before it begins, and so what
-- another process did before this one had the lock; and because a transaction is taken in by one round trip.

-- State that the homeserver tells, in its order, and redactions. An entry that is ahead waits for its own event: until
-- it comes, the homeserver tells what was before.
CREATE FUNCTION keep_guest_state(given guest_state[], targets text[], rooms_of_targets text[]) RETURNS void
    LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    WITH arrived AS MATERIALIZED (
        SELECT entry.*, number
        FROM generate_subscripts(given, 1) AS number CROSS JOIN LATERAL (SELECT (given[number]).*) AS entry
        WHERE NOT EXISTS (SELECT FROM appservice_events AS known WHERE known.event_id = entry.event_id)
    ), made_known AS (
        INSERT INTO guest_rooms (room_id) SELECT DISTINCT room_id FROM arrived WHERE is_ours
        ON CONFLICT (room_id) DO NOTHING RETURNING room_id
    ), rooms AS (
        SELECT room_id FROM made_known UNION ALL
        SELECT room_id FROM guest_rooms WHERE room_id IN (SELECT room_id FROM arrived)
    ), doubtful AS (
        -- What was fetched may be newer than what is still told.
        SELECT arrived.room_id
        FROM arrived JOIN guest_state AS entry USING (room_id, type, state_key)
        WHERE entry.known_by = 'fetched' AND arrived.ts < entry.ts AND arrived.event_id <> entry.event_id
            AND NOT EXISTS (SELECT FROM arrived AS later WHERE later.event_id = entry.event_id)
        UNION ALL
        -- What happens in a room while nobody of ours is there is not told.
        SELECT room_id FROM arrived
        WHERE is_ours AND membership <> 'join' AND NOT EXISTS (
            SELECT FROM guest_state AS entry
            WHERE entry.room_id = arrived.room_id AND entry.is_ours AND entry.membership = 'join'
                AND NOT EXISTS (
                    SELECT FROM arrived AS moved
                    WHERE moved.room_id = entry.room_id AND moved.is_ours AND moved.state_key = entry.state_key
                )
        )
        UNION ALL
        -- What a redaction leaves of an entry the room's version says.
        SELECT entry.room_id
        FROM unnest(targets, rooms_of_targets) AS redacted (target, room_id)
        JOIN guest_state AS entry ON entry.event_id = redacted.target AND entry.room_id = redacted.room_id
        UNION ALL
        SELECT room_id FROM arrived
        WHERE event_id = ANY(targets) OR EXISTS (SELECT FROM redactions WHERE redactions.target = arrived.event_id)
    ), kept AS (
        INSERT INTO guest_state (
            room_id, type, state_key, event_id, sender, ts, content, is_redacted, membership, is_ours, invite_state,
            known_by, change
        )
        SELECT
            room_id, type, state_key, event_id, sender, ts, content, is_redacted, membership, is_ours, invite_state,
            'told', nextval('guest_state_changes')
        FROM (
            SELECT DISTINCT ON (room_id, type, state_key) arrived.* FROM arrived JOIN rooms USING (room_id)
            ORDER BY room_id, type, state_key, number DESC
        ) AS last
        ON CONFLICT (room_id, type, state_key) DO UPDATE SET
            event_id = excluded.event_id,
            sender = excluded.sender,
            ts = excluded.ts,
            content = excluded.content,
            is_redacted = excluded.is_redacted,
            membership = excluded.membership,
            is_ours = excluded.is_ours,
            invite_state = excluded.invite_state,
            known_by = excluded.known_by,
            ahead_until = NULL,
            change = excluded.change
        WHERE guest_state.ahead_until IS NULL OR guest_state.ahead_until < now()
            OR EXISTS (SELECT FROM arrived AS own WHERE own.event_id = guest_state.event_id)
    )
    UPDATE guest_rooms SET whole_since = NULL, doubts = doubts + 1
    WHERE room_id IN (SELECT room_id FROM doubtful);
END
$$;

-- What a user of ours did, unless the homeserver has told it already.
CREATE FUNCTION note_guest_state(registration text, given guest_state, believed interval) RETURNS void
    LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('appservice ' || registration, 0));
    IF EXISTS (SELECT FROM appservice_events WHERE event_id = given.event_id) THEN
        RETURN;
    END IF;
    INSERT INTO guest_rooms (room_id) VALUES (given.room_id) ON CONFLICT (room_id) DO NOTHING;
    given.known_by = 'noted';
    given.ahead_until = now() + believed;
    given.change = nextval('guest_state_changes');
    INSERT INTO guest_state SELECT given.*
    ON CONFLICT (room_id, type, state_key) DO UPDATE SET
        event_id = excluded.event_id,
        sender = excluded.sender,
        ts = excluded.ts,
        content = excluded.content,
        is_redacted = excluded.is_redacted,
        membership = excluded.membership,
        is_ours = excluded.is_ours,
        invite_state = excluded.invite_state,
        known_by = excluded.known_by,
        ahead_until = excluded.ahead_until,
        change = excluded.change;
    IF given.is_ours AND given.membership <> 'join' THEN
        UPDATE guest_rooms SET whole_since = NULL, doubts = doubts + 1
        WHERE room_id = given.room_id AND NOT EXISTS (
            SELECT FROM guest_state AS entry
            WHERE entry.room_id = given.room_id AND entry.is_ours AND entry.membership = 'join'
        );
    END IF;
END
$$;

-- A transaction of the homeserver that has not come before. Another one under an id that was used is a new one: the
-- homeserver has begun to count anew.
CREATE FUNCTION is_new_to_guest(of_registration text, its_id text, its_digest bytea) RETURNS boolean
    LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('appservice ' || of_registration, 0));
    INSERT INTO appservice_transactions AS known (registration, transaction_id, digest)
    VALUES (of_registration, its_id, its_digest)
    ON CONFLICT (registration, transaction_id)
    DO UPDATE SET digest = excluded.digest, received_at = now() WHERE known.digest <> excluded.digest;
    RETURN FOUND;
END
$$;

-- Events in their order, but for those that have come before. Positions are taken after the rows have been sorted, and
-- so after the lock that holds the stream's readers back: see room_stream.
CREATE FUNCTION append_for_guest(
    tag bigint, event_ids text[], room_ids text[], kinds text[], members text[], marks text[], contents bytea[]
) RETURNS void
    LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    WITH held_back AS MATERIALIZED (
        SELECT pg_advisory_xact_lock_shared((tag << 48) | (last_value - 1 + is_called::integer))
        FROM room_stream_positions
    ), arrived AS MATERIALIZED (
        SELECT nextval('room_stream_positions') AS position, event_id, room_id, kind, member, mark, content
        FROM held_back
        CROSS JOIN unnest(event_ids, room_ids, kinds, members, marks, contents) WITH ORDINALITY
            AS given (event_id, room_id, kind, member, mark, content, number)
        WHERE NOT EXISTS (SELECT FROM appservice_events AS known WHERE known.event_id = given.event_id)
        ORDER BY number
    ), streamed AS (
        INSERT INTO room_stream (position, room_id, event_id, kind)
        SELECT position, room_id, event_id, kind FROM arrived
    )
    INSERT INTO appservice_events (position, event_id, room_id, member, mark, event)
    SELECT position, event_id, room_id, member, mark, content FROM arrived;
END
$$;
