-- name: insert_approval
INSERT INTO approvals (reference, asked_at, until) VALUES ($1, $2, $3) ON CONFLICT (reference) DO NOTHING;

-- name: fetch_approval
SELECT reference, asked_at, until, verdict, decided_by, reason FROM approvals WHERE reference = $1;

-- name: set_verdict
UPDATE approvals SET verdict = $2, decided_by = $3, reason = $4 WHERE reference = $1 AND verdict IS NULL;

-- name: prune
DELETE FROM approvals WHERE reference IN (SELECT reference FROM approvals WHERE until < $1 LIMIT $2);
