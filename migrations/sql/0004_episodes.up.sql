-- Cross-episode memory: scores, rules, findings and mistake cards that scored attempts leave behind, and tool calls with
-- their statistics. Everything is kept; how much of it an agent is shown is decided when it is rendered.

alter table reme.episode add column message_ids text[] not null default '{}';
comment on column reme.episode.message_ids is 'The messages of the attempt, in order, where they were recorded.';

create table reme.episode_progress (
    workspace_id         text primary key references reme.workspace on delete cascade,
    episodes             bigint not null default 0,
    consolidated_after   bigint,
    file                 jsonb not null default '{}'
);
comment on table reme.episode_progress is 'How far the episodes of a workspace have come. Writers of episodes take turns by locking its row.';
comment on column reme.episode_progress.workspace_id is 'The tenant it belongs to.';
comment on column reme.episode_progress.episodes is 'How many episodes there were, those that an imported file only counted included.';
comment on column reme.episode_progress.consolidated_after is 'After how many episodes global rules were last distilled; empty if never.';
comment on column reme.episode_progress.file is 'What an imported agent_memory.json held that has no column, so that it is exported again.';

create table reme.episode_score (
    workspace_id text not null references reme.workspace on delete cascade,
    task_id      text not null,
    attempt      bigint not null,
    score        double precision not null,
    episode_id   text,
    primary key (workspace_id, task_id, attempt) include (score)
);
create index episode_score_episode on reme.episode_score (workspace_id, episode_id);
comment on table reme.episode_score is 'Score history of each task, in order.';
comment on column reme.episode_score.workspace_id is 'The tenant it belongs to.';
comment on column reme.episode_score.task_id is 'The task.';
comment on column reme.episode_score.attempt is 'The how-manieth attempt at it, from 1.';
comment on column reme.episode_score.score is 'How well it went, 0 to 1.';
comment on column reme.episode_score.episode_id is 'The episode; empty where an imported file had its score only.';

create table reme.episode_rule (
    workspace_id  text not null references reme.workspace on delete cascade,
    task_id       text not null default '',
    rule_hash     text not null,
    outcome       text not null check (outcome in ('works', 'avoid', 'consolidated', 'high_score', 'stated')),
    rule          text not null,
    place         bigint not null,
    seen_count    integer not null default 1,
    first_episode bigint not null default 0,
    last_episode  bigint not null default 0,
    author        text not null default 'rules',
    created_at    timestamptz not null default now(),
    primary key (workspace_id, task_id, rule_hash)
);
create index episode_rule_newest on reme.episode_rule (workspace_id, task_id, place desc);
comment on table reme.episode_rule is 'Rules that episodes taught, for one task or for all.';
comment on column reme.episode_rule.workspace_id is 'The tenant it belongs to.';
comment on column reme.episode_rule.task_id is 'The task it holds for; empty for a rule for all tasks.';
comment on column reme.episode_rule.rule_hash is 'Digest of the rule: the same rule is kept once for a task.';
comment on column reme.episode_rule.outcome is 'works (a success of a good episode), avoid (a mistake of a bad one), consolidated (distilled by a model), high_score (a summary of a good episode) or stated (came with a file).';
comment on column reme.episode_rule.rule is 'The rule as an agent reads it, its tag included.';
comment on column reme.episode_rule.place is 'Its place among the rules of the task; the newest are shown.';
comment on column reme.episode_rule.seen_count is 'How often episodes taught it.';
comment on column reme.episode_rule.first_episode is 'Number of the first episode that taught it; 0 where that is not known.';
comment on column reme.episode_rule.last_episode is 'Number of the last one.';
comment on column reme.episode_rule.author is 'rules, or the model that distilled it.';
comment on column reme.episode_rule.created_at is 'When it was first written down.';

