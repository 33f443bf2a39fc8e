-- What servers did to each other: what others asked of this one, and what this one asked of others.
CREATE TABLE audit (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- When it was done, which may be a moment before the row was written.
    at timestamptz NOT NULL,
    -- The other server. Null for whoever has not shown who he is.
    peer text COLLATE "C",
    direction text NOT NULL CHECK (direction IN ('in', 'out')),
    act text NOT NULL,
    user_id text COLLATE "C",
    room_id text COLLATE "C",
    -- What it was done with: an event, a transaction, an alias, a medium.
    subject text,
    outcome text NOT NULL,
    detail text
);
CREATE INDEX audit_by_time ON audit (at);
CREATE INDEX audit_by_peer ON audit (peer, at) WHERE peer IS NOT NULL;
CREATE INDEX audit_by_user ON audit (user_id, at) WHERE user_id IS NOT NULL;
CREATE INDEX audit_by_room ON audit (room_id, at) WHERE room_id IS NOT NULL;
