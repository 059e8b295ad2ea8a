drop table reme.artifact;
