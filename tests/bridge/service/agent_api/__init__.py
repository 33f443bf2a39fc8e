"""The interface for attached agents, over real HTTP and WebSockets and on a real Postgres."""
