-- name: last_bulk_change
-- The last transaction that changed several memories. What only counts their use is no change of them. Where nothing but
-- the time differs, an undo has put back what a load had stored anew in the same words: it is a part of that undo. Of
-- several, others may have been erased since.
select changed_at, min(changed_by), min(reason)
from reme.memory_history
where workspace_id = %(workspace)s
  and (operation <> 'update' or before - %(counts)s::text[] is distinct from after - %(counts)s::text[]
       or before - 'updated_at' = after - 'updated_at')
group by changed_at
having count(distinct memory_id) > 1 or bool_or(coalesce(after, before) ? 'erased_beside')
order by changed_at desc
limit 1

-- name: states_before
-- What each memory was before that transaction (null: it was not there), and whether it was changed after it.
select memory_id, (array_agg(before order by history_id) filter (where changed_at = %(moment)s))[1],
       bool_or(changed_at > %(moment)s)
from reme.memory_history
where workspace_id = %(workspace)s and changed_at >= %(moment)s
  and (operation <> 'update' or before - %(counts)s::text[] is distinct from after - %(counts)s::text[]
       or before - 'updated_at' = after - 'updated_at')
group by memory_id
having bool_or(changed_at = %(moment)s)

-- name: changed_since
-- Whether one of these memories was changed after that entry of the history, or something was erased or cleared.
select exists (
    select from reme.memory_history
    where workspace_id = %(workspace)s and memory_id = any(%(ids)s) and history_id > %(change)s
      and (operation <> 'update' or before - %(counts)s::text[] is distinct from after - %(counts)s::text[])
) or (select coalesce(max(history_id), 0) from reme.memory_history where workspace_id = %(workspace)s) < %(change)s
  or (select erased_at from reme.workspace where workspace_id = %(workspace)s) is distinct from %(erased_at)s::timestamptz

-- name: as_memories
select ${columns}, state -> 'sources'
from jsonb_array_elements(%(states)s) as state
cross join lateral jsonb_populate_record(null::reme.memory, state) as m

-- name: put_back
-- How often it was seen and used stays as it is.
update reme.memory m
set kind = n.kind, subject = n.subject, when_to_use = n.when_to_use, content = n.content, keywords = n.keywords,
    importance = n.importance, score = n.score, status = n.status, superseded_by = n.superseded_by,
    observed_at = n.observed_at, valid_during = n.valid_during, expired_at = n.expired_at, author = n.author,
    metadata = n.metadata, user_id = n.user_id, agent_id = n.agent_id, run_id = n.run_id, updated_at = now()
from jsonb_populate_recordset(null::reme.memory, %(rows)s) as n
where m.workspace_id = %(workspace)s and m.memory_id = n.memory_id
