-- Each row has the completeness of the room's state. For a cached room, the first two statements return at least one
-- row, which may have no entry.

-- name: fetch_entry
SELECT
    CASE
        WHEN whole_since IS NULL OR EXISTS (
            SELECT FROM guest_state AS ahead WHERE ahead.room_id = guest_rooms.room_id AND ahead.ahead_until < now()
        ) THEN 'partial'
        WHEN whole_since < now() - $4::interval THEN 'stale'
        ELSE 'complete'
    END,
    entry.event_id, entry.type, entry.state_key, entry.sender, entry.ts, entry.content, entry.is_redacted
FROM guest_rooms
LEFT JOIN guest_state AS entry
    ON entry.room_id = guest_rooms.room_id AND entry.type = $2 AND entry.state_key = $3 AND entry.event_id <> ''
WHERE guest_rooms.room_id = $1;

-- name: fetch_entries
SELECT
    CASE
        WHEN whole_since IS NULL OR EXISTS (
            SELECT FROM guest_state AS ahead WHERE ahead.room_id = guest_rooms.room_id AND ahead.ahead_until < now()
        ) THEN 'partial'
        WHEN whole_since < now() - $4::interval THEN 'stale'
        ELSE 'complete'
    END,
    entry.event_id, entry.type, entry.state_key, entry.sender, entry.ts, entry.content, entry.is_redacted
FROM guest_rooms
LEFT JOIN guest_state AS entry
    ON entry.room_id = guest_rooms.room_id AND entry.event_id <> '' AND ($2::bytea IS NULL OR entry.type = $2)
    AND ($3::text[] IS NULL OR entry.membership = ANY($3))
WHERE guest_rooms.room_id = $1
ORDER BY entry.type, entry.state_key;

-- name: list_local_members
SELECT state_key FROM guest_state
WHERE room_id = $1 AND is_ours AND membership = 'join' ORDER BY (known_by = 'joined'), change, state_key LIMIT $2;

-- name: list_joined
SELECT room_id FROM guest_state WHERE state_key = $1 AND is_ours AND membership = 'join' ORDER BY room_id;

-- name: list_invites
SELECT room_id, sender, event_id, invite_state FROM guest_state
WHERE state_key = $1 AND is_ours AND membership = 'invite' AND event_id <> '' ORDER BY change;

-- name: fetch_local_membership
SELECT membership FROM guest_state
WHERE room_id = $1 AND type = convert_to('m.room.member', 'UTF8') AND state_key = $2 AND is_ours;

-- name: record_change
SELECT note_guest_state($1, $2::guest_state, $3::interval);

-- What is taken out of the sequence by now was known to the homeserver by then.
-- name: begin_state_fetch
SELECT doubts, (SELECT last_value - 1 + is_called::integer FROM guest_state_changes) FROM guest_rooms WHERE room_id = $1;

-- name: fetch_last_change
SELECT last_value - 1 + is_called::integer FROM guest_state_changes;

-- Changes received since the fetch began are kept: they are at least as new as the fetched state, or a newer one
-- follows.
-- name: merge_state
WITH fetched AS MATERIALIZED (
    SELECT * FROM unnest($3::guest_state[])
), gone AS (
    DELETE FROM guest_state AS entry
    WHERE room_id = $1 AND change <= $2
        AND NOT EXISTS (
            SELECT FROM fetched WHERE fetched.type = entry.type AND fetched.state_key = entry.state_key
        )
)
INSERT INTO guest_state AS entry (
    room_id, type, state_key, event_id, sender, ts, content, is_redacted, membership, is_ours, known_by, change
)
SELECT
    $1, type, state_key, event_id, sender, ts, content, is_redacted, membership, is_ours, 'fetched',
    nextval('guest_state_changes')
FROM fetched
ON CONFLICT (room_id, type, state_key) DO UPDATE SET
    event_id = excluded.event_id,
    sender = excluded.sender,
    ts = excluded.ts,
    content = excluded.content,
    is_redacted = excluded.is_redacted,
    membership = excluded.membership,
    is_ours = excluded.is_ours,
    invite_state = NULL,
    known_by = excluded.known_by,
    ahead_until = NULL,
    change = excluded.change
WHERE entry.change <= $2
    AND (entry.known_by = 'noted' OR entry.event_id <> excluded.event_id OR entry.content <> excluded.content);

-- name: mark_complete
UPDATE guest_rooms SET whole_since = now() WHERE room_id = $1 AND doubts = $2 RETURNING true;

-- name: mark_incomplete
UPDATE guest_rooms SET whole_since = NULL, doubts = doubts + 1 WHERE room_id = $1;

-- Unless the user has joined again since.
-- name: delete_local_member
DELETE FROM guest_state
WHERE room_id = $1 AND type = convert_to('m.room.member', 'UTF8') AND state_key = $2 AND membership = 'join'
    AND change <= $3;

-- name: delete_room
DELETE FROM guest_rooms WHERE room_id = $1;

-- name: are_rooms_loaded
SELECT EXISTS (SELECT FROM guest_users WHERE user_id = $1);

-- name: mark_rooms_loaded
INSERT INTO guest_users (user_id) VALUES ($1) ON CONFLICT (user_id) DO NOTHING;

-- name: insert_rooms
INSERT INTO guest_rooms (room_id) SELECT DISTINCT unnest($1::text[]) ON CONFLICT (room_id) DO NOTHING;

-- Changes received since the request are newer than the homeserver's response.
-- name: replace_memberships
WITH left_since AS (
    DELETE FROM guest_state
    WHERE is_ours AND state_key = convert_to($1, 'UTF8') AND membership = 'join' AND change <= $3
        AND room_id <> ALL($2::text[])
)
INSERT INTO guest_state AS entry (
    room_id, type, state_key, event_id, sender, ts, content, is_redacted, membership, is_ours, known_by, change
)
SELECT
    given, convert_to('m.room.member', 'UTF8'), convert_to($1, 'UTF8'), '', $1, 0, '{"membership":"join"}'::bytea, false,
    'join', true, 'joined', nextval('guest_state_changes')
FROM (SELECT DISTINCT unnest($2::text[]) AS given) AS joined
ON CONFLICT (room_id, type, state_key) DO UPDATE SET
    event_id = excluded.event_id,
    sender = excluded.sender,
    ts = excluded.ts,
    content = excluded.content,
    is_redacted = excluded.is_redacted,
    membership = excluded.membership,
    invite_state = NULL,
    known_by = excluded.known_by,
    ahead_until = NULL,
    change = excluded.change
WHERE entry.change <= $3 AND entry.membership <> 'join';

-- name: prune_rooms
WITH deleted AS (
    DELETE FROM guest_rooms WHERE NOT EXISTS (
        SELECT FROM guest_state AS entry
        WHERE entry.room_id = guest_rooms.room_id AND is_ours AND membership IN ('join', 'invite', 'knock')
    )
    RETURNING 1
)
SELECT count(*) FROM deleted;

-- name: count_ghosts
SELECT count(*) FROM users;

-- name: count_rooms
SELECT count(DISTINCT room_id) FROM guest_state WHERE is_ours AND membership = 'join';

-- name: list_rooms
SELECT room_id, count(*) AS ghosts FROM guest_state
WHERE is_ours AND membership = 'join' AND room_id > $1 GROUP BY room_id ORDER BY room_id LIMIT $2;

-- name: list_ghosts
SELECT convert_from(state_key, 'UTF8'), membership FROM guest_state
WHERE room_id = $1 AND is_ours AND membership = ANY($2) AND state_key > convert_to($3, 'UTF8')
ORDER BY state_key LIMIT $4;
