-- name: post
-- Segments of postings, and the size of the corpus, as parts of a statement.
posted as (
    insert into reme.posting (workspace_id, corpus, term, lent, best, newest, documents, impacts)
    select %(workspace)s, %(corpus)s, term, lent, (%(impacts)b)[first], newest,
           (%(documents)b)[first:last], (%(impacts)b)[first:last]
    from unnest(string_to_array(%(terms)s, ' '), %(lent)b, %(newest)b, %(starts)b, %(ends)b)
         as segment (term, lent, newest, first, last)
),
summed as (
    insert into reme.corpus_statistic (workspace_id, corpus, documents, terms, loose)
    select %(workspace)s, %(corpus)s, %(more)s, %(length)s, cardinality(%(starts)b)
    where %(more)s <> 0 or %(length)s <> 0 or cardinality(%(starts)b) > 0
    on conflict (workspace_id, corpus) do update
    set documents = reme.corpus_statistic.documents + excluded.documents,
        terms = reme.corpus_statistic.terms + excluded.terms,
        loose = reme.corpus_statistic.loose + excluded.loose
)

-- name: remove
-- A segment is written anew without them, or not at all where it lists nothing else.
with touched as (
    delete from reme.posting p
    where p.workspace_id = %(workspace)s and p.newest >= %(oldest)s ${among}
      and exists (select from unnest(p.documents) as held (document_id) where document_id = any(%(documents)b))
    returning p.ctid as segment, p.*
)
insert into reme.posting (workspace_id, corpus, term, lent, best, newest, documents, impacts)
select t.workspace_id, t.corpus, t.term, t.lent, max(impact), max(document_id),
       array_agg(document_id order by impact desc), array_agg(impact order by impact desc)
from touched t cross join lateral unnest(t.documents, t.impacts) as held (document_id, impact)
where not document_id = any(%(documents)b)
group by t.workspace_id, t.corpus, t.term, t.lent, t.segment

-- name: due
select corpus from reme.corpus_statistic where workspace_id = %(workspace)s and loose >= %(enough)s

-- name: begin_merge
update reme.corpus_statistic set loose = 0 where workspace_id = %(workspace)s and corpus = %(corpus)s

-- name: crowded
-- Terms of which segments of like size have gathered: each size is four times as large as the next smaller.
select distinct p.term
from reme.posting p
where p.workspace_id = %(workspace)s and p.corpus = %(corpus)s and cardinality(p.documents) < %(full)s
group by p.term, p.lent, trunc(ln(cardinality(p.documents)) / ln(4))
having count(*) >= %(gathered)s
order by p.term

-- name: merge
with crowded as materialized (
    select p.term, p.lent, trunc(ln(cardinality(p.documents)) / ln(4)) as size
    from reme.posting p
    where p.workspace_id = %(workspace)s and p.corpus = %(corpus)s and p.term = any(%(terms)s)
      and cardinality(p.documents) < %(full)s
    group by p.term, 2, 3
    having count(*) >= %(gathered)s
),
gone as (
    delete from reme.posting p
    using crowded c
    where p.workspace_id = %(workspace)s and p.corpus = %(corpus)s and p.term = c.term and p.lent = c.lent
      and cardinality(p.documents) < %(full)s and trunc(ln(cardinality(p.documents)) / ln(4)) = c.size
    returning p.term, p.lent, c.size, p.documents, p.impacts
),
placed as (
    select g.term, g.lent, g.size, document_id, impact,
           (row_number() over (partition by g.term, g.lent, g.size order by impact desc) - 1) / %(full)s as part
    from gone g cross join lateral unnest(g.documents, g.impacts) as held (document_id, impact)
)
insert into reme.posting (workspace_id, corpus, term, lent, best, newest, documents, impacts)
select %(workspace)s, %(corpus)s, term, lent, max(impact), max(document_id),
       array_agg(document_id order by impact desc), array_agg(impact order by impact desc)
from placed
group by term, lent, size, part
order by term
