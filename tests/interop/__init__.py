"""Tests against real peers: what people on other homeservers get."""
