drop function reme.pass_at_k;
drop view reme.learning_curve, reme.tool_statistics;
drop table reme.tool_call_result, reme.mistake_card, reme.episode_finding, reme.episode_rule, reme.episode_score,
    reme.episode_progress;
alter table reme.episode drop column message_ids;
