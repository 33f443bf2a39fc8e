"""Who may federate, rate limits, the audit trail."""
