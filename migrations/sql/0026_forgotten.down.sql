drop index reme.memory_forgotten;
