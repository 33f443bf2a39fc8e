"""The configuration models and what is derived from them."""
