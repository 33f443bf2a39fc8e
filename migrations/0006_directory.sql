-- Who and what other servers may ask for by name: the users of this server with what they say of themselves, the
-- aliases of its rooms, and the rooms that it lists in public.

CREATE TABLE users (
    user_id text COLLATE "C" PRIMARY KEY,
    created_at bigint NOT NULL,
    -- `displayname`, `avatar_url` and whatever else is set, by the names that profiles have on the wire.
    profile jsonb NOT NULL
);

-- Whose rooms have not all been told yet of what the profile says now. The number is another one after every
-- change, so that a change which comes while its predecessor is told of is not taken for told.
CREATE SEQUENCE profile_change_numbers;
CREATE TABLE profile_changes (
    user_id text COLLATE "C" PRIMARY KEY,
    number bigint NOT NULL DEFAULT nextval('profile_change_numbers')
);

CREATE TABLE aliases (
    alias text COLLATE "C" PRIMARY KEY,
    room_id text COLLATE "C" NOT NULL,
    creator text COLLATE "C" NOT NULL,
    created_at bigint NOT NULL
);
CREATE INDEX aliases_of_room ON aliases (room_id);

CREATE TABLE published_rooms (
    room_id text COLLATE "C" PRIMARY KEY
);
