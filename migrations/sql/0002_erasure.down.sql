drop function reme.without(jsonb, text[]);
drop function reme.without(text[], text[]);
drop function reme.without(text, text[]);
drop index reme.posting_document;
create index posting_document on reme.posting (workspace_id, document_id);
alter table reme.message drop column erased_at;
alter table reme.workspace drop column erased_at;
