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

/// How large the guest is told that caches are, bytes; `None`: as large as the emulator's model has them. No access
/// becomes faster or slower by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheSizes {
    /// Each core's first-level cache of data.
    pub l1d: Option<u64>,
    /// Each core's second-level cache.
    pub l2: Option<u64>,
    /// The last-level cache.
    pub l3: Option<u64>,
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
    /// Sizes of caches.
    pub sizes: CacheSizes,
}

impl Default for Topology {
    fn default() -> Self {
        Self::of_cores(1)
    }
}

impl Topology {
    /// So many cores on one die.
    pub const fn of_cores(cores: u32) -> Self {
        let sizes = CacheSizes { l1d: None, l2: None, l3: None };
        Self { sockets: 1, dies: 1, cores, threads: 1, cache: CacheSharing::Die, sizes }
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
        let Self { sockets, dies, cores, threads, cache: _, sizes: _ } = self;
        format!("{},sockets={sockets},dies={dies},cores={cores},threads={threads}", self.cpus())
    }

    /// Whether a package is more than cores that all share its last-level cache.
    fn is_nested(&self) -> bool {
        self.dies > 1 || self.threads > 1 || self.cache == CacheSharing::Core
    }

    /// The properties of the emulated CPU, with a comma before each.
    ///
    /// Linux learns what lies within a package by the ways of the CPU's vendor. The emulator's own CPU is AMD's of a time
    /// before these had dies and threads. Centaur's tell all levels by the leaves of CPUID that Intel's have, and Linux
    /// has no work-arounds for their models.
    pub(crate) fn cpu_properties(&self) -> String {
        let CacheSizes { l1d, l2, l3 } = self.sizes;
        let said = |(name, size): (&str, Option<u64>)| size.map(|size| format!(",{name}-size={size}"));
        let sizes = [("l1d", l1d), ("l2", l2), ("l3", l3)].into_iter().filter_map(said);
        sizes.chain(self.is_nested().then(|| ",vendor=CentaurHauls".to_owned())).collect()
    }

    /// What the kernel is told, with a space before each: that this vendor's CPUs lack the same faults as the other's.
    pub(crate) fn kernel_parameters(&self) -> &'static str {
        if self.is_nested() { " nopti mds=off mmio_stale_data=off reg_file_data_sampling=off" } else { "" }
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

    #[test]
    fn sizes_that_are_not_said_are_left_to_the_emulator() {
        let sizes = CacheSizes { l2: Some(1 << 20), l3: Some(24 << 20), ..CacheSizes::default() };
        let sized = Topology { sizes, ..Topology::default() };
        assert_eq!(sized.cpu_properties(), ",l2-size=1048576,l3-size=25165824");
        assert_eq!(Topology::default().cpu_properties(), "");
    }
}
