-- The profile, of which every turn reads what stands.

-- name: standing
-- Each kind has a limit of its own, behind all filters: many facts leave wishes their place, and those of others all.
select ${columns}
from unnest(%(kinds)s::text[]) as standing (kind)
cross join lateral (
    select m.* from ${memories} m
    where m.workspace_id = %(workspace)s and m.kind = standing.kind and ${conditions}
      and (m.kind <> 'instruction' or m.valid_during @> %(moment)s::timestamptz)
      -- Where closed ones may have held, those that somebody asked to forget are left out, and those without an end: they never
      -- held, or hold on in the words of their successor.
      and (m.status = 'active'
           or m.status <> 'deleted' and not m.metadata ? 'forgotten' and not upper_inf(m.valid_during))
    order by m.importance desc, coalesce(m.observed_at, m.created_at) desc, m.document_id desc
    limit %(most)s
) m
order by m.kind, m.importance desc, coalesce(m.observed_at, m.created_at) desc, m.document_id desc
