alter table reme.job_error add column is_try boolean not null default true;
comment on column reme.job_error.is_try is
    'Whether it counts as a failed try: a database that went away, or other writers, do not, nor does what a reading refused.';
