//! Tests of the book: nested settings are restored, and the settings of killed processes by the next process.

use super::*;

struct Machine {
    dir: tempfile::TempDir,
}

impl Machine {
    fn new() -> Machine {
        let machine = Machine { dir: tempfile::tempdir().expect("a directory") };
        machine.write("slice", "700");
        machine.write("features", "A NO_HRTICK");
        machine
    }

    fn write(&self, name: &str, value: &str) {
        fs::write(self.dir.path().join(name), value).expect("it can be written");
    }

    fn slice(&self) -> String {
        fs::read_to_string(self.dir.path().join("slice")).expect("it is there")
    }

    fn setting(&self, name: &str, value: &str) -> Setting {
        let path = self.dir.path().join(name).to_string_lossy().into_owned();
        Setting { path, value: value.to_owned() }
    }

    fn place(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    /// A holder of this slice.
    fn holder(&self, slice: &str) -> Holder {
        let holder = Holder::new(&self.place()).expect("a holder");
        holder.set(&self.setting("slice", slice)).expect("it can be set");
        holder
    }

    fn is_clean(&self) -> bool {
        let names = fs::read_dir(self.place()).expect("it is there");
        let names = names.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
        let book = fs::read_to_string(self.place().join(BOOK)).expect("a book");
        !names.into_iter().any(|name| name.starts_with(PREFIX)) && book.contains("\"entries\":[]")
    }
}

/// The value that was restored.
fn value(back: &Back) -> Option<&str> {
    match back {
        Back::Restored(setting) => Some(&setting.value),
        Back::Held(_) | Back::Changed(_) | Back::Failed(..) => None,
    }
}

fn restored(backs: &[Back]) -> Vec<&str> {
    backs.iter().filter_map(value).collect()
}

#[test]
fn the_first_value_is_back_when_the_last_holder_ends() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [1, 2, 0], [0, 2, 1], [2, 0, 1]] {
        let machine = Machine::new();
        let holders = ["1", "2", "3"].map(|slice| machine.holder(slice));
        let mut left: Vec<usize> = vec![0, 1, 2];
        for at in order {
            holders[at].give_back().expect("a book");
            left.retain(|&other| other != at);
            // The value of the latest holder that is left is in force.
            let wanted = left.last().map_or("700".to_owned(), |last| (last + 1).to_string());
            assert_eq!(machine.slice(), wanted, "{order:?}, {at}");
        }
        assert!(machine.is_clean());
    }
}

#[test]
fn a_second_return_changes_nothing() {
    let machine = Machine::new();
    let holder = machine.holder("1");
    assert_eq!(restored(&holder.give_back().expect("a book")), ["700"]);
    machine.write("slice", "5");
    assert_eq!(holder.give_back().expect("a book"), []);
    assert_eq!(machine.slice(), "5");
}

#[test]
fn a_foreign_change_made_meanwhile_stays() {
    let machine = Machine::new();
    let (first, second) = (machine.holder("1"), machine.holder("2"));
    machine.write("slice", "5");
    let backs = second.give_back().expect("a book");
    assert_eq!(backs, [Back::Changed(machine.setting("slice", "5"))]);
    assert_eq!(first.give_back().expect("a book"), []);
    assert_eq!(machine.slice(), "5");
    assert!(machine.is_clean());
}

#[test]
fn the_next_holder_restores_a_foreign_change_before_it() {
    let machine = Machine::new();
    let first = machine.holder("1");
    machine.write("slice", "5");
    let second = machine.holder("2");
    assert_eq!(first.give_back().expect("a book"), []);
    assert_eq!(machine.slice(), "2");
    assert_eq!(restored(&second.give_back().expect("a book")), ["5"]);
    assert_eq!(machine.slice(), "5");
}

#[test]
fn the_next_holder_gives_back_what_a_dead_one_left() {
    let machine = Machine::new();
    drop(machine.holder("1"));
    assert_eq!(machine.slice(), "1");
    let next = Holder::new(&machine.place()).expect("a holder");
    assert_eq!(machine.slice(), "700");
    next.give_back().expect("a book");
    drop(machine.holder("2"));
    drop(machine.holder("3"));
    assert_eq!(restored(&restore(&machine.place()).expect("a book")), ["700"]);
    assert_eq!(machine.slice(), "700");
    assert!(machine.is_clean());
}

#[test]
fn a_dead_holder_below_a_living_one_is_skipped() {
    let machine = Machine::new();
    let first = machine.holder("1");
    drop(machine.holder("2"));
    let third = machine.holder("3");
    assert_eq!(machine.slice(), "3");
    third.give_back().expect("a book");
    assert_eq!(machine.slice(), "1");
    first.give_back().expect("a book");
    assert_eq!(machine.slice(), "700");
}

