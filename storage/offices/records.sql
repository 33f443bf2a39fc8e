-- Positions follow the order of the arguments.
-- name: insert_records
INSERT INTO office_records (office_id, kind, call_id, body, at_ms)
SELECT office_id, kind, call_id, body, at_ms
FROM unnest($1::text[], $2::text[], $3::text[], $4::bytea[], $5::bigint[])
    WITH ORDINALITY AS given (office_id, kind, call_id, body, at_ms, number)
ORDER BY number;

-- Office by office, starting with the office of the oldest record: when many offices are busy, each gets many records
-- into one message. Considers ten times as many records as it returns.
-- name: fetch_unsent
WITH waiting AS (
    SELECT position, office_id FROM office_records WHERE event_id IS NULL ORDER BY position LIMIT 10 * $1
), wanted AS (
    SELECT position, min(position) OVER (PARTITION BY office_id) AS oldest FROM waiting ORDER BY oldest, position LIMIT $1
)
SELECT position, office_id, kind, call_id, body, at_ms, told_as FROM wanted JOIN office_records USING (position)
ORDER BY oldest, position;

-- name: assign_messages
UPDATE office_records SET told_as = given.told_as
FROM unnest($1::bigint[], $2::bigint[]) AS given (position, told_as)
WHERE office_records.position = given.position;

-- name: mark_sent
UPDATE office_records SET event_id = $2 WHERE position = ANY($1::bigint[]) AND event_id IS NULL;

-- For a call whose message another node has sent to the room.
-- name: set_call_event
UPDATE office_records SET event_id = $2
WHERE call_id = $1 AND kind = 'called' AND (event_id IS NULL OR event_id = '');

-- name: has_unsent_membership_changes
SELECT EXISTS (
    SELECT FROM office_records WHERE office_id = $1 AND event_id IS NULL AND kind IN ('joined', 'left')
);

-- name: fetch_call_event
SELECT event_id FROM office_records WHERE call_id = $1 AND kind = 'called' AND event_id <> '';

-- name: fetch_office_of_event
SELECT office_id FROM office_records WHERE event_id = $1 LIMIT 1;

-- A message that shows several calls belongs to no single call.
-- name: fetch_call_of_event
SELECT max(call_id) FROM office_records WHERE event_id = $1 AND kind = 'called' HAVING count(*) = 1;

-- name: fetch_call
SELECT position, office_id, kind, call_id, body, at_ms, told_as FROM office_records
WHERE call_id = $1 AND kind = 'called' LIMIT 1;

-- name: fetch_answer
SELECT body FROM office_records WHERE call_id = $1 AND kind = 'answered' ORDER BY position LIMIT 1;

-- The members whose last record is a join, in the order in which they joined.
-- name: fetch_present_members
SELECT office_id, position, body FROM (
    SELECT DISTINCT ON (office_id, convert_from(body, 'UTF8')::json ->> 'name') office_id, kind, body, position
    FROM office_records WHERE kind IN ('joined', 'left')
    ORDER BY office_id, convert_from(body, 'UTF8')::json ->> 'name', position DESC
) AS last WHERE kind = 'joined' ORDER BY position;

-- Like `fetch_present_members`, for one office.
-- name: fetch_present_members_of_office
SELECT position, body FROM (
    SELECT DISTINCT ON (convert_from(body, 'UTF8')::json ->> 'name') kind, body, position
    FROM office_records WHERE office_id = $1 AND kind IN ('joined', 'left')
    ORDER BY convert_from(body, 'UTF8')::json ->> 'name', position DESC
) AS last WHERE kind = 'joined' ORDER BY position;

-- Held until the transaction ends.
-- name: lock_office
SELECT pg_advisory_xact_lock(hashtextextended('office ' || $1::text, 0));

-- name: is_unanswered
SELECT NOT EXISTS (SELECT FROM office_records WHERE call_id = $1 AND kind = 'answered');

-- name: fetch_unanswered
SELECT office_id, call_id, body FROM office_records AS call
WHERE kind = 'called' AND NOT EXISTS (
    SELECT FROM office_records AS answer WHERE answer.call_id = call.call_id AND answer.kind = 'answered'
)
ORDER BY position;

-- The newest first. The columns of the answer are null for an unanswered call.
-- name: list_calls
SELECT call.position, call.office_id, call.call_id, call.body AS call, call.at_ms, answer.body AS answer, answer.at_ms
FROM office_records AS call
LEFT JOIN office_records AS answer ON answer.call_id = call.call_id AND answer.kind = 'answered'
WHERE call.kind = 'called' AND ($1::text IS NULL OR call.office_id = $1) AND ($2::bigint IS NULL OR call.position < $2)
ORDER BY call.position DESC LIMIT $3;

-- Keeps records whose message has not been sent, the joins of present members, and a leave as long as its join.
-- name: prune
WITH deleted AS (
    DELETE FROM office_records WHERE position IN (
        SELECT position FROM office_records AS old
        WHERE at_ms < $1 AND event_id IS NOT NULL AND (
            kind <> 'joined' OR EXISTS (
                SELECT FROM office_records AS later
                WHERE later.office_id = old.office_id AND later.kind = 'left' AND later.position > old.position
                    AND convert_from(later.body, 'UTF8')::json ->> 'name' = convert_from(old.body, 'UTF8')::json ->> 'name'
            )
        )
        ORDER BY at_ms, position LIMIT $2
    )
    RETURNING 1
)
SELECT count(*) FROM deleted;
