"""Tables: Postgres, its statements and its life. Knows no protocol."""
