-- The server that holds the rows begins its part of a transaction a little later than the one that was asked. So it is told
-- when the transaction began: a memory and its history have the same time.
create or replace procedure reme.set_local(variadic named text[]) language plpgsql as $$
begin
    for place in 1 .. cardinality(named) by 2 loop
        if named[place] ~ '[^a-z_.]' then
            raise invalid_parameter_value using message = format('%s is no name of a setting', quote_literal(named[place]));
        end if;
        -- A list of schemas, as one literal, would be the name of one.
        if named[place] = 'search_path' then
            perform set_config(named[place], named[place + 1], true);
        else
            execute format('set local %s = %L', named[place], named[place + 1]);
        end if;
    end loop;
    execute format('set local reme.began = %L', now());
end $$;
create or replace function reme.add_to_history(workspace text, done text, ids text[], before jsonb[], after jsonb[])
returns void language plpgsql as $$
declare
    server bigint;
    lifted bigint;
begin
    select seqmin >> 48 into server from pg_sequence
    where seqrelid = 'reme.memory_history_history_id_seq'::regclass;
    select greatest(ceil(((max(history_id) >> 48) - server) / 256.0), 0)::bigint << 56 into lifted
    from reme.memory_history where workspace_id = workspace;
    insert into reme.memory_history (workspace_id, history_id, memory_id, operation, changed_at, before, after)
    overriding system value
    select w.workspace_id, lifted + nextval('reme.memory_history_history_id_seq'), id, done,
           coalesce(nullif(current_setting('reme.began', true), '')::timestamptz, now()), old, new
    from reme.workspace w cross join unnest(ids, add_to_history.before, add_to_history.after) as entry (id, old, new)
    where w.workspace_id = workspace;
end $$;
