-- name: reschedule
-- Put off the jobs of conversations that go on, and name the conversations that have no job waiting. Every change of the
-- time leaves an entry in the job's log, so small ones are left out: a lively conversation puts its summary off a few
-- times a minute, not with every message.
select session_id, lock, now() + make_interval(secs => nullif(seconds, 0))
from reme.reschedule(%(workspace)s, %(sessions)s, %(after_messages)s, %(after_seconds)s)

-- name: waiting_sessions
-- Conversations of which something waits for a summary, and that have no job, or one that was given up.
select w.session_id
from (select distinct session_id from reme.message where workspace_id = %(workspace)s and summarised_at is null) w
where not exists (
    select from reme.procrastinate_jobs j
    where j.lock = 'summarise ' || jsonb_build_array(%(workspace)s::text, w.session_id)::text and j.status in ('todo', 'doing')
)

-- name: register_again
-- A worker that was taken for dead has no row any more, and could take no job.
insert into procrastinate_workers (id) overriding system value values (%(worker)s) on conflict do nothing

-- name: is_held
-- Of a worker that was taken for dead, a job names none until it is given back.
select from procrastinate_jobs where id = %(job)s and coalesce(worker_id, %(worker)s) = %(worker)s and status = 'doing'

-- name: rescue
-- Give the jobs of workers that died back, and name them. If this process stood still, its own seem to be those of a dead one.
update procrastinate_jobs j set status = 'todo', attempts = attempts + 1, scheduled_at = now()
where j.status = 'doing' and not exists (
    select from procrastinate_workers w
    where w.id = j.worker_id and (w.id = %(own)s::bigint or w.last_heartbeat >= now() - make_interval(secs => %(seconds)s))
)
returning j.id

-- name: hurry
update procrastinate_jobs
set scheduled_at = now()
where status = 'todo' and scheduled_at > now() and (%(workspace)s::text is null or args ->> 'workspace' = %(workspace)s)

-- name: at_work
-- What waits behind another one of its conversation is not due: that one is, or was put off.
select j.id from procrastinate_jobs j
where (%(workspace)s::text is null or j.args ->> 'workspace' = %(workspace)s)
  and (j.status = 'doing'
       or j.status = 'todo' and j.queue_name = any(%(queues)s) and (j.scheduled_at is null or j.scheduled_at <= now())
          and not exists (
              select from procrastinate_jobs e where e.lock = j.lock and e.status = 'todo' and e.id < j.id
          ))
limit 1

-- name: jobs
-- The event of a schedule carries the time it is scheduled for; the others, when they happened.
select j.id, replace(j.task_name, 'reme.', ''), j.status::text, coalesce(j.args ->> 'workspace', ''),
       coalesce(j.args ->> 'session_id', ''), j.attempts, j.scheduled_at,
       (select max(e.at) from procrastinate_events e where e.job_id = j.id and e.type <> 'scheduled'),
       (select f.error from reme.job_error f
        where f.workspace_id = j.args ->> 'workspace' and f.job_id = j.id
        order by f.failed_at desc limit 1),
       case when j.queue_name = %(chat_queue)s then 'chat model' else '' end
from procrastinate_jobs j
where (%(workspace)s::text is null or j.args ->> 'workspace' = %(workspace)s)
  and (%(statuses)s::text[] is null or j.status::text = any(%(statuses)s))
  and (%(ids)s::bigint[] is null or j.id = any(%(ids)s))
order by j.id desc
limit %(limit)s

-- name: job_events
select type::text, at from procrastinate_events where job_id = %(id)s order by id

-- name: note_error
-- Note why a job failed, and tell how many tries it has used up before.
with noted as (
    insert into reme.job_error (workspace_id, job_id, failed_at, error, is_try)
    values (%(workspace)s, %(id)s, clock_timestamp(), %(error)s, %(is_try)s)
)
select count(*) from reme.job_error where workspace_id = %(workspace)s and job_id = %(id)s and is_try

-- name: begin_anew
-- What failed until now counts no more, so that the job has all its tries.
update reme.job_error set is_try = false where workspace_id = %(workspace)s and job_id = %(id)s

-- name: take_over
update procrastinate_jobs set queue_name = %(to)s, scheduled_at = now()
where id = %(id)s and queue_name = %(from)s and task_name = 'reme.summarise' and status = 'todo'
returning id

-- name: try_given_up
with again as (
    update procrastinate_jobs set status = 'todo', scheduled_at = now()
    where status = 'failed' and task_name in ('reme.summarise', 'reme.catch_up')
      and args ->> 'workspace' = %(workspace)s
    returning id, args ->> 'workspace' as workspace_id
)
update reme.job_error f set is_try = false from again where f.workspace_id = again.workspace_id and f.job_id = again.id

