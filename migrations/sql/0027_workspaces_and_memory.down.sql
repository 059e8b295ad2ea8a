-- The role stays, since other databases of the cluster may use it.
drop function reme.remove_wordings(jsonb, text[]);
drop function reme.remove_wordings(text[], text[]);
drop function reme.remove_wordings(text, text[]);
drop table reme.memory_history, reme.memory_source, reme.memory, reme.workspace;
drop function reme.write_memory_history, reme.add_to_history;
drop procedure reme.keep_tenants_apart, reme.set_local;
drop sequence reme.document_id;
