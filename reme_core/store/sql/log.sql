-- name: lock_log
-- Erasure holds the log alone: an entry is written before it looks for what to erase, or after all of that is gone.
select reme.lock_log(%(workspaces)s)

-- name: insert_retrievals
-- A workspace that was never written to, or was cleared meanwhile, keeps no log; nor is one kept of what was asked or
-- found before something was erased, since that may be it. What was found before the workspace was begun is of one of this
-- name that was cleared; in a new one the first recall, before anything is stored, finds nothing.
with entry as materialized (
    select * from jsonb_to_recordset(%(rows)s)
        as e (workspace_id text, retrieval_id text, asked_at timestamptz, query text, kinds text[], flow text,
              session_id text, milliseconds real, relevance float8, min_relevance float8, degraded text, hits jsonb)
),
hit as materialized (
    select e.workspace_id, e.retrieval_id, h.*
    from entry e
    cross join lateral jsonb_to_recordset(e.hits)
        as h (rank integer, memory_id text, kind text, vector float8, lexical float8, time float8, type float8, final float8,
              relevance float8)
),
known as materialized (
    select m.workspace_id, m.memory_id
    from reme.memory m join hit h on h.workspace_id = m.workspace_id and h.memory_id = m.memory_id
    where m.workspace_id = any(%(workspaces)s)
),
erasure as materialized (
    select w.workspace_id, w.erased_at, w.created_at from reme.workspace w where w.workspace_id = any(%(workspaces)s)
),
kept as materialized (
    select e.*
    from entry e
    join erasure w on w.workspace_id = e.workspace_id and e.asked_at > coalesce(w.erased_at, '-infinity')
                      and (e.asked_at > w.created_at or e.hits = '[]')
    where not exists (select from hit h
                      where h.workspace_id = e.workspace_id and h.retrieval_id = e.retrieval_id and h.kind <> 'conversation'
                        and not exists (select from known k
                                        where k.workspace_id = h.workspace_id and k.memory_id = h.memory_id))
),
logged as (
    insert into reme.retrieval (workspace_id, retrieval_id, asked_at, query, kinds, flow, session_id, milliseconds,
                                relevance, min_relevance, degraded)
    select w.workspace_id, e.retrieval_id, e.asked_at, e.query, e.kinds, e.flow, e.session_id, e.milliseconds,
           case when e.flow <> 'standing' then e.relevance end, e.min_relevance, e.degraded
    from reme.workspace w join kept e on e.workspace_id = w.workspace_id
    where w.workspace_id = any(%(workspaces)s)
    on conflict do nothing
),
logged_hits as (
    insert into reme.retrieval_hit (workspace_id, retrieval_id, rank, memory_id, kind, vector, lexical, time, type, final,
                                    relevance, left_out)
    select w.workspace_id, h.retrieval_id, h.rank, h.memory_id, h.kind, h.vector, h.lexical, h.time, h.type, h.final,
           -- A standing memory is given whatever is asked.
           case when e.flow <> 'standing' then h.relevance end,
           case when e.flow = 'standing' then '' when e.relevance < e.min_relevance then 'relevance' end
    from reme.workspace w
    join kept e on e.workspace_id = w.workspace_id
    join hit h on h.workspace_id = w.workspace_id and h.retrieval_id = e.retrieval_id
    where w.workspace_id = any(%(workspaces)s)
    on conflict do nothing
)
select

-- name: mark_notes
-- Which hits stand in a note, and why the others do not; of standing memories, and where nothing was likely enough to fit,
-- the log says so already.
with outcome as materialized (
    select n.workspace_id, n.note_id, of_recall.id as retrieval_id, hit.memory_id, hit.reason
    from jsonb_to_recordset(%(rows)s) as n (workspace_id text, note_id text, left_out jsonb)
    cross join lateral jsonb_each(n.left_out) as of_recall (id, hits)
    left join lateral jsonb_each_text(of_recall.hits) as hit (memory_id, reason) on true
),
noted as (
    update reme.retrieval r set note_id = o.note_id
    from outcome o
    where r.workspace_id = any(%(workspaces)s) and r.workspace_id = o.workspace_id and r.retrieval_id = o.retrieval_id
),
marked as (
    update reme.retrieval_hit h set left_out = o.reason
    from outcome o
    where h.workspace_id = any(%(workspaces)s) and h.workspace_id = o.workspace_id and h.retrieval_id = o.retrieval_id
      and h.memory_id = o.memory_id and h.left_out is null
)
select

-- name: insert_model_calls
select reme.log_model_calls(%(rows)s)
