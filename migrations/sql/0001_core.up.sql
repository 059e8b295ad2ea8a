-- The core: memories with two time axes, their evidence and history, the messages and episodes they come from, and what
-- recall needs to find them. Every table is keyed by workspace first, so that it distributes unchanged by workspace.

create extension if not exists vector;

-- The service works as this role even where it logs in as a superuser, who would pass by row-level security unseen.
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
    when undefined_object or insufficient_privilege or unique_violation then null;
    when invalid_grant_operation then null;
end $$;


-- Workspaces and models ------------------------------------------------------------------------------------------------

create table reme.workspace (
    workspace_id    text primary key check (workspace_id <> '' and workspace_id <> '*' and length(workspace_id) <= 200),
    embedding_model text,
    hnsw            boolean not null default false,
    settings        jsonb not null default '{}',
    created_at      timestamptz not null default now()
);
comment on table reme.workspace is 'A tenant: a person, a project, an agent fleet. Nothing is seen across workspaces.';
comment on column reme.workspace.workspace_id is 'The caller''s own name for it.';
comment on column reme.workspace.embedding_model is 'The model whose vectors serve recall; changed only when all memories have vectors of the new one.';
comment on column reme.workspace.hnsw is 'Whether it has grown past the row threshold, so that its vectors are in their model''s HNSW index.';
comment on column reme.workspace.settings is 'What is set for this workspace alone: language, time zone, schedules.';
comment on column reme.workspace.created_at is 'When it was first written to.';

create table reme.embedding_model (
    model       text primary key,
    dimensions  integer not null check (dimensions between 1 and 16000),
    created_at  timestamptz not null default now()
);
comment on table reme.embedding_model is 'Embedding models that have vectors here.';
comment on column reme.embedding_model.model is 'Identity of the model, width included where it can be chosen; vectors of different models never mix.';
comment on column reme.embedding_model.dimensions is 'Width of its vectors.';
comment on column reme.embedding_model.created_at is 'When it was first used.';


-- What was seen --------------------------------------------------------------------------------------------------------

create sequence reme.document_id;
comment on sequence reme.document_id is 'Numbers memories and messages alike, for the narrow index tables.';

create table reme.message (
    workspace_id      text not null references reme.workspace on delete cascade,
    message_id        text not null check (message_id <> ''),
    document_id       bigint not null default nextval('reme.document_id'),
    session_id        text not null default '',
    position          bigint not null,
    role              text not null check (role in ('user', 'assistant', 'system', 'tool')),
    author            text not null default '',
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
    primary key (workspace_id, message_id)
);
create unique index message_document on reme.message (workspace_id, document_id);
create index message_session on reme.message (workspace_id, session_id, position);
create index message_author on reme.message (workspace_id, author) where author <> '';
create index message_sent on reme.message (workspace_id, sent_at);
create index message_unembedded on reme.message (workspace_id, document_id) where embedded_at is null;
create index message_waiting on reme.message (workspace_id, session_id, position) where summarised_at is null;
comment on table reme.message is 'What was said, as it was said: the evidence that memories rest on.';
comment on column reme.message.workspace_id is 'The tenant it belongs to.';
comment on column reme.message.message_id is 'Its identity; the same id is taken in once.';
comment on column reme.message.document_id is 'Its number in the index tables.';
comment on column reme.message.session_id is 'The conversation it is part of.';
comment on column reme.message.position is 'Its place in that conversation, from 1.';
comment on column reme.message.role is 'user, assistant, system or tool.';
comment on column reme.message.author is 'Who speaks, where the role alone does not say it.';
comment on column reme.message.content is 'The words.';
comment on column reme.message.terms is 'How many distinct terms it holds: how much it can say.';
comment on column reme.message.reasoning_content is 'What a model thought before answering, kept apart from the answer.';
comment on column reme.message.tool_calls is 'Tools an assistant called, with their arguments.';
comment on column reme.message.tool_call_id is 'For a tool''s answer: the call it answers.';
comment on column reme.message.sent_at is 'When it was said; the reference for every time it speaks of.';
comment on column reme.message.recorded_at is 'When it was taken in.';
comment on column reme.message.embedded_at is 'When its vector was made; empty means that only its words find it yet.';
comment on column reme.message.summarised_at is 'When memories were made from it; empty means that it still waits.';
comment on column reme.message.metadata is 'Whatever the caller attached.';

