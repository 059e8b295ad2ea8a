-- The release before takes all vectors of an indexed workspace to be in the index.
update reme.embedding e set hnsw = true
from reme.workspace w
where w.unindexed_from is not null and e.workspace_id = w.workspace_id and e.model = w.embedding_model and not e.hnsw;
alter table reme.workspace drop column unindexed_from;
