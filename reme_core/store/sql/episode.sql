-- name: ensure_progress
insert into reme.episode_progress (workspace_id) values (%(workspace)s) on conflict do nothing

-- name: lock_progress
-- Writers of episodes of one workspace take turns here, so that numbers and counts are given once.
select episodes, consolidated_after, file from reme.episode_progress where workspace_id = %(workspace)s for update

-- name: known_ids
select episode_id, task_id, score from reme.episode where workspace_id = %(workspace)s and episode_id = any(%(ids)s)

-- name: attempts_of
select task_id, max(attempt) from reme.episode_score
where workspace_id = %(workspace)s and task_id = any(%(tasks)s)
group by task_id

-- name: rules_shown
-- The newest rules of some tasks, the oldest of them first.
select wanted.task_id, found.rule, found.place
from unnest(%(tasks)s::text[]) as wanted (task_id)
cross join lateral (
    select r.rule, r.place from reme.episode_rule r
    where r.workspace_id = %(workspace)s and r.task_id = wanted.task_id
    order by r.place desc limit %(limit)s
) found
order by wanted.task_id, found.place

-- name: findings_end
select kind, max(place) from reme.episode_finding where workspace_id = %(workspace)s group by kind

-- name: cards_listed
select card_hash, place, mistake_type, task_id, worker_id, bad_decision, correct_decision, evidence, lesson, seen_count,
       first_seen_episode, last_seen_episode, metadata
from reme.mistake_card
where workspace_id = %(workspace)s and (place is not null or card_hash = any(%(hashes)s))
order by place nulls last

-- name: insert_episodes
insert into reme.episode (workspace_id, episode_id, number, task_id, worker_id, score, steps, summary, mistakes, successes,
                          finished_at, metadata, message_ids, mistake_cards, file_entry, lessons_asked_at)
select w.workspace_id, episode_id, number, task_id, worker_id, score, steps, summary, mistakes, successes,
       finished_at, metadata, message_ids, mistake_cards, file_entry, lessons_asked_at
from reme.workspace w cross join jsonb_populate_recordset(null::reme.episode, %(rows)s) as row
where w.workspace_id = %(workspace)s

-- name: lessons_failed
-- Who asked for them does not make them any more, so that a job may take them at once.
update reme.episode set lessons_asked_at = 'epoch'
where workspace_id = %(workspace)s and episode_id = any(%(ids)s) and lessons_asked_at is not null
returning episode_id

-- name: awaiting_lessons
-- Not those that another process is making at this moment.
select episode_id, task_id, score, metadata from reme.episode
where workspace_id = %(workspace)s and lessons_asked_at < now() - make_interval(secs => %(seconds)s)
order by number
limit %(limit)s

-- name: messages_of
select e.episode_id, ${columns}
from reme.episode e
join reme.message m on m.workspace_id = e.workspace_id and m.message_id = any(e.message_ids)
where e.workspace_id = %(workspace)s and e.episode_id = any(%(ids)s) and m.erased_at is null
order by array_position(e.message_ids, m.message_id)

-- name: lessons_made
update reme.episode set lessons_asked_at = null where workspace_id = %(workspace)s and episode_id = any(%(ids)s)

-- name: insert_scores
insert into reme.episode_score (workspace_id, task_id, attempt, score, episode_id)
select w.workspace_id, task_id, attempt, score, episode_id
from reme.workspace w cross join jsonb_populate_recordset(null::reme.episode_score, %(rows)s) as row
where w.workspace_id = %(workspace)s

-- name: upsert_rules
-- A place of 0 leaves a rule where it stands: it is still among those that are shown.
insert into reme.episode_rule as known (workspace_id, task_id, rule_hash, outcome, rule, place, seen_count, first_episode,
                                        last_episode, author)
select w.workspace_id, task_id, rule_hash, outcome, rule, place, seen_count, first_episode, last_episode, author
from reme.workspace w cross join jsonb_populate_recordset(null::reme.episode_rule, %(rows)s) as row
where w.workspace_id = %(workspace)s
on conflict (workspace_id, task_id, rule_hash) do update
set seen_count = known.seen_count + excluded.seen_count,
    place = case when excluded.place > 0 then excluded.place else known.place end,
    last_episode = greatest(known.last_episode, excluded.last_episode)