create table reme.episode (
    workspace_id text not null references reme.workspace on delete cascade,
    episode_id   text not null check (episode_id <> ''),
    number       bigint not null,
    task_id      text not null,
    worker_id    text not null default '',
    score        double precision not null default 0,
    steps        integer not null default 0,
    summary      text not null default '',
    mistakes     text[] not null default '{}',
    successes    text[] not null default '{}',
    finished_at  timestamptz not null default now(),
    recorded_at  timestamptz not null default now(),
    metadata     jsonb not null default '{}',
    primary key (workspace_id, episode_id),
    unique (workspace_id, number)
);
create index episode_task on reme.episode (workspace_id, task_id, number desc);
comment on table reme.episode is 'Scored attempts at tasks, all of them, in order.';
comment on column reme.episode.workspace_id is 'The tenant it belongs to.';
comment on column reme.episode.episode_id is 'Its identity; the same id is taken in once.';
comment on column reme.episode.number is 'Its place among all episodes of the workspace, from 1.';
comment on column reme.episode.task_id is 'The task that was attempted.';
comment on column reme.episode.worker_id is 'Which worker made the attempt, where several do.';
comment on column reme.episode.score is 'How well it went, 0 to 1.';
comment on column reme.episode.steps is 'How many steps it took.';
comment on column reme.episode.summary is 'What happened, in a sentence or two.';
comment on column reme.episode.mistakes is 'What went wrong.';
comment on column reme.episode.successes is 'What worked.';
comment on column reme.episode.finished_at is 'When the attempt ended.';
comment on column reme.episode.recorded_at is 'When it was taken in.';
comment on column reme.episode.metadata is 'Whatever the caller attached.';


-- What is remembered ---------------------------------------------------------------------------------------------------

create table reme.memory (
    workspace_id  text not null references reme.workspace on delete cascade,
    memory_id     text not null check (memory_id <> ''),
    document_id   bigint not null default nextval('reme.document_id'),
    kind          text not null,
    subject       text not null default '',
    when_to_use   text not null default '',
    content       text not null,
    keywords      text[] not null default '{}',
    importance    double precision not null default 0.5 check (importance between 0 and 1),
    score         double precision not null default 0,
    status        text not null default 'active' check (status in ('active', 'superseded', 'expired', 'deleted')),
    superseded_by text,
    observed_at   timestamptz,
    valid_during  tstzrange not null default tstzrange(null, null),
    recorded_at   timestamptz not null default now(),
    expired_at    timestamptz,
    created_at    timestamptz not null default now(),
    updated_at    timestamptz not null default now(),
    author        text not null default '',
    seen_count    integer not null default 1,
    freq          integer not null default 0,
    utility       integer not null default 0,
    metadata      jsonb not null default '{}',
    primary key (workspace_id, memory_id),
    check ((status = 'active') = (expired_at is null))
);
create unique index memory_document on reme.memory (workspace_id, document_id);
create index memory_newest on reme.memory (workspace_id, kind, recorded_at desc);
create index memory_text on reme.memory (workspace_id, md5(content));
comment on table reme.memory is 'Remembered statements. Two time axes: recorded_at to expired_at is when we knew it, valid_during when it holds.';
comment on column reme.memory.workspace_id is 'The tenant it belongs to.';
comment on column reme.memory.memory_id is 'Its identity within the workspace.';
comment on column reme.memory.document_id is 'Its number in the index tables.';
comment on column reme.memory.kind is 'observation, insight, custom, instruction, profile, task, rule, mistake or tool.';
comment on column reme.memory.subject is 'Whom or what it is about.';
comment on column reme.memory.when_to_use is 'The situation in which it helps.';
comment on column reme.memory.content is 'The statement itself.';
comment on column reme.memory.keywords is 'Words it should also be found by.';
comment on column reme.memory.importance is 'How much it matters, 0 to 1.';
comment on column reme.memory.score is 'How good its maker judged it; never overwritten by a similarity.';
comment on column reme.memory.status is 'active, superseded (a newer one replaces it), expired (no successor) or deleted (by a user, until erased).';
comment on column reme.memory.superseded_by is 'The memory that replaces it.';
comment on column reme.memory.observed_at is 'When it was said or seen.';
comment on column reme.memory.valid_during is 'When it holds in the world; an open side is unbounded.';
comment on column reme.memory.recorded_at is 'When this database came to know it.';
comment on column reme.memory.expired_at is 'When it ceased to be current knowledge.';
comment on column reme.memory.created_at is 'When its maker made it; earlier than recorded_at for a loaded library.';
comment on column reme.memory.updated_at is 'When it was last changed.';
comment on column reme.memory.author is 'Who made it: a model''s name, rules, or a person.';
comment on column reme.memory.seen_count is 'How often it was stated.';
comment on column reme.memory.freq is 'How often it was given to an agent.';
comment on column reme.memory.utility is 'How often that agent then succeeded.';
comment on column reme.memory.metadata is 'Whatever else belongs to it.';

