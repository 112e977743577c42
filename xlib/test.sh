# ./x test and ./x lint: every check, each counted, summed in one last line.

passed=0
failed=0

# One check that passes or fails as a whole: NAME COMMAND...
check() {
    name=$1
    shift
    say "== $name"
    if "$@"; then
        passed=$((passed + 1))
        say "ok: $name"
    else
        failed=$((failed + 1))
        say "FAILED: $name"
    fi
}

# Tests that cargo runs, counted one by one: NAME CARGO-ARGUMENT...
check_cargo_tests() {
    name=$1
    shift
    say "== $name"
    log=$checks_dir/log
    { cargo test --profile "$test_profile" --no-fail-fast "$@" && echo 0 >"$checks_dir/status" || echo 1 >"$checks_dir/status"; } 2>&1 |
        tee "$log"
    # "test result: ok. 12 passed; 0 failed; 0 ignored; ...", one line for each test program. An ignored test was not run: it failed.
    good=$(sed -n 's/^test result: .* \([0-9]*\) passed;.*/\1/p' "$log" | awk '{ n += $1 } END { print n + 0 }')
    bad=$(sed -n 's/^test result: .* \([0-9]*\) failed; \([0-9]*\) ignored;.*/\1 \2/p' "$log" | awk '{ n += $1 + $2 } END { print n + 0 }')
    # Programs that did not build or were cut short have no such line.
    [ "$(cat "$checks_dir/status")" -eq 0 ] || [ "$bad" -gt 0 ] || bad=1
    passed=$((passed + good))
    failed=$((failed + bad))
}

check_shape_of_c() {
    # shellcheck disable=SC2046
    "$(find_clang_format)" --dry-run --Werror $(own_files crates '*.c' '*.h')
}

# Our own sources below DIR whose names match any of the patterns; vmlinux.h is the kernel's.
own_files() {
    dir=$1
    shift
    for pattern in "$@"; do
        find "$dir" -name "$pattern" ! -name 'vmlinux*.h' ! -path '*/target/*'
    done
}

# The tree's own form, and its licences. As part of the workspace: a crate alone has other features.
tidy() {
    cargo test --profile checked --workspace --quiet --test tree --test licences
}

lints() {
    check "Rust sources are formatted (cargo fmt)" cargo fmt --check
    check "C sources are formatted (clang-format)" check_shape_of_c
    check "clippy finds nothing" cargo clippy --workspace --all-targets --quiet -- -D warnings
}

# pandas, polars and the published Perfetto schema, in a Python of their own below the target directory.
python_readers() {
    python=$CARGO_TARGET_DIR/python
    "$python/bin/python" -c 'import pandas, polars, pyarrow, perfetto' 2>/dev/null && return
    say "Installing pandas, polars, pyarrow and perfetto into $python (pip)."
    rm -rf "$python"
    python3 -m venv "$python" && "$python/bin/pip" install --quiet --disable-pip-version-check pandas polars pyarrow perfetto
}

# Crates whose tests load programs into the running kernel and so need root.
root_crates="spry-recorder spry-scheduler spry-cli spry-system-tests"

# In a shell of its own: what cannot be built fails this check, not all that follow.
a_peer() (
    build_peers "$(peers_root)" scx_bpfland
)

tests() {
    test_profile=checked
    check "readers of exports are there" python_readers
    pure="--workspace" root=''
    for crate in $root_crates; do
        pure="$pure --exclude $crate" root="$root -p $crate"
    done
    pure="$pure --exclude spry-workload --exclude spry-display --exclude spry-lab-tests"
    SPRY_PYTHON=$CARGO_TARGET_DIR/python/bin/python
    SPRY_BIN=$CARGO_TARGET_DIR/$test_profile/spry
    SPRY_PROGRAMS=$CARGO_TARGET_DIR/$test_profile
    export SPRY_PYTHON SPRY_BIN SPRY_PROGRAMS
    check "spry and its helpers build" cargo build --profile "$test_profile" -p spry-cli -p spry-lab -p spry-workload -p spry-scheduler
    # shellcheck disable=SC2086
    check_cargo_tests "tests that need no privilege" $pure
    # One after another: films and games are played in real time.
    check_cargo_tests "tests of scenarios and displays" -p spry-workload -p spry-display -- --test-threads=1
    check "a published scheduler builds" a_peer
    # Each boots virtual machines, which take a CPU each.
    check_cargo_tests "tests in the lab" -p spry-lab-tests -- --test-threads=2
    if [ "$(id -u)" -ne 0 ]; then
        triple=$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')
        export "CARGO_TARGET_${triple}_RUNNER=$(root_word) --preserve-env"
    fi
    # One after another: they load the machine and measure it.
    # shellcheck disable=SC2086
    check_cargo_tests "tests of the running kernel, as root" $root -- --test-threads=1
}

# A shipped scenario twice in the lab with one seed, side by side: what is printed (figures, digests, inputs) must be the same.
repeats_in_the_lab() {
    kept=$checks_dir/$(basename "$1" .toml)
    for time in first again; do
        { "$SPRY_BIN" run "$1" --on lab --json --quiet --jobs 1 -o "$kept/$time" >"$kept-$time.json" ||
            : >"$kept-failed"; } &
    done
    wait
    [ ! -e "$kept-failed" ] || return 1
    cmp "$kept-first.json" "$kept-again.json" || {
        "$SPRY_BIN" compare "$kept/first" "$kept/again"
        return 1
    }
    cat "$kept/first/table.txt"
}

# As root: some scenarios ask for real-time classes. One that asks for input devices of a kernel that has none is refused.
runs_on_this_machine() {
    kept=$checks_dir/$(basename "$1" .toml)-host
    if grep -q '^server = "xorg"' "$1" && [ ! -e /dev/uinput ]; then
        ! as_root "$SPRY_BIN" run "$1" --on host --quiet -o "$kept" 2>"$kept.errors" || return 1
        cat "$kept.errors"
        grep -q 'no input device can be made' "$kept.errors"
        return
    fi
    as_root "$SPRY_BIN" run "$1" --on host --quiet -o "$kept"
}

scenarios() {
    for file in scenarios/*.toml; do
        scenario=$(basename "$file" .toml)
        about=$(sed -n 's/^about = "\(.*\)"$/\1/p' "$file")
        check "$scenario repeats in the lab ($about)" repeats_in_the_lab "$file"
        check "$scenario runs on this machine ($about)" runs_on_this_machine "$file"
    done
}

finish() {
    as_root rm -rf "$checks_dir"
    say "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
}

run_lints() {
    setup test
    checks_dir=$(mktemp -d)
    lints
    check "form and licences are as they should be (crates/tidy)" tidy
    finish
}

run_tests() {
    case $* in
    '') setup test ;;
    --all) setup test scenarios ;;
    *) fail "usage: ./x test [--all]" ;;
    esac
    checks_dir=$(mktemp -d)
    lints
    tests
    [ "${1:-}" != --all ] || scenarios
    finish
}