-- name: upsert_findings
insert into reme.episode_finding as known (workspace_id, kind, finding_hash, finding, place, seen_count, last_episode)
select w.workspace_id, kind, finding_hash, finding, place, seen_count, last_episode
from reme.workspace w cross join jsonb_populate_recordset(null::reme.episode_finding, %(rows)s) as row
where w.workspace_id = %(workspace)s
on conflict (workspace_id, kind, finding_hash) do update
set seen_count = known.seen_count + excluded.seen_count,
    last_episode = greatest(known.last_episode, excluded.last_episode)

-- name: upsert_cards
insert into reme.mistake_card (workspace_id, card_hash, mistake_type, task_id, worker_id, correct_decision, bad_decision,
                               evidence, lesson, seen_count, first_seen_episode, last_seen_episode, place, metadata)
select w.workspace_id, card_hash, mistake_type, task_id, worker_id, correct_decision, bad_decision,
       evidence, lesson, seen_count, first_seen_episode, last_seen_episode, place, metadata
from reme.workspace w cross join jsonb_populate_recordset(null::reme.mistake_card, %(rows)s) as row
where w.workspace_id = %(workspace)s
on conflict (workspace_id, card_hash) do update
set evidence = excluded.evidence, lesson = excluded.lesson, seen_count = excluded.seen_count,
    first_seen_episode = excluded.first_seen_episode, last_seen_episode = excluded.last_seen_episode,
    place = excluded.place, metadata = excluded.metadata, bad_decision = excluded.bad_decision

-- name: advance
update reme.episode_progress set episodes = %(episodes)s where workspace_id = %(workspace)s

-- name: context
-- All that a note about one task shows, in one row.
select
    array(select rule from (
        select rule, place from reme.episode_rule
        where workspace_id = %(workspace)s and task_id = %(task)s and task_id <> ''
        order by place desc limit %(rules)s) newest order by place),
    array(select rule from (
        select rule, place from reme.episode_rule
        where workspace_id = %(workspace)s and task_id = ''
        order by place desc limit %(rules)s) newest order by place),
    array(select finding from (
        select finding, place from reme.episode_finding
        where workspace_id = %(workspace)s and kind = 'mistake'
        order by place desc limit %(mistakes)s) newest order by place),
    (select coalesce(jsonb_agg(to_jsonb(top) - 'place' order by seen_count desc, last_seen_episode desc, place), '[]')
     from (
        select mistake_type, task_id, left(evidence, %(card_text)s) as evidence, left(lesson, %(card_text)s) as lesson,
               seen_count, last_seen_episode, place
        from reme.mistake_card
        where workspace_id = %(workspace)s
        order by seen_count desc, last_seen_episode desc, place limit %(cards)s) top),
    (select coalesce(jsonb_agg(jsonb_build_array(score, coalesce(file_entry -> 'steps', to_jsonb(steps)), summary)
                               order by number), '[]')
     from (
        select score, steps, left(summary, %(summary)s) as summary, file_entry, number
        from reme.episode
        where workspace_id = %(workspace)s and task_id = %(task)s
        order by number desc limit %(recent)s) newest),
    tried.mean, tried.attempts
from (select avg(score) as mean, count(*) as attempts from reme.episode_score
      where workspace_id = %(workspace)s and task_id = %(task)s) tried

-- name: summary
select
    coalesce((select episodes from reme.episode_progress where workspace_id = %(workspace)s), 0),
    (select count(*) from reme.episode_rule where workspace_id = %(workspace)s and task_id = ''),
    (select coalesce(jsonb_object_agg(task_id, rules), '{}') from (
        select task_id, (select count(*) from reme.episode_rule r
                         where r.workspace_id = %(workspace)s and r.task_id = tasks.task_id) as rules
        from (select task_id from reme.episode_score where workspace_id = %(workspace)s
              union select task_id from reme.episode_rule where workspace_id = %(workspace)s and task_id <> '') tasks
     ) counted),
    (select count(*) from reme.episode_finding where workspace_id = %(workspace)s and kind = 'mistake'),
    (select count(*) from reme.mistake_card where workspace_id = %(workspace)s),
    (select coalesce(jsonb_agg(jsonb_build_object('mistake_type', mistake_type, 'task_id', task_id,
                                                  'seen_count', seen_count)
                               order by seen_count desc, last_seen_episode desc, place), '[]')
     from (select mistake_type, task_id, seen_count, last_seen_episode, place from reme.mistake_card
           where workspace_id = %(workspace)s
           order by seen_count desc, last_seen_episode desc, place limit 5) top),
    (select coalesce(jsonb_object_agg(task_id, mean), '{}')
     from (select task_id, avg(score) as mean from reme.episode_score
           where workspace_id = %(workspace)s group by task_id) means)

