"""The texts of messages to people."""
