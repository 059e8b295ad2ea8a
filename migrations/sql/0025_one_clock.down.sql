alter table reme.memory_history alter changed_at set default now();
create or replace procedure reme.set_local(variadic named text[]) language plpgsql as $$
begin
    for place in 1 .. cardinality(named) by 2 loop
        if named[place] ~ '[^a-z_.]' then
            raise invalid_parameter_value using message = format('%s is no name of a setting', quote_literal(named[place]));
        end if;
        execute format('set local %s = %L', named[place], named[place + 1]);
    end loop;
end $$;
