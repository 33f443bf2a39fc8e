"""Agents that are programs of their own: sessions, tokens, HTTP and WebSocket API, `agent run`."""
