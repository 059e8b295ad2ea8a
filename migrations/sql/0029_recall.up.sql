-- What recall searches (vectors and postings), and the logs of what it found and what models cost.


-- Vectors -------------------------------------------------------------------------------------------------------------

create table reme.embedding_model (
    model       text primary key,
    dimensions  integer not null check (dimensions between 1 and 16000),
    created_at  timestamptz not null default now()
);
comment on table reme.embedding_model is 'The embedding models whose vectors are stored here.';
comment on column reme.embedding_model.model is 'Name of the model, with its width where that can be chosen; vectors of different models are never compared.';
comment on column reme.embedding_model.dimensions is 'Width of its vectors.';
comment on column reme.embedding_model.created_at is 'When it was first used.';
alter table reme.embedding_model enable row level security, force row level security;
create policy everyone on reme.embedding_model using (true);

create table reme.embedding (
    workspace_id text not null,
    model        text not null,
    kind         text not null,
    document_id  bigint not null,
    active       boolean not null default true,
    hnsw         boolean not null default false,
    embedding    halfvec not null,
    primary key (workspace_id, model, document_id)
);
-- Vectors stay in the row: an out-of-line vector makes an exact scan two to three times slower. One that cannot fit
-- on a page (over 4,000 wide) is moved out as the last resort.
alter table reme.embedding alter column embedding set storage main;
alter table reme.embedding set (toast_tuple_target = 8160);
comment on table reme.embedding is 'One vector for each memory or message and model. Scanned exactly within a workspace; large workspaces use HNSW.';
comment on column reme.embedding.workspace_id is 'The workspace it belongs to.';
comment on column reme.embedding.model is 'The embedding model that made it.';
comment on column reme.embedding.kind is 'The memory''s kind, or conversation for a message; repeated here so that a scan can filter by it.';
comment on column reme.embedding.document_id is 'The memory or message.';
comment on column reme.embedding.active is 'Whether the memory is active, as a trigger keeps it; true for a message.';
comment on column reme.embedding.hnsw is 'Whether the row is in its model''s HNSW index: an index makes inserts slower, so only large workspaces are in it.';
comment on column reme.embedding.embedding is 'The vector, unit length, half precision.';
call reme.keep_tenants_apart('reme.embedding');

create function reme.sync_embedding() returns trigger language plpgsql as $$
begin
    update reme.embedding e
    set active = new.status = 'active', kind = new.kind
    where e.workspace_id = new.workspace_id and e.document_id = new.document_id;
    return null;
end $$;
comment on function reme.sync_embedding is 'Keeps kind and active of a memory''s vectors as the memory says.';
-- In a block: of a distributed table, Citus sends its servers the whole text that a statement about triggers came with.
do $$ begin
    create trigger memory_embedding after update of status, kind on reme.memory
        for each row when (old.status is distinct from new.status or old.kind is distinct from new.kind)
        execute function reme.sync_embedding();
end $$;


-- Terms ---------------------------------------------------------------------------------------------------------------

-- These tables take thousands of rows a second; a foreign key would look up the workspace for each. Whoever removes a
-- document or a workspace removes its rows here (store/index).
create table reme.posting (
    workspace_id    text not null,
    corpus          text collate "C" not null,
    term            text collate "C" not null,
    from_neighbour  boolean not null,
    best_impact     real not null,
    newest_document bigint not null,
    documents       bigint[] not null,
    impacts         real[] not null
);
alter table reme.posting alter documents set storage plain, alter impacts set storage plain;
create index posting_best on reme.posting (workspace_id, corpus, term, best_impact desc, newest_document);
comment on table reme.posting is 'The lexical leg. A row is a segment: documents that hold a term, in order, with BM25 impacts computed at write time.';
comment on column reme.posting.workspace_id is 'The workspace it belongs to.';
comment on column reme.posting.corpus is 'memory or message: the collection whose statistics count.';
comment on column reme.posting.term is 'A stem, a CJK bigram, a number or an identifier.';
comment on column reme.posting.from_neighbour is 'Whether these messages have the term only from the messages before and after them; then they do not count as holding it.';
comment on column reme.posting.best_impact is 'The highest of the impacts; recall reads the segments of a term in this order.';
comment on column reme.posting.newest_document is 'The highest document_id in documents.';
comment on column reme.posting.documents is 'The document_id of the memories or messages, in order, at most 512; a document occurs once for a term.';
comment on column reme.posting.impacts is 'For each document the BM25 weight of the term in it, without the inverse document frequency.';
call reme.keep_tenants_apart('reme.posting');

