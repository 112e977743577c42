//! What `spry` and its scheduler daemon say to each other: one line of JSON for a question, one or more for the answer.
