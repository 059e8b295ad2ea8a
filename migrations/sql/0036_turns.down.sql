drop function reme.fetch_job;
