-- name: due
select w.embedding_model, m.dimensions, w.unindexed_from
from reme.workspace w
join reme.embedding_model m on m.model = w.embedding_model
where w.workspace_id = %(workspace)s
  and (w.unindexed_from is not null
       or not w.hnsw
          and (select coalesce(sum(c.documents), 0) from reme.corpus_statistic c where c.workspace_id = %(workspace)s)
              >= %(exact_below)s)

-- name: left_behind
select workspace_id from reme.workspace where unindexed_from is not null

-- name: leave_behind
update reme.workspace set unindexed_from = least(unindexed_from, %(first)s) where workspace_id = %(workspace)s

-- name: advance
-- If vectors were left for later, those from the next document on still are outside.
update reme.workspace set unindexed_from = %(next)s::bigint
where workspace_id = %(workspace)s and embedding_model = %(model)s and unindexed_from is not null

-- name: join_batch
-- The rows are named by a range and not by a join: before the first ANALYZE, the planner would compare each with each.
with batch as materialized (
    select count(*) as found, max(document_id) as last
    from (
        select document_id from reme.embedding
        where workspace_id = %(workspace)s and model = %(model)s and not hnsw and document_id > %(after)s
        order by document_id
        limit %(limit)s
    ) next
),
joined as (
    update reme.embedding set hnsw = true
    where workspace_id = %(workspace)s and model = %(model)s and not hnsw
      and document_id > %(after)s and document_id <= (select last from batch)
)
select found, last from batch

-- name: switch
-- Those outside are not the last ones: messages get their vectors after memories with higher numbers got theirs.
update reme.workspace
set hnsw = true,
    unindexed_from = (select min(document_id) from reme.embedding
                      where workspace_id = %(workspace)s and model = %(model)s and not hnsw)
where workspace_id = %(workspace)s and embedding_model = %(model)s
returning unindexed_from

-- name: try_to_build
select pg_try_advisory_lock(hashtextextended('reme.hnsw', 0))

-- name: exists
select to_regclass('reme.' || quote_ident(%(name)s)) is not null

-- name: unfinished
select 1 from pg_index where indexrelid = to_regclass('reme.' || quote_ident(%(name)s)) and not indisvalid

-- name: give_memory
-- As much as the graph takes, and 64 MB at least. With 384 dimensions, a vector takes 1,740 bytes in the graph, and 910
-- in the table (measured).
select set_config('maintenance_work_mem',
                  least(greatest(64, pg_table_size('reme.embedding') * 1.95 / 2 ^ 20), %(most_megabytes)s)::bigint || 'MB', false)
