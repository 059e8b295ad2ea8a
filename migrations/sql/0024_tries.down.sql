alter table reme.job_error drop column is_try;
