//! Findings as text, HTML and JSON, and traces in other formats.
