//! From events to intervals of task and CPU states.
