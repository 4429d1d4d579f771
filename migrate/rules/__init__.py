"""Rules: one small function per torch API. Importing `migrate.rules.catalogue` registers all of them."""
