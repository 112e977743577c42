//! Tests admission against a model that counts in parts of a common multiple of all its periods.

use super::*;
use crate::{BUDGET_MIN_NS, OnExhaustion};

const CPUS: [u32; 3] = [0, 1, 5];
/// Divisors of [`MULTIPLE_NS`], from the shortest period to the longest.
const PERIODS_NS: [u64; 6] = [100_000, 512_000, 8_192_000, 1_000_000, 12_500_000, 4_000_000_000];
const MULTIPLE_NS: u64 = 512_000_000_000;

fn terms(budget_ns: u64, period_ns: u64) -> Terms {
    Terms { budget_ns, period_ns, on_exhaustion: OnExhaustion::Wait }
}

fn ask(number: u32, terms: Terms) -> Ask<'static> {
    Ask {
        terms,
        covers: Covers::Thread { tid: number },
        tgid: number,
        owner: Owner::Privileged,
        allowed: &CPUS,
        runs_on: None,
        cpu: None,
    }
}

fn admission() -> Admission {
    Admission::new(CPUS, Limits::default())
}

/// Random numbers, the same in each run.
struct Noise(u64);

impl Noise {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % end
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    fn terms(&mut self) -> Terms {
        let period_ns = self.of(&PERIODS_NS);
        terms(BUDGET_MIN_NS + self.below(period_ns / 2), period_ns)
    }
}

/// The model's reservations by slot: the CPU, the owner and the terms.
#[derive(Default)]
struct Model(BTreeMap<u32, (u32, Owner, Terms)>);

impl Model {
    /// The time reserved by `more` and the meant reservations, ns in the common multiple of the periods.
    fn sum_ns(&self, more: Terms, is_meant: impl Fn(u32, u32, Owner) -> bool) -> u64 {
        let meant = self.0.iter().filter(|(slot, (cpu, owner, _))| is_meant(**slot, *cpu, *owner));
        let all = meant.map(|(_, (_, _, terms))| *terms).chain([more]);
        all.map(|terms| terms.budget_ns * (MULTIPLE_NS / terms.period_ns)).sum()
    }

    fn fits(&self, cpu: u32, owner: Owner, terms: Terms, instead: Option<u32>, room_ppm: u64) -> bool {
        let most = |ppm: u64| MULTIPLE_NS / 1_000_000 * ppm;
        let is_user = owner != Owner::Privileged;
        let others = |slot: u32| Some(slot) != instead;
        let on_cpu = self.sum_ns(terms, |slot, at, _| at == cpu && others(slot));
        let of_users =
            self.sum_ns(terms, |slot, at, of| at == cpu && of != Owner::Privileged && others(slot));
        let of_one = self.sum_ns(terms, |slot, _, of| of == owner && others(slot));
        let count = self.0.iter().filter(|(slot, entry)| entry.1 == owner && others(**slot)).count();
        on_cpu <= most(room_ppm)
            && (!is_user || (of_users <= most(room_ppm.min(500_000)) && of_one <= most(250_000) && count < 4))
    }
}

#[test]
fn it_admits_as_the_model_does_and_a_refusal_changes_nothing() {
    let (mut admission, mut model, mut noise) = (admission(), Model::default(), Noise(0x5eed_0001));
    let (mut admitted, mut refused, mut changed) = (0, 0, 0);
    let blocking = [(0, 0), (1, 150_000), (5, 0)];
    let server = Ask { owner: Owner::Server, cpu: Some(1), ..ask(0, terms(150_000, 1_000_000)) };
    assert_eq!(admission.open(&server).unwrap().slot, 0);
    let room = |cpu: u32| 900_000 - blocking.iter().find(|(at, _)| *at == cpu).map_or(0, |(_, ppm)| *ppm);
    for number in 1..60_000_u32 {
        let before = admission.clone();
        match noise.below(3) {
            0 => {
                let slot = 1 + noise.below(39) as u32;
                let closed = admission.close(slot);
                let known = model.0.remove(&slot);
                assert_eq!(closed.map(|one| one.terms), known.map(|(_, _, terms)| terms));
            }
            1 => {
                let (slot, terms) = (1 + noise.below(39) as u32, noise.terms());
                let fits = model
                    .0
                    .get(&slot)
                    .map(|&(cpu, owner, _)| model.fits(cpu, owner, terms, Some(slot), room(cpu)));
                match admission.change(slot, terms) {
                    Ok(_) => {
                        assert_eq!(fits, Some(true));
                        changed += 1;
                        model.0.get_mut(&slot).unwrap().2 = terms;
                    }
                    Err(_) => assert!(fits != Some(true) && before == admission),
                }
            }
            _ => {
                let owner = noise.of(&[Owner::Privileged, Owner::User(1), Owner::User(2), Owner::User(3)]);
                let runs_on = noise.of(&[None, Some(5), Some(1), Some(77)]);
                let ask = Ask { owner, runs_on, ..ask(number, noise.terms()) };
                let mut order: Vec<u32> = runs_on.into_iter().filter(|cpu| CPUS.contains(cpu)).collect();
                order.extend(CPUS);
                let place = order.into_iter().find(|&cpu| model.fits(cpu, owner, ask.terms, None, room(cpu)));
                match admission.open(&ask) {
                    Ok(one) => {
                        assert_eq!(Some(one.cpu), place);
                        admitted += 1;
                        assert!(model.0.insert(one.slot, (one.cpu, owner, ask.terms)).is_none());
                    }
                    Err(why) => {
                        assert!(place.is_none() && before == admission, "{why}");
                        refused += 1;
                        what_would_fit_fits(&mut admission, &ask, why);
                        assert_eq!(before, admission);
                    }
                }
            }
        }
        for cpu in CPUS {
            let ns = model.sum_ns(terms(0, PERIODS_NS[0]), |_, at, _| at == cpu);
            assert_eq!(u64::from(admission.reserved_ppm(cpu)), ns.div_ceil(MULTIPLE_NS / 1_000_000));
            assert!(u64::from(admission.reserved_ppm(cpu)) <= room(cpu));
        }
    }
    assert!(admitted > 2_000 && refused > 2_000 && changed > 200, "{admitted} {refused} {changed}");
}

