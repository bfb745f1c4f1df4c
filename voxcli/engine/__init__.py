"""Who speaks: `base` says what every engine does, `choose` decides which one it is."""
