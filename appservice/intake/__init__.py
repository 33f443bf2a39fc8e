"""What the homeserver pushes to us, and what it forgot to push."""