/// Checks that the largest budget of a refusal is admitted, and 1 ns more is not. The admission stays as is.
fn what_would_fit_fits(admission: &mut Admission, ask: &Ask<'_>, why: ReservationError) {
    let (fits_ns, cpu) = match why {
        ReservationError::Full { fits_ns, limit: limit @ (Limit::Cpu(_) | Limit::UsersOfCpu(_)), .. } => {
            (fits_ns, limit.cpu())
        }
        _ => return,
    };
    let with = |budget_ns| Ask { terms: terms(budget_ns, ask.terms.period_ns), cpu, ..*ask };
    let more_ns = (fits_ns + 1).max(BUDGET_MIN_NS);
    let more = admission.open(&with(more_ns)).map(|one| admission.close(one.slot));
    assert!(more.is_err(), "{why}");
    if fits_ns > 0 {
        let one = admission.open(&with(fits_ns)).expect("it would fit");
        assert!(admission.close(one.slot).is_some());
    }
}

#[test]
fn sixty_thousand_opens_and_closes_leave_exactly_nothing() {
    // Up to 100 a second for 10 minutes; the least common multiple of the periods is very large.
    let (mut admission, mut noise) = (admission(), Noise(0x5eed_0002));
    let empty = admission.clone();
    let mut open = Vec::new();
    let mut opened = 0;
    for number in 0..60_000 {
        let period_ns = crate::PERIOD_MIN_NS + noise.below(crate::PERIOD_MAX_NS - crate::PERIOD_MIN_NS);
        let terms = terms(BUDGET_MIN_NS + noise.below(period_ns / 4), period_ns);
        if let Ok(one) = admission.open(&ask(number, terms)) {
            opened += 1;
            open.push(one.slot);
        }
        assert!(CPUS.iter().all(|&cpu| admission.reserved_ppm(cpu) <= 900_000));
        if open.len() > 5 {
            let at = noise.below(open.len() as u64) as usize;
            assert!(admission.close(open.swap_remove(at)).is_some());
        }
    }
    assert!(opened > 40_000, "{opened}");
    assert!(open.into_iter().all(|slot| admission.close(slot).is_some()));
    assert_eq!(admission, empty);
    let whole = terms(900_000, 1_000_000);
    let cpus: Vec<u32> = (0..3).map(|number| admission.open(&ask(number, whole)).unwrap().cpu).collect();
    assert_eq!(cpus, CPUS);
}

#[test]
fn the_reserved_share_stays_within_the_bound_for_all_periods() {
    let (mut admission, mut noise) = (Admission::new([0], Limits::default()), Noise(0x5eed_0003));
    let mut full = 0;
    for number in 0..4_000 {
        let period_ns = crate::PERIOD_MIN_NS + noise.below(crate::PERIOD_MAX_NS - crate::PERIOD_MIN_NS);
        let ask = ask(number, terms(BUDGET_MIN_NS + noise.below(period_ns / 20), period_ns));
        if let Err(ReservationError::Full { limit: Limit::Cpu(_), fits_ns, .. }) = admission.open(&ask) {
            full += 1;
            let rest = Ask { terms: terms(fits_ns.max(BUDGET_MIN_NS), period_ns), ..ask };
            assert_eq!(admission.open(&rest).is_ok(), fits_ns > 0);
            // Rounding is far above the error of this sum.
            let sum: f64 =
                admission.all().map(|one| one.terms.budget_ns as f64 / one.terms.period_ns as f64).sum();
            assert!(sum < 0.9 + 1e-12, "{sum}");
            let slots: Vec<u32> = admission.all().map(|one| one.slot).collect();
            assert!(slots.into_iter().all(|slot| admission.close(slot).is_some()));
        }
    }
    assert!(full > 50, "{full}");
}

