-- The name is the one in the address that the server module gives out.
-- name: create_database
CREATE DATABASE palaver
