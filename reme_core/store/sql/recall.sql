-- Hybrid recall in one statement. `prepare` in store/recall_sql.py puts the text together from the fragments below:
--
--     forgotten for messages,
--     vector_leg, with its_row where a filter needs it; in a large workspace after passing | all_pass, and with looked_up and
--     unindexed; then nearest,
--     where the query asks about a time: asked_time, with session_times where it counts conversations, and for messages time_leg,
--     then held, asked, matched | matched_whole, lexical_leg, own_row where a filter needs it, deepest, candidate,
--     background, convex | rrf,
--     then for memories   ranked | ranked_by_time, best, beside_best, present | past, in_order
--     and  for messages   said, with time_bonus where the query asks about a time, judged, beside_best, present, in_order
--
-- A row is looked up by row_by_key as a range of one, in the order of its key: only the index of that key has it in order.
-- Asked for `=`, the planner may take any index that begins with the workspace, and read all of the workspace for each row,
-- where it takes the table for empty, or workspaces for small. Before the first ANALYZE it does, and keeps to that plan.
--
-- ${…} marks stand for constant texts that depend on which filters are set, never for values. Both legs look only at
-- what passes the filters, at the memory's or message's own row where these need it, so that neither loses places to rows
-- that would fall out later.

-- name: forgotten
-- Messages that somebody asked to forget or deleted: a closed memory names them. Metadata may be anything.
forgotten as materialized (
    select said.document_id
    from reme.memory f
    cross join lateral jsonb_array_elements_text(
        case when jsonb_typeof(f.metadata -> 'forgotten') = 'array' then f.metadata -> 'forgotten' end
    ) as named (message_id)
    cross join lateral (
        select m.document_id from reme.message m
        where m.workspace_id = %(workspace)s and m.message_id = named.message_id
        limit 1
    ) said
    where f.workspace_id = %(workspace)s and f.status <> 'active' and f.metadata ? 'forgotten'
),

-- name: passing
-- Where few pass the filters, an index of vectors would be searched nearly whole for them, and each match by words looked up in
-- vain. So these few are found first; of many, only so many are counted.
passing as materialized (
    select m.document_id from reme.${corpus} m
    where m.workspace_id = %(workspace)s and ${on_passing}
    limit ${few} + 1
),
known_few as materialized (select count(*) <= ${few} as are_few from passing),

-- name: all_pass
passing as materialized (select null::bigint as document_id where false),
known_few as materialized (select false as are_few),

