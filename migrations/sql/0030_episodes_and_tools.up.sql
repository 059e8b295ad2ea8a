-- Scored attempts at tasks with the scores, rules, findings and mistake cards that they leave, and calls of tools. All of
-- it is kept; how much an agent is shown is decided when a note is written.

create table reme.episode (
    workspace_id text not null references reme.workspace on delete cascade,
    episode_id   text not null check (episode_id <> ''),
    number       bigint not null,
    task_id      text not null,
    worker_id    text not null default '',
    score        double precision not null default 0,
    steps        integer not null default 0,
    summary      text not null default '',
    mistakes     text[] not null default '{}',
    successes    text[] not null default '{}',
    finished_at  timestamptz not null default now(),
    recorded_at  timestamptz not null default now(),
    metadata     jsonb not null default '{}',
    message_ids  text[] not null default '{}',
    primary key (workspace_id, episode_id),
    unique (workspace_id, number)
);
create index episode_task on reme.episode (workspace_id, task_id, number desc);
comment on table reme.episode is 'Scored attempts at tasks, all of them, in order.';
comment on column reme.episode.workspace_id is 'The workspace it belongs to.';
comment on column reme.episode.episode_id is 'Its identity; the same id is recorded once.';
comment on column reme.episode.number is 'Its place among all episodes of the workspace, from 1.';
comment on column reme.episode.task_id is 'The task that was attempted.';
comment on column reme.episode.worker_id is 'Which worker made the attempt, where several do.';
comment on column reme.episode.score is 'How well it went, 0 to 1.';
comment on column reme.episode.steps is 'How many steps it took.';
comment on column reme.episode.summary is 'What happened, in a sentence or two.';
comment on column reme.episode.mistakes is 'What went wrong.';
comment on column reme.episode.successes is 'What worked.';
comment on column reme.episode.finished_at is 'When the attempt ended.';
comment on column reme.episode.recorded_at is 'When it was recorded.';
comment on column reme.episode.metadata is 'Whatever the caller attached.';
comment on column reme.episode.message_ids is 'The messages of the attempt, in order, where they were recorded.';
call reme.keep_tenants_apart('reme.episode');

