create or replace function reme.write_memory_history() returns trigger language plpgsql as $$
begin
    -- Erasure leaves no trace of the text, so it leaves no history either.
    if current_setting('reme.erasing', true) = 'on' then
        return null;
    elsif tg_op = 'INSERT' then
        insert into reme.memory_history (workspace_id, memory_id, operation, after)
        select workspace_id, memory_id, 'insert', to_jsonb(added) from added;
    elsif tg_op = 'UPDATE' then
        insert into reme.memory_history (workspace_id, memory_id, operation, before, after)
        select added.workspace_id, added.memory_id, 'update', to_jsonb(removed), to_jsonb(added)
        from added join removed using (workspace_id, document_id)
        where added is distinct from removed;
    else
        insert into reme.memory_history (workspace_id, memory_id, operation, before)
        select workspace_id, memory_id, 'delete', to_jsonb(removed)
        from removed
        where exists (select from reme.workspace w where w.workspace_id = removed.workspace_id);
    end if;
    return null;
end $$;
drop function reme.add_to_history, reme.lock_log, reme.log_model_calls, reme.reschedule;
drop procedure reme.set_local;
alter table reme.job_error
    add constraint job_error_workspace_id_fkey foreign key (workspace_id) references reme.workspace on delete cascade;
drop policy tenant on reme.posting;
drop policy tenant on reme.corpus_statistic;
alter table reme.posting alter workspace_id type text collate "C";
alter table reme.corpus_statistic alter workspace_id type text collate "C";
create policy tenant on reme.posting using (
    workspace_id = (select current_setting('reme.workspace', true))
    or (select current_setting('reme.workspace', true)) = '*'
);
create policy tenant on reme.corpus_statistic using (
    workspace_id = (select current_setting('reme.workspace', true))
    or (select current_setting('reme.workspace', true)) = '*'
);
create or replace function reme.memory_as_of(workspace text, moment timestamptz, held_at timestamptz default null)
returns setof reme.memory language sql stable as $$
    with known as materialized (
        select k.*
        from (
            select distinct on (memory_id) after
            from reme.memory_history
            where workspace_id = workspace and changed_at <= moment
            order by memory_id, history_id desc
        ) as last_change,
        jsonb_populate_record(null::reme.memory, last_change.after) as k
        where last_change.after is not null and k.status in ('active', 'superseded')
    )
    select known.*
    from known
    where case when held_at is null then status = 'active'
               else valid_during @> held_at
                    and (status = 'active'
                         or not exists (select from known successor
                                        where successor.memory_id = known.superseded_by
                                          and successor.valid_during @> held_at)) end
$$;
create or replace function reme.pass_at_k(workspace text, k integer, solved_from double precision default 1.0)
returns table (task_id text, attempts bigint, groups bigint, passed bigint, pass_at_k double precision)
language sql stable as $$
    -- The attempts at a task in groups of k, in order; a last group that is not full is left out.
    with grouped as (
        select s.task_id, (s.attempt - 1) / pass_at_k.k as batch, count(*) as size, max(s.score) >= solved_from as solved
        from reme.episode_score s
        where s.workspace_id = workspace
        group by s.task_id, (s.attempt - 1) / pass_at_k.k
    )
    select g.task_id, sum(g.size)::bigint, count(*) filter (where g.size = pass_at_k.k),
           count(*) filter (where g.size = pass_at_k.k and g.solved),
           count(*) filter (where g.size = pass_at_k.k and g.solved)::double precision
               / nullif(count(*) filter (where g.size = pass_at_k.k), 0)
    from grouped g
    group by g.task_id
    order by g.task_id
$$;
