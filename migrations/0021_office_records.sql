-- What happens in offices: for their rooms, which are told of it afterwards, and for whoever looks back.
CREATE TABLE office_records (
    position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    office_id text COLLATE "C" NOT NULL,
    kind text NOT NULL CHECK (kind IN ('joined', 'left', 'tools', 'called', 'answered')),
    -- Of a call and of its answer.
    call_id text COLLATE "C",
    -- JSON.
    body bytea NOT NULL,
    -- Milliseconds since 1970.
    at_ms bigint NOT NULL,
    -- In which message the room is told: its own position, or that of the first call of several. It is decided before
    -- the message is sent, so that whoever sends it again sends the same. Null: it has not been.
    told_as bigint,
    -- The event. Null: the room has not been told. Empty: it does not take it.
    event_id text COLLATE "C"
);
CREATE INDEX office_records_untold ON office_records (position) WHERE event_id IS NULL;
CREATE INDEX office_records_of_office ON office_records (office_id, position);
CREATE INDEX office_records_of_call ON office_records (call_id) WHERE call_id IS NOT NULL;
CREATE INDEX office_records_by_event ON office_records (event_id) WHERE event_id <> '';
CREATE INDEX office_records_by_age ON office_records (at_ms);