create table reme.memory_source (
    workspace_id text not null,
    memory_id    text not null,
    source_kind  text not null check (source_kind in ('message', 'episode', 'memory')),
    source_id    text not null,
    quote        text not null default '',
    primary key (workspace_id, memory_id, source_kind, source_id),
    foreign key (workspace_id, memory_id) references reme.memory on delete cascade
);
create index memory_source_of on reme.memory_source (workspace_id, source_kind, source_id);
comment on table reme.memory_source is 'Evidence: which messages, episodes or other memories a memory rests on.';
comment on column reme.memory_source.workspace_id is 'The tenant it belongs to.';
comment on column reme.memory_source.memory_id is 'The memory.';
comment on column reme.memory_source.source_kind is 'message, episode or memory.';
comment on column reme.memory_source.source_id is 'The id of the evidence.';
comment on column reme.memory_source.quote is 'The words it rests on, where one passage can be named.';

create table reme.memory_history (
    workspace_id text not null references reme.workspace on delete cascade,
    history_id   bigint generated always as identity,
    memory_id    text not null,
    operation    text not null check (operation in ('insert', 'update', 'delete')),
    changed_at   timestamptz not null default now(),
    changed_by   text not null default coalesce(current_setting('reme.actor', true), ''),
    reason       text not null default coalesce(current_setting('reme.reason', true), ''),
    before       jsonb,
    after        jsonb,
    primary key (workspace_id, history_id)
);
create index memory_history_of on reme.memory_history (workspace_id, memory_id, history_id);
comment on table reme.memory_history is 'Every insert, change and removal of a memory, written by a trigger and never changed, except by erasure.';
comment on column reme.memory_history.workspace_id is 'The tenant it belongs to.';
comment on column reme.memory_history.history_id is 'Order of the changes.';
comment on column reme.memory_history.memory_id is 'The memory that changed.';
comment on column reme.memory_history.operation is 'insert, update or delete.';
comment on column reme.memory_history.changed_at is 'When.';
comment on column reme.memory_history.changed_by is 'Who: a flow, a model, a person.';
comment on column reme.memory_history.reason is 'Why.';
comment on column reme.memory_history.before is 'The whole row before; empty for an insert.';
comment on column reme.memory_history.after is 'The whole row after; empty for a delete.';

