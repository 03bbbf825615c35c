"""The tables of a campaign, the same on SQLite and PostgreSQL.

The campaign (one row, the specification), its events (append only), the policies that the events name, each stored once
under the digest of its content. Two more that a record may do without: signatures of events, and a snapshot that saves a new
process from reading the whole record (`snapshot`).
"""

from __future__ import annotations

import sqlalchemy as sql

tables = sql.MetaData()
campaign = sql.Table(
    "safe2real_campaign",
    tables,
    sql.Column("format", sql.Integer, nullable=False),
    sql.Column("name", sql.String(32), primary_key=True),
    sql.Column("specification", sql.Text, nullable=False),
)
events = sql.Table(
    "safe2real_event",
    tables,
    sql.Column("sequence", sql.Integer, primary_key=True, autoincrement=False),
    sql.Column("kind", sql.String(16), nullable=False),
    sql.Column("deployment", sql.Integer),
    sql.Column("worker", sql.Text),
    sql.Column("at", sql.String(40), nullable=False),
    sql.Column("body", sql.Text, nullable=False),
    sql.Column("digest", sql.String(64), nullable=False),
    # The rules of the record hold in the database too: one ask, one tell and one abandonment for each deployment.
    sql.UniqueConstraint("deployment", "kind"),
)
policies = sql.Table(
    "safe2real_policy",
    tables,
    sql.Column("digest", sql.String(64), primary_key=True),
    sql.Column("content", sql.LargeBinary, nullable=False),
)
signatures = sql.Table(
    "safe2real_signature",
    tables,
    sql.Column("sequence", sql.Integer, primary_key=True, autoincrement=False),
    sql.Column("signer", sql.Text, nullable=False),
    sql.Column("signature", sql.String(64), nullable=False),
)
snapshots = sql.Table(
    "safe2real_snapshot",
    tables,
    sql.Column("sequence", sql.Integer, primary_key=True, autoincrement=False),  # of the last event it covers
    sql.Column("digest", sql.String(64), nullable=False),  # of that event
    sql.Column("content", sql.LargeBinary, nullable=False),
)
