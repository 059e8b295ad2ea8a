-- name: affected
-- The roots that exist, and all memories that were concluded from one of them, directly or through others. What a load
-- removed exists in the history alone, and has no number.
with recursive affected as (
    select memory_id from reme.memory where workspace_id = %(workspace)s and memory_id = any(%(roots)s)
    union
    select memory_id from reme.memory_history where workspace_id = %(workspace)s and memory_id = any(%(roots)s)
    union
    select s.memory_id
    from affected a
    join ${evidence} s on s.source_kind = 'memory' and s.source_id = a.memory_id
)
select affected.memory_id, m.document_id, m.when_to_use, m.content, m.keywords, m.subject
from affected left join reme.memory m on m.workspace_id = %(workspace)s and m.memory_id = affected.memory_id

-- name: wordings
-- All that they say or ever said. A wording is a `statement`, or else a situation (when_to_use).
select distinct said.wording, said.statement
from reme.memory_history h
cross join lateral (values (h.before), (h.after)) as version (row)
cross join lateral (values (row ->> 'content', true), (row ->> 'when_to_use', false)) as said (wording, statement)
where h.workspace_id = %(workspace)s and h.memory_id = any(%(affected)s) and said.wording <> ''
union
select said.wording, said.statement
from reme.memory m
cross join lateral (values (m.content, true), (m.when_to_use, false)) as said (wording, statement)
where m.workspace_id = %(workspace)s and m.memory_id = any(%(affected)s) and said.wording <> ''

