-- A row for each posting cost more than anything else of an insert, and four times the space. Now a row lists the
-- documents that one write brought for a term, so that the number of documents holding it can be read off as well.
--
-- Of a message's postings it is not known which terms only its neighbours lent it; those of the least impact are taken
-- for these, as many as the statistics say. So the number of documents that hold a term stays what it was.

select set_config('reme.workspace', '*', true);  -- an owner who is held by row-level security moves the rows, too

alter table reme.posting rename to single_posting;
alter index reme.posting_best rename to single_posting_best;

create table reme.posting (
    workspace_id text collate "C" not null,
    corpus       text collate "C" not null,
    term         text collate "C" not null,
    lent         boolean not null,
    best         real not null,
    newest       bigint not null,
    documents    bigint[] not null,
    impacts      real[] not null
);
alter table reme.posting alter documents set storage plain, alter impacts set storage plain;

insert into reme.posting (workspace_id, corpus, term, lent, best, newest, documents, impacts)
select workspace_id, corpus, term, lent, max(impact), max(document_id),
       array_agg(document_id order by impact desc), array_agg(impact order by impact desc)
from (
    select p.workspace_id, p.corpus, p.term, p.impact, p.document_id, p.place > coalesce(s.documents, 0) as lent,
           (p.place - case when p.place > coalesce(s.documents, 0) then coalesce(s.documents, 0) else 0 end - 1) / 512 as part
    from (select *, row_number() over (partition by workspace_id, corpus, term order by impact desc, document_id) as place
          from reme.single_posting) p
    left join reme.term_statistic s using (workspace_id, corpus, term)
) placed
group by workspace_id, corpus, term, lent, part
order by workspace_id, corpus, term;

create index posting_best on reme.posting (workspace_id, corpus, term, best desc, newest);
drop table reme.single_posting, reme.term_statistic;

comment on table reme.posting is 'The lexical leg, in segments: documents that hold a term, the best first, with BM25 impacts computed at write time.';
comment on column reme.posting.workspace_id is 'The tenant it belongs to.';
comment on column reme.posting.corpus is 'memory or message: the collection whose statistics count.';
comment on column reme.posting.term is 'A stem, a CJK bigram, a number or an identifier.';
comment on column reme.posting.lent is 'Whether these documents have the term only from the turns beside them, so that they do not count as holding it.';
comment on column reme.posting.best is 'The highest of the impacts, by which segments are read.';
comment on column reme.posting.newest is 'The highest of the documents.';
comment on column reme.posting.documents is 'The memories or messages, at most 512; a document stands once for a term.';
comment on column reme.posting.impacts is 'For each of them: BM25 weight of the term in it, without the inverse document frequency.';

alter table reme.posting enable row level security;
alter table reme.posting force row level security;
create policy tenant on reme.posting using (
    workspace_id = (select current_setting('reme.workspace', true))
    or (select current_setting('reme.workspace', true)) = '*');

alter table reme.corpus_statistic add column loose bigint not null default 0;
comment on column reme.corpus_statistic.loose is 'Segments of postings written since they were last merged.';
