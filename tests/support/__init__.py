"""What several tests share: a Postgres, the installed wheel as a process, free ports, certificates."""