/// Writes a claim into the book as if its holder had been killed before the setting was written.
fn claim_without_writing(machine: &Machine, slice: &str) {
    let (mut book, _) = open(&machine.place()).expect("a book");
    let setting = machine.setting("slice", slice);
    let now = setting.in_force().expect("it is there");
    let entry = book.entry(&setting, &now).expect("an entry");
    entry.claims.push(Claim { holder: format!("{PREFIX}dead"), setting });
    book.save(&machine.place()).expect("it can be written");
}

#[test]
fn a_holder_killed_between_the_book_and_the_kernel_is_mended() {
    let machine = Machine::new();
    let first = machine.holder("1");
    claim_without_writing(&machine, "2");
    let third = machine.holder("3");
    third.give_back().expect("a book");
    assert_eq!(machine.slice(), "1");
    claim_without_writing(&machine, "2");
    first.give_back().expect("a book");
    assert_eq!(machine.slice(), "700");
    assert!(machine.is_clean());
}

#[test]
fn a_value_that_is_in_force_already_is_not_held() {
    let machine = Machine::new();
    let first = machine.holder("700");
    machine.write("slice", "5");
    assert_eq!(first.give_back().expect("a book"), []);
    assert_eq!(machine.slice(), "5");
    // A value that another process holds can be held, too: it stays in force after that process.
    let second = machine.holder("9");
    let third = machine.holder("9");
    second.give_back().expect("a book");
    assert_eq!(machine.slice(), "9");
    third.give_back().expect("a book");
    assert_eq!(machine.slice(), "5");
}

#[test]
fn a_refused_setting_leaves_no_claim_and_another_value_is_told() {
    let machine = Machine::new();
    let holder = Holder::new(&machine.place()).expect("a holder");
    let missing = holder.set(&machine.setting("missing", "1"));
    assert!(matches!(missing, Err(TuneError::Setting { .. })));
    // A file that is trimmed when it is read gives back another value than was written.
    let kept = holder.set(&machine.setting("slice", " 8"));
    assert!(matches!(kept, Err(TuneError::Kept { .. })), "{kept:?}");
    assert_eq!(machine.slice(), "700");
    holder.give_back().expect("a book");
    assert!(machine.is_clean());
}

#[test]
fn a_value_that_cannot_be_restored_stays_in_the_book() {
    let machine = Machine::new();
    let holder = machine.holder("1");
    let path = machine.dir.path().join("slice");
    fs::remove_file(&path).expect("it is there");
    let backs = holder.give_back().expect("a book");
    assert!(matches!(&backs[..], [Back::Failed(setting, _)] if setting.value == "700"), "{backs:?}");
    machine.write("slice", "1");
    drop(holder);
    assert_eq!(restored(&restore(&machine.place()).expect("a book")), ["700"]);
    assert_eq!(machine.slice(), "700");
}

#[test]
fn a_switch_comes_back_alone() {
    let machine = Machine::new();
    let holder = Holder::new(&machine.place()).expect("a holder");
    let before = holder.set(&machine.setting("features", "HRTICK")).expect("it can be set");
    assert_eq!(before.value, "NO_HRTICK");
    holder.set(&machine.setting("slice", "1")).expect("it can be set");
    assert_eq!(restored(&holder.give_back().expect("a book")), ["700", "NO_HRTICK"]);
}

#[test]
fn settings_of_an_earlier_boot_are_forgotten() {
    let machine = Machine::new();
    drop(machine.holder("1"));
    let path = machine.place().join(BOOK);
    let book = fs::read_to_string(&path).expect("a book");
    let mut earlier: Book = serde_json::from_str(&book).expect("a book");
    earlier.boot = "earlier".to_owned();
    earlier.save(&machine.place()).expect("it can be written");
    assert_eq!(restore(&machine.place()).expect("a book"), []);
    assert_eq!(machine.slice(), "1");
}

#[test]
fn a_book_that_cannot_be_read_is_named() {
    let machine = Machine::new();
    drop(machine.holder("1"));
    fs::write(machine.place().join(BOOK), "no book").expect("it can be written");
    let said = restore(&machine.place()).expect_err("it cannot be read").to_string();
    assert!(said.contains(BOOK) && said.lines().count() == 1, "{said}");
    assert_eq!(restore(&machine.dir.path().join("nowhere")).expect("nothing was set"), []);
}
