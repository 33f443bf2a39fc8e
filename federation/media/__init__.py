"""The content repository."""