create function reme.write_memory_history() returns trigger language plpgsql as $$
begin
    -- Erasure leaves no trace of the text, so it leaves no history either.
    if current_setting('reme.erasing', true) = 'on' then
        return null;
    elsif tg_op = 'INSERT' then
        insert into reme.memory_history (workspace_id, memory_id, operation, after)
        select workspace_id, memory_id, 'insert', to_jsonb(added) from added;
    elsif tg_op = 'UPDATE' then
        insert into reme.memory_history (workspace_id, memory_id, operation, before, after)
        select added.workspace_id, added.memory_id, 'update', to_jsonb(removed), to_jsonb(added)
        from added join removed using (workspace_id, document_id)
        where added is distinct from removed;
    else
        insert into reme.memory_history (workspace_id, memory_id, operation, before)
        select workspace_id, memory_id, 'delete', to_jsonb(removed)
        from removed
        where exists (select from reme.workspace w where w.workspace_id = removed.workspace_id);
    end if;
    return null;
end $$;
comment on function reme.write_memory_history is 'Writes memory_history; one statement for all rows that a statement touched.';
create trigger memory_history_insert after insert on reme.memory
    referencing new table as added for each statement execute function reme.write_memory_history();
create trigger memory_history_update after update on reme.memory
    referencing old table as removed new table as added for each statement execute function reme.write_memory_history();
create trigger memory_history_delete after delete on reme.memory
    referencing old table as removed for each statement execute function reme.write_memory_history();


-- What finds it --------------------------------------------------------------------------------------------------------

create table reme.embedding (
    workspace_id text not null,
    model        text not null,
    kind         text not null,
    document_id  bigint not null,
    live         boolean not null default true,
    hnsw         boolean not null default false,
    embedding    halfvec not null,
    primary key (workspace_id, model, document_id)
);
-- Vectors stay in the row: an out-of-line vector makes an exact scan two to three times slower. One that cannot fit
-- on a page (over 4,000 wide) is moved out as the last resort.
alter table reme.embedding alter column embedding set storage main;
alter table reme.embedding set (toast_tuple_target = 8160);
comment on table reme.embedding is 'One vector for each memory or message and model. Scanned exactly within a workspace; large workspaces use HNSW.';
comment on column reme.embedding.workspace_id is 'The tenant it belongs to.';
comment on column reme.embedding.model is 'The embedding model that made it.';
comment on column reme.embedding.kind is 'The memory''s kind, or conversation for a message; repeated here so that a scan can choose by it.';
comment on column reme.embedding.document_id is 'The memory or message.';
comment on column reme.embedding.live is 'Whether the memory is active; kept in step by a trigger.';
comment on column reme.embedding.hnsw is 'Whether the row takes part in its model''s HNSW index; an index makes inserts slower, so only large workspaces do.';
comment on column reme.embedding.embedding is 'The vector, unit length, half precision.';

create function reme.follow_memory() returns trigger language plpgsql as $$
begin
    update reme.embedding e
    set live = new.status = 'active', kind = new.kind
    where e.workspace_id = new.workspace_id and e.document_id = new.document_id;
    return null;
end $$;
comment on function reme.follow_memory is 'Keeps kind and liveness of a memory''s vectors in step with the memory.';
create trigger memory_embedding after update of status, kind on reme.memory
    for each row when (old.status is distinct from new.status or old.kind is distinct from new.kind)
    execute function reme.follow_memory();

-- The three tables below take thousands of rows a second; a foreign key would look up the workspace for each. Whoever
-- removes a document or a workspace removes its rows here (store/index.py).
create table reme.posting (
    workspace_id text collate "C" not null,
    corpus       text collate "C" not null,
    term         text collate "C" not null,
    impact       real not null,
    document_id  bigint not null
);
create index posting_best on reme.posting (workspace_id, corpus, term, impact desc) include (document_id);
create index posting_document on reme.posting (document_id);  -- a number of one workspace only
comment on table reme.posting is 'The lexical leg: which document holds which term, with its BM25 impact computed at write time (neighbours included).';
comment on column reme.posting.workspace_id is 'The tenant it belongs to.';
comment on column reme.posting.corpus is 'memory or message: the collection whose statistics count.';
comment on column reme.posting.term is 'A stem, a CJK bigram, a number or an identifier.';
comment on column reme.posting.impact is 'BM25 weight of the term in the document, without the inverse document frequency.';
comment on column reme.posting.document_id is 'The memory or message.';

