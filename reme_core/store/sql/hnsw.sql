-- name: due
select w.embedding_model, m.dimensions
from reme.workspace w
join reme.embedding_model m on m.model = w.embedding_model
where w.workspace_id = %(workspace)s and not w.hnsw
  and (select coalesce(sum(c.documents), 0) from reme.corpus_statistic c where c.workspace_id = %(workspace)s)
      >= %(exact_below)s

-- name: join_batch
with batch as (
    select document_id from reme.embedding
    where workspace_id = %(workspace)s and model = %(model)s and document_id > %(after)s
    order by document_id
    limit %(limit)s
),
joined as (
    update reme.embedding e set hnsw = true
    from batch
    where e.workspace_id = %(workspace)s and e.model = %(model)s and e.document_id = batch.document_id and not e.hnsw
)
select max(document_id) from batch

-- name: join_rest
update reme.embedding set hnsw = true
where workspace_id = %(workspace)s and model = %(model)s and not hnsw

-- name: switch
update reme.workspace set hnsw = true where workspace_id = %(workspace)s and embedding_model = %(model)s

-- name: try_to_build
select pg_try_advisory_lock(hashtextextended('reme.hnsw', 0))
