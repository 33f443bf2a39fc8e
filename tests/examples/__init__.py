"""The examples, as somebody runs them who has just installed the wheel."""
