//! Prints how well a film, typing, and four loops for each CPU (of another session) run beside each attack by
//! another user, under EEVDF and under the daemon: `cargo run --profile checked -p spry-lab-tests --example
//! desktop [CPUS [SECONDS [editor|shell [ATTACK...]]]]`.

use spry_lab_tests::attacks::ATTACKS;
use spry_lab_tests::desktop::{AttackedDesktop, Desk, DesktopResult, TypedAt, desktop};

fn main() {
    let mut args = std::env::args().skip(1);
    let cpus = args.next().map_or(1, |text| text.parse().expect("a number of CPUs"));
    let seconds: u32 = args.next().map_or(10, |text| text.parse().expect("seconds"));
    let typed_at = match args.next().as_deref() {
        None | Some("editor") => TypedAt::Editor,
        Some("shell") => TypedAt::Shell,
        Some(other) => panic!("{other}: editor or shell"),
    };
    let named: Vec<String> = args.collect();
    let attacks: Vec<&str> =
        if named.is_empty() { ATTACKS.to_vec() } else { named.iter().map(String::as_str).collect() };
    println!(
        "| attack | frames, EEVDF | typing, 99 %, ms | loops, % | frames, Spry | typing, 99 %, \
         ms | of alone | loops, % | longest wait, ms | in charge |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|---|");
    let mut alone_ms = None;
    for attack in std::iter::once(None).chain(attacks.into_iter().map(Some)) {
        let attacked = AttackedDesktop { attack, typed_at, cpus, seconds };
        let name = attack.unwrap_or("none");
        match [Desk::Eevdf, Desk::Spry].map(|desk| desktop(&attacked, desk)) {
            [Ok(eevdf), Ok(spry)] => {
                println!("{}", row(name, &eevdf, &spry, *alone_ms.get_or_insert(spry.typing_ms)));
                eprintln!("{}{}", eevdf.text, spry.text);
            }
            [Err(error), _] | [_, Err(error)] => println!("| {name} | {error} |"),
        }
    }
}

fn row(attack: &str, eevdf: &DesktopResult, spry: &DesktopResult, alone_ms: f64) -> String {
    format!(
        "| {attack} | {} of {} | {:.2} | {:.1} | {} of {} | {:.2} | {:.2} | {:.1} | {:.0} | {} |",
        eevdf.frames.0,
        eevdf.frames.1,
        eevdf.typing_ms,
        eevdf.loops_part,
        spry.frames.0,
        spry.frames.1,
        spry.typing_ms,
        spry.typing_ms / alone_ms,
        spry.loops_part,
        spry.loops_longest_ms,
        if spry.in_charge { "yes" } else { "no" },
    )
}
