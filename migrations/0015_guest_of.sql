-- Of which homeserver the node is a guest; NULL of one that is a homeserver itself. What the one side keeps, the other
-- cannot read, and rooms and events are those of the homeserver that made them.
ALTER TABLE node ADD COLUMN guest_of text CHECK (guest_of <> '');
