"""More than one server: the tables of a database with the extension Citus, spread over its nodes by workspace.

All rows of a workspace are on one node, so each statement for a workspace runs there as a whole. The queue stays on the
coordinator, to which all clients connect. After an interruption, start again: only the steps that are left are done.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from psycopg import errors as pg
from psycopg import sql

from reme_core.errors import SchemaError
from reme_core.postgres import migrate
from reme_core.postgres.connect import Connection, connect
from reme_core.postgres.errors import mask_password, translating_errors
from reme_core.postgres.migrate import ROLE

SHARDS = 32
"""The default number of parts that tables are cut into, which is Citus's own."""

_OLDEST_CITUS = 12
_ON_ALL_NODES = ("embedding_model", "api_key", "alembic_version")  # small, and read with every workspace
_SERVICE_SETTINGS = {"timezone": "UTC", "jit": "off"}  # as `session.configure` sets them where clients connect

OnStep = Callable[[int, int], None]
"""Called with progress: how many steps are done, and how many there are in all."""


class Step(NamedTuple):
    """One thing to do, and how it is done."""

    what: str
    statements: tuple[sql.Composed | sql.SQL, ...]


@dataclass(frozen=True, slots=True)
class Node:
    """A server of the cluster."""

    host: str
    port: int
    active: bool
    holds_workspaces: bool
    shards: int
    """Parts of tables that are there."""
    bytes: int


def steps(url: str, shards: int = SHARDS) -> list[Step]:
    """The steps that are left until all tables are distributed, after a check that they can be done.

    Raises:
        SchemaError: The database has no Citus or not the schema of this release, a node is away, or nodes differ.
    """
    with translating_errors(url), connect(url, autocommit=True) as connection:
        migrate.require_current(connection, url)
        _require_cluster(connection, url)
        return _steps(connection, shards)


def distribute(url: str, shards: int = SHARDS, *, on_step: OnStep | None = None) -> list[Step]:
    """Do what `steps` lists, each step in a transaction of its own; returns these steps.

    While a table is moved, nobody can write to it.

    Raises:
        SchemaError: As for `steps`; or the service's role cannot log in to the nodes.
    """
    to_do = steps(url, shards)
    with translating_errors(url), connect(url, autocommit=True, application_name="reme-core distribute") as connection:
        migrate.allow_triggers(connection)
        connection.execute("select set_config('citus.propagate_set_commands', 'local', false)")
        for done, step in enumerate(to_do):
            if on_step is not None:
                on_step(done, len(to_do))
            with connection.transaction():
                connection.execute("set local reme.workspace = '*'")
                connection.execute("set local reme.erasing = 'on'")  # rows that move leave no trace in the history
                for statement in step.statements:
                    connection.execute(statement)
        if on_step is not None:
            on_step(len(to_do), len(to_do))
        _grant_on_nodes(connection, url)
        _number_on_nodes(connection, url)
        _require_service(connection, url)
    return to_do


def unspread(connection: Connection) -> list[str]:
    """The tables of a distributed database that are not distributed yet; no statement works on these and the others."""
    return _still_here(connection, _tables(connection)) if _is_distributed(connection) else []


def continue_numbering(url: str) -> None:
    """Let nodes number changes from above those that rows have which were restored; without nodes, nothing is done."""
    with translating_errors(url), connect(url, autocommit=True) as connection:
        if _is_distributed(connection):
            _number_on_nodes(connection, url)


def nodes(url: str, workspace: str = "") -> tuple[list[Node], str | None]:
    """The servers of the cluster, coordinator first, and the one that a workspace is on, or would be.

    If the tables are not distributed, there are none.
    """
    with translating_errors(url), connect(url, autocommit=True) as connection:
        if not _is_distributed(connection):
            return [], None
        found = [Node(*row) for row in connection.execute(_NODES)]
        place = connection.execute(_NODE_OF, [workspace]).fetchone()
        return found, place[0] if place else None


def rebalance(url: str, *, on_step: OnStep | None = None) -> int:
    """Move parts of the tables until all nodes have about as much; returns how many parts were moved.

    Reading and writing go on, except for the last moment of each move. After an interruption, start it again.

    Raises:
        SchemaError: The tables are not distributed, or a node refuses.
    """
    with translating_errors(url), connect(url, autocommit=True, application_name="reme-core rebalance") as connection:
        if not _is_distributed(connection):
            raise SchemaError(f"{mask_password(url)} is not distributed; run `reme db distribute` first")
        _grant_on_nodes(connection, url)  # a node may be new
        _number_on_nodes(connection, url)
        moves = connection.execute(
            "select shardid, sourcename, sourceport, targetname, targetport"
            " from get_rebalance_table_shards_plan('reme.workspace')"
        ).fetchall()
        for done, move in enumerate(moves):
            if on_step is not None:
                on_step(done, len(moves))
            connection.execute("select citus_move_shard_placement(%s, %s, %s, %s, %s)", move)
        return len(moves)


