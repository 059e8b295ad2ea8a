-- A job that broke off runs again when its pause is over: else each message of a lively conversation used up a try.
create or replace function reme.reschedule(workspace text, sessions text[], after_turns integer, after_seconds float8)
returns table (session_id text, lock text, seconds float8) language plpgsql as $$
#variable_conflict use_column
declare
    waiting jsonb;
begin
    select jsonb_agg(to_jsonb(w)) into waiting
    from (
        select m.session_id, 'summarise ' || workspace || ' ' || m.session_id as lock,
               case when count(*) >= after_turns then 0 else after_seconds end as seconds
        from reme.message m
        where m.workspace_id = workspace and m.session_id = any(sessions) and m.summarised_at is null
        group by m.session_id
    ) w;
    return query
    with asked as (
        select * from jsonb_to_recordset(waiting) as a (session_id text, lock text, seconds float8)
    ),
    pending as (
        select j.id, j.scheduled_at, j.lock, a.seconds
        from asked a
        join reme.procrastinate_jobs j on j.lock = a.lock and j.status = 'todo'
    ),
    moved as (
        update reme.procrastinate_jobs j
        set scheduled_at = now() + make_interval(secs => p.seconds)
        from pending p
        where j.id = p.id and j.attempts = 0
          and abs(extract(epoch from coalesce(p.scheduled_at, now()) - now()) - p.seconds) > 1 + p.seconds / 4
    )
    select a.session_id, a.lock, a.seconds
    from asked a
    where not exists (select from pending p where p.lock = a.lock);
end $$;

-- Autovacuum looks once a minute. Until then statements keep plans that were made for empty tables: in the first minute of a
-- database that is filled, each recall among some hundred memories took a tenth of a second.
create function reme.refresh_statistics() returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    grown regclass;
begin
    -- One process at a time; and Citus has its own way to the tables of its nodes.
    if exists (select from pg_extension where extname = 'citus')
       or not pg_try_advisory_xact_lock(hashtextextended('reme.refresh_statistics', 0)) then
        return;
    end if;
    perform set_config('lock_timeout', '100ms', true);
    for grown in
        select c.oid from pg_class c
        where c.relnamespace = 'reme'::regnamespace and c.relkind = 'r'
          and pg_relation_size(c.oid) / current_setting('block_size')::integer > 8 + 4 * c.relpages
    loop
        begin
            execute format('analyze %s', grown);
        exception when lock_not_available then
            continue; -- an index is being built on it: autovacuum will look at it after that
        end;
    end loop;
end $$;
comment on function reme.refresh_statistics is 'Makes the planner''s statistics of tables that have grown fourfold since they were made last.';