#[test]
fn a_thread_is_reserved_on_its_own_cpu_or_else_on_the_lowest() {
    let mut admission = admission();
    let large = terms(600_000, 1_000_000);
    let mut place = |number, runs_on| admission.open(&Ask { runs_on, ..ask(number, large) }).unwrap().cpu;
    assert_eq!((place(1, Some(5)), place(2, Some(5)), place(3, Some(9))), (5, 0, 1));
    let refused = admission.open(&Ask { runs_on: Some(5), ..ask(4, large) }).unwrap_err();
    assert!(
        matches!(refused, ReservationError::Full { limit: Limit::Cpu(5), fits_ns: 300_000, .. }),
        "{refused:?}"
    );
}

#[test]
fn a_task_is_put_only_where_it_may_run() {
    let mut admission = admission();
    let small = terms(BUDGET_MIN_NS, 1_000_000);
    let only = |allowed, cpu| Ask { allowed, cpu, ..ask(1, small) };
    assert_eq!(admission.open(&only(&[2, 3], None)), Err(ReservationError::NoCpu));
    assert_eq!(admission.open(&only(&[1], Some(5))), Err(ReservationError::NotThere { cpu: 5 }));
    assert_eq!(admission.open(&only(&[2, 3], Some(3))), Err(ReservationError::NotThere { cpu: 3 }));
    assert_eq!(admission.open(&only(&CPUS, Some(5))).unwrap().cpu, 5);
}

#[test]
fn a_user_has_a_quarter_of_a_cpu_and_four_reservations() {
    let mut admission = admission();
    let of = |owner, number, terms| Ask { owner, ..ask(number, terms) };
    let anna = Owner::User(1000);
    let refused = admission.open(&of(anna, 1, terms(300_000, 1_000_000))).unwrap_err();
    assert!(
        matches!(refused, ReservationError::Full { limit: Limit::User, fits_ns: 250_000, .. }),
        "{refused:?}"
    );
    for number in 1..=4 {
        admission.open(&of(anna, number, terms(50_000, 1_000_000))).unwrap();
    }
    let fifth = admission.open(&of(anna, 5, terms(50_000, 1_000_000)));
    assert_eq!(fifth, Err(ReservationError::UserCount { most: 4 }));
    // Two further users get the share that users may have of a CPU, and root gets the rest.
    admission.open(&of(Owner::User(1001), 6, terms(250_000, 1_000_000))).unwrap();
    let third = Ask { cpu: Some(0), ..of(Owner::User(1002), 7, terms(100_000, 1_000_000)) };
    let refused = admission.open(&third).unwrap_err();
    assert!(
        matches!(refused, ReservationError::Full { limit: Limit::UsersOfCpu(0), fits_ns: 50_000, .. }),
        "{refused:?}"
    );
    admission.open(&Ask { owner: Owner::Privileged, ..third }).unwrap();
}

#[test]
fn the_time_of_shared_servers_cannot_be_reserved() {
    let mut admission = Admission::new([0], Limits::default());
    let server = Ask { owner: Owner::Server, ..ask(0, terms(200_000, 1_000_000)) };
    let server = admission.open(&server).unwrap();
    let refused = admission.open(&ask(1, terms(800_000, 1_000_000))).unwrap_err();
    assert!(
        matches!(refused, ReservationError::Full { room_ppm: 700_000, fits_ns: 700_000, .. }),
        "{refused:?}"
    );
    // A server is also admitted beside a task's reservation, and a refusal changes nothing.
    let task = admission.open(&ask(1, terms(700_000, 1_000_000))).unwrap();
    admission.change(server.slot, terms(200_001, 1_000_000)).unwrap_err();
    admission.change(server.slot, terms(100_000, 1_000_000)).unwrap();
    assert_eq!((admission.reserved_ppm(0), admission.room_ppm(0)), (700_000, 800_000));
    admission.close(server.slot);
    admission.change(task.slot, terms(800_000, 1_000_000)).unwrap();
}

#[test]
fn no_thread_has_two_reservations() {
    let mut admission = admission();
    let small = terms(BUDGET_MIN_NS, 1_000_000);
    let thread = |tid, tgid| Ask { tgid, ..ask(tid, small) };
    let group = |tgid| Ask { covers: Covers::Group { tgid }, tgid, ..ask(0, small) };
    admission.open(&thread(12, 10)).unwrap();
    assert_eq!(admission.open(&thread(12, 10)), Err(ReservationError::Covered { slot: 0 }));
    assert_eq!(admission.open(&group(10)), Err(ReservationError::Covered { slot: 0 }));
    admission.open(&thread(13, 10)).unwrap();
    admission.open(&group(20)).unwrap();
    assert_eq!(admission.open(&thread(21, 20)), Err(ReservationError::Covered { slot: 2 }));
}

#[test]
fn there_are_no_more_than_256_reservations() {
    let mut admission = admission();
    let small = terms(BUDGET_MIN_NS, 1_000_000);
    for number in 0..SLOTS_MAX {
        assert_eq!(admission.open(&ask(number, small)).map(|one| one.slot), Ok(number));
    }
    assert_eq!(admission.open(&ask(999, small)), Err(ReservationError::Slots { most: SLOTS_MAX }));
    admission.close(7);
    assert_eq!(admission.open(&ask(999, small)).map(|one| one.slot), Ok(7));
}
