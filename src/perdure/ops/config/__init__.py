"""`perdure.yaml`: how a store and its agents are set up, apart from the code. Its keys: `docs/configuration.md`."""
