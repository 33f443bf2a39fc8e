-- Events that a reader has taken out of the stream, together with its position, and that it still has to handle.
-- Those with the same queue are handled in their order; the queue is the room, or something in it.
CREATE TABLE inbox (
    reader text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    queue text COLLATE "C" NOT NULL,
    room_id text COLLATE "C" NOT NULL,
    event_id text COLLATE "C" NOT NULL,
    -- JSON. Nothing of what was said is kept of an entry that was set aside.
    entry bytea,
    attempts smallint NOT NULL DEFAULT 0,
    due_at timestamptz NOT NULL DEFAULT now(),
    problem text,
    set_aside_at timestamptz,
    PRIMARY KEY (reader, position),
    CHECK ((entry IS NULL) = (set_aside_at IS NOT NULL))
);
CREATE INDEX inbox_by_queue ON inbox (reader, queue, position) WHERE set_aside_at IS NULL;
CREATE INDEX inbox_set_aside ON inbox (set_aside_at) WHERE set_aside_at IS NOT NULL;
