"""Many utterances from one table: read it, check all of it, speak it, resume it, report on it.

The order of the parts: `tables` and `cues` read a file into `records`, `rows` gives the records
types and `columns` those that are the model's parameters, `names` gives each a safe file name,
`preflight` finds everything that is wrong before a model loads and makes `jobs`, `folder` and
`manifest` keep what is done across runs, `run` speaks, `keep` judges and writes, `report` tells.
Who speaks is a `SpeechEngine` of any kind. No torch here.
"""
