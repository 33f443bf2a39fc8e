"""The Postgres of the tests."""
