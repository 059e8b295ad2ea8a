-- What the pages of the inspector read. Each statement gives rows by the names of their columns.

-- name: workspaces
-- Sizes are those of the index, which are known without counting. What is new is counted up to a limit, in the order of
-- an index: whatever the planner takes an average workspace for, it then reads none of the rest.
with jobs as (
    select args ->> 'workspace' as workspace_id, count(*) filter (where status = 'failed') as failed
    from procrastinate_jobs where status = 'failed' group by 1
)
select w.workspace_id, w.created_at, coalesce(memory.documents, 0) as memories, coalesce(message.documents, 0) as messages,
       (select count(*)
        from unnest(%(kinds)s::text[]) as of_kind (kind)
        cross join lateral (
            select from reme.memory m
            where m.workspace_id = w.workspace_id and m.kind = of_kind.kind
              and m.recorded_at > now() - interval '7 days'
            order by m.recorded_at desc limit 1000) as new) as new_memories,
       (select count(*) from reme.message m
        where m.workspace_id = w.workspace_id and m.summarised_at is null) as waiting,
       coalesce(jobs.failed, 0) as failed,
       (select count(*) from reme.memory m
        where m.workspace_id = w.workspace_id and m.status = 'active' and m.freq >= 5 and m.utility::bigint * 2 < m.freq) as junk,
       (select jsonb_agg(to_jsonb(of_model))
        from (select c.model, count(*) as calls, sum(c.prompt_tokens) as prompt_tokens,
                     sum(c.completion_tokens) as completion_tokens
              from reme.model_call c
              where c.workspace_id = w.workspace_id and c.called_at > now() - interval '30 days' group by c.model)
             as of_model) as spend,
       (select max(r.asked_at) from reme.retrieval r where r.workspace_id = w.workspace_id) as last_recall
from reme.workspace w
left join reme.corpus_statistic memory on memory.workspace_id = w.workspace_id and memory.corpus = 'memory'
left join reme.corpus_statistic message on message.workspace_id = w.workspace_id and message.corpus = 'message'
left join jobs on jobs.workspace_id = w.workspace_id
where (%(allowed)s::text[] is null or w.workspace_id = any(%(allowed)s))
  and (%(q)s::text = '' or strpos(lower(w.workspace_id), lower(%(q)s)) > 0)
order by w.workspace_id
limit %(limit)s offset %(offset)s

-- name: kinds
-- All are counted by one index, and those that are closed, which are few, by another: no row is read.
select k.kind, k.count - coalesce(closed.count, 0) as active, coalesce(superseded, 0) as superseded,
       coalesce(expired, 0) as expired, coalesce(deleted, 0) as deleted
from (
    select m.kind, count(*) as count from reme.memory m
    where m.workspace_id = %(workspace)s and m.kind = any(%(kinds)s) group by m.kind
) k
left join (
    select m.kind, count(*) as count, count(*) filter (where m.status = 'superseded') as superseded,
           count(*) filter (where m.status = 'expired') as expired, count(*) filter (where m.status = 'deleted') as deleted
    from reme.memory m
    where m.workspace_id = %(workspace)s and m.status in ('superseded', 'expired', 'deleted') and m.status <> 'active'
    group by m.kind
) closed on closed.kind = k.kind
order by active desc, k.kind

-- name: growth
select day::date as day, (
    select count(*) from reme.memory m
    where m.workspace_id = %(workspace)s and m.kind = any(%(kinds)s)
      and m.recorded_at >= day and m.recorded_at < day + interval '1 day') as count
from generate_series(date_trunc('day', now()) - interval '29 days', date_trunc('day', now()), interval '1 day') as day
order by day

-- name: backlog
select (select count(*) from reme.message m where m.workspace_id = %(workspace)s and m.summarised_at is null) as waiting,
       (select count(*) from reme.message m where m.workspace_id = %(workspace)s and m.embedded_at is null) as unembedded,
       (select count(*) from procrastinate_jobs j
        where j.args ->> 'workspace' = %(workspace)s and j.status = 'failed') as failed,
       (select count(*) from reme.memory m
        where m.workspace_id = %(workspace)s and m.status = 'active' and m.freq >= 5 and m.utility::bigint * 2 < m.freq) as junk,
       coalesce((select c.documents from reme.corpus_statistic c
                 where c.workspace_id = %(workspace)s and c.corpus = 'message'), 0) as messages

