//! The BPF event logger and its driver.
