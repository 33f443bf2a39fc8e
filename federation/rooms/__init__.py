"""The room engine: receives, sends, authorises, commits and reads events."""