-- name: recalls
-- One row for the recalls of a note, under that of them which comes first; what every note gives comes last. A memory
-- that several of them found counts once, as on the page of the recall.
select r.retrieval_id, r.asked_at, r.query, r.flow, r.session_id, r.degraded, r.min_relevance,
       r.note_id <> '' as noted, hits.found, hits.shown, hits.relevance
from reme.retrieval r
cross join lateral (
    select count(distinct h.memory_id) as found,
           count(distinct h.memory_id) filter (where coalesce(h.left_out, '') = '') as shown, max(own.relevance) as relevance
    from (
        select s.retrieval_id, s.relevance from reme.retrieval s -- from the table, which Citus wants in each part of a union
        where s.workspace_id = %(workspace)s and s.retrieval_id = r.retrieval_id
        union all
        select o.retrieval_id, o.relevance from reme.retrieval o
        where o.workspace_id = %(workspace)s and o.note_id = r.note_id and o.note_id <> ''
          and o.retrieval_id <> r.retrieval_id
    ) own
    left join reme.retrieval_hit h on h.workspace_id = %(workspace)s and h.retrieval_id = own.retrieval_id
) hits
where r.workspace_id = %(workspace)s
  and not exists (
      select from reme.retrieval other
      where other.workspace_id = r.workspace_id and other.note_id = r.note_id and other.note_id <> ''
        and (other.flow = 'standing', other.retrieval_id) < (r.flow = 'standing', r.retrieval_id))
  and (%(flow)s::text = '' and r.flow <> 'inspector' or r.flow = %(flow)s)
  and (%(q)s::text = '' or strpos(lower(r.query), lower(%(q)s)) > 0)
order by r.asked_at desc
limit %(limit)s offset %(offset)s

-- name: flows
select distinct flow from (
    select flow from reme.retrieval where workspace_id = %(workspace)s order by asked_at desc limit 1000
) as recent order by flow

-- name: recall
-- The recalls of a note, or the one that is asked for.
select r.retrieval_id, r.asked_at, r.query, r.flow, r.session_id, r.kinds, r.relevance, r.min_relevance, r.degraded,
       r.milliseconds, r.note_id <> '' as noted
from reme.retrieval asked
join reme.retrieval r on r.workspace_id = asked.workspace_id
    and (r.retrieval_id = asked.retrieval_id or asked.note_id <> '' and r.note_id = asked.note_id)
where asked.workspace_id = %(workspace)s and asked.retrieval_id = %(id)s
order by r.flow = 'standing', r.asked_at, r.retrieval_id

-- name: hits
-- Of something that several recalls of a note found, the entry that tells most: that it stands in the note.
select distinct on (h.memory_id) h.retrieval_id, h.rank, h.memory_id, h.kind, h.vector, h.lexical, h.time, h.type, h.final,
       h.relevance, h.left_out, h.helped, coalesce(m.content, said.content) as content, m.when_to_use,
       m.status, coalesce(m.observed_at, m.recorded_at, said.sent_at) as at, said.session_id, said.role, said.author,
       evidence.quote
from reme.retrieval_hit h
left join reme.memory m on h.kind <> 'conversation' and m.workspace_id = h.workspace_id and m.memory_id = h.memory_id
left join reme.message said
    on h.kind = 'conversation' and said.workspace_id = h.workspace_id and said.message_id = h.memory_id
left join lateral (
    select coalesce(nullif(s.quote, ''), q.content) as quote
    from reme.memory_source s
    join reme.message q on q.workspace_id = s.workspace_id and q.message_id = s.source_id
    where s.workspace_id = m.workspace_id and s.memory_id = m.memory_id and s.source_kind = 'message'
    order by q.sent_at limit 1
) evidence on true
where h.workspace_id = %(workspace)s and h.retrieval_id = any(%(ids)s)
order by h.memory_id, coalesce(h.left_out, '') <> '', h.rank

