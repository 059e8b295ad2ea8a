-- The server that holds the rows begins its part of a transaction a little later than the one that was asked. So it is told
-- when the transaction began: a memory and its history have the same time.
create or replace procedure reme.set_local(variadic named text[]) language plpgsql as $$
begin
    for place in 1 .. cardinality(named) by 2 loop
        if named[place] ~ '[^a-z_.]' then
            raise invalid_parameter_value using message = format('%s is no name of a setting', quote_literal(named[place]));
        end if;
        execute format('set local %s = %L', named[place], named[place + 1]);
    end loop;
    execute format('set local reme.began = %L', now());
end $$;
alter table reme.memory_history
    alter changed_at set default coalesce(nullif(current_setting('reme.began', true), '')::timestamptz, now());