create table reme.corpus_statistic (
    workspace_id      text not null,
    corpus            text collate "C" not null,
    documents         bigint not null default 0,
    terms             bigint not null default 0,
    unmerged_segments bigint not null default 0,
    primary key (workspace_id, corpus)
) with (fillfactor = 50);
comment on table reme.corpus_statistic is 'Size of each collection of documents.';
comment on column reme.corpus_statistic.workspace_id is 'The workspace it belongs to.';
comment on column reme.corpus_statistic.corpus is 'memory or message.';
comment on column reme.corpus_statistic.documents is 'How many documents it holds.';
comment on column reme.corpus_statistic.terms is 'How many terms they hold together; with documents, the mean length.';
comment on column reme.corpus_statistic.unmerged_segments is 'How many segments of postings were written since the last merge.';
call reme.keep_tenants_apart('reme.corpus_statistic');


-- Logs ----------------------------------------------------------------------------------------------------------------

create table reme.retrieval (
    workspace_id  text not null references reme.workspace on delete cascade,
    retrieval_id  text not null,
    asked_at      timestamptz not null default now(),
    query         text not null,
    kinds         text[] not null default '{}',
    flow          text not null default '',
    session_id    text not null default '',
    milliseconds  real not null default 0,
    relevance     double precision,
    min_relevance double precision not null default 0,
    degraded      text not null default '',
    note_id       text not null default '',
    primary key (workspace_id, retrieval_id)
);
create index retrieval_newest on reme.retrieval (workspace_id, asked_at desc);
create index retrieval_query on reme.retrieval (workspace_id, md5(query), asked_at desc);
create index retrieval_note on reme.retrieval (workspace_id, note_id) where note_id <> '';
comment on table reme.retrieval is 'Each recall: what was asked, when, and how long it took.';
comment on column reme.retrieval.workspace_id is 'The workspace it belongs to.';
comment on column reme.retrieval.retrieval_id is 'Its identity, as the recollection carries it.';
comment on column reme.retrieval.asked_at is 'When it happened.';
comment on column reme.retrieval.query is 'The query.';
comment on column reme.retrieval.kinds is 'The kinds that were looked for; empty means all.';
comment on column reme.retrieval.flow is 'The flow that asked; turn for an agent''s turn, and standing for what every note of one gives, whatever is asked.';
comment on column reme.retrieval.session_id is 'The conversation it was asked in, or that alone was looked at.';
comment on column reme.retrieval.milliseconds is 'How long the database took.';
comment on column reme.retrieval.relevance is 'The chance that anything found is about the query, 0 to 1; empty for what was logged before this was kept.';
comment on column reme.retrieval.min_relevance is 'The chance below which nothing was to be given.';
comment on column reme.retrieval.degraded is 'Why words alone answered, where the embedding model failed.';
comment on column reme.retrieval.note_id is 'The note that was made of it; recalls of one turn share theirs. Empty: no note was made of it here.';
call reme.keep_tenants_apart('reme.retrieval');

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
    relevance    double precision,
    helped       boolean,
    left_out     text,
    primary key (workspace_id, retrieval_id, rank),
    foreign key (workspace_id, retrieval_id) references reme.retrieval on delete cascade
);
create index retrieval_hit_memory on reme.retrieval_hit (workspace_id, memory_id);
comment on table reme.retrieval_hit is 'What each recall found, at which rank and why, and whether it helped.';
comment on column reme.retrieval_hit.workspace_id is 'The workspace it belongs to.';
comment on column reme.retrieval_hit.retrieval_id is 'The recall.';
comment on column reme.retrieval_hit.rank is 'Place in the answer, from 1.';
comment on column reme.retrieval_hit.memory_id is 'The memory, or for kind conversation the message.';
comment on column reme.retrieval_hit.kind is 'Its kind at that time.';
comment on column reme.retrieval_hit.vector is 'Score of the vector leg, scaled to 0 to 1.';
comment on column reme.retrieval_hit.lexical is 'Score of the lexical leg, scaled to 0 to 1.';
comment on column reme.retrieval_hit.time is 'Factor for matching the time that the query names.';
comment on column reme.retrieval_hit.type is 'Factor of its kind.';
comment on column reme.retrieval_hit.final is 'The score it was ranked by.';
comment on column reme.retrieval_hit.relevance is 'The chance that it answers the query, 0 to 1; empty for standing memories, which answer none.';
comment on column reme.retrieval_hit.helped is 'Whether the agent then succeeded; empty until somebody says so.';
comment on column reme.retrieval_hit.left_out is 'Empty text: it stands in the note. Else why it does not: relevance (nothing was likely enough to fit), seen (the model sees it anyway), repeated (another hit says the same), standing (it is given anyway), places (better ones took them) or budget (no room). Null: whoever asked got it, and no note was made here.';
call reme.keep_tenants_apart('reme.retrieval_hit');

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
comment on table reme.model_call is 'Each call of a model: its tokens, its time, and whether it worked.';
comment on column reme.model_call.workspace_id is 'The workspace it was made for; empty where none was.';
comment on column reme.model_call.call_id is 'Order of the calls.';
comment on column reme.model_call.called_at is 'When it happened.';
comment on column reme.model_call.purpose is 'The op that called, such as extract.';
comment on column reme.model_call.provider is 'openai, dashscope, local, …';
comment on column reme.model_call.model is 'The model.';
comment on column reme.model_call.prompt_tokens is 'Tokens sent, as the provider counts.';
comment on column reme.model_call.completion_tokens is 'Tokens answered, as the provider counts.';
comment on column reme.model_call.milliseconds is 'How long it took, with its retries.';
comment on column reme.model_call.ok is 'Whether it gave a usable answer.';
comment on column reme.model_call.error is 'What went wrong.';
comment on column reme.model_call.raw is 'The raw answer, kept for failures only.';
call reme.keep_tenants_apart('reme.model_call');

