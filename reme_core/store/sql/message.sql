-- name: known_messages
-- What was erased, or lost some of its words to an erasure, comes again with these words if its client sends it once more.
select message_id, session_id, case when erased_at is null and not metadata ? 'words_erased' then content end, user_id
from reme.message
where workspace_id = %(workspace)s and message_id = any(%(ids)s)

-- name: keep_former_words
-- The words that a message had before it was edited stay with it, unless the new ones begin with them: of an answer that is
-- recorded again while it grows, each state would be kept. They are put together before the update, where Citus takes no
-- function like now() beside columns.
with before as materialized (
    select message_id, case when starts_with(%(words)s::jsonb ->> message_id, content) then metadata else kept end as metadata
    from (
        select *, metadata || jsonb_build_object('former', coalesce(metadata -> 'former', '[]')
                                                           || jsonb_build_object('content', content, 'until', now())) as kept
        from reme.message
        where workspace_id = %(workspace)s and message_id = any(%(ids)s)
    ) edited
)
update reme.message m
set metadata = before.metadata,
    tool_calls = %(tool_calls)s::jsonb -> m.message_id,
    summarised_at = case when m.role in ('user', 'assistant') then null else m.summarised_at end
from before
where m.workspace_id = %(workspace)s and m.message_id = before.message_id

-- name: end_quotes
-- Memories that are edited messages word for word, and that no other message says: nobody says these words any more.
update reme.memory m
set status = 'expired', expired_at = now(), updated_at = now()
where m.workspace_id = %(workspace)s and m.status = 'active' and m.metadata ->> 'mode' = 'quoted'
  and m.memory_id in (
      select s.memory_id from reme.memory_source s
      where s.workspace_id = %(workspace)s and s.source_kind = 'message' and s.source_id = any(%(ids)s)
  )
  and not exists (
      select from reme.memory_source s
      where s.workspace_id = %(workspace)s and s.memory_id = m.memory_id and s.source_kind = 'message'
        -- Unnested, the ids are hashed. An edit may have thousands, and each row would be compared with all of them.
        and s.source_id not in (select unnest(%(ids)s::text[]))
  )

-- name: drop_edited_evidence
-- Of those that other messages still say, an edited message is no evidence any more.
delete from reme.memory_source s
where s.workspace_id = %(workspace)s and s.source_kind = 'message' and s.source_id = any(%(ids)s)
  and s.memory_id in (
      select m.memory_id from reme.memory m
      where m.workspace_id = %(workspace)s and m.status = 'active' and m.metadata ->> 'mode' = 'quoted'
  )

-- name: session_tails
-- The last messages of each session that new ones continue.
select tail.session_id, tail.position, tail.document_id, tail.author, tail.role, tail.content, tail.sent_at
from unnest(%(sessions)s::text[]) as wanted (session_id)
cross join lateral (
    select m.session_id, m.position, m.document_id, m.author, m.role, m.content, m.sent_at
    from reme.message m
    where m.workspace_id = %(workspace)s and m.session_id = wanted.session_id
    order by m.position desc
    limit %(window)s
) tail
order by tail.session_id, tail.position

-- name: insert_messages
insert into reme.message (workspace_id, document_id, position, terms, embedded_at, summarised_at, ${names})
select w.workspace_id, m.document_id, m.position, m.terms, m.embedded_at, m.summarised_at, ${columns}
from reme.workspace w cross join jsonb_populate_recordset(null::reme.message, %(rows)s) as m
where w.workspace_id = %(workspace)s

-- name: unembedded
select document_id, author, content
from reme.message
where workspace_id = %(workspace)s and embedded_at is null
order by document_id
limit %(limit)s

-- name: still_unembedded
select document_id, author, content
from reme.message
where workspace_id = %(workspace)s and document_id = any(%(documents)s) and embedded_at is null
for update

-- name: waiting_workspaces
select distinct workspace_id from reme.message where embedded_at is null

-- name: mark_refused
-- One that the model refuses is found by its words alone; why stands in its metadata. One that was edited meanwhile waits.
update reme.message set embedded_at = now(), metadata = metadata || jsonb_build_object('not_embedded', %(reason)s::text)
where workspace_id = %(workspace)s and document_id = %(document)s and embedded_at is null
  and (author, content) = (%(author)s, %(content)s)
