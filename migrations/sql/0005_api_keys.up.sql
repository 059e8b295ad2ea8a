-- Who may use the service: keys, of which only slow hashes are kept, each for some workspaces or for all.

create table reme.api_key (
    key_id     text primary key check (key_id <> ''),
    label      text not null default '',
    salt       bytea not null,
    digest     bytea not null,
    workspaces text[] check (cardinality(workspaces) > 0),
    created_at timestamptz not null default now(),
    expires_at timestamptz,
    revoked_at timestamptz
);
comment on table reme.api_key is 'Keys to the HTTP and MCP services. Where there is none, the services ask for none.';
comment on column reme.api_key.key_id is 'The part of a key that names it; it stands in logs and is no secret.';
comment on column reme.api_key.label is 'Whom or what it was given to.';
comment on column reme.api_key.salt is 'Random bytes that the hash begins with.';
comment on column reme.api_key.digest is 'scrypt of the secret part; the key itself was shown once and is kept nowhere.';
comment on column reme.api_key.workspaces is 'The workspaces it opens; empty: all of them, and the listing of workspaces.';
comment on column reme.api_key.created_at is 'When it was made.';
comment on column reme.api_key.expires_at is 'From when on it opens nothing; empty: never.';
comment on column reme.api_key.revoked_at is 'When it was taken back; empty: it was not.';

-- Keys belong to no workspace: only upkeep, which names all workspaces, sees them.
alter table reme.api_key enable row level security;
alter table reme.api_key force row level security;
create policy upkeep on reme.api_key using ((select current_setting('reme.workspace', true)) = '*');
