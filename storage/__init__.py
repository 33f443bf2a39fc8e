"""Postgres: connections, migrations, the embedded server, and the queries of all tables. Knows no
protocol."""
