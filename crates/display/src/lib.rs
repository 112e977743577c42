//! Who is being used: what clients of X11 draw and receive, terminals, and what programs report of themselves.
