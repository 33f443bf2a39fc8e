-- Questions that people are asked before something is done.
CREATE TABLE approvals (
    -- By which whoever asks finds it again.
    reference text COLLATE "C" PRIMARY KEY,
    -- Milliseconds since 1970.
    asked_at bigint NOT NULL,
    until bigint NOT NULL,
    -- 'approved', 'refused', 'expired' or 'withdrawn'; NULL while people may answer.
    verdict text COLLATE "C",
    -- The user who has answered.
    decided_by text COLLATE "C",
    -- Why there was nothing to decide any more.
    reason text
);
CREATE INDEX approvals_by_age ON approvals (until);
