-- Items: values under keys in namespaces, as LangGraph's store keeps them.

create sequence reme.item_place;
comment on sequence reme.item_place is 'Numbers items and their namespaces in the order of their first put.';

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
comment on table reme.item is 'Values that programs put under a key in a namespace: the store of LangGraph agents.';
comment on column reme.item.workspace_id is 'The workspace it belongs to.';
comment on column reme.item.namespace is 'The labels of its namespace, the outermost first.';
comment on column reme.item.key is 'Its name in the namespace.';
comment on column reme.item.namespace_place is 'Number, from item_place, of the first put into its namespace.';
comment on column reme.item.place is 'Number, from item_place, of its first put; putting it again does not change it.';
comment on column reme.item.value is 'The value: an object.';
comment on column reme.item.created_at is 'When it was first put.';
comment on column reme.item.updated_at is 'When it was last put.';
comment on column reme.item.ttl_minutes is 'How long it stays after it was put, or read with refresh; empty: for ever.';
comment on column reme.item.expires_at is 'From when on it is no longer found; empty: never.';
alter table reme.item enable row level security, force row level security;
create policy tenant on reme.item using (
    workspace_id = (select current_setting('reme.workspace', true))
    or (select current_setting('reme.workspace', true)) = '*'
);

create table reme.item_embedding (
    workspace_id text not null,
    place        bigint not null,
    path         text not null,
    embedding    vector not null,
    primary key (workspace_id, place, path),
    foreign key (workspace_id, place) references reme.item (workspace_id, place) on delete cascade
);
comment on table reme.item_embedding is 'Vectors of the texts in an item; scanned exactly within a namespace.';
comment on column reme.item_embedding.workspace_id is 'The workspace it belongs to.';
comment on column reme.item_embedding.place is 'The item.';
comment on column reme.item_embedding.path is 'Path, in its value, of the text.';
comment on column reme.item_embedding.embedding is 'The vector, made by the program''s own model.';
alter table reme.item_embedding enable row level security, force row level security;
create policy tenant on reme.item_embedding using (
    workspace_id = (select current_setting('reme.workspace', true))
    or (select current_setting('reme.workspace', true)) = '*'
);

create function reme.number_in(value jsonb) returns numeric language sql immutable parallel safe as $$
    select case jsonb_typeof(value)
        when 'number' then value::numeric
        when 'boolean' then value::boolean::integer::numeric
        when 'string' then
            case when value #>> '{}' ~ '^\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?\s*$'
                 then (value #>> '{}')::numeric end
    end
$$;
comment on function reme.number_in is 'The number that a JSON value is, or is the text of, so that filters compare 9 with 10 as numbers; null where it is none.';
