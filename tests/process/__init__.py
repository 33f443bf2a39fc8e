"""The installed wheel as a process, as an operator runs it."""
