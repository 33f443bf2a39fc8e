"""Basics of Matrix that all packages use: identifiers, canonical JSON, signatures, room versions, errors."""
