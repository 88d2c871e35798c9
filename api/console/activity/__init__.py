"""Figures of the console's charts: decisions, amounts, reasons, latencies and stand-in.

They cover the last 5 minutes to 90 days. Short ranges are counted from the tables. Long ranges are read from
slots of five minutes, which are counted once and kept (``kept``).
"""