-- name: answer
-- The question of a recall as it was recorded, and what was answered to it.
select q.message_id as question_id, a.message_id, a.content, a.author, a.sent_at
from reme.message q
left join lateral (
    select m.message_id, m.content, m.author, m.sent_at from reme.message m
    where m.workspace_id = q.workspace_id and m.session_id = q.session_id and m.position > q.position
      and m.role = 'assistant' and m.content <> ''
      and not exists (select from reme.message next
                      where next.workspace_id = q.workspace_id and next.session_id = q.session_id and next.role = 'user'
                        and next.position > q.position and next.position < m.position)
    order by m.position desc limit 1
) a on true
where q.workspace_id = %(workspace)s and q.session_id = %(session_id)s and q.session_id <> '' and q.role = 'user'
  and left(btrim(q.content, E' \n\r\t'), 4000) = %(query)s
order by abs(extract(epoch from q.recorded_at - %(asked_at)s::timestamptz))
limit 1

-- name: memories
-- Of each kind the newest, as an index has them, and of these the newest of all.
select newest.memory_id, newest.kind, newest.subject, newest.when_to_use, newest.content, newest.status,
       newest.observed_at, newest.recorded_at, newest.user_id, lower(newest.valid_during) as valid_from,
       upper(newest.valid_during) as valid_until, newest.freq, newest.utility
from unnest(%(kinds)s::text[]) as of_kind (kind)
cross join lateral (
    select m.* from reme.memory m
    where m.workspace_id = %(workspace)s and m.kind = of_kind.kind
      and (%(status)s::text = '' or m.status = %(status)s)
      and (%(subject)s::text = '' or m.subject = %(subject)s) and (%(user)s::text = '' or m.user_id = %(user)s)
    order by m.recorded_at desc, m.document_id desc
    limit %(limit)s::bigint + %(offset)s
) newest
order by newest.recorded_at desc, newest.document_id desc
limit %(limit)s offset %(offset)s

-- name: memories_by_text
-- The same where all have to be read: for those that hold a text, and in the order of the time from which they hold, or
-- where that is not known, in which they were said or recorded. (`ilike` takes half as long again.)
select m.memory_id, m.kind, m.subject, m.when_to_use, m.content, m.status, m.observed_at, m.recorded_at, m.user_id,
       lower(m.valid_during) as valid_from, upper(m.valid_during) as valid_until, m.freq, m.utility
from reme.memory m
where m.workspace_id = %(workspace)s and m.kind = any(%(kinds)s)
  and (%(status)s::text = '' or m.status = %(status)s
       or %(status)s = 'junk' and m.status = 'active' and m.freq >= 5 and m.utility::bigint * 2 < m.freq)
  and (%(subject)s::text = '' or m.subject = %(subject)s) and (%(user)s::text = '' or m.user_id = %(user)s)
  and (%(q)s::text = '' or m.memory_id = %(q)s or strpos(lower(m.content), lower(%(q)s)) > 0
       or m.when_to_use <> '' and strpos(lower(m.when_to_use), lower(%(q)s)) > 0)
order by case when %(order)s = 'held' then coalesce(lower(m.valid_during), m.observed_at, m.recorded_at) end,
         m.recorded_at desc, m.document_id desc
limit %(limit)s offset %(offset)s

-- name: subjects
select m.subject, m.user_id, count(*) as memories, max(m.recorded_at) as newest
from reme.memory m
where m.workspace_id = %(workspace)s and m.status = 'active' and m.kind = any(%(kinds)s) and m.subject <> ''
group by m.subject, m.user_id order by memories desc, m.subject limit 100

-- name: evidence
select s.source_kind, s.source_id, s.quote, said.role, said.author, said.session_id, said.erased_at is not null as erased,
       coalesce(said.sent_at, origin.observed_at, origin.recorded_at, tried.finished_at) as at,
       coalesce(said.content, origin.content, tried.summary) as content, tried.task_id
from reme.memory_source s
left join reme.message said
    on s.source_kind = 'message' and said.workspace_id = s.workspace_id and said.message_id = s.source_id
left join reme.memory origin
    on s.source_kind = 'memory' and origin.workspace_id = s.workspace_id and origin.memory_id = s.source_id