-- name: drop_job
-- Throw a job away, and tell whether another one does its work.
with dropped as (
    delete from procrastinate_jobs where id = %(id)s and status in ('todo', 'failed', 'aborted') returning id, lock
), errors as (
    delete from reme.job_error where workspace_id = %(workspace)s and job_id in (select id from dropped)
)
select exists (
    select from procrastinate_jobs o where o.lock = dropped.lock and o.status in ('todo', 'doing') and o.id <> dropped.id
)
from dropped

-- name: drop_summarise
update reme.message set summarised_at = now()
where workspace_id = %(workspace)s and session_id = %(session)s and summarised_at is null

-- name: drop_learn
update reme.episode set lessons_asked_at = null where workspace_id = %(workspace)s

-- name: drop_reflect
update reme.workspace set settings = settings || jsonb_build_object('reflected_at', now())
where workspace_id = %(workspace)s

-- name: forget_jobs
-- This and what follows delete about so many at a time that each ends within seconds, and return a row for each.
delete from procrastinate_jobs
where id in (
    select e.job_id from procrastinate_events e
    join procrastinate_jobs j on j.id = e.job_id
    where j.status = 'succeeded' and e.type = 'succeeded' and e.at < now() - make_interval(secs => %(days)s * 86400)
    limit %(most)s
)
returning 1

-- name: forget_job_errors
delete from reme.job_error gone using (
    select f.workspace_id, f.job_id, f.failed_at from reme.job_error f
    where f.failed_at < now() - make_interval(secs => %(days)s * 86400)
      and not exists (select from procrastinate_jobs j where j.id = f.job_id)
    limit %(most)s
) old
where gone.workspace_id = old.workspace_id and gone.job_id = old.job_id and gone.failed_at = old.failed_at
returning 1

-- name: forget_retrievals
-- By a join, since Citus compares no rows with `in`.
delete from reme.retrieval gone using (
    select workspace_id, retrieval_id from reme.retrieval
    where asked_at < now() - make_interval(secs => %(days)s * 86400)
    limit %(most)s
) old
where gone.workspace_id = old.workspace_id and gone.retrieval_id = old.retrieval_id
returning 1

-- name: forget_model_calls
delete from reme.model_call gone using (
    select workspace_id, call_id from reme.model_call
    where called_at < now() - make_interval(secs => %(days)s * 86400)
    limit %(most)s
) old
where gone.workspace_id = old.workspace_id and gone.call_id = old.call_id
returning 1

-- name: forget_history
-- The last change before that time stays: it tells how the memory read from then on. Of a memory that it removed, nothing.
-- What was before goes with what is deleted: with nothing after it, it would be the last change, and stay for ever.
delete from reme.memory_history gone using (
    select h.workspace_id, h.memory_id, h.history_id from reme.memory_history h
    where h.changed_at < now() - make_interval(secs => %(days)s * 86400)
      and (h.after is null or exists (
          select from reme.memory_history later
          where later.workspace_id = h.workspace_id and later.memory_id = h.memory_id and later.history_id > h.history_id
            and later.changed_at < now() - make_interval(secs => %(days)s * 86400)))
    limit %(most)s
) old
where gone.workspace_id = old.workspace_id and gone.memory_id = old.memory_id and gone.history_id <= old.history_id
returning 1

-- name: forget_artifacts
-- A day more, since what is used is marked so once a day.
delete from reme.artifact gone using (
    select workspace_id, artifact_id from reme.artifact
    where used_at < now() - make_interval(secs => (%(days)s + 1) * 86400)
    limit %(most)s
) old
where gone.workspace_id = old.workspace_id and gone.artifact_id = old.artifact_id
returning 1

-- name: take_turns
-- Wait for others who look for what is due, until their transactions have ended.
select pg_advisory_xact_lock(hashtextextended('reme.' || %(name)s, 0))

-- name: due_reflections
-- Workspaces whose time has come, and that learned something about a person since. One that was given up is not asked for anew
-- before the time has come once more: each try costs calls of the chat model.
with tried as materialized (
    select j.args ->> 'workspace' as workspace_id,
           max(case when j.status = 'failed' then (select max(e.at) from procrastinate_events e where e.job_id = j.id)
                    else 'infinity' end) as tried_at
    from procrastinate_jobs j
    where j.task_name = 'reme.reflect' and j.status in ('todo', 'doing', 'failed')
    group by 1
), due as materialized ( -- row-level security lets an index be used for a value, and not for what is calculated from another row
    select w.workspace_id, coalesce((w.settings ->> 'reflected_at')::timestamptz, '-infinity') as since
    from reme.workspace w
    left join tried t on t.workspace_id = w.workspace_id
    where coalesce((w.settings ->> 'reflect_every_hours')::float8, %(every_hours)s) > 0
      and greatest(coalesce((w.settings ->> 'reflected_at')::timestamptz, w.created_at), t.tried_at)
          < now() - make_interval(secs => 3600 * least(
                coalesce((w.settings ->> 'reflect_every_hours')::float8, %(every_hours)s), %(most_hours)s))
)
select distinct m.workspace_id
from due
join reme.memory m on m.workspace_id = due.workspace_id and m.updated_at > due.since
where m.kind in ('observation', 'custom', 'profile', 'instruction')
limit 1000

