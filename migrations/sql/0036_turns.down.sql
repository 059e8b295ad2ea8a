alter table reme.workspace drop column turn_job_id;
