//! Tools and telemetry on Windows: a table of scripts, and parsers of what they print.
