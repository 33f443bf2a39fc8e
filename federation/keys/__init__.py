"""Signing keys of ours and of others, notary, and request authentication (X-Matrix)."""
