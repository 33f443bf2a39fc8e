"""Communication with published CIS nodes over HTTP."""
