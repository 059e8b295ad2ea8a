-- Filters of memories, besides those of filter.sql.

-- name: kinds
m.kind = any(%(kinds)s)

-- name: subject
m.subject = %(subject)s

-- name: of_person
-- What is about this person, or about a user without a name (`person_of` in prompts/transcript.py).
(m.subject = %(of_person)s or lower(m.subject) in ('', 'user', 'human'))

-- name: content
-- Word for word; its hash is indexed.
md5(m.content) = md5(%(content)s) and m.content = %(content)s

-- name: status
m.status = %(status)s

-- name: as_of
m.recorded_at <= %(as_of)s and (m.expired_at is null or m.expired_at > %(as_of)s)

-- name: held_at
m.valid_during @> %(held_at)s

-- name: not_over_at
-- What holds without an end never is; what lies ahead is not over either.
(upper_inf(m.valid_during) or upper(m.valid_during) > %(not_over_at)s)

-- name: happened
-- What is dated must overlap the range; what holds since ever counts by when it was said.
case when m.valid_during = '(,)' then coalesce(m.observed_at, m.created_at) <@ %(happened)s::tstzrange
     else m.valid_during && %(happened)s::tstzrange end

-- name: min_stored_score
m.score >= %(min_stored_score)s

-- name: ids
m.memory_id = any(%(ids)s)

-- name: without
-- As a subquery the list is hashed once: it may be long, and a workspace larger.
m.memory_id not in (select unnest(%(without)s::text[])) and m.content not in (select unnest(%(without)s::text[]))
