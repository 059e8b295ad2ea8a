drop function reme.reschedule;
-- Without api_key the services ask for no key.
drop table reme.api_key, reme.job_error, reme.queue_migration;
drop table if exists reme.procrastinate_periodic_defers, reme.procrastinate_events, reme.procrastinate_jobs,
    reme.procrastinate_workers cascade;
do $$
declare
    leftover record;
begin
    for leftover in
        select p.oid::regprocedure as name from pg_proc p
        where p.pronamespace = 'reme'::regnamespace and p.proname like 'procrastinate\_%'
    loop
        execute 'drop function ' || leftover.name || ' cascade';
    end loop;
    for leftover in
        select t.oid::regtype as name from pg_type t
        where t.typnamespace = 'reme'::regnamespace and t.typname like 'procrastinate\_%' and t.typtype in ('e', 'c')
    loop
        execute 'drop type ' || leftover.name || ' cascade';
    end loop;
end $$;