left join reme.episode tried
    on s.source_kind = 'episode' and tried.workspace_id = s.workspace_id and tried.episode_id = s.source_id
where s.workspace_id = %(workspace)s and s.memory_id = %(id)s
order by at nulls last, s.source_kind, s.source_id limit 50

-- name: related
-- What replaced a memory, what it replaced, and what was concluded from it.
select 'successor' as relation, n.memory_id, n.kind, n.content, n.status
from reme.memory m join reme.memory n on n.workspace_id = m.workspace_id and n.memory_id = m.superseded_by
where m.workspace_id = %(workspace)s and m.memory_id = %(id)s
union all
(select 'predecessor', o.memory_id, o.kind, o.content, o.status
 from reme.memory o where o.workspace_id = %(workspace)s and o.superseded_by = %(id)s limit 20)
union all
(select 'conclusion', i.memory_id, i.kind, i.content, i.status
 from reme.memory_source s join reme.memory i on i.workspace_id = s.workspace_id and i.memory_id = s.memory_id
 where s.workspace_id = %(workspace)s and s.source_kind = 'memory' and s.source_id = %(id)s limit 20)

-- name: uses
select r.retrieval_id, r.asked_at, r.query, r.flow, h.rank, h.relevance, h.left_out, h.helped
from reme.retrieval_hit h
join reme.retrieval r on r.workspace_id = h.workspace_id and r.retrieval_id = h.retrieval_id
where h.workspace_id = %(workspace)s and h.memory_id = %(id)s and r.flow <> 'inspector'
order by r.asked_at desc limit 20

-- name: conversations
with talked as (
    select m.session_id, count(*) as messages, min(m.sent_at) as begun, max(m.sent_at) as last,
           count(*) filter (where m.summarised_at is null) as waiting
    from reme.message m
    where m.workspace_id = %(workspace)s
      and (%(q)s::text = '' or m.session_id in (
          select f.session_id from reme.message f where f.workspace_id = %(workspace)s
              and strpos(lower(f.content), lower(%(q)s)) > 0))
    group by m.session_id order by last desc limit %(limit)s offset %(offset)s
)
select t.*, made.memories,
       (select m.content from reme.message m
        where m.workspace_id = %(workspace)s and m.session_id = t.session_id and m.role = 'user' and m.content <> ''
        order by m.position limit 1) as opening
from talked t
cross join lateral (
    select count(distinct s.memory_id) as memories
    from (select m.message_id from reme.message m
          where m.workspace_id = %(workspace)s and m.session_id = t.session_id order by m.position desc limit 500) as of_it
    join reme.memory_source s
        on s.workspace_id = %(workspace)s and s.source_kind = 'message' and s.source_id = of_it.message_id
) made
order by t.last desc

-- name: place
select (count(*) - 1) / %(limit)s + 1 as page
from reme.message m
join reme.message at on at.workspace_id = m.workspace_id and at.session_id = m.session_id and m.position <= at.position
where at.workspace_id = %(workspace)s and at.session_id = %(session_id)s and at.message_id = %(id)s

-- name: conversation
-- Messages, each with the memories that rest on it, and an answer with the recall of the question before it.
select m.message_id, m.role, m.author, m.content, m.sent_at, m.summarised_at, m.erased_at, m.tool_calls, made.memories,
       recalled.retrieval_id
from reme.message m
left join lateral (
    select jsonb_agg(jsonb_build_object('memory_id', o.memory_id, 'kind', o.kind, 'content', o.content, 'status', o.status)
                     order by o.document_id) as memories
    from reme.memory_source s
    join reme.memory o on o.workspace_id = s.workspace_id and o.memory_id = s.memory_id
    where s.workspace_id = m.workspace_id and s.source_kind = 'message' and s.source_id = m.message_id
) made on true
left join lateral (
    select u.content, u.position from reme.message u
    where u.workspace_id = m.workspace_id and u.session_id = m.session_id and u.role = 'user' and u.position < m.position
      and m.role = 'assistant'
    order by u.position desc limit 1
) asked on true
left join lateral (
    select r.retrieval_id from reme.retrieval r
    where r.workspace_id = m.workspace_id and md5(r.query) = md5(left(btrim(asked.content, E' \n\r\t'), 4000))
      and r.query = left(btrim(asked.content, E' \n\r\t'), 4000)
      and r.session_id in (m.session_id, '') and r.asked_at <= m.recorded_at and r.flow not in ('standing', 'inspector')
    order by r.asked_at desc limit 1
) recalled on true
where m.workspace_id = %(workspace)s and m.session_id = %(session_id)s
order by m.position
limit %(limit)s offset %(offset)s

