-- What became of recalls: how likely each was to answer, which of its hits stand in the note that an agent was given, and
-- why the others do not.

alter table reme.retrieval
    add column relevance double precision,
    add column min_relevance double precision not null default 0,
    add column degraded text not null default '',
    add column note_id text not null default '';
create index retrieval_query on reme.retrieval (workspace_id, md5(query), asked_at desc);
create index retrieval_note on reme.retrieval (workspace_id, note_id) where note_id <> '';
comment on column reme.retrieval.session_id is 'The conversation it was asked in, or that alone was looked at.';
comment on column reme.retrieval.flow is 'The flow that asked; turn for an agent''s turn, and standing for what every note of one gives, whatever is asked.';
comment on column reme.retrieval.relevance is 'The chance that anything found is about the query, 0 to 1; empty for what was logged before this was kept.';
comment on column reme.retrieval.min_relevance is 'The chance below which nothing was to be given.';
comment on column reme.retrieval.degraded is 'Why words alone answered, where the embedding model failed.';
comment on column reme.retrieval.note_id is 'The note that was made of it; recalls of one turn share theirs. Empty: no note was made of it here.';

alter table reme.retrieval_hit
    add column relevance double precision,
    add column left_out text;
comment on column reme.retrieval_hit.relevance is 'The chance that it answers the query, 0 to 1; empty for standing memories, which answer none.';
comment on column reme.retrieval_hit.left_out is 'Empty text: it stands in the note. Else why it does not: relevance (nothing was likely enough to fit), seen (the model sees it anyway), speaker (somebody else said it), repeated (another hit says the same), standing (it is given anyway), places (better ones took them) or budget (no room). Null: whoever asked got it, and no note was made here.';

create or replace view reme.recall_log with (security_invoker) as
select r.workspace_id, r.asked_at, r.query, h.rank, h.kind, coalesce(m.content, said.content) as content,
       h.vector, h.lexical, h.time, h.type, h.final, h.helped, r.milliseconds, r.flow, r.retrieval_id, h.memory_id,
       h.relevance, h.left_out, r.note_id, r.session_id
from reme.retrieval r
left join reme.retrieval_hit h using (workspace_id, retrieval_id)
left join reme.memory m on h.kind <> 'conversation' and m.workspace_id = h.workspace_id and m.memory_id = h.memory_id
left join reme.message said
    on h.kind = 'conversation' and said.workspace_id = h.workspace_id and said.message_id = h.memory_id;
do $$
declare
    shown record;
begin
    for shown in
        select name, col_description(of_table::regclass,
                                     (select attnum from pg_attribute where attrelid = of_table::regclass and attname = name))
                         as comment
        from (values ('flow', 'reme.retrieval'), ('note_id', 'reme.retrieval'), ('session_id', 'reme.retrieval'),
                     ('relevance', 'reme.retrieval_hit'), ('left_out', 'reme.retrieval_hit')) as columns (name, of_table)
    loop
        execute format('comment on column reme.recall_log.%I is %L', shown.name, shown.comment);
    end loop;
end $$;

-- What changed between two moments, which is asked for a workspace as a whole.
create index memory_history_when on reme.memory_history (workspace_id, changed_at);

-- Few memories are closed; these tell how many, and what a memory replaced, without a look at the others.
create index memory_closed on reme.memory (workspace_id, status, kind) where status <> 'active';
create index memory_superseded on reme.memory (workspace_id, superseded_by) where superseded_by is not null;
