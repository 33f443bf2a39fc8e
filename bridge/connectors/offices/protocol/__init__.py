"""The A2C-SMCP protocol: events, errors, versions, tool results, and the state machine of memberships."""
