-- When offices were used last, so that the room of one in which nothing happens any more is archived.
CREATE TABLE office_rooms (
    office_id text COLLATE "C" PRIMARY KEY,
    -- The newest of its records that was looked at, and its time in milliseconds since 1970.
    position bigint NOT NULL,
    used_at_ms bigint NOT NULL,
    -- Since when its room is archived. Null: it is in use.
    archived_at_ms bigint,
    -- Whether the room says so.
    is_told boolean NOT NULL DEFAULT false
);
CREATE INDEX office_rooms_by_use ON office_rooms (used_at_ms) WHERE archived_at_ms IS NULL;
CREATE INDEX office_rooms_archived ON office_rooms (office_id) WHERE archived_at_ms IS NOT NULL;
