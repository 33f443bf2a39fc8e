-- name: reserve_ids
SELECT nextval('state_group_ids');

-- name: insert_state_groups
INSERT INTO state_groups SELECT * FROM unnest($1::state_groups[]);

-- name: fetch_chain
WITH RECURSIVE chain AS (
    SELECT * FROM state_groups WHERE id = $1
    UNION ALL
    SELECT parents.* FROM state_groups AS parents JOIN chain ON parents.id = chain.parent
)
SELECT id, room_id, parent, distance, types, state_keys, event_ids FROM chain ORDER BY distance;