create table reme.term_statistic (
    workspace_id text collate "C" not null,
    corpus       text collate "C" not null,
    term         text collate "C" not null,
    documents    bigint not null,
    primary key (workspace_id, corpus, term)
) with (fillfactor = 80);
comment on table reme.term_statistic is 'Document frequency of each term.';
comment on column reme.term_statistic.workspace_id is 'The tenant it belongs to.';
comment on column reme.term_statistic.corpus is 'memory or message.';
comment on column reme.term_statistic.term is 'The term.';
comment on column reme.term_statistic.documents is 'How many documents hold it.';

create table reme.corpus_statistic (
    workspace_id text collate "C" not null,
    corpus       text collate "C" not null,
    documents    bigint not null default 0,
    terms        bigint not null default 0,
    primary key (workspace_id, corpus)
) with (fillfactor = 50);
comment on table reme.corpus_statistic is 'Size of each collection of documents.';
comment on column reme.corpus_statistic.workspace_id is 'The tenant it belongs to.';
comment on column reme.corpus_statistic.corpus is 'memory or message.';
comment on column reme.corpus_statistic.documents is 'How many documents it holds.';
comment on column reme.corpus_statistic.terms is 'How many terms they hold together; with documents, the mean length.';


-- What was recalled, and what it cost ----------------------------------------------------------------------------------

create table reme.retrieval (
    workspace_id text not null references reme.workspace on delete cascade,
    retrieval_id text not null,
    asked_at     timestamptz not null default now(),
    query        text not null,
    kinds        text[] not null default '{}',
    flow         text not null default '',
    session_id   text not null default '',
    milliseconds real not null default 0,
    primary key (workspace_id, retrieval_id)
);
create index retrieval_newest on reme.retrieval (workspace_id, asked_at desc);
comment on table reme.retrieval is 'Each recall: what was asked.';
comment on column reme.retrieval.workspace_id is 'The tenant it belongs to.';
comment on column reme.retrieval.retrieval_id is 'Its identity, as the recollection carries it.';
comment on column reme.retrieval.asked_at is 'When.';
comment on column reme.retrieval.query is 'The query.';
comment on column reme.retrieval.kinds is 'The kinds asked for; none means all.';
comment on column reme.retrieval.flow is 'The flow that asked.';
comment on column reme.retrieval.session_id is 'The conversation it was asked for.';
comment on column reme.retrieval.milliseconds is 'How long the database took.';

create table reme.retrieval_hit (
    workspace_id text not null,
    retrieval_id text not null,
    rank         integer not null,
    memory_id    text not null,
    kind         text not null,
    vector       double precision not null default 0,
    lexical      double precision not null default 0,
    time         double precision not null default 0,
    type         double precision not null default 1,
    final        double precision not null default 0,
    helped       boolean,
    primary key (workspace_id, retrieval_id, rank),
    foreign key (workspace_id, retrieval_id) references reme.retrieval on delete cascade
);
create index retrieval_hit_memory on reme.retrieval_hit (workspace_id, memory_id);
comment on table reme.retrieval_hit is 'What each recall found, at which rank and why, and whether it helped.';
comment on column reme.retrieval_hit.workspace_id is 'The tenant it belongs to.';
comment on column reme.retrieval_hit.retrieval_id is 'The recall.';
comment on column reme.retrieval_hit.rank is 'Place in the answer, from 1.';
comment on column reme.retrieval_hit.memory_id is 'The memory, or for kind conversation the message.';
comment on column reme.retrieval_hit.kind is 'Its kind at that time.';
comment on column reme.retrieval_hit.vector is 'Share of the vector leg, 0 to 1.';
comment on column reme.retrieval_hit.lexical is 'Share of the lexical leg, 0 to 1.';
comment on column reme.retrieval_hit.time is 'Boost for matching the time asked about.';
comment on column reme.retrieval_hit.type is 'Weight of the kind.';
comment on column reme.retrieval_hit.final is 'The score it was ranked by.';
comment on column reme.retrieval_hit.helped is 'Whether the agent then succeeded; empty while nobody said.';

