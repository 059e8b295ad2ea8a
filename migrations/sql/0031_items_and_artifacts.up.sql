-- What programs and long tasks put away: items, which are values under keys in namespaces, as LangGraph's store keeps them; and
-- artifacts of working memory.


-- Items ---------------------------------------------------------------------------------------------------------------

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
call reme.keep_tenants_apart('reme.item');

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
call reme.keep_tenants_apart('reme.item_embedding');

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


-- Artifacts -----------------------------------------------------------------------------------------------------------

create table reme.artifact (
    workspace_id text not null references reme.workspace on delete cascade,
    artifact_id  text not null check (artifact_id <> ''),
    session_id   text not null,
    number       bigint generated always as identity,
    kind         text not null check (kind in ('output', 'turns')),
    source       text not null default '',
    content      text not null,
    summary      text not null default '',
    author       text not null default '',
    created_at   timestamptz not null default now(),
    used_at      timestamptz not null default now(),
    primary key (workspace_id, artifact_id)
);
create index artifact_session on reme.artifact (workspace_id, session_id, number desc);
create index artifact_used on reme.artifact (used_at);
comment on table reme.artifact is 'What left the window of a long task, word for word: outputs of tools, and turns in whose place a summary stands.';
comment on column reme.artifact.workspace_id is 'The workspace it belongs to.';
comment on column reme.artifact.artifact_id is 'Its handle, made from its conversation and its words.';
comment on column reme.artifact.session_id is 'The conversation it left.';
comment on column reme.artifact.number is 'Order in which artifacts were stored.';
comment on column reme.artifact.kind is 'output (of a tool, or another long message) or turns (several messages).';
comment on column reme.artifact.source is 'The call of the tool, or who spoke.';
comment on column reme.artifact.content is 'The text, in full.';
comment on column reme.artifact.summary is 'What stands in the place of turns; empty for outputs.';
comment on column reme.artifact.author is 'Who wrote the summary: a model, or rules.';
comment on column reme.artifact.created_at is 'When it left the window.';
comment on column reme.artifact.used_at is 'When it last stood in a conversation, to the day; from then on it is kept for working.keep_days.';
call reme.keep_tenants_apart('reme.artifact');
