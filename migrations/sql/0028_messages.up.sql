-- Messages: what was said, word for word. Memories are made from them and rest on them.

create table reme.message (
    workspace_id      text not null references reme.workspace on delete cascade,
    message_id        text not null check (message_id <> ''),
    document_id       bigint not null default nextval('reme.document_id'),
    session_id        text not null default '',
    position          bigint not null,
    role              text not null check (role in ('user', 'assistant', 'system', 'tool')),
    author            text not null default '',
    user_id           text not null default '',
    agent_id          text not null default '',
    run_id            text not null default '',
    content           text not null default '',
    terms             integer not null default 0,
    reasoning_content text not null default '',
    tool_calls        jsonb not null default '[]',
    tool_call_id      text not null default '',
    sent_at           timestamptz not null,
    recorded_at       timestamptz not null default now(),
    embedded_at       timestamptz,
    summarised_at     timestamptz,
    metadata          jsonb not null default '{}',
    erased_at         timestamptz,
    primary key (workspace_id, message_id)
);
create unique index message_document on reme.message (workspace_id, document_id);
create index message_session on reme.message (workspace_id, session_id, position);
create index message_author on reme.message (workspace_id, author) where author <> '';
create index message_user on reme.message (workspace_id, user_id) where user_id <> '';
create index message_agent on reme.message (workspace_id, agent_id) where agent_id <> '';
create index message_run on reme.message (workspace_id, run_id) where run_id <> '';
create index message_sent on reme.message (workspace_id, sent_at);
create index message_unembedded on reme.message (workspace_id, document_id) where embedded_at is null;
create index message_waiting on reme.message (workspace_id, session_id, position) where summarised_at is null;
comment on table reme.message is 'What was said, word for word: the evidence that memories rest on.';
comment on column reme.message.workspace_id is 'The workspace it belongs to.';
comment on column reme.message.message_id is 'Its identity; the same id is recorded once.';
comment on column reme.message.document_id is 'Its number in the index tables.';
comment on column reme.message.session_id is 'The session, that is the conversation, it belongs to.';
comment on column reme.message.position is 'Its place in the session, from 1.';
comment on column reme.message.role is 'user, assistant, system or tool.';
comment on column reme.message.author is 'The name of the speaker, where the role alone does not say who spoke.';
comment on column reme.message.user_id is 'The person with whom it was exchanged, where several share a workspace; empty: nobody in particular.';
comment on column reme.message.agent_id is 'The agent in whose conversation it stands.';
comment on column reme.message.run_id is 'The run in which it was said.';
comment on column reme.message.content is 'What was said.';
comment on column reme.message.terms is 'How many different terms it holds.';
comment on column reme.message.reasoning_content is 'What a model thought before it answered.';
comment on column reme.message.tool_calls is 'The tools that the assistant called, with their arguments.';
comment on column reme.message.tool_call_id is 'In the answer of a tool: the call that it answers.';
comment on column reme.message.sent_at is 'When it was said; "yesterday" in it is the day before.';
comment on column reme.message.recorded_at is 'When it was recorded.';
comment on column reme.message.embedded_at is 'When its vector was made; empty: not yet, and recall finds it by its words alone.';
comment on column reme.message.summarised_at is 'When memories were made from it; empty: not yet.';
comment on column reme.message.metadata is 'Whatever the caller attached.';
comment on column reme.message.erased_at is 'When its words were erased; the row stays, so that the same message is not recorded again.';
call reme.keep_tenants_apart('reme.message');
