"""Where a campaign's events are kept."""