create table reme.episode_finding (
    workspace_id  text not null references reme.workspace on delete cascade,
    kind          text not null check (kind in ('mistake', 'success')),
    finding_hash  text not null,
    finding       text not null,
    place         bigint not null,
    seen_count    integer not null default 1,
    last_episode  bigint not null default 0,
    primary key (workspace_id, kind, finding_hash)
);
create index episode_finding_newest on reme.episode_finding (workspace_id, kind, place desc);
comment on table reme.episode_finding is 'What went wrong and what worked, over all tasks, each once.';
comment on column reme.episode_finding.workspace_id is 'The tenant it belongs to.';
comment on column reme.episode_finding.kind is 'mistake or success.';
comment on column reme.episode_finding.finding_hash is 'Digest of the finding.';
comment on column reme.episode_finding.finding is 'What was found, in the words of its first episode.';
comment on column reme.episode_finding.place is 'Order in which the findings first came up.';
comment on column reme.episode_finding.seen_count is 'How often it came up.';
comment on column reme.episode_finding.last_episode is 'Number of the last episode in which it did; 0 where that is not known.';

create table reme.mistake_card (
    workspace_id       text not null references reme.workspace on delete cascade,
    card_hash          text not null,
    mistake_type       text not null,
    task_id            text not null,
    worker_id          text,
    correct_decision   text,
    bad_decision       text,
    evidence           text not null default '',
    lesson             text not null default '',
    seen_count         integer not null default 1,
    first_seen_episode bigint not null,
    last_seen_episode  bigint not null,
    place              integer,
    metadata           jsonb not null default '{}',
    primary key (workspace_id, card_hash)
);
create index mistake_card_top on reme.mistake_card (workspace_id, seen_count desc, last_seen_episode desc, place);
create index mistake_card_listed on reme.mistake_card (workspace_id, place) where place is not null;
comment on table reme.mistake_card is 'Mistakes that were made, each with its lesson and how often it was seen.';
comment on column reme.mistake_card.workspace_id is 'The tenant it belongs to.';
comment on column reme.mistake_card.card_hash is 'Digest of mistake_type, task_id, worker_id and correct_decision, by which cards are merged.';
comment on column reme.mistake_card.mistake_type is 'What sort of mistake.';
comment on column reme.mistake_card.task_id is 'The task in which it was made.';
comment on column reme.mistake_card.worker_id is 'The worker whose mistake it was, where several work.';
comment on column reme.mistake_card.correct_decision is 'What would have been right.';
comment on column reme.mistake_card.bad_decision is 'What was done.';
comment on column reme.mistake_card.evidence is 'What showed it.';
comment on column reme.mistake_card.lesson is 'What follows from it.';
comment on column reme.mistake_card.seen_count is 'How often it was made.';
comment on column reme.mistake_card.first_seen_episode is 'Number of the first episode with it.';
comment on column reme.mistake_card.last_seen_episode is 'Number of the last one.';
comment on column reme.mistake_card.place is 'Place in the list of the cards seen most; empty below it.';
comment on column reme.mistake_card.metadata is 'Whatever else belongs to it.';

create table reme.tool_call_result (
    workspace_id  text not null references reme.workspace on delete cascade,
    call_hash     text not null check (call_hash <> ''),
    number        bigint generated always as identity,
    tool_name     text not null check (tool_name <> ''),
    input         jsonb not null default '{}',
    output        text not null default '',
    success       boolean not null default true,
    error         text not null default '',
    time_cost     double precision,
    token_cost    integer,
    summary       text not null default '',
    evaluation    text not null default '',
    score         double precision,
    called_at     timestamptz not null default now(),
    recorded_at   timestamptz not null default now(),
    summarised_at timestamptz,
    metadata      jsonb not null default '{}',
    primary key (workspace_id, call_hash)
);
create index tool_call_newest on reme.tool_call_result (workspace_id, tool_name, called_at desc);
create index tool_call_waiting on reme.tool_call_result (workspace_id, tool_name) where summarised_at is null;
comment on table reme.tool_call_result is 'Calls of tools and how they went, each once.';
comment on column reme.tool_call_result.workspace_id is 'The tenant it belongs to.';
comment on column reme.tool_call_result.call_hash is 'Digest of the call, by which a call that is reported again is recognised.';
comment on column reme.tool_call_result.number is 'Order in which the calls were taken in.';
comment on column reme.tool_call_result.tool_name is 'The tool.';
comment on column reme.tool_call_result.input is 'What it was called with.';
comment on column reme.tool_call_result.output is 'What it gave back.';
comment on column reme.tool_call_result.success is 'Whether it worked.';
comment on column reme.tool_call_result.error is 'In one line why it did not.';
comment on column reme.tool_call_result.time_cost is 'How long it took, in seconds; empty where that is not known.';
comment on column reme.tool_call_result.token_cost is 'Tokens it cost; empty where that is not known.';
comment on column reme.tool_call_result.summary is 'What happened, in a sentence.';
comment on column reme.tool_call_result.evaluation is 'How useful it was, in a sentence.';
comment on column reme.tool_call_result.score is 'How useful it was, 0 to 1; empty where nobody judged.';
comment on column reme.tool_call_result.called_at is 'When it was called.';
comment on column reme.tool_call_result.recorded_at is 'When it was taken in.';
comment on column reme.tool_call_result.summarised_at is 'When guidance was last made from it; empty means that it still waits.';
comment on column reme.tool_call_result.metadata is 'Whatever the caller attached.';


