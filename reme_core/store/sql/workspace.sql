-- name: names
select workspace_id from reme.workspace order by workspace_id

-- name: describe
select w.workspace_id, w.embedding_model, m.dimensions, w.hnsw, w.created_at,
       (select count(*) from reme.memory r where r.workspace_id = w.workspace_id and r.status = 'active'),
       (select count(*) from reme.memory r where r.workspace_id = w.workspace_id and r.status <> 'active'),
       (select count(*) from reme.message r where r.workspace_id = w.workspace_id and r.erased_at is null),
       (select count(*) from reme.episode r where r.workspace_id = w.workspace_id)
from reme.workspace w
left join reme.embedding_model m on m.model = w.embedding_model
order by w.workspace_id

-- name: count_messages
select count(*) from reme.message where workspace_id = %(workspace)s and erased_at is null

-- name: exists
select from reme.workspace where workspace_id = %(workspace)s

-- name: call
jsonb_build_object(
    'call_hash', c.call_hash, 'tool_name', c.tool_name, 'input', c.input, 'output', c.output, 'success', c.success,
    'time_cost', c.time_cost, 'token_cost', c.token_cost, 'summary', c.summary, 'evaluation', c.evaluation,
    'score', c.score, 'called_at', c.called_at, 'is_summarized', c.summarised_at is not null, 'metadata', c.metadata)

-- name: dump
-- What a user deleted is not given out; it waits for erasure or for somebody who looks into the history.
select ${columns},
       array(select array[s.source_kind, s.source_id, s.quote] from reme.memory_source s
             where s.workspace_id = %(workspace)s and s.memory_id = m.memory_id
             order by s.source_kind, s.source_id),
       -- Calls of a tool go with the guidance in force.
       case when m.kind = 'tool' and m.status = 'active' then (
           select jsonb_agg(${call} order by c.called_at, c.number)
           from reme.tool_call_result c where c.workspace_id = %(workspace)s and c.tool_name = m.subject) end
from reme.memory m
where m.workspace_id = %(workspace)s and m.status <> 'deleted'
order by m.document_id

-- name: dump_calls
-- Of tools without guidance.
select c.tool_name, jsonb_agg(${call} order by c.called_at, c.number)
from reme.tool_call_result c
where c.workspace_id = %(workspace)s
  and not exists (select from reme.memory m where m.workspace_id = %(workspace)s and m.kind = 'tool'
                  and m.status = 'active' and m.subject = c.tool_name)
group by c.tool_name
order by c.tool_name

-- name: evidence
select memory_id,
       jsonb_build_object('sources', jsonb_agg(jsonb_build_object('kind', source_kind, 'id', source_id, 'quote', quote)
                                               order by source_kind, source_id))
from reme.memory_source s
where s.workspace_id = %(workspace)s and s.memory_id = any(%(ids)s)
group by memory_id

-- name: next_ids
select memory_id, document_id from reme.memory
where workspace_id = %(workspace)s and document_id > %(after)s
order by document_id limit %(count)s

-- name: drop_memories
delete from reme.memory m
where m.workspace_id = %(workspace)s and m.memory_id = any(%(ids)s)

-- name: keep_evidence
-- For the entries that the trigger wrote: the cascade removes the evidence before a trigger could look at it.
update reme.memory_history h set before = h.before || e.evidence
from jsonb_each(%(evidence)s) as e (memory_id, evidence)
where h.workspace_id = %(workspace)s and h.history_id > %(version)s and h.memory_id = e.memory_id

-- name: drop_memory_vectors
delete from reme.embedding where workspace_id = %(workspace)s and kind <> 'conversation'

-- name: drop_memory_postings
delete from reme.posting where workspace_id = %(workspace)s and corpus = 'memory'

-- name: drop_memory_statistic
delete from reme.corpus_statistic where workspace_id = %(workspace)s and corpus = 'memory'

-- name: drop_old_vectors
delete from reme.embedding e
using reme.workspace w
where w.workspace_id = %(workspace)s and e.workspace_id = w.workspace_id and e.model <> w.embedding_model

-- name: scan_exactly
update reme.workspace set hnsw = false, unindexed_from = null where workspace_id = %(workspace)s and hnsw

-- name: schedule
insert into reme.workspace (workspace_id, settings)
values (%(workspace)s, jsonb_strip_nulls(jsonb_build_object('reflect_every_hours', %(hours)s::float8)))
on conflict (workspace_id) do update
set settings = (workspace.settings - 'reflect_every_hours') || excluded.settings

-- name: drop_workspace
with counted as (select count(*) as memories from reme.memory where workspace_id = %(workspace)s),
dropped as (delete from reme.workspace where workspace_id = %(workspace)s)
select memories from counted

-- name: drop_jobs
-- A job that runs is left to its worker, to whom it belongs; it finds nothing to do.
delete from procrastinate_jobs where args ->> 'workspace' = %(workspace)s and status <> 'doing'

-- name: tables
-- The tables that hold rows of a workspace, those that refer to others last, with the columns that can be copied.
select c.relname,
       array(select a.attname from pg_attribute a
             where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
               and a.attname <> 'workspace_id' and a.attgenerated = ''
             order by a.attnum)
from pg_class c
cross join lateral (
    select exists (select from pg_constraint k
                   where k.conrelid = c.oid and k.contype = 'f' and k.confrelid <> 'reme.workspace'::regclass)
) r (refers)
where c.relnamespace = 'reme'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
  and exists (select from pg_attribute w where w.attrelid = c.oid and w.attname = 'workspace_id' and not w.attisdropped)
order by r.refers, c.relname

-- name: original
select embedding_model, settings, erased_at from reme.workspace where workspace_id = %(workspace)s

-- name: copy_workspace
insert into reme.workspace (workspace_id, embedding_model, settings, erased_at)
values (%(target)s, %(model)s, %(settings)s, %(erased_at)s)
on conflict (workspace_id) do update
set embedding_model = excluded.embedding_model, settings = excluded.settings, hnsw = false,
    unindexed_from = null

-- name: model_usage
select model, purpose, count(*), count(*) filter (where not ok), sum(prompt_tokens), sum(completion_tokens),
       sum(milliseconds) / 1e3
from reme.model_call
where workspace_id = %(workspace)s and called_at >= coalesce(%(since)s::timestamptz, '-infinity')
group by model, purpose
order by sum(prompt_tokens + completion_tokens) desc, model, purpose
