alter function reme.fetch_job reset all;
