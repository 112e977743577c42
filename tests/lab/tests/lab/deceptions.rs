//! Tests that programs that pretend to be in use gain nothing that lasts, beside a person's editor and film
//! on a real Xorg. The example `deceptions` measures each program alone (docs/benchmarks/deceptions.md).

use spry_lab_tests::deceptions::contests;
use spry_lab_tests::is_long;

/// Contests of several tricks at once beside one honest loop. Each trick has a session of its own, and so a
/// part of the CPU of its own. The second contest belongs to the long form.
const AT_ONCE: [&str; 2] = [
    "server@1000 server@1001 blinker@1000 blinker@1001 poll@terminal churn@1001 grid@1000 \
     grid@1001 flood@1001",
    "xtest@1000 xtest@1001 xtest-big@1000 xtest-two@1000 grid-none@1000 dbus@1000",
];
/// This trick is tested alone, because the login of a user takes seconds of CPU time.
const ALONE: &str = "ssh@1001";

#[test]
fn tricks_at_display_terminal_bus_and_ssh_gain_nothing_lasting() {
    let asked = if is_long() { vec![AT_ONCE[0], AT_ONCE[1], ALONE] } else { vec![AT_ONCE[0], ALONE] };
    let seen = contests(&asked, 12).unwrap_or_else(|error| panic!("{error}"));
    assert!(seen.text.contains("state enabled") && !seen.text.contains("the trick failed"), "{}", seen.text);
    assert_eq!(seen.fared.len(), asked.iter().flat_map(|tricks| tricks.split(' ')).count(), "{}", seen.text);
    for fared in &seen.fared {
        println!("{fared:?}");
        assert!(fared.is_in_vain(), "{fared:?}\n{}", seen.text);
        // The trick did run. Its ratio may be low, because tricks also use CPU time of other processes, and
        // ssh starts its loop late.
        assert!(fared.ratio >= 0.3, "{fared:?}\n{}", seen.text);
    }
}
