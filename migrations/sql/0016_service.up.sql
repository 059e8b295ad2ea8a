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

create table reme.job_error (
    workspace_id text not null references reme.workspace on delete cascade,
    job_id       bigint not null,
    failed_at    timestamptz not null default now(),
    error        text not null,
    primary key (workspace_id, job_id, failed_at)
);
comment on table reme.job_error is 'Why a background job failed, each time it did.';
comment on column reme.job_error.workspace_id is 'The workspace it worked for.';
comment on column reme.job_error.job_id is 'Number of the job.';
comment on column reme.job_error.failed_at is 'When it happened.';
comment on column reme.job_error.error is 'What went wrong.';
alter table reme.job_error enable row level security, force row level security;
create policy tenant on reme.job_error using (
    workspace_id = (select current_setting('reme.workspace', true))
    or (select current_setting('reme.workspace', true)) = '*'
);

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