-- name: memories_saying
-- Other memories that say the same, alone or among other things.
select m.memory_id
from reme.memory m
where m.workspace_id = %(workspace)s and not m.memory_id = any(%(affected)s)
  and (lower(m.content) in ${whole} or lower(replace(m.content, '\', '')) like ${marks})
  and (%(subject)s::text is null or (m.subject in (%(subject)s, '') and ${of_scope}))

-- name: situations_of_others
select distinct m.when_to_use
from reme.memory m
where m.workspace_id = %(workspace)s and not m.memory_id = any(%(affected)s) and m.when_to_use = any(%(situations)s)

-- name: memories_quoting
-- Other memories that have it beside their content.
select m.document_id, ${columns}
from reme.memory m
where m.workspace_id = %(workspace)s and not m.memory_id = any(%(affected)s)
  and lower(replace(m.when_to_use || E'\n' || m.subject || E'\n' || array_to_string(m.keywords, E'\n'), '\', '')) like ${marks}

-- name: cut_memories
update reme.memory m set when_to_use = n.when_to_use, subject = n.subject, keywords = n.keywords
from jsonb_populate_recordset(null::reme.memory, %(rows)s) as n
where m.workspace_id = %(workspace)s and m.memory_id = n.memory_id

-- name: evidence
select distinct m.message_id
from ${evidence} s
join reme.message m on m.workspace_id = %(workspace)s and m.message_id = s.source_id
where s.source_kind = 'message' and s.memory_id = any(%(roots)s)
  and m.erased_at is null
  and (%(author)s::text is null or m.role <> 'user' or (m.author in (%(author)s, '') and ${of_scope}))

-- name: memories_from_messages
select distinct memory_id from ${evidence} s where source_kind = 'message' and source_id = any(%(messages)s)

-- name: removed_of_scope
select distinct h.memory_id
from reme.memory_history h
cross join lateral jsonb_populate_record(null::reme.memory, h.before) m
where ${is_removed} and ${of_scope}

-- name: messages
select message_id from reme.message
where workspace_id = %(workspace)s and message_id = any(%(messages)s) and erased_at is null

-- name: said
-- What messages say, and what they said before they were edited. A caller may keep anything under the same name.
select m.session_id, said.words
from reme.message m
cross join lateral (
    select m.content
    union all
    select former ->> 'content' from jsonb_path_query(m.metadata, 'lax $.former[*]') as former
    where former ->> 'content' <> ''
) as said (words)
where m.workspace_id = %(workspace)s and m.message_id = any(%(messages)s)

-- name: messages_saying
select m.message_id, m.content
from reme.message m
where m.workspace_id = %(workspace)s and not m.message_id = any(%(messages)s)
  and (lower(m.content) in ${whole} or lower(replace(m.content, '\', '')) like ${marks})
  and (%(author)s::text is null or (m.role = 'user' and m.author in (%(author)s, '') and ${of_scope}))

-- name: said_by_others
-- Which of these words stand in what others say, as a message or as a memory.
select word
from reme.memory m
join unnest(%(words)s::text[]) as given (word) on strpos(lower(m.content), lower(word)) > 0
where m.workspace_id = %(workspace)s and not m.memory_id = any(%(affected)s)
  and not (m.subject in (%(subject)s, '') and ${of_scope})
union
select word
from reme.message m
join unnest(%(words)s::text[]) as given (word) on strpos(lower(m.content), lower(word)) > 0
where m.workspace_id = %(workspace)s and m.role = 'user' and not m.message_id = any(%(messages)s)
  and not (m.author in (%(author)s, '') and ${of_scope})

-- name: drop_memories
delete from reme.memory where workspace_id = %(workspace)s and memory_id = any(%(affected)s)

-- name: drop_history
-- And what other memories were, when they said the same. What only quotes it in another field is swept below. Without `concat`,
-- which Citus does not take beside columns. Of a change of several memories one that is left tells that there were others: it
-- is still the last one to undo.
with gone as (
    delete from reme.memory_history h
    where h.workspace_id = %(workspace)s
      and (h.memory_id = any(%(affected)s)
           or lower(replace(coalesce(h.before ->> 'content', '') || E'\n' || coalesce(h.after ->> 'content', ''), '\', ''))
              like ${marks})
    returning h.history_id, h.memory_id, h.changed_at
), beside as materialized (
    select distinct on (h.changed_at) h.history_id
    from reme.memory_history h
    where h.workspace_id = %(workspace)s and h.changed_at in (select changed_at from gone)
      and h.history_id not in (select history_id from gone)
      and exists (select from gone where gone.changed_at = h.changed_at and gone.memory_id <> h.memory_id)
    order by h.changed_at, h.history_id
)
update reme.memory_history h
set before = h.before || '{"erased_beside": true}', after = h.after || '{"erased_beside": true}'
from beside
where h.workspace_id = %(workspace)s and h.history_id = beside.history_id

-- name: drop_recalls
-- The query that found it is likely to name it.
delete from reme.retrieval r
where r.workspace_id = %(workspace)s
  and exists (select from reme.retrieval_hit h
              where h.workspace_id = %(workspace)s and h.retrieval_id = r.retrieval_id
                and case when h.kind = 'conversation' then h.memory_id = any(%(messages)s)
                    else h.memory_id = any(%(affected)s) end)

-- name: drop_queries
delete from reme.retrieval r
where r.workspace_id = %(workspace)s
  and (lower(r.query) in ${whole} or lower(replace(r.query, '\', '')) like ${marks})

-- name: forget_answers
-- The raw answer of a model, or the error that quotes it, may say the same in other words.
update reme.model_call set raw = '', error = ''
where workspace_id = %(workspace)s and (raw <> '' or error <> '')

-- name: forget_failures
-- So may the reason why a job failed: it may quote the beginning of such an answer.
update reme.job_error set error = 'the reason was erased, with what it may have quoted' where workspace_id = %(workspace)s

-- name: forget_quotes
update reme.memory_source set quote = ''
where workspace_id = %(workspace)s and source_kind = 'message' and source_id = any(%(messages)s) and quote <> ''

-- name: drop_queries_of_sessions
-- What one conversation asked is in the log under its name. Of recalls without a conversation nobody knows who asked.
delete from reme.retrieval r
where r.workspace_id = %(workspace)s
  and (r.session_id in (select unnest(%(sessions)s::text[])) or (r.session_id = '' and lower(r.query) in ${whole}))

-- name: forget_in_artifacts
-- What left the window of a conversation holds what was said in it; a summary may say the same in other words.
update reme.artifact a set content = reme.remove_wordings(a.content, %(forms)s), summary = ''
where a.workspace_id = %(workspace)s and (%(session)s::text is null or a.session_id = %(session)s)
  and lower(replace(a.content, '\', '')) like ${marks}

-- name: sweep
-- `replace`, since `translate` looks at each character, and takes five times as long.
-- The text of an array is looked at in a subquery, since Citus does not take its cast beside columns.
update reme.{table} set {column} = reme.remove_wordings({column}, %(forms)s)
where workspace_id = %(workspace)s and (select lower(replace({column}::text, '\', '')) like ${marks})

-- name: text_columns
-- Every column that holds text of a workspace and is no key. Read from the catalog, so that later tables are included.
select c.relname, a.attname
from pg_class c
join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
where c.relnamespace = 'reme'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
  and a.atttypid in ('text'::regtype, 'text[]'::regtype, 'jsonb'::regtype)
  and a.attname not like '%%\_id' and a.attgenerated = ''
  and exists (select from pg_attribute w where w.attrelid = c.oid and w.attname = 'workspace_id' and not w.attisdropped)
  and not exists (select from pg_constraint k
                  where k.conrelid = c.oid and k.contype = 'p' and a.attnum = any(k.conkey))
  and (c.relname, a.attname) not in (
      -- These have an index or a history and were handled before.
      ('memory', 'content'), ('memory', 'when_to_use'), ('memory', 'subject'), ('memory', 'keywords'),
      ('message', 'content'), ('message', 'author'))
  and c.relname not in ('embedding', 'posting', 'corpus_statistic')
order by 1, 2

-- name: moment
select clock_timestamp()

-- name: mark_erased
update reme.workspace set erased_at = %(moment)s where workspace_id = %(workspace)s
