-- name: lock_log
-- Lock the logs of workspaces, and name those that have to wait, since somebody holds their log or their row. Erasure
-- holds the log alone: an entry is written before it looks for what to erase, or after all of that is gone.
select workspace
from unnest(%(workspaces)s::text[]) as workspace
where not pg_try_advisory_xact_lock_shared(hashtextextended('reme.log ' || workspace, 0))
   or exists (select from reme.workspace w where w.workspace_id = workspace)
      and not exists (select from reme.workspace w where w.workspace_id = workspace for key share skip locked)

-- name: insert_retrievals
-- A workspace that was never written to, or was cleared meanwhile, keeps no log; nor is one kept of what was asked or
-- found before something was erased, since that may be it.
with entry as (
    select * from jsonb_to_recordset(%(rows)s)
        as e (workspace_id text, retrieval_id text, asked_at timestamptz, query text, kinds text[], flow text,
              session_id text, milliseconds real, relevance float8, min_relevance float8, degraded text, hits jsonb)
    where exists (select from reme.workspace w
                  where w.workspace_id = e.workspace_id and e.asked_at > coalesce(w.erased_at, '-infinity'))
      and not exists (select from jsonb_to_recordset(e.hits) as h (memory_id text, kind text)
                      where h.kind <> 'conversation'
                        and not exists (select from reme.memory m
                                        where m.workspace_id = e.workspace_id and m.memory_id = h.memory_id))
),
logged as (
    insert into reme.retrieval (workspace_id, retrieval_id, asked_at, query, kinds, flow, session_id, milliseconds,
                                relevance, min_relevance, degraded)
    select workspace_id, retrieval_id, asked_at, query, kinds, flow, session_id, milliseconds,
           case when flow <> 'standing' then relevance end, min_relevance, degraded
    from entry
    on conflict do nothing
)
insert into reme.retrieval_hit (workspace_id, retrieval_id, rank, memory_id, kind, vector, lexical, time, type, final,
                                relevance, left_out)
select e.workspace_id, e.retrieval_id, h.rank, h.memory_id, h.kind, h.vector, h.lexical, h.time, h.type, h.final,
       -- A standing memory is given whatever is asked.
       case when e.flow <> 'standing' then h.relevance end,
       case when e.flow = 'standing' then '' when e.relevance < e.min_relevance then 'relevance' end
from entry e
cross join lateral jsonb_to_recordset(e.hits)
    as h (rank integer, memory_id text, kind text, vector float8, lexical float8, time float8, type float8, final float8,
          relevance float8)
on conflict do nothing

-- name: mark_notes
-- Which hits stand in a note, and why the others do not; of standing memories, and where nothing was likely enough to fit,
-- the log says so already.
with note as (
    select * from jsonb_to_recordset(%(rows)s) as n (workspace_id text, note_id text, left_out jsonb)
),
noted as (
    update reme.retrieval r set note_id = n.note_id
    from note n, jsonb_object_keys(n.left_out) as of_recall (id)
    where r.workspace_id = n.workspace_id and r.retrieval_id = of_recall.id
)
update reme.retrieval_hit h set left_out = outcome.reason
from note n, jsonb_each(n.left_out) as of_recall (id, hits), jsonb_each_text(of_recall.hits) as outcome (memory_id, reason)
where h.workspace_id = n.workspace_id and h.retrieval_id = of_recall.id and h.memory_id = outcome.memory_id
  and h.left_out is null

-- name: insert_model_calls
insert into reme.model_call (workspace_id, called_at, purpose, provider, model, prompt_tokens, completion_tokens,
                             milliseconds, ok, error, raw)
select c.workspace_id, c.called_at, c.purpose, c.provider, c.model, c.prompt_tokens, c.completion_tokens,
       c.milliseconds, c.ok,
       -- A text from before something was erased may hold it.
       case when c.called_at > w.erased_at is not false then c.error else '' end,
       case when c.called_at > w.erased_at is not false then c.raw else '' end
from jsonb_to_recordset(%(rows)s)
    as c (workspace_id text, called_at timestamptz, purpose text, provider text, model text, prompt_tokens integer,
          completion_tokens integer, milliseconds real, ok boolean, error text, raw text)
left join reme.workspace w on w.workspace_id = c.workspace_id
