"""A database of a Citus cluster for tests: made on all nodes, distributed, and emptied between tests.

A clone for each test, as on one server, would take many seconds: tables of a cluster cannot be copied as files.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg.conninfo import make_conninfo

from reme_core.postgres import distribute, migrate, queue_schema

_SHARDS = 4  # two on each of two workers


@contextmanager
def distributed_database(cluster_url: str) -> Iterator[str]:
    """The URL of a fresh database with our schema, distributed over the nodes of the cluster at this URL."""
    with cluster_database(cluster_url) as url:
        with _alone(cluster_url):
            distribute.distribute(url, _SHARDS)
        yield url


@contextmanager
def cluster_database(cluster_url: str) -> Iterator[str]:
    """The same, with Citus on all nodes, but not distributed yet."""
    name = f"reme_citus_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(cluster_url, autocommit=True) as connection:
        nodes = connection.execute("select nodename, nodeport from pg_dist_node order by groupid").fetchall()
    urls = [make_conninfo(cluster_url, host=host, port=port) for host, port in nodes]
    made = make_conninfo(urls[0], dbname=name)
    coordinator, *workers = nodes
    try:
        with _alone(cluster_url):
            for url in urls:
                _execute(url, "set citus.enable_create_database_propagation = off", f"create database {name}")
                _execute(make_conninfo(url, dbname=name), "create extension citus", "create extension vector")
            _execute(made, "select citus_set_coordinator_host('{}', {})".format(*coordinator))
            _execute(made, *("select citus_add_node('{}', {})".format(*worker) for worker in workers))
            migrate.upgrade(made)
        yield made
    finally:
        for url in urls:
            _execute(url, "set citus.enable_create_database_propagation = off", f"drop database {name} with (force)")


def empty(url: str) -> None:
    """Remove all rows, and the HNSW indexes that were built for them; the schema is again what it was."""
    if migrate.status(url)[0] in migrate.versions()[:-1]:  # a test went back to it
        migrate.upgrade(url)
        distribute.distribute(url, _SHARDS)
    with psycopg.connect(url, autocommit=True) as connection:
        tables = connection.execute(
            "select string_agg(format('reme.%I', relname), ', ') from pg_class where relkind = 'r'"
            " and relnamespace = 'reme'::regnamespace and relname not in ('alembic_version', 'queue_migration')"
        ).fetchone()
        assert tables is not None
        connection.execute(f"truncate {tables[0]} restart identity")
        connection.execute("update reme.alembic_version set version_num = %s", [migrate.versions()[-1]])
        connection.execute("delete from reme.queue_migration")  # a test takes the queue for an older one
        queue_schema.note_installed(connection)
        connection.execute(
            "update pg_extension e set extversion = a.default_version from pg_available_extensions a"
            " where a.name = e.extname and a.name = 'vector'"
        )
        for (index,) in connection.execute(
            "select indexname from pg_indexes where schemaname = 'reme' and indexdef like '%USING hnsw%'"
        ):
            connection.execute(f"drop index reme.{index}")


@contextmanager
def _alone(cluster_url: str) -> Iterator[None]:
    """While no other process makes a database here: each writes the roles, and of two at once Postgres refuses one."""
    with psycopg.connect(cluster_url, autocommit=True) as connection:
        connection.execute("select pg_advisory_lock(hashtext('reme tests'))")
        yield


def _execute(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)