-- Views for people -----------------------------------------------------------------------------------------------------

create view reme.tool_statistics with (security_invoker) as
select workspace_id, tool_name, count(*) as calls,
       count(*) filter (where success) as successes,
       count(*) filter (where success) / count(*)::double precision as success_rate,
       avg(score) as mean_score,
       percentile_cont(0.5) within group (order by time_cost) as time_p50,
       percentile_cont(0.95) within group (order by time_cost) as time_p95,
       percentile_cont(0.5) within group (order by token_cost) as tokens_p50,
       percentile_cont(0.95) within group (order by token_cost) as tokens_p95,
       (array_agg(error order by called_at desc, number desc) filter (where error <> ''))[1:5] as recent_errors,
       max(called_at) as last_called_at,
       count(*) filter (where summarised_at is null) as not_summarised
from reme.tool_call_result
group by workspace_id, tool_name;
comment on view reme.tool_statistics is 'How each tool fares: success rate, seconds and tokens a call, its five newest errors.';

create view reme.learning_curve with (security_invoker) as
select workspace_id, task_id, attempt, score,
       avg(score) over (tries rows between unbounded preceding and current row) as mean_score,
       avg(score) over (tries rows between 9 preceding and current row) as mean_of_last_10,
       max(score) over (tries rows between unbounded preceding and current row) as best_score,
       episode_id
from reme.episode_score
window tries as (partition by workspace_id, task_id order by attempt);
comment on view reme.learning_curve is 'Score of each attempt at each task, with the mean so far, the mean of the last ten and the best so far.';

create function reme.pass_at_k(workspace text, k integer, solved_from double precision default 1.0)
returns table (task_id text, attempts bigint, groups bigint, passed bigint, pass_at_k double precision)
language sql stable as $$
    -- The attempts at a task in groups of k, in order; a last group that is not full is left out.
    with grouped as (
        select s.task_id, (s.attempt - 1) / pass_at_k.k as batch, count(*) as size, max(s.score) >= solved_from as solved
        from reme.episode_score s
        where s.workspace_id = workspace
        group by s.task_id, (s.attempt - 1) / pass_at_k.k
    )
    select g.task_id, sum(g.size)::bigint, count(*) filter (where g.size = pass_at_k.k),
           count(*) filter (where g.size = pass_at_k.k and g.solved),
           count(*) filter (where g.size = pass_at_k.k and g.solved)::double precision
               / nullif(count(*) filter (where g.size = pass_at_k.k), 0)
    from grouped g
    group by g.task_id
    order by g.task_id
$$;
comment on function reme.pass_at_k is 'For each task the share of its groups of k attempts whose best reached solved_from; empty where there is no full group.';


-- Tenancy --------------------------------------------------------------------------------------------------------------

do $$
declare
    relation text;
begin
    foreach relation in array array['episode_progress', 'episode_score', 'episode_rule', 'episode_finding',
                                    'mistake_card', 'tool_call_result']
    loop
        execute format('alter table reme.%I enable row level security', relation);
        execute format('alter table reme.%I force row level security', relation);
        execute format(
            'create policy tenant on reme.%I using (workspace_id = (select current_setting(''reme.workspace'', true))'
            ' or (select current_setting(''reme.workspace'', true)) = ''*'')', relation);
    end loop;
end $$;
do $$
begin
    grant select, insert, update, delete on all tables in schema reme to reme_service;
    grant usage on all sequences in schema reme to reme_service;
    grant execute on all functions in schema reme to reme_service;
exception
    when undefined_object then null;  -- without the role, the login role owns the tables and FORCE holds it
end $$;