-- Log entries of several workspaces are written by one call: a statement for each of them, since their rows may be apart.
create function reme.lock_log(workspaces text[]) returns setof text language plpgsql as $$
declare
    workspace text;
begin
    foreach workspace in array workspaces loop
        if not pg_try_advisory_xact_lock_shared(hashtextextended('reme.log ' || workspace, 0)) then
            return next workspace;
            continue;
        end if;
        perform from reme.workspace w where w.workspace_id = workspace for key share skip locked;
        if not found and exists (select from reme.workspace w where w.workspace_id = workspace) then
            return next workspace;
        end if;
    end loop;
end $$;
comment on function reme.lock_log is 'Locks the logs of workspaces, and names those that have to wait, since somebody holds their log or their row.';

create function reme.log_model_calls(entries jsonb) returns void language plpgsql as $$
declare
    entry record;
    erased timestamptz;
begin
    for entry in
        select * from jsonb_to_recordset(entries)
            as e (workspace_id text, called_at timestamptz, purpose text, provider text, model text, prompt_tokens integer,
                  completion_tokens integer, milliseconds real, ok boolean, error text, raw text)
    loop
        select w.erased_at into erased from reme.workspace w where w.workspace_id = entry.workspace_id;
        if entry.called_at <= erased then
            entry.error := '';
            entry.raw := '';
        end if;
        insert into reme.model_call (workspace_id, called_at, purpose, provider, model, prompt_tokens, completion_tokens,
                                     milliseconds, ok, error, raw)
        values (entry.workspace_id, entry.called_at, entry.purpose, entry.provider, entry.model, entry.prompt_tokens,
                entry.completion_tokens, entry.milliseconds, entry.ok, entry.error, entry.raw);
    end loop;
end $$;
comment on function reme.log_model_calls is 'Writes model_call; a text from before something was erased may hold it, and is left out.';