-- name: latest
-- The newest episodes, oldest first, and how many there are.
select coalesce(p.episodes, 0), p.consolidated_after,
       (select coalesce(jsonb_agg(jsonb_build_array(task_id, score, summary) order by number), '[]')
        from (select task_id, score, summary, number from reme.episode
              where workspace_id = %(workspace)s order by number desc limit %(limit)s) newest)
from (select) one
left join reme.episode_progress p on p.workspace_id = %(workspace)s

-- name: consolidated
update reme.episode_progress set consolidated_after = %(episodes)s, file = file - 'last_consolidated_at'
where workspace_id = %(workspace)s

-- name: curve
select task_id, attempt, score, mean_score, mean_of_last_10, best_score
from reme.learning_curve
where workspace_id = %(workspace)s and (%(task)s::text is null or task_id = %(task)s)
order by task_id, attempt

-- name: pass_at_k
select task_id, attempts, groups, passed, pass_at_k from reme.pass_at_k(%(workspace)s, %(k)s, %(solved_from)s)

-- name: all_rules
select task_id, rule, place from reme.episode_rule where workspace_id = %(workspace)s order by task_id, place

-- name: all_scores
select task_id, score, episode_id from reme.episode_score where workspace_id = %(workspace)s order by task_id, attempt

-- name: all_findings
select kind, finding, place from reme.episode_finding where workspace_id = %(workspace)s order by kind, place

-- name: all_cards
select card_hash, place, mistake_type, task_id, worker_id, bad_decision, correct_decision, evidence, lesson, seen_count,
       first_seen_episode, last_seen_episode, metadata
from reme.mistake_card where workspace_id = %(workspace)s
order by place nulls last, seen_count desc, last_seen_episode desc, card_hash

-- name: log
-- The last episodes, by their numbers: where some were taken out of the log, older ones do not come back.
select episode_id, number, task_id, score, steps, summary, finished_at, file_entry
from reme.episode
where workspace_id = %(workspace)s
  and number > (select episodes from reme.episode_progress where workspace_id = %(workspace)s) - %(limit)s
order by number

-- name: progress
select episodes, consolidated_after, file from reme.episode_progress where workspace_id = %(workspace)s

-- name: keep_file
update reme.episode_progress set episodes = %(episodes)s, consolidated_after = %(consolidated_after)s, file = %(file)s
where workspace_id = %(workspace)s

-- name: unlist_cards
update reme.mistake_card set place = null where workspace_id = %(workspace)s and place is not null

-- name: place_findings
update reme.episode_finding f set place = row.place
from jsonb_populate_recordset(null::reme.episode_finding, %(rows)s) as row
where f.workspace_id = %(workspace)s and f.kind = row.kind and f.finding_hash = row.finding_hash

-- name: edit_episodes
-- What an entry of the helper's log has; the rest of an episode stays.
update reme.episode e
set task_id = row.task_id, score = row.score, steps = row.steps, summary = row.summary, finished_at = row.finished_at,
    file_entry = row.file_entry
from jsonb_populate_recordset(null::reme.episode, %(rows)s) as row
where e.workspace_id = %(workspace)s and e.episode_id = row.episode_id

-- name: delete_episodes
delete from reme.episode where workspace_id = %(workspace)s and episode_id = any(%(ids)s)

-- name: unlink_scores
-- The history of scores is longer than the log, and stays when an episode is taken out of this.
update reme.episode_score set episode_id = null where workspace_id = %(workspace)s and episode_id = any(%(ids)s)

-- name: delete_scores
delete from reme.episode_score where workspace_id = %(workspace)s and task_id = %(task)s and attempt > %(kept)s

-- name: delete_rules
delete from reme.episode_rule where workspace_id = %(workspace)s and task_id = %(task)s and rule_hash = any(%(hashes)s)

-- name: delete_findings
delete from reme.episode_finding where workspace_id = %(workspace)s and kind = %(kind)s and finding_hash = any(%(hashes)s)

-- name: delete_cards
delete from reme.mistake_card where workspace_id = %(workspace)s and card_hash = any(%(hashes)s)
