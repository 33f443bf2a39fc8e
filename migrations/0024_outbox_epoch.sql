-- A transaction's id is made from this and from the rows of the queues that it carries, so that nothing need be
-- written down before it is sent.
CREATE TABLE outbox_epoch (
    only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    epoch text NOT NULL
);

DROP TABLE outbox_transactions;