-- name: mark_reflected
update reme.workspace
set settings = settings || jsonb_build_object('reflected_at', %(at)s::timestamptz)
where workspace_id = %(workspace)s

-- name: waiting_in
select count(*) from procrastinate_jobs where queue_name = %(queue)s and status = 'todo'

-- name: unread_quotes
-- Workspaces in which something was kept word for word that no chat model has read.
with queued as materialized (
    select args ->> 'workspace' as workspace_id from procrastinate_jobs
    where task_name = 'reme.catch_up' and status in ('todo', 'doing', 'failed')
)
select distinct m.workspace_id
from reme.memory m
where m.status = 'active' and m.metadata @> '{"mode": "quoted"}' and not m.metadata ? 'read'
  and m.workspace_id not in (select workspace_id from queued)
limit 1000

-- name: waits
select id from procrastinate_jobs where status = 'todo' and lock = %(lock)s limit 1

-- name: late_lessons
-- Workspaces with episodes that wait for their lessons for long, and no job to make them.
with queued as materialized (
    select args ->> 'workspace' as workspace_id from procrastinate_jobs
    where task_name = 'reme.learn' and status in ('todo', 'doing', 'failed')
)
select distinct e.workspace_id
from reme.episode e
where e.lessons_asked_at < now() - make_interval(secs => %(seconds)s)
  and e.workspace_id not in (select workspace_id from queued)
limit 1000

-- name: reopen_quoted
-- Let the conversations that were quoted wait again, to be read as a whole. What no message here says stands as it is, since
-- a library brings memories alone; it would be looked for again and again.
with settled as (
    update reme.memory m set metadata = m.metadata || '{"read": true}'
    where m.workspace_id = %(workspace)s and m.status = 'active'
      and m.metadata @> '{"mode": "quoted"}' and not m.metadata ? 'read'
      and not exists (
          select from reme.memory_source s
          join reme.message q on q.workspace_id = s.workspace_id and q.message_id = s.source_id
          where s.workspace_id = %(workspace)s and s.memory_id = m.memory_id and s.source_kind = 'message' and q.terms > 0
      )
)
update reme.message r
set summarised_at = null
where r.workspace_id = %(workspace)s and r.terms > 0 and r.session_id in (
    select q.session_id
    from reme.memory m
    join reme.memory_source s on s.workspace_id = m.workspace_id and s.memory_id = m.memory_id and s.source_kind = 'message'
    join reme.message q on q.workspace_id = s.workspace_id and q.message_id = s.source_id
    where m.workspace_id = %(workspace)s and m.status = 'active'
      and m.metadata @> '{"mode": "quoted"}' and not m.metadata ? 'read'
)

-- name: failed_before
-- Jobs that wait and failed before. One whose worker only stopped or died runs again too, and nothing failed.
select count(*) from procrastinate_jobs j
where j.status = 'todo' and j.attempts > 0 and exists (
    select from reme.job_error f where f.workspace_id = j.args ->> 'workspace' and f.job_id = j.id
)

-- name: load
-- How much waits to be done now, for how long the first of it, how much broke off and runs again, and was given up. What a dead
-- worker left waits too. A job without a time could run since it was queued.
with known as (
    select case j.status when 'doing' then 'todo' else j.status end as status, j.attempts,
           case when j.status = 'doing' then coalesce(w.last_heartbeat, now())
                else coalesce(j.scheduled_at, (select min(e.at) from procrastinate_events e where e.job_id = j.id), now()) end as since
    from procrastinate_jobs j
    left join procrastinate_workers w on w.id = j.worker_id
    where j.status in ('todo', 'failed')
       or j.status = 'doing' and coalesce(w.last_heartbeat, '-infinity') < now() - make_interval(secs => %(stalled)s)
)
select count(*) filter (where status = 'todo' and since <= now()),
       coalesce(extract(epoch from now() - min(since) filter (where status = 'todo')), 0)::float8,
       count(*) filter (where status = 'todo' and attempts > 0), count(*) filter (where status = 'failed')
from known
