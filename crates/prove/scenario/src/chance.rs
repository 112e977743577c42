//! Pseudo-random numbers for a run. They are the same in every run with the same seed, on every machine that
//! plays the scenario.

/// Each task starts after the run, with a random delay of less than this, ns. Without the delay, a machine
/// that repeats exactly would show only one phase of every tick and period.
const SHIFT_NS: u64 = 10_000_000;

/// The random delay with which an instance of a task starts after the run, ns.
pub fn shift_ns(seed: u64, task: &str, instance: u32) -> u64 {
    Rng::new(seed, &format!("{task} start"), instance).below(SHIFT_NS)
}

/// A stream of pseudo-random numbers (Steele, Lea, Flood 2014: SplitMix64). Its own seed is made of the run's
/// seed, a name and the number of an instance.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The stream for a seed, the name of a task and the number of its instance.
    pub fn new(seed: u64, name: &str, instance: u32) -> Self {
        // FNV-1a hashes the name, so that no two tasks share a stream, and a new task does not change the
        // streams of the others.
        let hash =
            name.bytes().chain(instance.to_le_bytes()).fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        let mut rng = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ hash);
        rng.next_u64();
        rng
    }

    /// The next number of the stream.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to `limit` - 1; 0 if the limit is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(limit)) >> 64) as u64
    }

    /// A number from 0 up to but not including 1.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_follows_from_seed_name_and_instance_alone() {
        let numbers = |mut rng: Rng| [rng.next_u64(), rng.next_u64()];
        let own = numbers(Rng::new(7, "player", 0));
        assert_eq!(own, numbers(Rng::new(7, "player", 0)));
        let others = [Rng::new(8, "player", 0), Rng::new(7, "game", 0), Rng::new(7, "player", 1)];
        assert!(others.map(numbers).iter().all(|other| *other != own));
    }

    #[test]
    fn numbers_are_within_their_limits() {
        let mut rng = Rng::new(1, "tree", 0);
        assert!((0..1_000).all(|_| rng.below(7) < 7 && (0.0..1.0).contains(&rng.unit())));
        assert_eq!(rng.below(0), 0);
        let shifts: Vec<u64> = (0..100).map(|instance| shift_ns(1, "loop", instance)).collect();
        assert!(shifts.iter().all(|&shift| shift < SHIFT_NS));
        assert!(
            shifts.iter().any(|&shift| shift > SHIFT_NS / 2)
                && shifts.iter().any(|&shift| shift < SHIFT_NS / 2)
        );
    }
}
