-- Filters of messages, besides those of filter.sql. A message has no kind, subject, status or score, so those filters let
-- it through.

-- name: as_of
m.recorded_at <= %(as_of)s

-- name: held_at
m.sent_at <= %(held_at)s

-- name: happened
m.sent_at <@ %(happened)s::tstzrange

-- name: of_person
-- What they said, and what an agent said in a conversation of theirs.
case when m.role = 'user' then m.author = %(of_person)s
     else m.session_id in (
         select said.session_id from reme.message said
         where said.workspace_id = %(workspace)s and said.role = 'user' and said.author = %(of_person)s) end

-- name: session_id
m.session_id = %(session_id)s

-- name: ids
m.message_id = any(%(ids)s)

-- name: without
-- As a subquery the list is hashed once: it may be long, and a workspace larger.
m.message_id not in (select unnest(%(without)s::text[])) and m.content not in (select unnest(%(without)s::text[]))
