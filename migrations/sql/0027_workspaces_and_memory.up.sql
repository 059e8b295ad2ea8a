-- Workspaces, and what is remembered in them: memories with two time axes, their evidence and their history.
--
-- The key of every table begins with the workspace, so that tables can be distributed by workspace (`reme db distribute`).

comment on schema reme is 'Long-term memory of AI agents, by ReMe core. Start at \d+ reme.memory_current';
comment on table reme.alembic_version is 'The version of this schema; reme db status shows it.';
comment on column reme.alembic_version.version_num is 'Number of the newest migration that was applied.';


-- Tenancy -------------------------------------------------------------------------------------------------------------

-- A transaction names its workspace in the setting reme.workspace and sees the rows of that one only; without a name it sees
-- none. '*' stands for all workspaces, for upkeep. The policy reads the setting by a subselect: once a statement, not once a row.
create procedure reme.keep_tenants_apart(of_table regclass) language plpgsql as $$
begin
    execute format('alter table %s enable row level security, force row level security', of_table);
    execute format($policy$
        create policy tenant on %s using (
            workspace_id = (select current_setting('reme.workspace', true))
            or (select current_setting('reme.workspace', true)) = '*'
        )
    $policy$, of_table);
end $$;
comment on procedure reme.keep_tenants_apart is 'Lets a transaction see the rows of a table that belong to its workspace, and no others.';

-- Citus passes `set local` on to the server that holds the rows, and `set_config` not; outside of a block of statements it
-- does so for a procedure, and for a function not. That server begins its part of a transaction a little later than the one
-- that was asked. So it is told when the transaction began: a memory and its history have the same time.
create procedure reme.set_local(variadic named text[]) language plpgsql as $$
begin
    for place in 1 .. cardinality(named) by 2 loop
        if named[place] ~ '[^a-z_.]' then
            raise invalid_parameter_value using message = format('%s is no name of a setting', quote_literal(named[place]));
        end if;
        -- A list of schemas, as one literal, would be the name of one.
        if named[place] = 'search_path' then
            perform set_config(named[place], named[place + 1], true);
        else
            execute format('set local %s = %L', named[place], named[place + 1]);
        end if;
    end loop;
    execute format('set local reme.began = %L', now());
end $$;
comment on procedure reme.set_local is 'Sets settings for the transaction: a name, its value, another name … Where tables are distributed, the servers that hold them get to know.';


-- Workspaces ----------------------------------------------------------------------------------------------------------

create table reme.workspace (
    workspace_id    text primary key check (workspace_id <> '' and workspace_id <> '*' and length(workspace_id) <= 200),
    embedding_model text,
    hnsw            boolean not null default false,
    settings        jsonb not null default '{}',
    created_at      timestamptz not null default now(),
    erased_at       timestamptz
);
comment on table reme.workspace is 'A tenant: a person, a project, an agent fleet. Nothing is seen across workspaces.';
comment on column reme.workspace.workspace_id is 'The caller''s own name for it.';
comment on column reme.workspace.embedding_model is 'The model whose vectors recall compares; it changes only when everything has vectors of the new one.';
comment on column reme.workspace.hnsw is 'Whether it is so large that its vectors are in their model''s HNSW index.';
comment on column reme.workspace.settings is 'What is set for this workspace alone (reflect_every_hours), and when it was last reflected on (reflected_at).';
comment on column reme.workspace.created_at is 'When it was first written to.';
comment on column reme.workspace.erased_at is 'When something was last erased from it; log entries from before then are no longer written.';
call reme.keep_tenants_apart('reme.workspace');


-- Memories ------------------------------------------------------------------------------------------------------------

create sequence reme.document_id;
comment on sequence reme.document_id is 'Numbers memories and messages for the index tables (embedding, posting).';

