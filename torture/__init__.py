"""Campaigns under torture: kills, torn logs, restores, partitions, damage. Run with `python -m torture`."""