def _is_distributed(connection: Connection) -> bool:
    if not _exists(connection, "select from pg_extension where extname = 'citus'"):
        return False
    found = "select from pg_dist_partition where logicalrelid = to_regclass('reme.workspace') and partmethod = 'h'"
    return _exists(connection, found)


def _exists(connection: Connection, query: str, values: Any = None) -> bool:
    return connection.execute(query.encode(), values).fetchone() is not None


def _require_cluster(connection: Connection, url: str) -> None:
    """Check Citus and its nodes, before anything is changed."""
    where = mask_password(url)
    row = connection.execute("select extversion from pg_extension where extname = 'citus'").fetchone()
    if row is None:
        raise SchemaError(
            f"{where} has no extension Citus; install it on all servers, run `CREATE EXTENSION citus` in this database,"
            " and name the others with `citus_add_node`"
        )
    if int(row[0].partition(".")[0]) < _OLDEST_CITUS:
        raise SchemaError(f"{where} runs Citus {row[0]}; {_OLDEST_CITUS} or newer is needed")
    if not _exists(connection, "select from pg_dist_local_group where groupid = 0"):
        raise SchemaError(f"{where} is a worker of its cluster; connect to the coordinator")
    if not _exists(connection, "select from pg_dist_node where groupid = 0"):
        raise SchemaError(f"the cluster does not know its coordinator; run `citus_set_coordinator_host` at {where}")
    if not _exists(connection, "select from pg_dist_node where shouldhaveshards and noderole = 'primary'"):
        raise SchemaError(f"no server of the cluster takes tables; name one with `citus_add_node` at {where}")
    _require_like_nodes(connection, url)


def _require_like_nodes(connection: Connection, url: str) -> None:
    asked = "select current_setting('server_version_num')::int / 10000 || ' ' || (%s) || ' ' || (%s)"
    version = "select coalesce((select extversion from pg_extension where extname = '{}'), 'none')"
    statement = asked % (version.format("citus"), version.format("vector"))
    found = connection.execute(
        "select n.nodename, n.nodeport, r.success, r.result"
        " from run_command_on_all_nodes(%s) r join pg_dist_node n using (nodeid) order by n.groupid",
        [statement],
    ).fetchall()
    for name, port, success, result in found:
        if not success:
            raise SchemaError(f"the node {name}:{port} of {mask_password(url)} cannot be reached: {result}")
    if len({result for *_, result in found}) > 1:
        seen = "; ".join(
            "{}:{} has Postgres {}, Citus {}, pgvector {}".format(n, p, *r.split()) for n, p, _, r in found
        )
        raise SchemaError(f"the nodes of {mask_password(url)} differ: {seen}; bring them to the same versions")


def _grant_on_nodes(connection: Connection, url: str) -> None:
    """Let the service use on the nodes what it uses here."""
    # Citus passes on no grants on the sequences of identity columns.
    migrate.grant_to_service(connection)
    grant = f"grant usage on all sequences in schema reme to {ROLE}"
    alone = f"do $$ begin perform set_config('citus.enable_ddl_propagation', 'off', true); {grant}; end $$"
    _run_on_nodes(connection, url, alone)


def _number_on_nodes(connection: Connection, url: str) -> None:
    # A node numbers what it writes by itself. Rows of a backup may have been written by a node of the same number.
    for server, last in connection.execute(_LAST_NUMBERS).fetchall():
        _run_on_nodes(connection, url, _NUMBER_FROM.format(server=server, last=last))


def _run_on_nodes(connection: Connection, url: str, statement: str) -> None:
    for success, result in connection.execute("select success, result from run_command_on_workers(%s)", [statement]):
        if not success:
            raise SchemaError(f"a node of {mask_password(url)} refused `{statement}`: {result}")


def _require_service(connection: Connection, url: str) -> None:
    """Check that the role under which services work reaches its rows on the nodes."""
    try:
        with connection.transaction():
            connection.execute(sql.SQL("set local role {}").format(sql.Identifier(ROLE)))
            connection.execute("select count(*) from reme.workspace").fetchone()
    except pg.Error as error:
        raise SchemaError(
            f"the tables are distributed, but the role {ROLE} cannot work on the nodes of {mask_password(url)}"
            f" ({error.diag.message_primary or error}); let the coordinator log in as it: by their pg_hba.conf, or"
            " with a password in pg_dist_authinfo"
        ) from error


def _steps(connection: Connection, shards: int) -> list[Step]:
    tables = _tables(connection)
    policies = {name: (policy, condition) for name, policy, condition in connection.execute(_SUBSELECTS, [tables])}
    return [
        *_role_steps(connection),
        *_setting_steps(connection),
        *(_move(name, policies.get(name), shards) for name in _still_here(connection, tables)),
        *(
            Step(f"let {name} be moved while it is written to", (_ALTER_IDENTITY.format(sql.Identifier("reme", name)),))
            for (name,) in connection.execute(_WITHOUT_KEY, [tables])
        ),
    ]


