-- The service: keys to it, and its queue of background work.


-- Keys ----------------------------------------------------------------------------------------------------------------
-- A key belongs to no workspace; only a transaction over all workspaces sees keys.

create table reme.api_key (
    key_id     text primary key check (key_id <> ''),
    label      text not null default '',
    salt       bytea not null,
    digest     bytea not null,
    workspaces text[] check (cardinality(workspaces) > 0),
    created_at timestamptz not null default now(),
    expires_at timestamptz,
    revoked_at timestamptz
);
comment on table reme.api_key is 'Keys to the HTTP and MCP services. Where there is no key, the services ask for none.';
comment on column reme.api_key.key_id is 'The part of a key that names it; it stands in logs and is no secret.';
comment on column reme.api_key.label is 'Whom or what it was given to.';
comment on column reme.api_key.salt is 'Random bytes that the hash begins with.';
comment on column reme.api_key.digest is 'scrypt of the secret part; the key itself was shown once and is kept nowhere.';
comment on column reme.api_key.workspaces is 'The workspaces it may use; empty: all of them, and it may list them.';
comment on column reme.api_key.created_at is 'When it was made.';
comment on column reme.api_key.expires_at is 'From when on it is refused; empty: never.';
comment on column reme.api_key.revoked_at is 'When it was revoked; empty: it was not.';
alter table reme.api_key enable row level security, force row level security;
create policy upkeep on reme.api_key using ((select current_setting('reme.workspace', true)) = '*');


-- Queue ---------------------------------------------------------------------------------------------------------------
-- procrastinate's own tables are made by its package before this file runs (postgres/queue_schema.py). They hold names of workspaces and conversations, never a word of what was said.
create table reme.queue_migration (
    name       text primary key,
    applied_at timestamptz not null default now()
);
comment on table reme.queue_migration is 'Which of procrastinate''s own schema migrations were applied; holds nothing of any workspace.';
comment on column reme.queue_migration.name is 'File name of the migration.';
comment on column reme.queue_migration.applied_at is 'When it was applied.';
alter table reme.queue_migration enable row level security, force row level security;
create policy everyone on reme.queue_migration using (true);

-- Without a key to the workspace: on Citus the queue stays in one place, and its errors with it.
create table reme.job_error (
    workspace_id text not null,
    job_id       bigint not null,
    failed_at    timestamptz not null default now(),
    error        text not null,
    is_try       boolean not null default true,
    primary key (workspace_id, job_id, failed_at)
);
comment on table reme.job_error is 'Why a background job failed, each time it did.';
comment on column reme.job_error.workspace_id is 'The workspace it worked for.';
comment on column reme.job_error.job_id is 'Number of the job.';
comment on column reme.job_error.failed_at is 'When it happened.';
comment on column reme.job_error.error is 'What went wrong.';
comment on column reme.job_error.is_try is
    'Whether it counts as a failed try: a database that went away, or other writers, do not, nor does what a reading refused.';
call reme.keep_tenants_apart('reme.job_error');

-- Looked up by whoever queues a job, and by the queue itself for each job that it gives out.
create index procrastinate_jobs_waiting_lock on procrastinate_jobs (lock) where status = 'todo';
comment on table reme.procrastinate_jobs is 'Background jobs: what waits, what runs, what is done; reme jobs list shows them.';
comment on column reme.procrastinate_jobs.id is 'Number of the job.';
comment on column reme.procrastinate_jobs.queue_name is 'Its queue; a worker may work on some queues only.';
comment on column reme.procrastinate_jobs.task_name is 'What is to be done: summarise, reflect, embed.';
comment on column reme.procrastinate_jobs.priority is 'Higher goes first.';
comment on column reme.procrastinate_jobs.lock is 'Of the jobs with the same lock, one runs at a time.';
comment on column reme.procrastinate_jobs.queueing_lock is 'Not used.';
comment on column reme.procrastinate_jobs.args is 'Its workspace and session; never what was said.';
comment on column reme.procrastinate_jobs.status is 'todo, doing, succeeded, failed (given up), cancelled, aborting or aborted.';
comment on column reme.procrastinate_jobs.scheduled_at is 'When it may run; empty: at once.';
comment on column reme.procrastinate_jobs.attempts is 'How often it was begun.';
comment on column reme.procrastinate_jobs.abort_requested is 'Whether its worker is asked to stop it.';
comment on column reme.procrastinate_jobs.worker_id is 'The worker that runs it.';
comment on table reme.procrastinate_events is 'What happened to each background job.';
comment on column reme.procrastinate_events.id is 'Number of the event.';
comment on column reme.procrastinate_events.job_id is 'The job it happened to.';
comment on column reme.procrastinate_events.type is 'deferred, started, succeeded, failed, deferred_for_retry, scheduled, cancelled, abort_requested or aborted.';
comment on column reme.procrastinate_events.at is 'When it happened.';
comment on table reme.procrastinate_periodic_defers is 'Which scheduled jobs were queued for which moment, so that many workers queue each once.';
comment on column reme.procrastinate_periodic_defers.id is 'Number of the entry.';
comment on column reme.procrastinate_periodic_defers.task_name is 'What is to be done at that moment.';
comment on column reme.procrastinate_periodic_defers.defer_timestamp is 'The moment, in seconds since 1970.';
comment on column reme.procrastinate_periodic_defers.job_id is 'The job that was queued for it.';
comment on column reme.procrastinate_periodic_defers.periodic_id is 'Which of the schedules of this task.';
comment on table reme.procrastinate_workers is 'The workers that run. Jobs of one that gives no sign of life are run by another.';
comment on column reme.procrastinate_workers.id is 'Number of the worker.';
comment on column reme.procrastinate_workers.last_heartbeat is 'When it last gave a sign of life.';

-- The queue shows a transaction the jobs of its workspace alone, as all other tables do. Workers take jobs of all
-- workspaces and name '*'.
alter table reme.procrastinate_jobs enable row level security, force row level security;
create policy tenant on reme.procrastinate_jobs using (
    args ->> 'workspace' = (select current_setting('reme.workspace', true))
    or (select current_setting('reme.workspace', true)) = '*'
);
alter table reme.procrastinate_events enable row level security, force row level security;
create policy tenant on reme.procrastinate_events using (
    (select current_setting('reme.workspace', true)) = '*'
    or exists (select from reme.procrastinate_jobs j where j.id = job_id)
);
alter table reme.procrastinate_periodic_defers enable row level security, force row level security;
create policy upkeep on reme.procrastinate_periodic_defers
    using ((select current_setting('reme.workspace', true)) = '*');
alter table reme.procrastinate_workers enable row level security, force row level security;
create policy upkeep on reme.procrastinate_workers using ((select current_setting('reme.workspace', true)) = '*');

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
