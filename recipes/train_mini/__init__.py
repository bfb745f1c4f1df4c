"""How the bundled voice is made: from packages to a checkpoint, in steps that can be resumed."""
