-- Takes the whole schema away again; the role stays, since other databases of the cluster may use it.
drop view reme.usage_by_day, reme.recall_log, reme.task_scoreboard, reme.memory_lineage, reme.memory_timeline,
    reme.memory_current;
drop function reme.memory_as_of;
drop table reme.model_call, reme.retrieval_hit, reme.retrieval, reme.corpus_statistic, reme.term_statistic, reme.posting,
    reme.embedding, reme.memory_history, reme.memory_source, reme.memory, reme.episode, reme.message,
    reme.embedding_model, reme.workspace;
drop function reme.follow_memory, reme.write_memory_history;
drop sequence reme.document_id;
