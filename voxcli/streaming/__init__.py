"""Speech on its way to a listener: texts from a source, spoken one after the other into an outlet.

Knows no command line and no sound library, and imports no torch: devices are looked at before a
model is loaded.
"""