create table reme.model_call (
    workspace_id      text not null default '',
    call_id           bigint generated always as identity,
    called_at         timestamptz not null default now(),
    purpose           text not null default '',
    provider          text not null,
    model             text not null,
    prompt_tokens     integer not null default 0,
    completion_tokens integer not null default 0,
    milliseconds      real not null,
    ok                boolean not null,
    error             text not null default '',
    raw               text not null default '',
    primary key (workspace_id, call_id)
);
create index model_call_newest on reme.model_call (workspace_id, called_at desc);
comment on table reme.model_call is 'Tokens and milliseconds of each model call.';
comment on column reme.model_call.workspace_id is 'The tenant it was made for; empty where none was.';
comment on column reme.model_call.call_id is 'Order of the calls.';
comment on column reme.model_call.called_at is 'When.';
comment on column reme.model_call.purpose is 'The op that asked.';
comment on column reme.model_call.provider is 'openai, dashscope, local, …';
comment on column reme.model_call.model is 'The model.';
comment on column reme.model_call.prompt_tokens is 'Tokens sent, as the provider counts.';
comment on column reme.model_call.completion_tokens is 'Tokens answered, as the provider counts.';
comment on column reme.model_call.milliseconds is 'How long it took, retries included.';
comment on column reme.model_call.ok is 'Whether it gave a usable answer.';
comment on column reme.model_call.error is 'What went wrong.';
comment on column reme.model_call.raw is 'The raw answer, kept for failures only.';


-- Views for people -----------------------------------------------------------------------------------------------------

create view reme.memory_current with (security_invoker) as
select workspace_id, memory_id, kind, subject, when_to_use, content, keywords, importance, score, seen_count,
       observed_at, valid_during, recorded_at, updated_at, author, metadata
from reme.memory
where status = 'active' and (upper(valid_during) is null or upper(valid_during) > now());
comment on view reme.memory_current is 'What is known and holds now.';

create view reme.memory_timeline with (security_invoker) as
select workspace_id, subject, coalesce(lower(valid_during), observed_at, recorded_at) as since, upper(valid_during) as until,
       kind, content, status, superseded_by, memory_id
from reme.memory
where status <> 'deleted'
order by workspace_id, subject, since;
comment on view reme.memory_timeline is 'What held when, by subject, superseded statements included.';

create view reme.memory_lineage with (security_invoker) as
select s.workspace_id, s.memory_id, m.kind, m.content, s.source_kind, s.source_id,
       coalesce(nullif(s.quote, ''), said.content, origin.content, tried.summary) as evidence,
       coalesce(said.sent_at, origin.observed_at, tried.finished_at) as evidence_at,
       coalesce(nullif(said.author, ''), said.role) as said_by
from reme.memory_source s
join reme.memory m using (workspace_id, memory_id)
left join reme.message said
    on s.source_kind = 'message' and said.workspace_id = s.workspace_id and said.message_id = s.source_id
left join reme.memory origin
    on s.source_kind = 'memory' and origin.workspace_id = s.workspace_id and origin.memory_id = s.source_id
left join reme.episode tried
    on s.source_kind = 'episode' and tried.workspace_id = s.workspace_id and tried.episode_id = s.source_id;
comment on view reme.memory_lineage is 'Each memory beside the evidence that it rests on.';

