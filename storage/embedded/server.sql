-- The name is the one in `EmbeddedPostgres.address`.
-- name: create_database
CREATE DATABASE palaver
