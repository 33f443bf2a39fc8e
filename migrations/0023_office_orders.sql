CREATE TABLE office_orders (
    -- The message.
    event_id text COLLATE "C" PRIMARY KEY,
    room_id text COLLATE "C" NOT NULL,
    -- Under which the call is written down, if it has come to that.
    call_id text COLLATE "C" NOT NULL,
    -- Milliseconds since 1970.
    at_ms bigint NOT NULL,
    -- Whether whoever has asked knows what came of it.
    is_told boolean NOT NULL DEFAULT false
);
CREATE INDEX office_orders_untold ON office_orders (at_ms) WHERE NOT is_told;
CREATE INDEX office_orders_by_age ON office_orders (at_ms);
