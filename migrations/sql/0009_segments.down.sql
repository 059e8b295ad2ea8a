select set_config('reme.workspace', '*', true);

alter table reme.posting rename to segment;
alter index reme.posting_best rename to segment_best;

create table reme.posting (
    workspace_id text collate "C" not null,
    corpus       text collate "C" not null,
    term         text collate "C" not null,
    impact       real not null,
    document_id  bigint not null
);
create table reme.term_statistic (
    workspace_id text collate "C" not null,
    corpus       text collate "C" not null,
    term         text collate "C" not null,
    documents    bigint not null,
    primary key (workspace_id, corpus, term)
) with (fillfactor = 80);

insert into reme.posting (workspace_id, corpus, term, impact, document_id)
select s.workspace_id, s.corpus, s.term, held.impact, held.document_id
from reme.segment s
cross join lateral unnest(s.documents, s.impacts) as held (document_id, impact)
order by s.workspace_id, s.corpus, s.term;
insert into reme.term_statistic (workspace_id, corpus, term, documents)
select workspace_id, corpus, term, sum(cardinality(documents))
from reme.segment
where not lent
group by workspace_id, corpus, term
order by workspace_id, corpus, term;

create index posting_best on reme.posting (workspace_id, corpus, term, impact desc) include (document_id);
create index posting_document on reme.posting (document_id);
drop table reme.segment;
alter table reme.corpus_statistic drop column loose;

comment on table reme.posting is 'The lexical leg: which document holds which term, with its BM25 impact computed at write time (neighbours included).';
comment on column reme.posting.workspace_id is 'The tenant it belongs to.';
comment on column reme.posting.corpus is 'memory or message: the collection whose statistics count.';
comment on column reme.posting.term is 'A stem, a CJK bigram, a number or an identifier.';
comment on column reme.posting.impact is 'BM25 weight of the term in the document, without the inverse document frequency.';
comment on column reme.posting.document_id is 'The memory or message.';
comment on table reme.term_statistic is 'Document frequency of each term.';
comment on column reme.term_statistic.workspace_id is 'The tenant it belongs to.';
comment on column reme.term_statistic.corpus is 'memory or message.';
comment on column reme.term_statistic.term is 'The term.';
comment on column reme.term_statistic.documents is 'How many documents hold it.';

do $$
declare
    relation text;
begin
    foreach relation in array array['posting', 'term_statistic'] loop
        execute format('alter table reme.%I enable row level security', relation);
        execute format('alter table reme.%I force row level security', relation);
        execute format(
            'create policy tenant on reme.%I using (workspace_id = (select current_setting(''reme.workspace'', true))'
            ' or (select current_setting(''reme.workspace'', true)) = ''*'')', relation);
    end loop;
end $$;
