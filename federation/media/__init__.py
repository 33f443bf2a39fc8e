"""The content repository: media and thumbnails."""
