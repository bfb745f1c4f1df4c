"""How the bundled voice is made: from package names to a checkpoint, in steps that can be resumed."""
