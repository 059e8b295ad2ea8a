-- name: begin_indexing
select w.embedding_model, m.dimensions, w.hnsw, w.unindexed_from is not null,
       coalesce(c.documents, 0), coalesce(c.terms, 0), coalesce(c.unmerged_segments, 0)
from reme.workspace w
left join reme.embedding_model m on m.model = w.embedding_model
left join reme.corpus_statistic c on c.workspace_id = w.workspace_id and c.corpus = %(corpus)s
where w.workspace_id = %(workspace)s

-- name: width_of_model
select dimensions from reme.embedding_model where model = %(model)s

-- name: register_model
-- A row of all workspaces, so nothing may lock it for longer than its first writing.
insert into reme.embedding_model (model, dimensions) values (%(model)s, %(dimensions)s) on conflict do nothing

-- name: bind_workspace
update reme.workspace set embedding_model = %(model)s where workspace_id = %(workspace)s and embedding_model is null

-- name: insert_memories
-- Those that exist already are left out, and the caller rolls back. As every insert, it reads the row of the workspace: so
-- it is carried out where that is, if rows are distributed over servers.
insert into reme.memory (workspace_id, document_id, ${names})
select w.workspace_id, m.document_id, ${columns}
from reme.workspace w cross join jsonb_populate_recordset(null::reme.memory, %(rows)s::jsonb) as m
where w.workspace_id = %(workspace)s
on conflict (workspace_id, memory_id) do nothing
returning memory_id

-- name: insert_sources
insert into reme.memory_source (workspace_id, memory_id, source_kind, source_id, quote)
select w.workspace_id, memory_id, source_kind, source_id, quote
from reme.workspace w cross join jsonb_populate_recordset(null::reme.memory_source, %(sources)s::jsonb) as row
where w.workspace_id = %(workspace)s
on conflict do nothing

-- name: insert_embeddings
insert into reme.embedding (workspace_id, model, kind, document_id, active, hnsw, embedding)
select w.workspace_id, %(model)s, kind, document_id, active, %(hnsw)s, embedding
from reme.workspace w
cross join unnest(%(kinds)s::text[], %(numbers)b, %(active)b::boolean[], %(vectors)b::halfvec[])
    as row (kind, document_id, active, embedding)
where w.workspace_id = %(workspace)s

-- name: or_replace_embeddings
on conflict (workspace_id, model, document_id) do update set embedding = excluded.embedding, active = excluded.active

-- name: missing_evidence
select wanted from unnest(%(memories)s::text[]) as wanted
where not exists (select from reme.memory m where m.workspace_id = %(workspace)s and m.memory_id = wanted)
union
select m.message_id from reme.message m
where m.workspace_id = %(workspace)s and m.message_id = any(%(messages)s) and m.erased_at is not null

-- name: delete_embeddings
delete from reme.embedding where workspace_id = %(workspace)s and document_id = any(%(documents)s)

-- name: close_memories
-- What is closed already can still be deleted.
update reme.memory m
set status = c.status,
    superseded_by = coalesce(c.superseded_by, m.superseded_by),
    expired_at = least(m.expired_at, now()), -- now, unless it is closed already; Citus takes no now() within coalesce
    updated_at = now(),
    valid_during = case
        when c.holds_until is null or isempty(m.valid_during) then m.valid_during
        when lower(m.valid_during) > c.holds_until then 'empty'::tstzrange
        else tstzrange(lower(m.valid_during), least(upper(m.valid_during), c.holds_until))
    end
from jsonb_to_recordset(%(rows)s)
     as c (memory_id text, status text, superseded_by text, holds_until timestamptz)
where m.workspace_id = %(workspace)s and m.memory_id = c.memory_id
  and (m.status = 'active' or (c.status = 'deleted' and m.status <> 'deleted'))
returning m.memory_id

-- name: confirm_memories
-- An id that is given several times was seen as often.
update reme.memory m set seen_count = m.seen_count + c.times, updated_at = now()
from (select id, count(*)::int as times from unnest(%(ids)s::text[]) as given (id) group by id) c
where m.workspace_id = %(workspace)s and m.memory_id = c.id
returning m.memory_id

-- name: renew_memories
update reme.memory m
set status = 'active', expired_at = null, freq = 0, utility = 0, metadata = m.metadata - 'pruned', updated_at = now()
where m.workspace_id = %(workspace)s and m.memory_id = any(%(ids)s) and m.status = 'deleted' and m.metadata ? 'pruned'
returning m.memory_id

-- name: date_quotes
-- A memory that is a message word for word has the date on which somebody said so last.
update reme.memory m set observed_at = said.last_at
from (
    select s.memory_id, max(g.sent_at) as last_at
    from reme.memory_source s
    join reme.message g on g.workspace_id = s.workspace_id and g.message_id = s.source_id
    where s.workspace_id = %(workspace)s and s.memory_id = any(%(ids)s) and s.source_kind = 'message'
    group by s.memory_id
) said
where m.workspace_id = %(workspace)s and m.memory_id = said.memory_id and m.metadata ->> 'mode' = 'quoted'
  and m.observed_at < said.last_at

