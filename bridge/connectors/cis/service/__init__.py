"""The I/O of the connector for CIS nodes: rooms, events, tasks, and single events over HTTP."""
