"""What the homeserver asks of us, over HTTP."""
