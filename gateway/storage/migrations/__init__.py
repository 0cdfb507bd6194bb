"""The database's tables, as numbered migrations that only ever go forward: one file each."""

from gateway.storage.migrations import (
    m001_to_m010,
    m011_followers,
    m013_retention,
    m016_baselines,
    m017_by_server,
    m018_cosignatures,
    m019_holds,
    m020_one_run_at_a_time,
    m021_usage,
    m022_where_servers_are_chosen,
    m023_late_calls,
    m024_plane_debts,
    m025_records_by_id,
    m026_versions_of_runs,
)
from gateway.storage.migrations.registry import migrations

__all__ = [
    "m001_to_m010",
    "m011_followers",
    "m013_retention",
    "m016_baselines",
    "m017_by_server",
    "m018_cosignatures",
    "m019_holds",
    "m020_one_run_at_a_time",
    "m021_usage",
    "m022_where_servers_are_chosen",
    "m023_late_calls",
    "m024_plane_debts",
    "m025_records_by_id",
    "m026_versions_of_runs",
    "migrations",
]
