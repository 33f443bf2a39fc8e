"""Sends events and EDUs to other servers: queues, the state machine of a destination, pacing and retries."""
