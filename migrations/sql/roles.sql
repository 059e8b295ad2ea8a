-- The role of the service, and what it may do. Row-level security does not hold a superuser, so a service that logs in as
-- one works as this role. Run after each upgrade: in a server into which a dump was restored, the role may be missing, and
-- with it all grants of the dump.
do $$
begin
    create role reme_service nologin;
exception
    when duplicate_object or unique_violation then null;  -- another database of this cluster has made it
    when insufficient_privilege then
        raise notice 'role reme_service was not created: the login role itself is held by row-level security';
end $$;

do $$
begin
    execute format('grant reme_service to %I', current_user);
exception
    when undefined_object or insufficient_privilege or unique_violation or invalid_grant_operation then null;
end $$;

do $$
begin
    if not exists (select from pg_roles where rolname = 'reme_service') then
        return;  -- without the role, the login role owns the tables and FORCE holds it
    end if;
    grant usage on schema reme to reme_service;
    grant select, insert, update, delete on all tables in schema reme to reme_service;
    grant usage on all sequences in schema reme to reme_service;
    grant execute on all functions in schema reme to reme_service;
    alter default privileges in schema reme grant select, insert, update, delete on tables to reme_service;
    alter default privileges in schema reme grant usage on sequences to reme_service;
    alter default privileges in schema reme grant execute on functions to reme_service;
end $$;
