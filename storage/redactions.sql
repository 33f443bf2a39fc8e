-- name: insert_redactions
INSERT INTO redactions (target, event_id) SELECT * FROM unnest($1::text[], $2::text[]) ON CONFLICT DO NOTHING;

-- name: fetch_redactions
SELECT target, event_id FROM redactions WHERE target = ANY($1::text[]) ORDER BY target, event_id;
