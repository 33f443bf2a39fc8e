-- A second node that claims the database at the same time waits here for the first, and then changes nothing.
-- name: insert_node
INSERT INTO node (server_name, guest_of) VALUES ($1, $2) ON CONFLICT DO NOTHING;

-- name: fetch_server_name
SELECT server_name FROM node;

-- name: fetch_owner
SELECT server_name, guest_of FROM node;
