-- name: count_use
update reme.memory
set freq = freq + 1, utility = utility + case when %(helped)s then 1 else 0 end
where workspace_id = %(workspace)s and memory_id = any(%(ids)s)
returning memory_id

-- name: rate_retrievals
-- Note whether retrievals helped, on their hits, once for each hit, and on the memories of these. What was left out of
-- the note can neither have helped nor have failed to, unless the caller says that the agent had it.
with rated as (
    update reme.retrieval_hit set helped = %(helped)s
    where workspace_id = %(workspace)s and retrieval_id = any(%(retrievals)s) and helped is null
      and kind <> 'conversation' and (coalesce(left_out, '') = '' or memory_id = any(%(named)s))
    returning memory_id
),
times as (
    select memory_id, count(*) as uses from rated group by memory_id
)
update reme.memory m
set freq = m.freq + times.uses, utility = m.utility + case when %(helped)s then times.uses else 0 end
from times
where m.workspace_id = %(workspace)s and m.memory_id = times.memory_id
returning m.memory_id

-- name: retrieved_ids
select distinct memory_id from reme.retrieval_hit
where workspace_id = %(workspace)s and retrieval_id = any(%(retrievals)s)

-- name: known_retrievals
select retrieval_id from reme.retrieval
where workspace_id = %(workspace)s and retrieval_id = any(%(retrievals)s)

-- name: rate_newest_hits
-- Note whether single memories helped: for each on its newest hit that has no rating yet.
update reme.retrieval_hit h
set helped = %(helped)s
from (
    select distinct on (open.memory_id) open.memory_id, open.retrieval_id, open.rank
    from reme.retrieval_hit open
    join reme.retrieval r on r.workspace_id = open.workspace_id and r.retrieval_id = open.retrieval_id
    where open.workspace_id = %(workspace)s and open.memory_id = any(%(ids)s) and open.helped is null
      and coalesce(open.left_out, '') = ''
    order by open.memory_id, r.asked_at desc
) newest
where h.workspace_id = %(workspace)s and h.retrieval_id = newest.retrieval_id and h.rank = newest.rank

-- name: seldom_useful
select memory_id
from reme.memory
where workspace_id = %(workspace)s and status = 'active' and kind = any(%(kinds)s)
  -- A memory that no agent ever got has not been tried, however low the threshold.
  and freq >= greatest(%(freq)s, 1) and utility::double precision / freq < %(utility)s
order by memory_id

-- name: nearest
-- Each among what is of its own person, agent and run.
select asked.number, m.similarity, ${columns}
from unnest(%(vectors)b::halfvec[], %(user_ids)s::text[], %(agent_ids)s::text[], %(run_ids)s::text[])
    with ordinality as asked (vector, user_id, agent_id, run_id, number)
cross join lateral (
    select m.*, -(e.embedding <#> asked.vector) as similarity
    from reme.embedding e
    join reme.memory m on m.workspace_id = %(workspace)s and m.document_id = e.document_id
    where e.workspace_id = %(workspace)s and e.model = %(model)s and e.active and e.kind = any(%(kinds)s)
      and m.user_id = asked.user_id and m.agent_id = asked.agent_id and m.run_id = asked.run_id
    order by e.embedding <#> asked.vector
    limit %(limit)s
) m
order by asked.number, m.similarity desc, m.memory_id
