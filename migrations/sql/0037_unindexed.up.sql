-- Thousands of vectors that are added at once took the index many seconds, while the other writers of the workspace waited. So
-- they join it afterwards, some at a time; until then recall compares them all.
alter table reme.workspace add column unindexed_from bigint;
comment on column reme.workspace.unindexed_from is 'From this document_id on, vectors may not be in the HNSW index yet; empty: all are, or none is.';
create index workspace_unindexed on reme.workspace (workspace_id) where unindexed_from is not null;
