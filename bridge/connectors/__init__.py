"""The connectors. Each package implements one agent protocol in terms of the bridge's agents and tasks."""