-- name: span
-- From when to when the sliders reach; days beyond can be typed.
select least(w.created_at, now() - interval '1 year')::date as first, now()::date as last
from reme.workspace w where w.workspace_id = %(workspace)s

-- name: learned
-- What we came to know, reworded or gave up between two moments: the first state before it, and the last one after it.
-- What only counts a memory's use is no change of it.
with entry as (
    select h.memory_id, h.history_id, h.changed_at, h.changed_by, h.reason, h.before, h.after
    from reme.memory_history h
    where h.workspace_id = %(workspace)s and h.changed_at >= %(start)s and h.changed_at < %(end)s
      and (h.operation <> 'update' or h.before - %(counts)s::text[] is distinct from h.after - %(counts)s::text[])
    order by h.changed_at desc limit 300
)
select memory_id, max(changed_at) as changed_at, (array_agg(changed_by order by history_id desc))[1] as changed_by,
       (array_agg(reason order by history_id desc))[1] as reason,
       (array_agg(before order by history_id))[1] ->> 'content' as former,
       (array_agg(before order by history_id))[1] ->> 'status' as former_status,
       (array_agg(after order by history_id desc))[1] ->> 'content' as content,
       (array_agg(after order by history_id desc))[1] ->> 'status' as status
from entry group by memory_id order by changed_at desc limit 100

-- name: held
-- What began and what ceased to hold in the world between two moments, as far as we know now.
select m.memory_id, m.content, m.status, change.what, change.at
from reme.memory m
cross join lateral (values ('began', lower(m.valid_during)), ('ceased', upper(m.valid_during))) as change (what, at)
where m.workspace_id = %(workspace)s and m.status <> 'deleted' and change.at >= %(start)s and change.at < %(end)s
  and (lower(m.valid_during) >= %(start)s and lower(m.valid_during) < %(end)s
       or upper(m.valid_during) >= %(start)s and upper(m.valid_during) < %(end)s)
order by change.at desc limit 100

-- name: tasks
select task_id, episodes, mean_score, best_score, solved, last_attempt
from reme.task_scoreboard
where workspace_id = %(workspace)s and (%(q)s::text = '' or strpos(lower(task_id), lower(%(q)s)) > 0)
order by last_attempt desc limit %(limit)s offset %(offset)s

-- name: curves
-- At most about a hundred points of a curve: more would not be told apart.
select task_id, jsonb_agg(jsonb_build_array(attempt, score, mean_of_last_10) order by attempt) as points
from (
    select c.*, count(*) over (partition by task_id) as attempts from reme.learning_curve c
    where c.workspace_id = %(workspace)s and c.task_id = any(%(tasks)s)
) as c
where attempt %% greatest(1, attempts / 100) = 0 or attempt in (1, attempts)
group by task_id

-- name: tools
select t.tool_name, t.calls, t.success_rate, t.time_p50, t.time_p95, t.tokens_p50, t.recent_errors, t.last_called_at,
       t.not_summarised, g.memory_id, g.content as guidance
from reme.tool_statistics t
left join lateral (
    select m.memory_id, m.content from reme.memory m
    where m.workspace_id = t.workspace_id and m.kind = 'tool' and m.status = 'active' and m.subject = t.tool_name
    order by m.recorded_at desc limit 1
) g on true
where t.workspace_id = %(workspace)s order by t.last_called_at desc limit 200

-- name: model_calls
select day, provider, model, purpose, calls, failures, prompt_tokens, completion_tokens, seconds
from reme.usage_by_day where workspace_id = %(workspace)s and day > now()::date - 30
order by day desc, prompt_tokens + completion_tokens desc, calls desc
