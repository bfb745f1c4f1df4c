"""Many utterances from one table: read it, check all of it, speak it, resume it, report on it.

The order of the parts: `tables` and `cues` read a file into records, `rows` gives the records
types, `names` gives each a safe file name, `preflight` finds everything that is wrong before a
model loads, `folder` and `manifest` keep what is done across runs, `run` speaks, `keep` judges and
writes, `report` tells. No torch here: `run` is handed a synthesizer.
"""