-- name: vector_leg
-- What is nearest to the centred query (store/query.py); of these few also the cosine to the query as it is.
vector_leg as materialized (
    select document_id, kind, nearness, -(embedding <#> %(vector)b::halfvec) as similarity
    from (
        -- Vectors have unit length, so the inner product orders like the cosine and costs less.
        (select e.document_id, e.kind, e.embedding,
                -(e.embedding::halfvec${width} <#> %(centred)b::halfvec${width}) as nearness
         from reme.embedding e
         ${its_row}
         where e.workspace_id = %(workspace)s and e.model = ${model} and ${on_vector}
         order by e.embedding::halfvec${width} <#> %(centred)b::halfvec${width}
         limit ${depth})

-- name: looked_up
        union all
        (select e.document_id, e.kind, e.embedding, -(e.embedding <#> %(centred)b::halfvec) as nearness
         from passing
         cross join lateral (
             select e.* from reme.embedding e
             where e.workspace_id = %(workspace)s and e.model = ${model} and e.document_id = passing.document_id
             limit 1
         ) e
         where (select are_few from known_few)
         order by e.embedding <#> %(centred)b::halfvec
         limit ${depth})

-- name: unindexed
        union all
        -- Of many that were added at once, those that have not joined the index yet; or all, where the workspace has left the index
        -- since the asker looked. In the order of their key they are found by it: else the planner, which does not know that
        -- there are hardly ever any, would read the whole workspace.
        (select e.document_id, e.kind, e.embedding, -(e.embedding <#> %(centred)b::halfvec) as nearness
         from reme.workspace w
         cross join lateral (
             select e.* from reme.embedding e
             where e.workspace_id = %(workspace)s and e.model = ${model} and not e.hnsw
               and e.document_id >= case when w.hnsw then w.unindexed_from else 0 end
             order by e.document_id
         ) e
         ${its_row}
         where w.workspace_id = %(workspace)s and ${on_unindexed}
         order by e.embedding <#> %(centred)b::halfvec
         limit ${depth})

-- name: nearest
    ) nearest
    order by nearness desc
    limit ${depth}
),

-- name: its_row
join reme.${corpus} m on m.workspace_id = %(workspace)s and m.document_id = e.document_id and ${on_row}

-- name: its_row_by_key
-- Of what the index gives, one by one: else the planner would compare each with all rows that pass the filters.
${row_of_e} and ${on_row}

-- name: row_by_key
join lateral (
        select m.* from reme.${corpus} m
        where m.workspace_id = %(workspace)s and m.document_id between ${of}.document_id and ${of}.document_id
        order by m.document_id
        limit 1
    ) m on m.document_id = ${of}.document_id

-- name: asked_time
asked_time as materialized (
    select coalesce(lower(span), '-infinity') as begun, coalesce(upper(span), 'infinity') as ended
    from unnest(%(times)s::tstzrange[]) as span
    ${session_times}
),

-- name: session_times
    -- Conversations that are named by their order, from the first one on or from the latest one back, are stretches of time.
    union all
    select session.begun, session.ended + interval '1 microsecond'
    from (
        select begun, ended, row_number() over (order by begun, session_id) as place, count(*) over () as sessions
        from (
            select m.session_id, min(m.sent_at) as begun, max(m.sent_at) as ended
            from reme.message m
            where m.workspace_id = %(workspace)s and m.session_id <> %(current_session)s and ${of_whom}
            group by m.session_id
        ) session
    ) session
    join unnest(%(first_sessions)s::int[], %(last_sessions)s::int[]) as run (first, last)
        on session.place between case when first < 0 then session.sessions + 1 + first else first end
                             and case when last < 0 then session.sessions + 1 + last else last end

-- name: time_leg
-- What was said then, the nearest first; of a long time the newest. A message without a vector yet comes last.
time_leg as materialized (
    select distinct on (document_id) nearest.*
    from asked_time
    cross join lateral (
        select m.document_id, 'conversation' as kind, -(e.embedding <#> %(centred)b::halfvec) as nearness,
               -(e.embedding <#> %(vector)b::halfvec) as similarity
        from (
            select m.*
            from reme.message m
            where m.workspace_id = %(workspace)s and m.sent_at >= asked_time.begun and m.sent_at < asked_time.ended
              and ${on_row} and m.document_id not in (select document_id from forgotten)
            order by m.sent_at desc
            limit %(most_then)s
        ) m
        left join reme.embedding e
            on e.workspace_id = %(workspace)s and e.model = ${model} and e.document_id = m.document_id
        order by e.embedding <#> %(centred)b::halfvec
        limit ${depth}
    ) nearest
),
near as materialized (
    select document_id, kind, nearness, similarity from vector_leg
    union all
    select document_id, kind, nearness, similarity from time_leg t
    where not exists (select from vector_leg v where v.document_id = t.document_id)
),

-- name: held
-- The segments of each term, or only their headers: of large arrays few are read. With `offset 0` each term is looked up
-- by itself; else, before the first ANALYZE, the planner reads all terms of the workspace.
held as materialized (
    select given.term, given.place, found.*
    from unnest(%(terms)s::text[]) with ordinality as given (term, place)
    cross join lateral (
        select ${segment}, cardinality(p.documents) as size, p.from_neighbour
        from reme.posting p
        where p.workspace_id = %(workspace)s and p.corpus = %(corpus)s and p.term = given.term
        offset 0
    ) found
),

-- name: asked
-- Of a query of many terms those that fewest documents hold, wherever in it they stand; one that none holds finds nothing.
asked as materialized (
    select term, postings, unknown_idf, idf, idf * ${weight} as weight
    from (
        select rarest.term, greatest(${fewest_postings}, ${postings_by_root} * sqrt(c.documents)) as postings,
               -- In float8: as numeric, which 0.5 is by itself, each posting would be multiplied in decimal.
               ln(1 + (greatest(c.documents - rarest.holding, 0) + 0.5::float8) / (rarest.holding + 0.5::float8)) as idf,
               ln(1 + (c.documents + 0.5::float8) / 0.5::float8) as unknown_idf
        from (
            select term, coalesce(sum(size) filter (where not from_neighbour), 0) as holding
            from held
            group by term
            order by holding, min(place)
            limit ${most_terms}
        ) rarest
        cross join reme.corpus_statistic c
        where c.workspace_id = %(workspace)s and c.corpus = %(corpus)s
    ) term
),

-- name: matched_whole
matched as materialized (
    select document_id, sum(impact * weight) as score, sum(idf) as covered
    from (
        select unnest(h.documents) as document_id, unnest(h.impacts) as impact, a.idf, a.weight
        from held h join asked a using (term)
    ) posting
    group by document_id
),

-- name: matched
-- What can add most to a score is read first, and most of the postings of common words need not be read at all.
segment as materialized (
    select segment, idf, weight, better < postings as read
    from (
        select h.segment, a.idf, a.weight, a.postings,
               sum(h.size) over (order by a.weight * h.best_impact desc, h.segment rows unbounded preceding) - h.size as better
        from held h join asked a using (term)
    ) ordered
),
-- Only the best of these are kept; the others are summed up once more in the rare case that too few pass the filters.
matched as not materialized (
    select document_id, sum(impact * weight) as score, sum(idf) as covered
    from (
        select unnest(p.documents) as document_id, unnest(p.impacts) as impact, s.idf, s.weight
        from segment s
        cross join lateral (
            select p.* from reme.posting p where p.workspace_id = %(workspace)s and p.ctid = s.segment limit 1
        ) p
        where s.read
    ) posting
    where not (select are_few from known_few)  -- of few, all are looked up below
    group by document_id
),
-- The best so far and those of other legs are looked up in all segments, which list their documents in order: so their
-- scores are whole, and no other document is likely to reach them.
hopeful as materialized (
    select array_agg(document_id order by document_id) as ids
    from (
        (select document_id from matched order by score desc
         limit (select greatest(4 * ${depth}, ${completed_share} * postings) from asked limit 1))
        union
        select document_id from ${near}
        union
        select document_id from passing where (select are_few from known_few)
    ) either
),
completed as materialized (
    select document_id, sum(impacts[place] * weight) as score, sum(idf) as covered
    from (
        select document_id, idf, weight, documents, impacts, width_bucket(document_id, documents) as place
        from (
            select s.idf, s.weight, p.documents, p.impacts,
                   unnest(ids[width_bucket(p.documents[1] - 1, ids) + 1 : width_bucket(p.newest_document, ids)]) as document_id
            from segment s
            cross join lateral (
                select p.* from reme.posting p where p.workspace_id = %(workspace)s and p.ctid = s.segment limit 1
            ) p
            cross join hopeful
        ) in_range
    ) placed
    where documents[place] = document_id
    group by document_id
),

-- name: by_score
-- Few of those with the highest scores fail the filters, so the others are sorted only where these are too few.
(select * from matched order by score desc, document_id limit ${first})
        union all
        (select * from matched order by score desc, document_id offset ${first})

-- name: by_completed_score
(select * from completed order by score desc, document_id)
        union all
        (select * from matched where (document_id in (select document_id from completed)) is not true
         order by score desc, document_id)

-- name: lexical_leg
-- A message that still waits for its vector is found by its words alone, hence the left joins.
lexical_leg as materialized (
    select matched.document_id, e.kind, matched.score, matched.covered,
           -(e.embedding <#> %(centred)b::halfvec) as nearness, -(e.embedding <#> %(vector)b::halfvec) as similarity
    from (
        ${by_score}
    ) matched
    left join lateral (
        select e.* from reme.embedding e
        where e.workspace_id = %(workspace)s and e.model = ${model} and e.document_id = matched.document_id
        limit 1
    ) e on true

-- name: own_row
    ${row_of_matched} and ${on_row}

-- name: deepest
    where ${on_match}
    limit ${depth}
),

-- name: candidate
candidate as materialized (
    select v.document_id, v.kind, v.nearness, v.similarity, coalesce(m.score, 0) as score, coalesce(m.covered, 0) as covered
    from ${near} v left join ${scored} m using (document_id)
    union all
    select l.document_id, l.kind, l.nearness, l.similarity, l.score, l.covered
    from lexical_leg l
    where not exists (select from ${near} v where v.document_id = l.document_id)
),

-- name: background
-- Against which a hit stands out: what the candidates are like together, and what of the query is known at all.
background as materialized (
    select count(similarity) as candidates, avg(similarity) as mean, stddev_pop(similarity) as deviation,
           max(similarity) as nearest, min(nearness) as least_near, max(nearness) as most_near,
           avg(nearness) as mean_near, max(score) as highest, max(covered) as widest
    from candidate
),
known as materialized (
    select terms, coalesce(idf, 0) as idf, whole_idf,
           coalesce(whole_idf / (whole_idf + %(telling_words)s * unknown_idf),
                    %(counted_terms)s / (%(counted_terms)s + %(telling_words)s)) as telling  -- where no term is known
    from (
        -- Of a term that nothing has, the idf counts that a term can have at most (`Found.whole_idf`).
        select count(*) as terms, sum(idf) as idf, max(unknown_idf) as unknown_idf,
               sum(idf) + greatest(%(counted_terms)s - count(*), 0) * max(unknown_idf) as whole_idf
        from asked
    ) of_query
),

-- name: convex
scaled as (
    select candidate.*,
           coalesce((nearness - least_near) / nullif(most_near - least_near, 0),
                    case when similarity is null then 0 else 1 end) as vector,
           coalesce(score / nullif(highest, 0), 0) as lexical
    from candidate cross join background
),

-- name: rrf
scaled as materialized (
    select candidate.*,
           61.0 / (60 + rank() over (order by nearness desc nulls last)) as vector,
           case when score > 0 then 61.0 / (60 + rank() over (order by score desc)) else 0 end as lexical
    from candidate
),

-- name: ranked
ranked as materialized (
    select *, 1 as time from scaled
),

-- name: ranked_by_time
ranked as materialized (
    select s.*,
           case when exists (
               select from asked_time a
               where case when m.valid_during = '(,)'
                          then coalesce(m.observed_at, m.created_at) <@ tstzrange(a.begun, a.ended)
                          else m.valid_during && tstzrange(a.begun, a.ended) end
           ) then %(time_factor)s else 1 end as time
    from scaled s
    ${row_of_s}
),

-- name: best
best as (
    select *, (share * vector + (1 - share) * lexical) * time * type as final
    from (
        select *, case ${shares} end as share, ${type} as type
        from ranked
    ) ranked
    order by final desc, document_id
    limit %(limit)s
)
select best.similarity, best.vector, best.lexical, 1, 0, 0, 0, best.time, best.type, best.final, ${signs}, 0, ${columns}

-- name: beside_best
from best cross join background cross join known
left join reme.corpus_statistic c on c.workspace_id = %(workspace)s and c.corpus = %(corpus)s

-- name: present
${row_of_best}

-- name: past
join lateral (
    select m.document_id, m.memory_id from reme.memory m
    where m.workspace_id = %(workspace)s and m.document_id between best.document_id and best.document_id
    order by m.document_id
    limit 1
) present on present.document_id = best.document_id
join lateral (
    select (jsonb_populate_record(null::reme.memory, h.after)).*
    from reme.memory_history h
    where h.workspace_id = %(workspace)s and h.memory_id = present.memory_id and h.changed_at <= %(as_of)s
    order by h.history_id desc
    limit 1
) m on m.status = 'active' -- it may have been closed then, and restored since

-- name: in_order
order by best.final desc, best.document_id

-- name: said
-- What counts of a message's own words is calculated here, so that no later step has to hold them. A message that ends with
-- a question seldom holds the answer, and one that is but a short question hardly ever: it is the same question, asked
-- before. What has a name in it, a capital inside a sentence, does more often.
said as materialized (
    select s.*, m.session_id, ${time} as time,
           case when m.author <> '' and strpos(%(padded_query)s, ' ' || split_part(lower(m.author), ' ', 1) || ' ') > 0
                then 1 else 0 end as speaker,
           case when m.role = %(asked_role)s then 1 else 0 end as asked_role,
           case when right(rtrim(m.content), 1) not in ('?', '？') then 0
                -- No other sign before its mark that ends a sentence or a line. As a pattern it took a fifth of the statement.
                when length(rtrim(m.content)) between 2 and 61
                     and length(translate(rtrim(m.content), E'.!?。！？\n', '')) = length(rtrim(m.content)) - 1
                then -%(bare_question_malus)s else -%(question_malus)s end
           + case when m.content ~ '\w [[:upper:]][[:lower:]]' then %(naming_bonus)s else 0 end as prior
    from scaled s
    ${row_of_s}
),

-- name: time_bonus
(
    -- What happened at a time is told on its day, or some days before or after. What was said then was said within it.
    select %(time_weight)s * exp(-least((far + case when far > 0 then %(beside)s else 0 end) / %(told_within)s, 50)::float8)
    from (
        select min(extract(epoch from greatest(a.begun - m.sent_at, m.sent_at - a.ended, '0'))) as far from asked_time a
    ) nearest
)

-- name: judged
-- A message counts by its own score, by the best of its session, by whether its speaker is the one asked about, by whether
-- it is the user (or the assistant, where its words are asked for), and by the time that is asked about. Of its words count
-- most which of the query's it has, not how often or among how many others; and words count the less, the less the query's
-- words tell: a broad question ("What has she painted?") has many answers in other words.
judged as (
    select said.*, %(share)s * vector
                   + (1 - %(share)s) * coalesce((%(lexical_weight)s * lexical + %(covered_weight)s * covered / whole_idf)
                                                * telling, 0) as own
    from said cross join known
),
ranked as materialized (
    select *, coalesce(max(own) over (partition by session_id) / nullif(max(own) over (), 0), 0) as session
    from judged
),
best as (
    select *, own + %(session_weight)s * session + %(speaker_weight)s * speaker + %(role_weight)s * asked_role + prior + time as final
    from ranked
    order by final desc, document_id
    limit %(limit)s
)
select best.similarity, best.vector, best.lexical, known.telling, best.session, best.speaker, best.asked_role,
       best.time, 1, best.final, ${signs}, (select max(speaker) from ranked), ${columns}

-- name: workspace_model
select w.embedding_model, w.hnsw, m.dimensions,
       (select coalesce(sum(c.documents), 0)::bigint from reme.corpus_statistic c where c.workspace_id = %(workspace)s)
from reme.workspace w left join reme.embedding_model m on m.model = w.embedding_model
where w.workspace_id = %(workspace)s

-- name: authors
with recursive author as (
    (select min(author) as name from reme.message where workspace_id = %(workspace)s and author <> '')
    union all
    select (select min(m.author) from reme.message m where m.workspace_id = %(workspace)s and m.author > author.name)
    from author where author.name is not null
)
select name from author where name is not null limit 20