create table reme.memory (
    workspace_id  text not null references reme.workspace on delete cascade,
    memory_id     text not null check (memory_id <> ''),
    document_id   bigint not null default nextval('reme.document_id'),
    kind          text not null,
    subject       text not null default '',
    when_to_use   text not null default '',
    content       text not null,
    keywords      text[] not null default '{}',
    importance    double precision not null default 0.5 check (importance between 0 and 1),
    score         double precision not null default 0,
    status        text not null default 'active' check (status in ('active', 'superseded', 'expired', 'deleted')),
    superseded_by text,
    observed_at   timestamptz,
    valid_during  tstzrange not null default tstzrange(null, null),
    recorded_at   timestamptz not null default now(),
    expired_at    timestamptz,
    created_at    timestamptz not null default now(),
    updated_at    timestamptz not null default now(),
    author        text not null default '',
    user_id       text not null default '',
    agent_id      text not null default '',
    run_id        text not null default '',
    seen_count    integer not null default 1,
    freq          integer not null default 0,
    utility       integer not null default 0,
    metadata      jsonb not null default '{}',
    primary key (workspace_id, memory_id),
    check ((status = 'active') = (expired_at is null))
);
create unique index memory_document on reme.memory (workspace_id, document_id);
create index memory_newest on reme.memory (workspace_id, kind, recorded_at desc);
create index memory_text on reme.memory (workspace_id, md5(content));
create index memory_user on reme.memory (workspace_id, user_id) where user_id <> '';
create index memory_agent on reme.memory (workspace_id, agent_id) where agent_id <> '';
create index memory_run on reme.memory (workspace_id, run_id) where run_id <> '';
-- Few memories are closed. These indexes tell how many, what a memory replaced, and which messages recall leaves out, without
-- a look at the others.
create index memory_closed on reme.memory (workspace_id, status, kind) where status <> 'active';
create index memory_superseded on reme.memory (workspace_id, superseded_by) where superseded_by is not null;
create index memory_forgotten on reme.memory (workspace_id) where status <> 'active' and metadata ? 'forgotten';
-- Memories in use that were given often and seldom helped. They are few, and the index holds these alone.
create index memory_junk on reme.memory (workspace_id, kind)
    where status = 'active' and freq >= 5 and utility::bigint * 2 < freq;
comment on table reme.memory is 'Remembered statements. Two time axes: recorded_at to expired_at is when we knew it, valid_during when it holds.';
comment on column reme.memory.workspace_id is 'The workspace it belongs to.';
comment on column reme.memory.memory_id is 'Its identity within the workspace.';
comment on column reme.memory.document_id is 'Its number in the index tables.';
comment on column reme.memory.kind is 'observation, insight, custom, instruction, profile, task, rule, mistake or tool.';
comment on column reme.memory.subject is 'Whom or what it is about.';
comment on column reme.memory.when_to_use is 'The situation in which it helps.';
comment on column reme.memory.content is 'The statement itself.';
comment on column reme.memory.keywords is 'Words it should also be found by.';
comment on column reme.memory.importance is 'How much it matters, 0 to 1.';
comment on column reme.memory.score is 'How good its author judged it; never overwritten by a similarity.';
comment on column reme.memory.status is 'active, superseded (a newer one replaces it), expired (no successor) or deleted (by a user, until erased).';
comment on column reme.memory.superseded_by is 'The memory that replaces it.';
comment on column reme.memory.observed_at is 'When it was said or seen.';
comment on column reme.memory.valid_during is 'When it holds in the world; an open side is unbounded.';
comment on column reme.memory.recorded_at is 'When this database came to know it.';
comment on column reme.memory.expired_at is 'When it ceased to be active.';
comment on column reme.memory.created_at is 'When it was made; earlier than recorded_at for a loaded library.';
comment on column reme.memory.updated_at is 'When it was last changed.';
comment on column reme.memory.author is 'Who made it: the name of a model, rules, or a person.';
comment on column reme.memory.user_id is 'The person it is of, where several share a workspace; empty: of nobody in particular.';
comment on column reme.memory.agent_id is 'The agent it is of.';
comment on column reme.memory.run_id is 'The run it is of.';
comment on column reme.memory.seen_count is 'How often it was stated.';
comment on column reme.memory.freq is 'How often an agent got it.';
comment on column reme.memory.utility is 'How often that agent then succeeded.';
comment on column reme.memory.metadata is 'Whatever else belongs to it.';
call reme.keep_tenants_apart('reme.memory');

create table reme.memory_source (
    workspace_id text not null,
    memory_id    text not null,
    source_kind  text not null check (source_kind in ('message', 'episode', 'memory')),
    source_id    text not null,
    quote        text not null default '',
    primary key (workspace_id, memory_id, source_kind, source_id),
    foreign key (workspace_id, memory_id) references reme.memory on delete cascade
);
create index memory_source_of on reme.memory_source (workspace_id, source_kind, source_id);
comment on table reme.memory_source is 'Evidence: which messages, episodes or other memories a memory rests on.';
comment on column reme.memory_source.workspace_id is 'The workspace it belongs to.';
comment on column reme.memory_source.memory_id is 'The memory.';
comment on column reme.memory_source.source_kind is 'message, episode or memory.';
comment on column reme.memory_source.source_id is 'The id of the evidence.';
comment on column reme.memory_source.quote is 'The words it rests on, where one passage can be named.';
call reme.keep_tenants_apart('reme.memory_source');

