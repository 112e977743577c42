//! Tests of the lab: its runs repeat, and Spry works on its kernels. All tests are in one program, so that
//! two virtual machines are running until the last test ends.

mod attacks;
mod bench;
mod ceilings;
mod daemon;
mod deceptions;
mod disk;
mod display;
mod firm;
mod groups;
mod in_charge;
mod kernels;
mod latency;
mod loads;
mod outlasts;
mod real_rate;
mod repeats;
mod reproduce;
mod reserved;
mod saved;
mod scenarios;
mod several;
mod stack;
mod suspend;
mod ticks;
mod tune;
mod turns;
