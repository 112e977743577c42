//! The topology of a virtual machine's CPUs: sockets, dies, cores, threads, and the shared caches.

use serde::{Deserialize, Serialize};

/// The greatest number of CPUs that a virtual machine can have.
pub const CPUS_MAX: u32 = 16;

/// The cores that share one last-level cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheSharing {
    /// All cores of a die share one cache.
    #[default]
    Die,
    /// Each core has a cache of its own.
    Core,
}

/// The sizes of caches that the CPU reports to the guest, bytes; `None`: the size of the emulator's CPU
/// model. The sizes do not make any access faster or slower.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheSizes {
    /// The size of each core's first-level data cache.
    pub l1d: Option<u64>,
    /// The size of each core's second-level cache.
    pub l2: Option<u64>,
    /// The size of each last-level cache.
    pub l3: Option<u64>,
}

/// The numbers of sockets, dies, cores and threads; their product is the number of CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// The number of packages. In a real machine each has a memory controller.
    pub sockets: u32,
    /// The number of dies of each socket.
    pub dies: u32,
    /// The number of cores of each die.
    pub cores: u32,
    /// The number of hardware threads of each core. In the emulator they share no resource, so they do not
    /// slow each other down.
    pub threads: u32,
    /// The cores that share a last-level cache.
    pub cache: CacheSharing,
    /// The sizes of the caches that the CPU reports to the guest.
    pub sizes: CacheSizes,
}

impl Default for Topology {
    fn default() -> Self {
        Self::of_cores(1)
    }
}

impl Topology {
    /// The topology of this number of cores on one die.
    pub const fn of_cores(cores: u32) -> Self {
        let sizes = CacheSizes { l1d: None, l2: None, l3: None };
        Self { sockets: 1, dies: 1, cores, threads: 1, cache: CacheSharing::Die, sizes }
    }

    /// The topology of this number of sockets. The CPUs are divided equally among them, and each socket has a
    /// last-level cache.
    pub const fn of_sockets(sockets: u32, cpus: u32) -> Self {
        Self { sockets, cores: cpus / sockets, ..Self::of_cores(1) }
    }

    /// How many CPUs the topology has.
    pub const fn cpus(&self) -> u32 {
        self.sockets * self.dies * self.cores * self.threads
    }

    /// The topology as an option of the emulator.
    pub(crate) fn smp(&self) -> String {
        let Self { sockets, dies, cores, threads, cache: _, sizes: _ } = self;
        format!("{},sockets={sockets},dies={dies},cores={cores},threads={threads}", self.cpus())
    }

    /// Whether a package has more structure than cores that all share one last-level cache.
    fn is_nested(&self) -> bool {
        self.dies > 1 || self.threads > 1 || self.cache == CacheSharing::Core
    }

    /// The properties of the emulated CPU, with a comma before each.
    ///
    /// Linux reads the structure of a package according to the vendor of the CPU. The emulator's own CPU is
    /// an AMD model from a time before AMD's CPUs had dies and threads. A CPU of Centaur reports all levels
    /// by the CPUID leaves that Intel's CPUs have, and Linux has no work-arounds for its models.
    pub(crate) fn cpu_properties(&self) -> String {
        let CacheSizes { l1d, l2, l3 } = self.sizes;
        let said = |(name, size): (&str, Option<u64>)| size.map(|size| format!(",{name}-size={size}"));
        let sizes = [("l1d", l1d), ("l2", l2), ("l3", l3)].into_iter().filter_map(said);
        sizes.chain(self.is_nested().then(|| ",vendor=CentaurHauls".to_owned())).collect()
    }

    /// The boot parameters, with a space before each, that declare some faults of CPUs absent. Linux assumes
    /// these faults of the other vendor's CPUs, but not of the emulator's own CPU.
    pub(crate) fn kernel_parameters(&self) -> &'static str {
        if self.is_nested() { " nopti mds=off mmio_stale_data=off reg_file_data_sampling=off" } else { "" }
    }

    /// The property of the emulated machine that sets which cores share the last-level cache.
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
