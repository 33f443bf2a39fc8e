"""The schema and the steps that lead to it, as SQL."""
