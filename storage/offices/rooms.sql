-- Takes the newest record of each office, by a loose index scan. Archived offices do not change until they are in use
-- again.
-- name: update_last_use
WITH RECURSIVE offices AS (
    (SELECT office_id FROM office_records ORDER BY office_id LIMIT 1)
    UNION ALL
    SELECT (
        SELECT later.office_id FROM office_records AS later
        WHERE later.office_id > offices.office_id ORDER BY later.office_id LIMIT 1
    )
    FROM offices WHERE office_id IS NOT NULL
)
INSERT INTO office_rooms (office_id, position, used_at_ms)
SELECT offices.office_id, newest.position, newest.at_ms
FROM offices CROSS JOIN LATERAL (
    SELECT position, at_ms FROM office_records
    WHERE office_records.office_id = offices.office_id ORDER BY position DESC LIMIT 1
) AS newest
ON CONFLICT (office_id) DO UPDATE SET position = excluded.position, used_at_ms = excluded.used_at_ms
WHERE office_rooms.position < excluded.position AND office_rooms.archived_at_ms IS NULL;

-- A member is present if its last record is a join.
-- name: list_unused
SELECT office_id, position FROM office_rooms AS room
WHERE archived_at_ms IS NULL AND used_at_ms <= $1 AND NOT EXISTS (
    SELECT FROM (
        SELECT DISTINCT ON (convert_from(body, 'UTF8')::json ->> 'name') kind FROM office_records
        WHERE office_id = room.office_id AND kind IN ('joined', 'left')
        ORDER BY convert_from(body, 'UTF8')::json ->> 'name', position DESC
    ) AS last
    WHERE kind = 'joined'
)
ORDER BY used_at_ms, office_id LIMIT $2;

-- Unless there are newer records.
-- name: archive
UPDATE office_rooms SET archived_at_ms = $3
WHERE office_id = $1 AND position = $2 AND archived_at_ms IS NULL AND NOT EXISTS (
    SELECT FROM office_records WHERE office_records.office_id = $1 AND office_records.position > $2
)
RETURNING true;

-- name: list_unannounced
SELECT office_id, position, used_at_ms FROM office_rooms
WHERE archived_at_ms IS NOT NULL AND NOT is_told ORDER BY office_id LIMIT $1;

-- name: mark_announced
UPDATE office_rooms SET is_told = true WHERE office_id = $1 AND archived_at_ms IS NOT NULL;

-- name: list_archived
SELECT office_id FROM office_rooms WHERE archived_at_ms IS NOT NULL AND is_told ORDER BY office_id;

-- A member has joined since it was archived.
-- name: list_used_again
SELECT office_id FROM office_rooms AS room
WHERE archived_at_ms IS NOT NULL AND EXISTS (
    SELECT FROM office_records AS record
    WHERE record.office_id = room.office_id AND record.position > room.position AND record.kind = 'joined'
)
ORDER BY office_id LIMIT $1;

-- name: is_used_again
SELECT EXISTS (
    SELECT FROM office_records AS record
    JOIN office_rooms AS room ON room.office_id = record.office_id
    WHERE record.office_id = $1 AND record.position > room.position AND record.kind = 'joined'
);

-- name: unarchive
UPDATE office_rooms SET archived_at_ms = NULL, is_told = false, used_at_ms = greatest(used_at_ms, $2)
WHERE office_id = $1;

-- name: defer_archiving
UPDATE office_rooms SET used_at_ms = $2 WHERE office_id = $1 AND archived_at_ms IS NULL;

-- name: list_offices
SELECT office_id FROM office_rooms ORDER BY office_id;