create table reme.episode_progress (
    workspace_id         text primary key references reme.workspace on delete cascade,
    episodes             bigint not null default 0,
    consolidated_after   bigint,
    file                 jsonb not null default '{}'
);
comment on table reme.episode_progress is 'How many episodes a workspace has had. Writers of episodes take turns by locking its row.';
comment on column reme.episode_progress.workspace_id is 'The workspace it belongs to.';
comment on column reme.episode_progress.episodes is 'How many episodes there were, with those of which an imported file has only the number.';
comment on column reme.episode_progress.consolidated_after is 'After how many episodes rules for all tasks were last made; empty: never.';
comment on column reme.episode_progress.file is 'Fields of an imported agent_memory.json that have no column, for the export.';
call reme.keep_tenants_apart('reme.episode_progress');

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
comment on column reme.episode_score.workspace_id is 'The workspace it belongs to.';
comment on column reme.episode_score.task_id is 'The task.';
comment on column reme.episode_score.attempt is 'Number of the attempt at the task, from 1.';
comment on column reme.episode_score.score is 'How well it went, 0 to 1.';
comment on column reme.episode_score.episode_id is 'The episode; empty where an imported file has only its score.';
call reme.keep_tenants_apart('reme.episode_score');

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
comment on column reme.episode_rule.workspace_id is 'The workspace it belongs to.';
comment on column reme.episode_rule.task_id is 'The task it holds for; empty for a rule for all tasks.';
comment on column reme.episode_rule.rule_hash is 'Digest of the rule: the same rule is kept once for a task.';
comment on column reme.episode_rule.outcome is 'works (a success of a good episode), avoid (a mistake of a bad one), consolidated (made by a model from several), high_score (the summary of a good episode) or stated (from a file).';
comment on column reme.episode_rule.rule is 'The rule as an agent reads it, its tag included.';
comment on column reme.episode_rule.place is 'Its place among the rules of the task; the newest are shown.';
comment on column reme.episode_rule.seen_count is 'How often episodes taught it.';
comment on column reme.episode_rule.first_episode is 'Number of the first episode that taught it; 0 where that is not known.';
comment on column reme.episode_rule.last_episode is 'Number of the last one.';
comment on column reme.episode_rule.author is 'rules, or the name of the model that made it.';
comment on column reme.episode_rule.created_at is 'When it was first written.';
call reme.keep_tenants_apart('reme.episode_rule');

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
comment on column reme.episode_finding.workspace_id is 'The workspace it belongs to.';
comment on column reme.episode_finding.kind is 'mistake or success.';
comment on column reme.episode_finding.finding_hash is 'Digest of the finding.';
comment on column reme.episode_finding.finding is 'The mistake or success, in the words of its first episode.';
comment on column reme.episode_finding.place is 'Order in which the findings were first made.';
comment on column reme.episode_finding.seen_count is 'How often it was made.';
comment on column reme.episode_finding.last_episode is 'Number of the last episode with it; 0 where that is not known.';
call reme.keep_tenants_apart('reme.episode_finding');

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
comment on column reme.mistake_card.workspace_id is 'The workspace it belongs to.';
comment on column reme.mistake_card.card_hash is 'Digest of mistake_type, task_id, worker_id and correct_decision, by which cards are merged.';
comment on column reme.mistake_card.mistake_type is 'What sort of mistake.';
comment on column reme.mistake_card.task_id is 'The task in which it was made.';
comment on column reme.mistake_card.worker_id is 'The worker whose mistake it was, where several work.';
comment on column reme.mistake_card.correct_decision is 'What would have been right.';
comment on column reme.mistake_card.bad_decision is 'What was done.';
comment on column reme.mistake_card.evidence is 'What shows that it was a mistake.';
comment on column reme.mistake_card.lesson is 'What follows from it.';
comment on column reme.mistake_card.seen_count is 'How often it was made.';
comment on column reme.mistake_card.first_seen_episode is 'Number of the first episode with it.';
comment on column reme.mistake_card.last_seen_episode is 'Number of the last one.';
comment on column reme.mistake_card.place is 'Its place in the list of the cards that were seen most; empty: it is not in it.';
comment on column reme.mistake_card.metadata is 'Whatever else belongs to it.';
call reme.keep_tenants_apart('reme.mistake_card');

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
comment on column reme.tool_call_result.workspace_id is 'The workspace it belongs to.';
comment on column reme.tool_call_result.call_hash is 'Digest of the call; the same call is recorded once.';
comment on column reme.tool_call_result.number is 'Order in which the calls were recorded.';
comment on column reme.tool_call_result.tool_name is 'The tool.';
comment on column reme.tool_call_result.input is 'What it was called with.';
comment on column reme.tool_call_result.output is 'What it gave back.';
comment on column reme.tool_call_result.success is 'Whether it worked.';
comment on column reme.tool_call_result.error is 'Why it did not work, in one line.';
comment on column reme.tool_call_result.time_cost is 'How long it took, in seconds; empty where that is not known.';
comment on column reme.tool_call_result.token_cost is 'Tokens it cost; empty where that is not known.';
comment on column reme.tool_call_result.summary is 'What happened, in a sentence.';
comment on column reme.tool_call_result.evaluation is 'How useful it was, in a sentence.';
comment on column reme.tool_call_result.score is 'How useful it was, 0 to 1; empty where nobody judged.';
comment on column reme.tool_call_result.called_at is 'When it was called.';
comment on column reme.tool_call_result.recorded_at is 'When it was recorded.';
comment on column reme.tool_call_result.summarised_at is 'When guidance was last made from it; empty: not yet.';
comment on column reme.tool_call_result.metadata is 'Whatever the caller attached.';
call reme.keep_tenants_apart('reme.tool_call_result');
