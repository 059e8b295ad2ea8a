-- Working memory: what left the window of a long task, word for word.

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
alter table reme.artifact enable row level security, force row level security;
create policy tenant on reme.artifact using (
    workspace_id = (select current_setting('reme.workspace', true))
    or (select current_setting('reme.workspace', true)) = '*'
);
