drop function reme.reschedule;
create function reme.reschedule(workspace text, sessions text[], after_turns integer, after_seconds float8)
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

-- Those that run keep theirs: of two that run, both cannot have the same.
update reme.procrastinate_jobs set lock = 'summarise ' || (args ->> 'workspace') || ' ' || (args ->> 'session_id')
where task_name = 'reme.summarise' and status in ('todo', 'failed', 'aborted');
