-- A second node that claims at the same time waits here for the first, then changes nothing.
-- name: insert_node
INSERT INTO node (server_name) VALUES ($1) ON CONFLICT DO NOTHING;

-- name: fetch_server_name
SELECT server_name FROM node;
