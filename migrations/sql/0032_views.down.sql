drop function reme.pass_at_k, reme.memory_as_of;
drop view reme.learning_curve, reme.tool_statistics, reme.usage_by_day, reme.recall_log, reme.task_scoreboard,
    reme.memory_lineage, reme.memory_timeline, reme.memory_current;