returning document_id

-- name: mark_embedded
update reme.message set embedded_at = now(), metadata = metadata - 'not_embedded'
where workspace_id = %(workspace)s and document_id = any(%(documents)s)

-- name: session_window
-- The messages whose index entries depend on one of the given messages, with the neighbours that those depend on. What is
-- asked for in the order of a key is looked up by that key, also by a plan that was made when the table was small.
select distinct m.message_id, m.session_id, m.position, m.document_id, m.author, m.role, m.content, m.sent_at
from reme.message changed
cross join lateral (
    select m.* from reme.message m
    where m.workspace_id = %(workspace)s and m.session_id = changed.session_id
      and m.position between changed.position - %(window)s and changed.position + %(window)s
    order by m.position
    limit 2 * %(window)s::integer + 1
) m
where changed.workspace_id = %(workspace)s and changed.message_id = any(%(ids)s)
order by m.session_id, m.position

-- name: unsummarised
-- Messages that no memory was made of yet, in the order of their conversations.
select ${columns}
from reme.message m
where workspace_id = %(workspace)s and summarised_at is null
  and (%(ids)s::text[] is null or message_id = any(%(ids)s))
  and (%(session)s::text is null or session_id = %(session)s)
  and (%(user_id)s::text is null or user_id = %(user_id)s)
  and (%(agent_id)s::text is null or agent_id = %(agent_id)s)
  and (%(run_id)s::text is null or run_id = %(run_id)s)
order by document_id
limit %(limit)s

-- name: conversation
select ${columns}
from reme.message m
where workspace_id = %(workspace)s and session_id = %(session)s and erased_at is null
order by position

-- name: said_by_others
select message_id from reme.message
where workspace_id = %(workspace)s and message_id = any(%(ids)s) and role = 'user' and author not in ('', %(author)s)

-- name: in_context
-- Some messages, each behind what was said last before it; but not what somebody asked to forget. The limit, which changes
-- nothing, and the two bounds as plain columns have the index read between these, also behind row-level security.
select ${columns}
from (
    select session_id, position,
           greatest(position - %(window)s, lag(position) over (partition by session_id order by position) + 1) as first
    from reme.message
    where workspace_id = %(workspace)s and message_id = any(%(ids)s)
) asked
cross join lateral (
    select m.* from reme.message m
    where m.workspace_id = %(workspace)s and m.session_id = asked.session_id
      and m.position between asked.first and asked.position
    order by m.position
    limit %(window)s + 1
) m
where m.position = asked.position or not exists (
    select from reme.memory f
    where f.workspace_id = %(workspace)s and f.status <> 'active' and f.metadata ? 'forgotten'
      and f.metadata -> 'forgotten' ? m.message_id
)
order by m.session_id, m.position

-- name: rewrite_messages
-- One that says nothing any more is empty in every respect, and is neither embedded nor summarised.
with clock as materialized (select now() as moment)
update reme.message m
set content = n.content,
    terms = n.terms,
    author = case when n.content = '' then '' else m.author end,
    reasoning_content = case when n.content = '' then '' else m.reasoning_content end,
    tool_calls = case when n.content = '' then '[]' else m.tool_calls end,
    tool_call_id = case when n.content = '' then '' else m.tool_call_id end,
    metadata = case when n.content = '' then '{}' when %(without_trace)s then m.metadata || '{"words_erased": true}'
               else m.metadata end,
    user_id = case when n.content = '' then '' else m.user_id end,
    embedded_at = case when n.terms > 0 then null else coalesce(m.embedded_at, clock.moment) end,
    summarised_at = case when n.content = '' then coalesce(m.summarised_at, clock.moment) else m.summarised_at end,
    erased_at = case when n.content = '' then clock.moment else m.erased_at end
from unnest(%(documents)s::bigint[], %(contents)s::text[], %(terms)s::integer[]) as n (document_id, content, terms)
cross join clock
where m.workspace_id = %(workspace)s and m.document_id = n.document_id
