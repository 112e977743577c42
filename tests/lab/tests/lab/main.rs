//! The lab: that it repeats, and what Spry does on its kernels. One program, so that two virtual machines run until the last test is done.

mod attacks;
mod bench;
mod daemon;
mod disk;
mod display;
mod groups;
mod kernels;
mod latency;
mod loads;
mod repeats;
mod reproduce;
mod saved;
mod scenarios;
mod several;
mod stack;
mod turns;
