-- name: post
-- Segments of postings, and the size of the corpus, as parts of a statement.
posted as (
    insert into reme.posting (workspace_id, corpus, term, from_neighbour, best_impact, newest_document, documents, impacts)
    select w.workspace_id, %(corpus)s, term, from_neighbour, best, (%(documents)b)[last],
           (%(documents)b)[first:last], (%(impacts)b)[first:last]
    from reme.workspace w
    cross join unnest(string_to_array(%(terms)s, ' '), %(from_neighbour)b, %(best)b, %(starts)b, %(ends)b)
        as segment (term, from_neighbour, best, first, last)
    where w.workspace_id = %(workspace)s
),
summed as (
    insert into reme.corpus_statistic (workspace_id, corpus, documents, terms, unmerged_segments)
    select w.workspace_id, %(corpus)s, %(more)s, %(length)s, cardinality(%(starts)b)
    from reme.workspace w
    where w.workspace_id = %(workspace)s and (%(more)s <> 0 or %(length)s <> 0 or cardinality(%(starts)b) > 0)
    on conflict (workspace_id, corpus) do update
    set documents = reme.corpus_statistic.documents + excluded.documents,
        terms = reme.corpus_statistic.terms + excluded.terms,
        unmerged_segments = reme.corpus_statistic.unmerged_segments + excluded.unmerged_segments
)

-- name: remove
-- Each segment that lists one of them is replaced by one without them, or by none where it lists nothing else.
with removed as (
    delete from reme.posting p
    where p.workspace_id = %(workspace)s and p.newest_document >= %(oldest)s and p.documents[1] <= %(newest)s ${among}
      -- With `is true` the given numbers are hashed, once for all segments, and not compared one by one.
      and exists (select from unnest(p.documents) as held (document_id)
                  where (document_id in (select unnest(%(documents)b))) is true)
    returning p.*
),
kept as (
    insert into reme.posting (workspace_id, corpus, term, from_neighbour, best_impact, newest_document, documents, impacts)
    select w.workspace_id, t.corpus, t.term, t.from_neighbour, k.best, k.newest, k.documents, k.impacts
    from reme.workspace w
    cross join removed t
    -- Each segment by itself: grouped by term, all their postings together would be sorted, which takes far longer.
    cross join lateral (
        select max(impact) as best, max(document_id) as newest,
               array_agg(document_id order by document_id) as documents, array_agg(impact order by document_id) as impacts
        from unnest(t.documents, t.impacts) as held (document_id, impact)
        where document_id not in (select unnest(%(documents)b))
    ) as k
    where w.workspace_id = %(workspace)s and k.documents is not null
)
select

-- name: unmerged
select corpus, documents, unmerged_segments from reme.corpus_statistic where workspace_id = %(workspace)s

-- name: begin_merge
update reme.corpus_statistic set unmerged_segments = 0 where workspace_id = %(workspace)s and corpus = %(corpus)s

-- name: crowded
-- Terms that have enough segments of like size to join. Sizes are like within a factor of four: 1-3, 4-15, 16-63 …
select distinct p.term
from reme.posting p
where p.workspace_id = %(workspace)s and p.corpus = %(corpus)s and cardinality(p.documents) < %(full)s
group by p.term, p.from_neighbour, trunc(ln(cardinality(p.documents)) / ln(4))
having count(*) >= %(enough_to_join)s
order by p.term

-- name: merge
with crowded as materialized (
    select p.term, p.from_neighbour, trunc(ln(cardinality(p.documents)) / ln(4)) as size
    from reme.posting p
    where p.workspace_id = %(workspace)s and p.corpus = %(corpus)s and p.term = any(%(terms)s)
      and cardinality(p.documents) < %(full)s
    group by p.term, 2, 3
    having count(*) >= %(enough_to_join)s
),
gone as (
    delete from reme.posting p
    using crowded c
    where p.workspace_id = %(workspace)s and p.corpus = %(corpus)s and p.term = c.term and p.from_neighbour = c.from_neighbour
      and cardinality(p.documents) < %(full)s and trunc(ln(cardinality(p.documents)) / ln(4)) = c.size
    returning p.term, p.from_neighbour, c.size, p.documents, p.impacts
),
placed as (
    select g.term, g.from_neighbour, g.size, document_id, impact,
           (row_number() over (partition by g.term, g.from_neighbour, g.size order by document_id) - 1) / %(full)s as part
    from gone g cross join lateral unnest(g.documents, g.impacts) as held (document_id, impact)
),
joined as (
    insert into reme.posting (workspace_id, corpus, term, from_neighbour, best_impact, newest_document, documents, impacts)
    select w.workspace_id, %(corpus)s, term, from_neighbour, max(impact), max(document_id),
           array_agg(document_id order by document_id), array_agg(impact order by document_id)
    from reme.workspace w cross join placed
    where w.workspace_id = %(workspace)s
    group by w.workspace_id, term, from_neighbour, size, part
    order by term
)
select
