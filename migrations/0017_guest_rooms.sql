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

-- State that the homeserver tells, in its order, and redactions. One by one, each by its index: plans for many at once
-- read whole tables where there are few. An entry that is ahead waits for its own event: until it comes, the homeserver
-- tells what was before.
CREATE FUNCTION keep_guest_state(given guest_state[], targets text[], redacting text[], rooms_of_targets text[])
    RETURNS void
    LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    entry guest_state;
    before guest_state;
    is_known boolean;
    is_doubtful boolean;
BEGIN
    FOREACH entry IN ARRAY given LOOP
        IF entry.is_ours THEN
            INSERT INTO guest_rooms (room_id) VALUES (entry.room_id) ON CONFLICT (room_id) DO NOTHING;
        END IF;
    END LOOP;
    FOREACH entry IN ARRAY given LOOP
        -- What a redaction leaves of it the room's version says.
        SELECT
            EXISTS (SELECT FROM appservice_events WHERE event_id = entry.event_id),
            EXISTS (SELECT FROM redactions WHERE target = entry.event_id)
        INTO is_known, is_doubtful FROM guest_rooms WHERE room_id = entry.room_id;
        IF NOT FOUND OR is_known THEN
            CONTINUE;
        END IF;
        SELECT * INTO before FROM guest_state
        WHERE room_id = entry.room_id AND type = entry.type AND state_key = entry.state_key;
        -- What was fetched may be newer than what is still told.
        IF before.known_by = 'fetched' AND entry.ts < before.ts AND NOT EXISTS (
            SELECT FROM unnest(given) AS later WHERE later.event_id = before.event_id
        ) THEN
            is_doubtful = true;
        END IF;
        -- What happens in a room while nobody of ours is there is not told.
        IF entry.is_ours AND entry.membership <> 'join' AND NOT EXISTS (
            SELECT FROM guest_state AS other
            WHERE other.room_id = entry.room_id AND other.is_ours AND other.membership = 'join'
                AND other.state_key <> entry.state_key
        ) THEN
            is_doubtful = true;
        END IF;
        IF is_doubtful THEN
            UPDATE guest_rooms SET whole_since = NULL, doubts = doubts + 1 WHERE room_id = entry.room_id;
        END IF;
        IF before.ahead_until >= now() AND before.event_id <> entry.event_id THEN
            CONTINUE;
        END IF;
        entry.known_by = 'told';
        entry.change = nextval('guest_state_changes');
        INSERT INTO guest_state SELECT entry.*
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
    END LOOP;
    FOR number IN 1 .. cardinality(targets) LOOP
        INSERT INTO redactions (target, event_id) VALUES (targets[number], redacting[number]) ON CONFLICT DO NOTHING;
        UPDATE guest_rooms SET whole_since = NULL, doubts = doubts + 1
        WHERE room_id = (
            SELECT room_id FROM guest_state
            WHERE event_id = targets[number] AND room_id = rooms_of_targets[number] LIMIT 1
        );
    END LOOP;
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

-- A transaction of the homeserver, if it has not come before: its state, its redactions and, last, because they hold
-- back the readers of the stream, its events, but for those that have come before. Another one under an id that was used
-- is a new one: the homeserver has begun to count anew. The positions are those of the events, null where one has come
-- before; they are taken after the rows have been sorted, and so after the lock of room_stream.
CREATE FUNCTION take_in_for_guest(
    of_registration text,
    its_id text,
    its_digest bytea,
    state guest_state[],
    targets text[],
    redacting text[],
    rooms_of_targets text[],
    tag bigint,
    event_ids text[],
    room_ids text[],
    kinds text[],
    members text[],
    marks text[],
    contents bytea[],
    OUT is_new boolean,
    OUT positions bigint[],
    OUT some_are_redacted boolean
)
    LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    known_ids text[];
    is_out_of_step boolean;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('appservice ' || of_registration, 0));
    INSERT INTO appservice_transactions AS known (registration, transaction_id, digest)
    VALUES (of_registration, its_id, its_digest)
    ON CONFLICT (registration, transaction_id)
    DO UPDATE SET digest = excluded.digest, received_at = now() WHERE known.digest <> excluded.digest
    -- Whether there was one under this id.
    RETURNING xmax <> 0 INTO is_out_of_step;
    is_new = FOUND;
    some_are_redacted = false;
    IF NOT is_new THEN
        RETURN;
    END IF;
    -- Where they were counted without a gap, one that is missing was taken in by a database that is no more.
    IF its_id ~ '^[1-9][0-9]{0,17}$' AND NOT EXISTS (
        SELECT FROM appservice_transactions
        WHERE registration = of_registration AND transaction_id = (its_id::bigint - 1)::text
    ) THEN
        is_out_of_step = is_out_of_step OR EXISTS (
            SELECT FROM (
                SELECT transaction_id FROM appservice_transactions
                WHERE registration = of_registration AND transaction_id <> its_id ORDER BY received_at DESC LIMIT 1
            ) AS last
            JOIN appservice_transactions AS before
                ON before.registration = of_registration
                AND before.transaction_id = CASE
                    WHEN last.transaction_id ~ '^[1-9][0-9]{0,17}$' THEN (last.transaction_id::bigint - 1)::text
                END
        );
    END IF;
    -- Ours or the homeserver's was restored: what is known of rooms may be of another past.
    IF is_out_of_step THEN
        UPDATE guest_rooms SET whole_since = NULL, doubts = doubts + 1;
        DELETE FROM guest_users;
    END IF;
    IF cardinality(event_ids) = 0 THEN
        RETURN;
    END IF;
    IF cardinality(state) + cardinality(targets) > 0 THEN
        PERFORM keep_guest_state(state, targets, redacting, rooms_of_targets);
    END IF;
    some_are_redacted = EXISTS (SELECT FROM redactions WHERE target = ANY(event_ids));
    known_ids = ARRAY(SELECT event_id FROM appservice_events WHERE event_id = ANY(event_ids));
    PERFORM pg_advisory_xact_lock_shared((tag << 48) | (last_value - 1 + is_called::integer))
    FROM room_stream_positions;
    WITH arrived AS MATERIALIZED (
        SELECT
            CASE WHEN event_id <> ALL(known_ids) THEN nextval('room_stream_positions') END AS position,
            event_id, room_id, kind, member, mark, content, number
        FROM unnest(event_ids, room_ids, kinds, members, marks, contents) WITH ORDINALITY
            AS given (event_id, room_id, kind, member, mark, content, number)
        ORDER BY number
    ), streamed AS (
        INSERT INTO room_stream (position, room_id, event_id, kind)
        SELECT position, room_id, event_id, kind FROM arrived WHERE position IS NOT NULL
    ), kept AS (
        INSERT INTO appservice_events (position, event_id, room_id, member, mark, event)
        SELECT position, event_id, room_id, member, mark, content FROM arrived WHERE position IS NOT NULL
    )
    SELECT array_agg(position ORDER BY number) INTO positions FROM arrived;
END
$$;
