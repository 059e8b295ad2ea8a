-- What has no comment yet gets one, so that \d+ explains every table, view and column: the columns of the views, the
-- queue's tables, which come from their package without any, and Alembic's table.

comment on table reme.alembic_version is 'The version of this schema; reme db status shows it.';
comment on column reme.alembic_version.version_num is 'Number of the newest migration that was applied.';


-- Views ------------------------------------------------------------------------------------------------------------------
-- A column that a view takes over from a table keeps the words it has there.

do $$
declare
    taken record;
begin
    for taken in
        select of_view.attrelid::regclass as relation, of_view.attname as name,
               col_description(of_table.attrelid, of_table.attnum) as words
        from (values ('memory_current', 'memory'), ('memory_timeline', 'memory'), ('memory_lineage', 'memory'),
                     ('memory_lineage', 'memory_source'), ('task_scoreboard', 'episode'), ('recall_log', 'retrieval'),
                     ('recall_log', 'retrieval_hit'), ('usage_by_day', 'model_call'),
                     ('tool_statistics', 'tool_call_result'), ('learning_curve', 'episode_score')) as pairs (of_view, of_table)
        join pg_attribute of_view on of_view.attrelid = ('reme.' || pairs.of_view)::regclass
        join pg_attribute of_table
            on of_table.attrelid = ('reme.' || pairs.of_table)::regclass and of_table.attname = of_view.attname
        where of_table.attnum > 0
    loop
        execute format('comment on column %s.%I is %L', taken.relation, taken.name, taken.words);
    end loop;
end
$$;

comment on column reme.memory_timeline.since is 'From when it holds; where that is not known, when it was said or stored.';
comment on column reme.memory_timeline.until is 'Until when it holds; empty: it still does.';
comment on column reme.memory_lineage.evidence is 'The words it rests on: the quoted passage, or all of the message, memory or summary of the episode.';
comment on column reme.memory_lineage.evidence_at is 'When that was said, seen or done.';
comment on column reme.memory_lineage.said_by is 'Who said it; empty where it rests on an episode or another memory.';
comment on column reme.task_scoreboard.episodes is 'How often it was attempted.';
comment on column reme.task_scoreboard.mean_score is 'Mean score of all attempts.';
comment on column reme.task_scoreboard.best_score is 'The best score so far.';
comment on column reme.task_scoreboard.solved is 'How many attempts had a score of 1.';
comment on column reme.task_scoreboard.mean_steps is 'Mean number of steps of an attempt.';
comment on column reme.task_scoreboard.last_attempt is 'When the last attempt ended.';
comment on column reme.recall_log.content is 'What was recalled, as it reads now; empty once it is gone.';
comment on column reme.usage_by_day.day is 'The day of the calls, in the time zone of the session that asks.';
comment on column reme.usage_by_day.calls is 'How many calls there were.';
comment on column reme.usage_by_day.failures is 'How many of them failed.';
comment on column reme.usage_by_day.prompt_tokens is 'Tokens sent, all calls together.';
comment on column reme.usage_by_day.completion_tokens is 'Tokens received, all calls together.';
comment on column reme.usage_by_day.seconds is 'Time waited, all calls together.';
comment on column reme.tool_statistics.calls is 'How often it was called.';
comment on column reme.tool_statistics.successes is 'How many of the calls succeeded.';
comment on column reme.tool_statistics.success_rate is 'Share of the calls that succeeded, 0 to 1.';
comment on column reme.tool_statistics.mean_score is 'Mean score of its calls.';
comment on column reme.tool_statistics.time_p50 is 'Median of the seconds a call took.';
comment on column reme.tool_statistics.time_p95 is '95th percentile of the seconds a call took.';
comment on column reme.tool_statistics.tokens_p50 is 'Median of the tokens a call cost.';
comment on column reme.tool_statistics.tokens_p95 is '95th percentile of the tokens a call cost.';
comment on column reme.tool_statistics.recent_errors is 'Its five newest errors, the newest first.';
comment on column reme.tool_statistics.last_called_at is 'When it was last called.';
comment on column reme.tool_statistics.not_summarised is 'How many calls its guidance does not know of yet.';
comment on column reme.learning_curve.mean_score is 'Mean score of this attempt and all before it.';
comment on column reme.learning_curve.mean_of_last_10 is 'Mean score of this attempt and the nine before it.';
comment on column reme.learning_curve.best_score is 'The best score up to this attempt.';


-- The queue --------------------------------------------------------------------------------------------------------------

comment on table reme.procrastinate_jobs is 'Background jobs: what waits, what runs, what is done; reme jobs list shows them.';
comment on column reme.procrastinate_jobs.id is 'Number of the job.';
comment on column reme.procrastinate_jobs.queue_name is 'Its queue; workers may keep to some.';
comment on column reme.procrastinate_jobs.task_name is 'What is to be done: summarise, reflect, embed.';
comment on column reme.procrastinate_jobs.priority is 'Higher goes first.';
comment on column reme.procrastinate_jobs.lock is 'Of the jobs with one lock, one runs at a time.';
comment on column reme.procrastinate_jobs.queueing_lock is 'Of the jobs with one such lock, one waits at a time: more that is said joins the job that waits.';
comment on column reme.procrastinate_jobs.args is 'For which workspace and conversation; never what was said.';
comment on column reme.procrastinate_jobs.status is 'todo, doing, succeeded, failed (given up), cancelled, aborting or aborted.';
comment on column reme.procrastinate_jobs.scheduled_at is 'It does not run before; empty: at once.';
comment on column reme.procrastinate_jobs.attempts is 'How often it was tried.';
comment on column reme.procrastinate_jobs.abort_requested is 'Whether its worker is asked to stop it.';
comment on column reme.procrastinate_jobs.worker_id is 'The worker that runs it.';
comment on table reme.procrastinate_events is 'What happened to each background job.';
comment on column reme.procrastinate_events.id is 'Number of the event.';
comment on column reme.procrastinate_events.job_id is 'The job it happened to.';
comment on column reme.procrastinate_events.type is 'deferred, started, succeeded, failed, deferred_for_retry, scheduled, cancelled, abort_requested or aborted.';
comment on column reme.procrastinate_events.at is 'When.';
comment on table reme.procrastinate_periodic_defers is 'Which scheduled jobs were queued for which moment, so that many workers queue each once.';
comment on column reme.procrastinate_periodic_defers.id is 'Number of the entry.';
comment on column reme.procrastinate_periodic_defers.task_name is 'What is to be done at that moment.';
comment on column reme.procrastinate_periodic_defers.defer_timestamp is 'The moment, in seconds since 1970.';
comment on column reme.procrastinate_periodic_defers.job_id is 'The job that was queued for it.';
comment on column reme.procrastinate_periodic_defers.periodic_id is 'Which of the schedules of this task.';
comment on table reme.procrastinate_workers is 'The workers that are alive. Jobs of one that went silent run again.';
comment on column reme.procrastinate_workers.id is 'Number of the worker.';
comment on column reme.procrastinate_workers.last_heartbeat is 'When it was last heard of.';
