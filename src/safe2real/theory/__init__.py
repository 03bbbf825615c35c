"""What the paper proves: conditions and bounds, without data."""
