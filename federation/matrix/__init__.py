"""The vocabulary every other package reuses: identifiers, canonical JSON, signatures, versions, errors."""
