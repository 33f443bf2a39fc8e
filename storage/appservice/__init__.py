"""What the homeserver has sent its guest."""
