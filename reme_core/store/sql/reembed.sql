-- name: progress
select w.embedding_model, w.hnsw,
       (select count(*) from reme.embedding e where e.workspace_id = w.workspace_id and e.model = w.embedding_model),
       (select count(*) from reme.embedding e where e.workspace_id = w.workspace_id and e.model = %(model)s),
       coalesce((select m.dimensions from reme.embedding_model m where m.model = %(model)s), 0)
from reme.workspace w where w.workspace_id = %(workspace)s

-- name: missing
-- What has a vector of the workspace's model and none of the new one, and the text that it stands for.
select e.document_id, e.kind, e.active, coalesce(m.when_to_use, ''), coalesce(m.content, s.content, ''),
       coalesce(s.author, '')
from reme.embedding e
join reme.workspace w on w.workspace_id = e.workspace_id and w.embedding_model = e.model
left join reme.memory m on m.workspace_id = e.workspace_id and m.document_id = e.document_id
left join reme.message s on s.workspace_id = e.workspace_id and s.document_id = e.document_id
where e.workspace_id = %(workspace)s and e.document_id > %(after)s
  and (%(only)s::bigint[] is null or e.document_id = any(%(only)s))
  and not exists (select from reme.embedding n
                  where n.workspace_id = e.workspace_id and n.model = %(model)s and n.document_id = e.document_id)
order by e.document_id
limit %(limit)s

-- name: switch
update reme.workspace set embedding_model = %(model)s, hnsw = false, unindexed_from = null where workspace_id = %(workspace)s
