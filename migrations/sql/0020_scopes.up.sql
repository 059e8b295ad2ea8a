-- Scopes within a workspace: the person, the agent and the run that memories and messages are of.

alter table reme.memory
    add column user_id text not null default '',
    add column agent_id text not null default '',
    add column run_id text not null default '';
create index memory_user on reme.memory (workspace_id, user_id) where user_id <> '';
create index memory_agent on reme.memory (workspace_id, agent_id) where agent_id <> '';
create index memory_run on reme.memory (workspace_id, run_id) where run_id <> '';
comment on column reme.memory.user_id is 'The person it is of, where several share a workspace; empty: of nobody in particular.';
comment on column reme.memory.agent_id is 'The agent it is of.';
comment on column reme.memory.run_id is 'The run it is of.';

alter table reme.message
    add column user_id text not null default '',
    add column agent_id text not null default '',
    add column run_id text not null default '';
create index message_user on reme.message (workspace_id, user_id) where user_id <> '';
create index message_agent on reme.message (workspace_id, agent_id) where agent_id <> '';
create index message_run on reme.message (workspace_id, run_id) where run_id <> '';
comment on column reme.message.user_id is 'The person with whom it was exchanged, where several share a workspace; empty: nobody in particular.';
comment on column reme.message.agent_id is 'The agent in whose conversation it stands.';
comment on column reme.message.run_id is 'The run in which it was said.';

-- A version of a memory in the history is read as a row, which has these columns now.
update reme.memory_history
set before = '{"user_id": "", "agent_id": "", "run_id": ""}'::jsonb || before,
    after = '{"user_id": "", "agent_id": "", "run_id": ""}'::jsonb || after;

create or replace view reme.memory_current with (security_invoker) as
select workspace_id, memory_id, kind, subject, when_to_use, content, keywords, importance, score, seen_count,
       observed_at, valid_during, recorded_at, updated_at, author, metadata, user_id, agent_id, run_id
from reme.memory
where status = 'active' and (upper(valid_during) is null or upper(valid_during) > now());
comment on column reme.memory_current.user_id is 'The person it is of, where several share a workspace; empty: of nobody in particular.';
comment on column reme.memory_current.agent_id is 'The agent it is of.';
comment on column reme.memory_current.run_id is 'The run it is of.';
