"""`perdure.yaml`: how a store and its agents are set up, apart from the code. `docs/configuration.md` lists every key."""
