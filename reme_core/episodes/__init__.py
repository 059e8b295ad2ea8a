"""Memory across episodes: scored attempts, with their rules, mistakes and learning curves."""
