alter table reme.workspace add column turn_job_id bigint;
comment on column reme.workspace.turn_job_id is 'The job that took its turn last: the workspace''s other jobs begin once it has ended.';
