drop index reme.memory_history_when, reme.memory_closed, reme.memory_superseded;
drop view reme.recall_log;
alter table reme.retrieval_hit drop column relevance, drop column left_out;
alter table reme.retrieval drop column relevance, drop column min_relevance, drop column degraded, drop column note_id;
drop index reme.retrieval_query;
comment on column reme.retrieval.session_id is 'The conversation it was asked for.';
comment on column reme.retrieval.flow is 'The flow that asked.';
create view reme.recall_log with (security_invoker) as
select r.workspace_id, r.asked_at, r.query, h.rank, h.kind, coalesce(m.content, said.content) as content,
       h.vector, h.lexical, h.time, h.type, h.final, h.helped, r.milliseconds, r.flow, r.retrieval_id, h.memory_id
from reme.retrieval r
left join reme.retrieval_hit h using (workspace_id, retrieval_id)
left join reme.memory m on h.kind <> 'conversation' and m.workspace_id = h.workspace_id and m.memory_id = h.memory_id
left join reme.message said
    on h.kind = 'conversation' and said.workspace_id = h.workspace_id and said.message_id = h.memory_id;
comment on view reme.recall_log is 'What was recalled for which query, at which rank, and why.';
comment on column reme.recall_log.content is 'What was recalled, in its present words; empty if it is no longer there.';
do $$
declare
    shown record;
begin
    for shown in
        select of_view.attname as name, col_description(of_table.attrelid, of_table.attnum) as comment
        from (values ('reme.retrieval'), ('reme.retrieval_hit')) as tables (name)
        join pg_attribute of_table on of_table.attrelid = tables.name::regclass and of_table.attnum > 0
        join pg_attribute of_view
            on of_view.attrelid = 'reme.recall_log'::regclass and of_view.attname = of_table.attname
        where col_description(of_view.attrelid, of_view.attnum) is null
    loop
        execute format('comment on column reme.recall_log.%I is %L', shown.name, shown.comment);
    end loop;
end $$;
