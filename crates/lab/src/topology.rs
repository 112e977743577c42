//! How a virtual machine's CPUs hang together: sockets, dies, cores, threads, and which of them share a cache.

use serde::{Deserialize, Serialize};

/// The most CPUs that a virtual machine has.
pub const CPUS_MAX: u32 = 16;

/// What of the machine shares one last-level cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheSharing {
    /// All cores of a die.
    #[default]
    Die,
    /// Each core has its own.
    Core,
}

/// How many of each; the product is the number of CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// Packages, each with a memory controller in a real machine.
    pub sockets: u32,
    /// Dies of a socket.
    pub dies: u32,
    /// Cores of a die.
    pub cores: u32,
    /// Hardware threads of a core. The emulated ones share nothing that slows them down.
    pub threads: u32,
    /// What shares a last-level cache.
    pub cache: CacheSharing,
}

impl Default for Topology {
    fn default() -> Self {
        Self::of_cores(1)
    }
}

impl Topology {
    /// So many cores on one die.
    pub const fn of_cores(cores: u32) -> Self {
        Self { sockets: 1, dies: 1, cores, threads: 1, cache: CacheSharing::Die }
    }

    /// So many sockets of as many cores each as make so many CPUs; a last-level cache each.
    pub const fn of_sockets(sockets: u32, cpus: u32) -> Self {
        Self { sockets, cores: cpus / sockets, ..Self::of_cores(1) }
    }

    /// How many CPUs that makes.
    pub const fn cpus(&self) -> u32 {
        self.sockets * self.dies * self.cores * self.threads
    }

    /// The emulator's words for it.
    pub(crate) fn smp(&self) -> String {
        let Self { sockets, dies, cores, threads, cache: _ } = self;
        format!("{},sockets={sockets},dies={dies},cores={cores},threads={threads}", self.cpus())
    }

    /// The property of the emulated machine that says what shares the last-level cache.
    pub(crate) fn cache_property(&self) -> &'static str {
        match self.cache {
            CacheSharing::Die => "smp-cache.0.cache=l3,smp-cache.0.topology=die",
            CacheSharing::Core => "smp-cache.0.cache=l3,smp-cache.0.topology=core",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_share_the_cpus_out() {
        let two = Topology::of_sockets(2, 4);
        assert_eq!((two.cpus(), two.cores), (4, 2));
        assert_eq!(two.smp(), "4,sockets=2,dies=1,cores=2,threads=1");
        assert_eq!(Topology::of_cores(8).cpus(), 8);
    }
}
