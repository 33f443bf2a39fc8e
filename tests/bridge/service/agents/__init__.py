"""Processes of agents, real ones; every test runs on asyncio's own event loop and on uvloop."""
