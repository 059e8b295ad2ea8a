-- Of two jobs that decide on the same memories at once, the second has to ask its model again. And a job that waits for others of
-- its workspace after it was fetched takes a worker's place from other workspaces. So it is fetched when they have ended.
create function reme.fetch_job(queues text[], worker bigint) returns setof reme.procrastinate_jobs language plpgsql as $$
begin
    -- Two workers that looked at the same moment would fetch two jobs of one workspace.
    perform pg_advisory_xact_lock(hashtextextended('reme.fetch_job', 0));
    return query
    with next as (
        select j.id
        from reme.procrastinate_jobs j
        where j.status = 'todo' and j.queue_name = any(queues) and coalesce(j.scheduled_at, now()) <= now()
          and j.args ->> 'workspace' not in (
              select d.args ->> 'workspace' from reme.procrastinate_jobs d where d.status = 'doing' and d.args ? 'workspace'
          )
          and not exists ( -- one that broke off keeps its pause, and later ones of its conversation wait with it
              select from reme.procrastinate_jobs e where e.lock = j.lock and e.status = 'todo' and e.id < j.id
          )
        order by j.priority desc, j.id
        limit 1
        for update of j skip locked
    )
    update reme.procrastinate_jobs j set status = 'doing', worker_id = worker from next where j.id = next.id returning j.*;
end $$;
comment on function reme.fetch_job is 'The next job that is due in a workspace that has none under way; it is under way now, in that worker.';
