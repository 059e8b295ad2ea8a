-- Items: JSON values under a namespace and a key. ${where} marks are conditions that store/items.py puts together of
-- constant texts; values always travel as parameters.

-- name: get
select item.namespace, item.key, item.value, item.created_at, item.updated_at, item.place,
       item.expires_at is not null, null
from jsonb_to_recordset(%(names)s) as wanted (namespace text[], key text)
join reme.item item on item.workspace_id = %(workspace)s
    and item.namespace = wanted.namespace and item.key = wanted.key
where (item.expires_at is null or item.expires_at > now())

-- name: below
-- No label holds a character below U+0001, so these bounds hold the namespaces with the prefix and no others.
item.namespace >= %(prefix)s::text[] and item.namespace < %(beyond)s::text[]

-- name: search
select item.namespace, item.key, item.value, item.created_at, item.updated_at, item.place,
       item.expires_at is not null, null
from reme.item item
where item.workspace_id = %(workspace)s and (item.expires_at is null or item.expires_at > now()) and ${where}
order by item.namespace_place, item.place
limit %(limit)s offset %(offset)s

-- name: search_by_meaning
-- An item is as near as the nearest of its texts; those without vectors come last. A vector of zeros is near to nothing.
select item.namespace, item.key, item.value, item.created_at, item.updated_at, item.place,
       item.expires_at is not null, near.score
from reme.item item
left join lateral (
    select max(coalesce(nullif(1 - (e.embedding <=> %(vector)s), 'NaN'), 0)) as score
    from reme.item_embedding e
    where e.workspace_id = item.workspace_id and e.place = item.place and vector_dims(e.embedding) = %(width)s
) near on true
where item.workspace_id = %(workspace)s and (item.expires_at is null or item.expires_at > now()) and ${where}
order by near.score desc nulls last, item.namespace_place, item.place
limit %(limit)s offset %(offset)s

-- name: namespaces
-- A pattern is a path that a namespace begins with, or ends with; its `*` stands for any label.
select distinct item.namespace[1:coalesce(%(depth)s::integer, cardinality(item.namespace))] as namespace
from reme.item item
where item.workspace_id = %(workspace)s and (item.expires_at is null or item.expires_at > now())
  and not exists (
      select from jsonb_to_recordset(%(patterns)s) as pattern (path text[], at_end boolean)
      where cardinality(item.namespace) < cardinality(pattern.path)
         or exists (
             select from unnest(pattern.path) with ordinality as wanted (label, place)
             where wanted.label not in ('*', item.namespace[
                 wanted.place + case when pattern.at_end then cardinality(item.namespace) - cardinality(pattern.path)
                                     else 0 end])
         )
  )
order by namespace
limit %(limit)s offset %(offset)s

-- name: take_turns
select pg_advisory_xact_lock(%(lock)s, hashtext(%(workspace)s))

-- name: drop_expired
-- What has expired is no item any more: who puts one under its name puts a new one, behind the others.
delete from reme.item item
using jsonb_to_recordset(%(items)s) as given (namespace text[], key text)
where item.workspace_id = %(workspace)s and item.namespace = given.namespace and item.key = given.key
  and item.expires_at <= now()

-- name: write
with given as materialized (
    select *
    from rows from (jsonb_to_recordset(%(items)s) as (namespace text[], key text, value jsonb, ttl float, gone boolean))
        with ordinality as given (namespace, key, value, ttl, gone, number)
), mentioned as (
    select *
    from rows from (jsonb_to_recordset(%(namespaces)s) as (namespace text[]))
        with ordinality as mentioned (namespace, number)
), standing as materialized (
    select in_order.namespace, coalesce(in_order.known, (%(numbers)s::bigint[])[in_order.number]) as place
    from (
        select mentioned.namespace, mentioned.number, (
            select item.namespace_place
            from reme.item item
            where item.workspace_id = %(workspace)s and item.namespace = mentioned.namespace
              and (item.expires_at is null or item.expires_at > now())
            limit 1
        ) as known
        from mentioned
    ) in_order
), deleted as (
    delete from reme.item item
    using given
    where given.gone and item.workspace_id = %(workspace)s
      and item.namespace = given.namespace and item.key = given.key
), written as (
    insert into reme.item as item (workspace_id, namespace, key, namespace_place, place, value, ttl_minutes, expires_at)
    select w.workspace_id, given.namespace, given.key, standing.place,
           (%(numbers)s::bigint[])[(select count(*) from mentioned) + given.number], given.value, given.ttl,
           now() + given.ttl * interval '1 minute'
    from reme.workspace w
    cross join given
    join standing using (namespace)
    where w.workspace_id = %(workspace)s and not given.gone
    order by given.number
    on conflict (workspace_id, namespace, key) do update
    set value = excluded.value, updated_at = excluded.updated_at, ttl_minutes = excluded.ttl_minutes,
        expires_at = excluded.expires_at, namespace_place = excluded.namespace_place
    returning item.namespace, item.key, item.place
)
select namespace, key, place from written

-- name: drop_vectors
-- After the write, which holds the items: so the vectors that another writer gave them a moment ago are seen, and nobody
-- holds vectors who waits for an item.
delete from reme.item_embedding e
using jsonb_to_recordset(%(items)s) as given (namespace text[], key text), reme.item item
where item.workspace_id = %(workspace)s and item.namespace = given.namespace and item.key = given.key
  and e.workspace_id = item.workspace_id and e.place = item.place
  and exists (select from reme.item_embedding any_at_all where any_at_all.workspace_id = %(workspace)s)

-- name: write_vectors
insert into reme.item_embedding (workspace_id, place, path, embedding)
select w.workspace_id, place, path, embedding
from reme.workspace w
cross join unnest(%(places)s::bigint[], %(paths)s::text[], %(vectors)b::vector[]) as given (place, path, embedding)
where w.workspace_id = %(workspace)s

-- name: refresh
-- Items that somebody else holds are passed over: they get a new expiry from him, or go. So a refresh waits for nobody.
with alive as materialized (
    select place
    from reme.item
    where workspace_id = %(workspace)s and place = any(%(places)s) and ttl_minutes is not null
    order by namespace, key
    for update skip locked
)
update reme.item item set expires_at = now() + item.ttl_minutes * interval '1 minute'
from alive
where item.workspace_id = %(workspace)s and item.place = alive.place

-- name: sweep
with expired as materialized (
    select place
    from reme.item
    where workspace_id = %(workspace)s and expires_at <= now()
    order by namespace, key
    for update skip locked
), swept as (
    delete from reme.item item
    using expired
    where item.workspace_id = %(workspace)s and item.place = expired.place
    returning 1
)
select count(*) from swept
