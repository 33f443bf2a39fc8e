"""Text for people: terminal-safe strings, times, spans."""
