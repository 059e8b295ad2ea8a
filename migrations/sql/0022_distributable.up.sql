-- What the extension Citus needs to spread the tables over several servers, by workspace (`reme db distribute`).

-- The column by which rows are distributed has one collation in all tables.
drop policy tenant on reme.posting;
drop policy tenant on reme.corpus_statistic;
alter table reme.posting alter workspace_id type text collate "default";
alter table reme.corpus_statistic alter workspace_id type text collate "default";
create policy tenant on reme.posting using (
    workspace_id = (select current_setting('reme.workspace', true))
    or (select current_setting('reme.workspace', true)) = '*'
);
create policy tenant on reme.corpus_statistic using (
    workspace_id = (select current_setting('reme.workspace', true))
    or (select current_setting('reme.workspace', true)) = '*'
);

-- The queue stays in one place, and its errors with it.
alter table reme.job_error drop constraint job_error_workspace_id_fkey;
delete from reme.job_error f where not exists (select from reme.workspace w where w.workspace_id = f.workspace_id);

-- Citus passes `set local` on to the server that holds the rows, and `set_config` not; outside of a block of statements it
-- does so for a procedure, and for a function not.
create procedure reme.set_local(variadic named text[]) language plpgsql as $$
begin
    for place in 1 .. cardinality(named) by 2 loop
        if named[place] ~ '[^a-z_.]' then
            raise invalid_parameter_value using message = format('%s is no name of a setting', quote_literal(named[place]));
        end if;
        execute format('set local %s = %L', named[place], named[place + 1]);
    end loop;
end $$;
comment on procedure reme.set_local is 'Sets settings for the transaction: a name, its value, another name … Where tables are distributed, the servers that hold them get to know.';

-- Each server numbers what it writes from the multiple of 2^48 that is its own number. Where a workspace moves to one with
-- a lower number, its new entries are lifted above those that it brings, by a multiple of 2^56, beyond what servers have.
create function reme.add_to_history(workspace text, done text, ids text[], before jsonb[], after jsonb[])
returns void language plpgsql as $$
declare
    server bigint;
    lifted bigint;
begin
    select seqmin >> 48 into server from pg_sequence
    where seqrelid = 'reme.memory_history_history_id_seq'::regclass;
    select greatest(ceil(((max(history_id) >> 48) - server) / 256.0), 0)::bigint << 56 into lifted
    from reme.memory_history where workspace_id = workspace;
    insert into reme.memory_history (workspace_id, history_id, memory_id, operation, before, after)
    overriding system value
    select w.workspace_id, lifted + nextval('reme.memory_history_history_id_seq'), id, done, old, new
    from reme.workspace w cross join unnest(ids, add_to_history.before, add_to_history.after) as entry (id, old, new)
    where w.workspace_id = workspace;
end $$;
comment on function reme.add_to_history is 'Writes memory_history for memories of one workspace; of one that is gone it keeps none.';

-- There, no statement may name both a table and the rows that a trigger is told of.
create or replace function reme.write_memory_history() returns trigger language plpgsql as $$
begin
    -- Erasure leaves no trace of the text, so it leaves no history either.
    if current_setting('reme.erasing', true) = 'on' then
        return null;
    elsif tg_op = 'INSERT' then
        perform reme.add_to_history(workspace_id, 'insert', array_agg(memory_id), null, array_agg(to_jsonb(added)))
        from added
        group by workspace_id;
    elsif tg_op = 'UPDATE' then
        perform reme.add_to_history(added.workspace_id, 'update', array_agg(added.memory_id),
                                    array_agg(to_jsonb(removed)), array_agg(to_jsonb(added)))
        from added join removed using (workspace_id, document_id)
        where added is distinct from removed
        group by added.workspace_id;
    else
        perform reme.add_to_history(workspace_id, 'delete', array_agg(memory_id), array_agg(to_jsonb(removed)), null)
        from removed
        group by workspace_id;
    end if;
    return null;
end $$;


-- Functions in SQL cannot hand their parameters to a table that is distributed; those in PL/pgSQL can.
create or replace function reme.memory_as_of(workspace text, moment timestamptz, held_at timestamptz default null)
returns setof reme.memory language plpgsql stable as $$
#variable_conflict use_column
begin
    return query
    with known as materialized (
        select k.*
        from (
            select distinct on (memory_id) after
            from reme.memory_history
            where memory_history.workspace_id = memory_as_of.workspace and changed_at <= moment
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
                                          and successor.valid_during @> held_at)) end;
end $$;
create or replace function reme.pass_at_k(workspace text, k integer, solved_from double precision default 1.0)
returns table (task_id text, attempts bigint, groups bigint, passed bigint, pass_at_k double precision)
language plpgsql stable as $$
#variable_conflict use_column
begin
    return query
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
    order by g.task_id;
end $$;

-- Log entries of several workspaces are written by one call: a statement for each of them, since their rows may be apart.
create function reme.lock_log(workspaces text[]) returns setof text language plpgsql as $$
declare
    workspace text;
begin
    foreach workspace in array workspaces loop
        if not pg_try_advisory_xact_lock_shared(hashtextextended('reme.log ' || workspace, 0)) then
            return next workspace;
            continue;
        end if;
        perform from reme.workspace w where w.workspace_id = workspace for key share skip locked;
        if not found and exists (select from reme.workspace w where w.workspace_id = workspace) then
            return next workspace;
        end if;
    end loop;
end $$;
comment on function reme.lock_log is 'Locks the logs of workspaces, and names those that have to wait, since somebody holds their log or their row.';

create function reme.log_model_calls(entries jsonb) returns void language plpgsql as $$
declare
    entry record;
    erased timestamptz;
begin
    for entry in
        select * from jsonb_to_recordset(entries)
            as e (workspace_id text, called_at timestamptz, purpose text, provider text, model text, prompt_tokens integer,
                  completion_tokens integer, milliseconds real, ok boolean, error text, raw text)
    loop
        select w.erased_at into erased from reme.workspace w where w.workspace_id = entry.workspace_id;
        if entry.called_at <= erased then
            entry.error := '';
            entry.raw := '';
        end if;
        insert into reme.model_call (workspace_id, called_at, purpose, provider, model, prompt_tokens, completion_tokens,
                                     milliseconds, ok, error, raw)
        values (entry.workspace_id, entry.called_at, entry.purpose, entry.provider, entry.model, entry.prompt_tokens,
                entry.completion_tokens, entry.milliseconds, entry.ok, entry.error, entry.raw);
    end loop;
end $$;
comment on function reme.log_model_calls is 'Writes model_call; a text from before something was erased may hold it, and is left out.';

-- Conversations may be on another server than the queue, and one statement cannot join them with rows that it changes.
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
        where j.id = p.id
          and abs(extract(epoch from coalesce(p.scheduled_at, now()) - now()) - p.seconds) > 1 + p.seconds / 4
    )
    select a.session_id, a.lock, a.seconds
    from asked a
    where not exists (select from pending p where p.lock = a.lock);
end $$;
comment on function reme.reschedule is 'Puts off the jobs of conversations that go on, and names the conversations that have no job waiting.';
