"""Published CIS nodes over HTTP."""
