-- Jobs are looked through in their order, and the first that may begin is the next one. Where the queue had grown since the
-- planner looked at it, all jobs that wait were compared and sorted for each that was fetched.
alter function reme.fetch_job
    set enable_sort = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off;
