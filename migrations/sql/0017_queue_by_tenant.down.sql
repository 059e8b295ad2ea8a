drop policy upkeep on reme.procrastinate_workers;
alter table reme.procrastinate_workers disable row level security, no force row level security;
drop policy upkeep on reme.procrastinate_periodic_defers;
alter table reme.procrastinate_periodic_defers disable row level security, no force row level security;
drop policy tenant on reme.procrastinate_events;
alter table reme.procrastinate_events disable row level security, no force row level security;
drop policy tenant on reme.procrastinate_jobs;
alter table reme.procrastinate_jobs disable row level security, no force row level security;
