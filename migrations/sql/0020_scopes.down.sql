drop view reme.memory_current;
create view reme.memory_current with (security_invoker) as
select workspace_id, memory_id, kind, subject, when_to_use, content, keywords, importance, score, seen_count,
       observed_at, valid_during, recorded_at, updated_at, author, metadata
from reme.memory
where status = 'active' and (upper(valid_during) is null or upper(valid_during) > now());
comment on view reme.memory_current is 'The active memories that hold now.';
do $$
declare
    shown record;
begin
    for shown in
        select of_view.attname as name, col_description(of_table.attrelid, of_table.attnum) as comment
        from pg_attribute of_view
        join pg_attribute of_table on of_table.attrelid = 'reme.memory'::regclass and of_table.attname = of_view.attname
        where of_view.attrelid = 'reme.memory_current'::regclass
    loop
        execute format('comment on column reme.memory_current.%I is %L', shown.name, shown.comment);
    end loop;
end $$;

alter table reme.memory drop column user_id, drop column agent_id, drop column run_id;
alter table reme.message drop column user_id, drop column agent_id, drop column run_id;
update reme.memory_history
set before = before - array['user_id', 'agent_id', 'run_id'], after = after - array['user_id', 'agent_id', 'run_id'];
