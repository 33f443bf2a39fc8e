"""Formats text for people, and reads and writes TOML and YAML."""