-- name: forget_quoted
-- Of memories that are messages word for word, or correct them: recall leaves out these messages, too, besides those that
-- a note names already.
with note as materialized (
    select s.memory_id, jsonb_agg(s.source_id) as messages
    from reme.memory_source s
    where s.workspace_id = %(workspace)s and s.memory_id = any(%(ids)s) and s.source_kind = 'message'
    group by s.memory_id
)
update reme.memory m
set metadata = jsonb_set(m.metadata, '{forgotten}', note.messages || case when jsonb_typeof(m.metadata -> 'forgotten') = 'array'
                                                                     then m.metadata -> 'forgotten' else '[]' end)
from note
where m.workspace_id = %(workspace)s and m.memory_id = note.memory_id
  and (m.metadata ->> 'mode' = 'quoted' or m.metadata ? 'corrects')

-- name: annotate_memories
update reme.memory m set metadata = m.metadata || n.metadata
from jsonb_to_recordset(%(rows)s) as n (memory_id text, metadata jsonb)
where m.workspace_id = %(workspace)s and m.memory_id = n.memory_id
returning m.memory_id

-- name: version
select (select coalesce(max(history_id), 0) from reme.memory_history where workspace_id = %(workspace)s),
       (select erased_at from reme.workspace where workspace_id = %(workspace)s)

-- name: changed_since
-- Whether a memory was added, reworded, closed or removed after that entry of the history, or erased after that moment. Counts
-- of use do not matter. The history of a workspace that was cleared is gone.
select exists (
    select from reme.memory_history
    where workspace_id = %(workspace)s and history_id > %(change)s
      and (operation <> 'update' or before ->> 'status' <> after ->> 'status' or before ->> 'content' <> after ->> 'content')
) or (select coalesce(max(history_id), 0) from reme.memory_history where workspace_id = %(workspace)s) < %(change)s
  or (select erased_at from reme.workspace where workspace_id = %(workspace)s) is distinct from %(erased_at)s::timestamptz

-- name: scopes
select distinct user_id, agent_id, run_id from reme.memory
where workspace_id = %(workspace)s and status = 'active'
order by user_id, agent_id, run_id

-- name: from_sources
select memory_id from reme.memory_source
where workspace_id = %(workspace)s and source_kind = %(kind)s and source_id = any(%(ids)s)

-- name: mark_read
-- A message that was edited since it was read waits for its new words to be read.
update reme.message m set summarised_at = now()
from unnest(%(ids)s::text[], %(hashes)s::text[]) as read (message_id, hash)
where m.workspace_id = %(workspace)s and m.message_id = read.message_id and m.summarised_at is null
  and md5(m.content) = read.hash
returning m.message_id

-- name: mark_guided
update reme.tool_call_result set summarised_at = now()
where workspace_id = %(workspace)s and call_hash = any(%(ids)s) and summarised_at is null
returning call_hash

-- name: mark_learned
update reme.episode set lessons_asked_at = null
where workspace_id = %(workspace)s and episode_id = any(%(ids)s) and lessons_asked_at is not null
returning episode_id

-- name: mark_summarised
update reme.message set summarised_at = now()
where workspace_id = %(workspace)s and message_id = any(%(ids)s) and summarised_at is null
returning message_id

-- name: history
select history_id, operation, changed_at, changed_by, reason, before, after
from reme.memory_history
where workspace_id = %(workspace)s and memory_id = %(id)s
order by history_id

-- name: sources
select memory_id, source_kind, source_id, quote
from reme.memory_source
where workspace_id = %(workspace)s and memory_id = any(%(ids)s)
order by memory_id, source_kind, source_id

-- name: with_same_content
select ${columns}
from reme.memory m
where m.workspace_id = %(workspace)s and m.status = 'active'
  and md5(m.content) in (select md5(wanted) from unnest(%(contents)s::text[]) as wanted)

-- name: update_memory
update reme.memory m
set kind = n.kind, subject = n.subject, when_to_use = n.when_to_use, content = n.content, keywords = n.keywords,
    importance = n.importance, score = n.score, observed_at = n.observed_at, valid_during = n.valid_during,
    author = n.author, metadata = n.metadata, updated_at = n.updated_at,
    user_id = n.user_id, agent_id = n.agent_id, run_id = n.run_id
from jsonb_populate_record(null::reme.memory, %(row)s) as n
where m.workspace_id = %(workspace)s and m.memory_id = n.memory_id

-- name: evidence
select source_kind, source_id, coalesce(evidence, ''), evidence_at, coalesce(said_by, '')
from reme.memory_lineage
where workspace_id = %(workspace)s and memory_id = %(id)s
order by evidence_at, source_id
