-- name: upsert_membership
INSERT INTO outside_memberships (
    room_id, user_id, membership, version, event_id, sender, server, event, stripped_state, received_at
)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
ON CONFLICT (room_id, user_id) DO UPDATE SET
    membership = excluded.membership,
    version = excluded.version,
    event_id = excluded.event_id,
    sender = excluded.sender,
    server = excluded.server,
    event = excluded.event,
    stripped_state = excluded.stripped_state,
    received_at = excluded.received_at
WHERE outside_memberships.received_at <= excluded.received_at;

-- name: fetch_membership
SELECT room_id, user_id, membership, version, event_id, sender, server, event, stripped_state, received_at
FROM outside_memberships WHERE room_id = $1 AND user_id = $2;

-- name: list_memberships_of_user
SELECT room_id, user_id, membership, version, event_id, sender, server, event, stripped_state, received_at
FROM outside_memberships WHERE user_id = $1 ORDER BY received_at, room_id;

-- name: delete_membership
DELETE FROM outside_memberships WHERE room_id = $1 AND user_id = $2 RETURNING true;

-- A repeated invite changes nothing and returns no row.
-- name: insert_invite
INSERT INTO outside_memberships (
    room_id, user_id, membership, version, event_id, sender, server, event, stripped_state, received_at
)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
ON CONFLICT (room_id, user_id) DO UPDATE SET
    membership = excluded.membership,
    version = excluded.version,
    event_id = excluded.event_id,
    sender = excluded.sender,
    server = excluded.server,
    event = excluded.event,
    stripped_state = excluded.stripped_state,
    received_at = excluded.received_at
WHERE outside_memberships.event_id <> excluded.event_id
RETURNING true;

-- name: fetch_by_events
SELECT room_id, user_id, membership, version, event_id, sender, server, event, stripped_state, received_at
FROM outside_memberships
JOIN unnest($1::text[], $2::text[]) AS wanted (room_id, event_id) USING (room_id, event_id);