create table reme.memory_history (
    workspace_id text not null references reme.workspace on delete cascade,
    history_id   bigint generated always as identity,
    memory_id    text not null,
    operation    text not null check (operation in ('insert', 'update', 'delete')),
    changed_at   timestamptz not null default now(),
    changed_by   text not null default coalesce(current_setting('reme.actor', true), ''),
    reason       text not null default coalesce(current_setting('reme.reason', true), ''),
    before       jsonb,
    after        jsonb,
    primary key (workspace_id, history_id)
);
create index memory_history_of on reme.memory_history (workspace_id, memory_id, history_id);
-- What changed between two moments, which is asked for a workspace as a whole.
create index memory_history_when on reme.memory_history (workspace_id, changed_at);
comment on table reme.memory_history is 'Every insert, change and removal of a memory, written by a trigger and never changed, except by erasure.';
comment on column reme.memory_history.workspace_id is 'The workspace it belongs to.';
comment on column reme.memory_history.history_id is 'Order of the changes.';
comment on column reme.memory_history.memory_id is 'The memory that changed.';
comment on column reme.memory_history.operation is 'insert, update or delete.';
comment on column reme.memory_history.changed_at is 'When it happened.';
comment on column reme.memory_history.changed_by is 'Who did it: a flow, a model, a person.';
comment on column reme.memory_history.reason is 'Why it was done.';
comment on column reme.memory_history.before is 'The whole row before; empty for an insert.';
comment on column reme.memory_history.after is 'The whole row after; empty for a delete.';
call reme.keep_tenants_apart('reme.memory_history');

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
    insert into reme.memory_history (workspace_id, history_id, memory_id, operation, changed_at, before, after)
    overriding system value
    select w.workspace_id, lifted + nextval('reme.memory_history_history_id_seq'), id, done,
           coalesce(nullif(current_setting('reme.began', true), '')::timestamptz, now()), old, new
    from reme.workspace w cross join unnest(ids, add_to_history.before, add_to_history.after) as entry (id, old, new)
    where w.workspace_id = workspace;
end $$;
comment on function reme.add_to_history is 'Writes memory_history for memories of one workspace; of one that is gone it keeps none.';

-- On Citus, no statement may name both a table and the rows that a trigger is told of; hence the function above.
create function reme.write_memory_history() returns trigger language plpgsql as $$
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
comment on function reme.write_memory_history is 'Writes memory_history, once for all rows that a statement changed.';
create trigger memory_history_insert after insert on reme.memory
    referencing new table as added for each statement execute function reme.write_memory_history();
create trigger memory_history_update after update on reme.memory
    referencing old table as removed new table as added for each statement execute function reme.write_memory_history();
create trigger memory_history_delete after delete on reme.memory
    referencing old table as removed for each statement execute function reme.write_memory_history();


-- Erasure -------------------------------------------------------------------------------------------------------------

-- Cutting wordings out of texts, whatever the letter case.
create function reme.remove_wordings(value text, wordings text[]) returns text language plpgsql immutable parallel safe as $$
declare
    wording text;
begin
    foreach wording in array wordings loop
        value := regexp_replace(value, regexp_replace(wording, '([^[:alnum:][:space:]])', '\\\1', 'g'), '', 'gi');
    end loop;
    return value;
end $$;
comment on function reme.remove_wordings(text, text[]) is 'A text without the given wordings.';

create function reme.remove_wordings(value text[], wordings text[]) returns text[] language sql immutable parallel safe as $$
    select array(
        select reme.remove_wordings(item, wordings) from unnest(value) with ordinality as element (item, place)
        where reme.remove_wordings(item, wordings) <> '' or item = ''
        order by place
    )
$$;
comment on function reme.remove_wordings(text[], text[]) is 'An array of texts without the given wordings; an item that consists of nothing else is left out.';

create function reme.remove_wordings(value jsonb, wordings text[]) returns jsonb language plpgsql immutable parallel safe as $$
begin
    return case jsonb_typeof(value)
        when 'string' then to_jsonb(reme.remove_wordings(value #>> '{}', wordings))
        when 'array' then coalesce(
            (select jsonb_agg(reme.remove_wordings(item, wordings) order by place)
             from jsonb_array_elements(value) with ordinality as element (item, place)), '[]')
        when 'object' then coalesce(
            (select jsonb_object_agg(reme.remove_wordings(name, wordings), reme.remove_wordings(item, wordings))
             from jsonb_each(value) as member (name, item)), '{}')
        else value
    end;
end $$;
comment on function reme.remove_wordings(jsonb, text[]) is 'A JSON value without the given wordings in its names and texts.';
