"""The schema and its migrations, as SQL files."""
