"""The room engine: receive, send, judge, commit, read. The heart of the server in one listing."""
