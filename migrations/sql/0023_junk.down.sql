drop index reme.memory_junk;