def _tables(connection: Connection) -> list[str]:
    return [*_ON_ALL_NODES, *(name for (name,) in connection.execute(_OF_WORKSPACES))]


def _still_here(connection: Connection, tables: list[str]) -> list[str]:
    return [name for (name,) in connection.execute(_STILL_HERE, [tables])]


def _role_steps(connection: Connection) -> list[Step]:
    if _exists(connection, "select from pg_roles where rolname = %s and rolcanlogin", [ROLE]):
        return []
    role = sql.Identifier(ROLE)
    settings = [
        sql.SQL("alter role {} set {} = {}").format(role, sql.Identifier(name), sql.Literal(value))
        for name, value in _SERVICE_SETTINGS.items()
    ]
    return [Step(f"let the role {ROLE} log in to the nodes", (sql.SQL("alter role {} login").format(role), *settings))]


def _setting_steps(connection: Connection) -> list[Step]:
    database = sql.Identifier(connection.info.dbname)
    if _exists(connection, "select where current_setting('citus.propagate_set_commands') = 'local'"):
        return []
    alter = sql.SQL("alter database {} set citus.propagate_set_commands = 'local'").format(database)
    return [Step("tell the nodes which workspace a transaction is of", (alter,))]


def _move(table: str, policy: tuple[str, str] | None, shards: int) -> Step:
    """The step that distributes a table; `policy` is the name and the condition of a policy that has to change."""
    # Citus takes no policy with a subselect, so the policy is written again without one. On one server we keep the
    # subselect: without it, the setting is read for each row, and an exact scan of 5,000 vectors takes a third longer.
    name = sql.Literal(f"reme.{table}")
    if table in _ON_ALL_NODES:
        what, move = f"copy {table} to all nodes", sql.SQL("select create_reference_table({})").format(name)
    elif table == "workspace":
        what = f"spread workspace in {shards} parts"
        move = sql.SQL(
            "select create_distributed_table({}, 'workspace_id', colocate_with => 'none', shard_count => {})"
        ).format(name, sql.Literal(shards))
    else:
        what = f"spread {table} beside it"
        beside = "select create_distributed_table({}, 'workspace_id', colocate_with => 'reme.workspace')"
        move = sql.SQL(beside).format(name)
    if policy is None:
        return Step(what, (move,))
    of_table, condition = sql.Identifier("reme", table), sql.SQL(policy[1])
    respelt = sql.SQL("alter policy {} on {} using ({})").format(sql.Identifier(policy[0]), of_table, condition)
    return Step(what, (respelt, move))


_NODES = """
select n.nodename, n.nodeport, n.isactive, n.shouldhaveshards, count(s.shardid), coalesce(sum(s.shard_size), 0)::bigint
from pg_dist_node n
left join citus_shards s on (s.nodename, s.nodeport) = (n.nodename, n.nodeport)
where n.noderole = 'primary'
group by n.groupid, 1, 2, 3, 4
order by n.groupid
"""
_NODE_OF = """
select n.nodename || ':' || n.nodeport
from pg_dist_placement p join pg_dist_node n using (groupid)
where n.noderole = 'primary' and p.shardid = get_shard_id_for_distribution_column('reme.workspace', %s::text)
"""
# By the server that wrote them: how that numbers is told at `reme.add_to_history`.
_LAST_NUMBERS = """
select (history_id >> 48) & 255, max(history_id & ((1::bigint << 56) - 1)) from reme.memory_history group by 1
"""
_NUMBER_FROM = """
select setval(seqrelid::regclass, {last}) from pg_sequence
where seqrelid = 'reme.memory_history_history_id_seq'::regclass and seqmin >> 48 = {server}
  and coalesce(pg_sequence_last_value(seqrelid), 0) < {last}
"""
_ALTER_IDENTITY = sql.SQL("alter table {} replica identity full")

# Tables that others refer to come first.
_OF_WORKSPACES = """
select c.relname
from pg_class c
where c.relnamespace = 'reme'::regnamespace and c.relkind = 'r' and c.relname <> 'job_error'
  and exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'workspace_id' and not a.attisdropped)
order by c.relname <> 'workspace',
         exists (select from pg_constraint k where k.conrelid = c.oid and k.contype = 'f'
                                               and k.confrelid <> 'reme.workspace'::regclass),
         c.relname
"""
_STILL_HERE = """
select name from unnest(%s::text[]) with ordinality as given (name, place)
where to_regclass(format('reme.%%I', name)) not in (select logicalrelid from pg_dist_partition)
order by place
"""
_WITHOUT_KEY = """
select relname from pg_class c
where relnamespace = 'reme'::regnamespace and relname = any(%s) and relreplident <> 'f'
  and not exists (select from pg_index where indrelid = c.oid and indisprimary)
order by 1
"""
_SUBSELECTS = r"""
select tablename, policyname,
       regexp_replace(qual, '\( SELECT (current_setting\([^()]*\)) AS current_setting\)', '\1', 'g')
from pg_policies
where schemaname = 'reme' and tablename = any(%s) and qual like '%%SELECT%%'
order by 1
"""
