-- Items: values under keys in namespaces, as LangGraph's store keeps them.

create sequence reme.item_place;
comment on sequence reme.item_place is 'Numbers items and their namespaces in the order in which they came.';

create table reme.item (
    workspace_id    text not null references reme.workspace on delete cascade,
    namespace       text[] collate "C" not null,
    key             text collate "C" not null,
    namespace_place bigint not null,
    place           bigint not null default nextval('reme.item_place'),
    value           jsonb not null check (jsonb_typeof(value) = 'object'),
    created_at      timestamptz not null default now(),
    updated_at      timestamptz not null default now(),
    ttl_minutes     double precision,
    expires_at      timestamptz,
    primary key (workspace_id, namespace, key),
    unique (workspace_id, place),
    check ((ttl_minutes is null) = (expires_at is null))
);
create index item_expiry on reme.item (workspace_id, expires_at) where expires_at is not null;
comment on table reme.item is 'Values that programs keep under a key in a namespace; the store of LangGraph agents.';
comment on column reme.item.workspace_id is 'The tenant it belongs to.';
comment on column reme.item.namespace is 'Where it stands, from the outermost label to the innermost.';
comment on column reme.item.key is 'Its name there.';
comment on column reme.item.namespace_place is 'When its namespace came to hold something, among all numbers of item_place.';
comment on column reme.item.place is 'When it came, among all numbers of item_place; kept when it is overwritten.';
comment on column reme.item.value is 'What it holds: an object.';
comment on column reme.item.created_at is 'When it was first put.';
comment on column reme.item.updated_at is 'When it was last put.';
comment on column reme.item.ttl_minutes is 'How long it lives after it was put, or read with refreshing; empty is for ever.';
comment on column reme.item.expires_at is 'From when on it counts as gone.';

create table reme.item_embedding (
    workspace_id text not null,
    place        bigint not null,
    path         text not null,
    embedding    vector not null,
    primary key (workspace_id, place, path),
    foreign key (workspace_id, place) references reme.item (workspace_id, place) on delete cascade
);
comment on table reme.item_embedding is 'Vectors of the texts in an item by which it is found; scanned exactly within a namespace.';
comment on column reme.item_embedding.workspace_id is 'The tenant it belongs to.';
comment on column reme.item_embedding.place is 'The item.';
comment on column reme.item_embedding.path is 'Which text of its value.';
comment on column reme.item_embedding.embedding is 'The vector, as the program''s own model made it.';

create function reme.number_in(value jsonb) returns numeric language sql immutable parallel safe as $$
    select case jsonb_typeof(value)
        when 'number' then value::numeric
        when 'boolean' then value::boolean::integer::numeric
        when 'string' then
            case when value #>> '{}' ~ '^\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?\s*$'
                 then (value #>> '{}')::numeric end
    end
$$;
comment on function reme.number_in is 'The number that a JSON value is or spells, so that filters compare 9 with 10 as numbers; null where it is none.';

do $$
declare
    relation text;
begin
    foreach relation in array array['item', 'item_embedding']
    loop
        execute format('alter table reme.%I enable row level security', relation);
        execute format('alter table reme.%I force row level security', relation);
        execute format(
            'create policy tenant on reme.%I using (workspace_id = (select current_setting(''reme.workspace'', true))'
            ' or (select current_setting(''reme.workspace'', true)) = ''*'')', relation);
    end loop;
end $$;

do $$
begin
    grant select, insert, update, delete on reme.item, reme.item_embedding to reme_service;
    grant usage on sequence reme.item_place to reme_service;
    grant execute on function reme.number_in to reme_service;
exception
    when undefined_object then null;  -- without the role, the login role owns the tables and FORCE holds it
end $$;
