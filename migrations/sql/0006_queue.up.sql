-- The queue of background work is procrastinate's own schema, which comes from its package (store/queue_schema.py).
-- Its tables hold names of workspaces and conversations, never a word of what was said.
create table reme.queue_migration (
    name       text primary key,
    applied_at timestamptz not null default now()
);
comment on table reme.queue_migration is 'Which of procrastinate''s own schema migrations have been applied; holds no tenant''s data.';
comment on column reme.queue_migration.name is 'File name of the migration.';
comment on column reme.queue_migration.applied_at is 'When it was applied.';
alter table reme.queue_migration enable row level security;
alter table reme.queue_migration force row level security;
create policy everyone on reme.queue_migration using (true);

create table reme.job_error (
    workspace_id text not null references reme.workspace on delete cascade,
    job_id       bigint not null,
    failed_at    timestamptz not null default now(),
    error        text not null,
    primary key (workspace_id, job_id, failed_at)
);
comment on table reme.job_error is 'Why a job of the queue failed, each time it did.';
comment on column reme.job_error.workspace_id is 'The tenant it worked for.';
comment on column reme.job_error.job_id is 'The job, as reme jobs shows it.';
comment on column reme.job_error.failed_at is 'When.';
comment on column reme.job_error.error is 'What went wrong.';
alter table reme.job_error enable row level security;
alter table reme.job_error force row level security;
create policy tenant on reme.job_error using (
    workspace_id = (select current_setting('reme.workspace', true))
    or (select current_setting('reme.workspace', true)) = '*'
);
