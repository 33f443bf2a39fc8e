"""Signing keys of this server and of others, the notary, and request authentication (X-Matrix)."""
