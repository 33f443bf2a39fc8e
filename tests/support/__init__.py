"""Shared test support: a Postgres server, the installed wheel as a process, free ports, certificates."""
