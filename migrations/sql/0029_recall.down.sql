drop function reme.lock_log, reme.log_model_calls;
drop table reme.model_call, reme.retrieval_hit, reme.retrieval, reme.corpus_statistic, reme.posting;
do $$ begin drop trigger memory_embedding on reme.memory; end $$;
drop function reme.sync_embedding;
drop table reme.embedding, reme.embedding_model;