create view reme.task_scoreboard with (security_invoker) as
select workspace_id, task_id, count(*) as episodes, avg(score) as mean_score, max(score) as best_score,
       count(*) filter (where score >= 1) as solved, avg(steps) as mean_steps, max(finished_at) as last_attempt
from reme.episode
group by workspace_id, task_id;
comment on view reme.task_scoreboard is 'How each task goes.';

create view reme.recall_log with (security_invoker) as
select r.workspace_id, r.asked_at, r.query, h.rank, h.kind, coalesce(m.content, said.content) as content,
       h.vector, h.lexical, h.time, h.type, h.final, h.helped, r.milliseconds, r.flow, r.retrieval_id, h.memory_id
from reme.retrieval r
left join reme.retrieval_hit h using (workspace_id, retrieval_id)
left join reme.memory m on h.kind <> 'conversation' and m.workspace_id = h.workspace_id and m.memory_id = h.memory_id
left join reme.message said
    on h.kind = 'conversation' and said.workspace_id = h.workspace_id and said.message_id = h.memory_id;
comment on view reme.recall_log is 'What was recalled for which query, at which rank, and why.';

create view reme.usage_by_day with (security_invoker) as
select workspace_id, called_at::date as day, provider, model, purpose, count(*) as calls,
       count(*) filter (where not ok) as failures, sum(prompt_tokens) as prompt_tokens,
       sum(completion_tokens) as completion_tokens, sum(milliseconds) / 1000 as seconds
from reme.model_call
group by workspace_id, called_at::date, provider, model, purpose;
comment on view reme.usage_by_day is 'Model calls, tokens and time by day.';

create function reme.memory_as_of(workspace text, moment timestamptz, held_at timestamptz default null)
returns setof reme.memory language sql stable as $$
    select known.*
    from (
        select distinct on (memory_id) after
        from reme.memory_history
        where workspace_id = workspace and changed_at <= moment
        order by memory_id, history_id desc
    ) as last_change,
    jsonb_populate_record(null::reme.memory, last_change.after) as known
    where last_change.after is not null
      and known.status = 'active'
      and (held_at is null or known.valid_during @> held_at)
$$;
comment on function reme.memory_as_of is 'The memories as they were known at a moment, word for word; with held_at, only those that hold at that time.';


-- Tenancy --------------------------------------------------------------------------------------------------------------
-- A transaction names its workspace in reme.workspace and sees nothing else, even where a WHERE was forgotten; without a
-- name it sees nothing. '*' stands for all of them, for upkeep. The setting is read once a statement, not once a row.

do $$
declare
    relation text;
begin
    foreach relation in array array['workspace', 'message', 'episode', 'memory', 'memory_source', 'memory_history',
                                    'embedding', 'posting', 'term_statistic', 'corpus_statistic',
                                    'retrieval', 'retrieval_hit', 'model_call']
    loop
        execute format('alter table reme.%I enable row level security', relation);
        execute format('alter table reme.%I force row level security', relation);
        execute format(
            'create policy tenant on reme.%I using (workspace_id = (select current_setting(''reme.workspace'', true))'
            ' or (select current_setting(''reme.workspace'', true)) = ''*'')', relation);
    end loop;
end $$;
-- Models are shared by all workspaces; their rows hold no tenant's data.
alter table reme.embedding_model enable row level security;
alter table reme.embedding_model force row level security;
create policy everyone on reme.embedding_model using (true);

do $$
begin
    grant usage on schema reme to reme_service;
    grant select, insert, update, delete on all tables in schema reme to reme_service;
    grant usage on all sequences in schema reme to reme_service;
    grant execute on all functions in schema reme to reme_service;
    alter default privileges in schema reme grant select, insert, update, delete on tables to reme_service;
    alter default privileges in schema reme grant usage on sequences to reme_service;
exception
    when undefined_object then null;  -- without the role, the login role owns the tables and FORCE holds it
end $$;
