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
