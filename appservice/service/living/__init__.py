"""What users do in the rooms of a homeserver of which this node is a guest, one concern per file."""
