# ./x test and ./x lint: every check, each counted, summed in one last line.

passed=0
failed=0
passed_before=0

# The one profile of all that is built here: what is built in another is built again.
profile=checked

# One check that passes or fails as a whole: NAME COMMAND...
check() {
    name=$1 since=$(date +%s)
    shift
    say "== $name"
    if "$@"; then
        passed=$((passed + 1))
        say "ok, $(($(date +%s) - since)) s: $name"
    else
        failed=$((failed + 1))
        say "FAILED: $name"
        say "FAILED: $name (see above)" >>"$checks_dir/counts.failed"
    fi
}

check_shape_of_c() {
    # shellcheck disable=SC2046
    "$(find_clang_format)" --dry-run --Werror $(own_files crates '*.c' '*.h')
}

# Our own sources below DIR with names that match any of the patterns; vmlinux.h is the kernel's.
own_files() {
    dir=$1
    shift
    for pattern in "$@"; do
        find "$dir" -name "$pattern" ! -name 'vmlinux*.h' ! -path '*/target/*'
    done
}

lints() {
    check "Rust sources are formatted (cargo fmt)" cargo fmt --check
    check "C sources are formatted (clang-format)" check_shape_of_c
    check "clippy finds nothing" \
        cargo clippy --profile "$profile" --workspace --all-targets --quiet -- -D warnings
}

# The tests of form, style and licences. As part of the workspace: a crate alone has other features.
tidy() {
    cargo test --profile "$profile" --workspace --quiet --test tree --test style --test licences
}

# pandas, polars and the published Perfetto schema, in a Python of their own below the target directory.
python_readers() {
    python=$CARGO_TARGET_DIR/python
    "$python/bin/python" -c 'import pandas, polars, pyarrow, perfetto' 2>/dev/null && return
    say "Installing pandas, polars, pyarrow and perfetto into $python (pip)."
    rm -rf "$python"
    python3 -m venv "$python" &&
        "$python/bin/pip" install --quiet --disable-pip-version-check pandas polars pyarrow perfetto
}

# In a shell of its own: what cannot be built fails this check, not all that follow.
a_peer() (
    build_peers "$(peers_root)" scx_bpfland
)

# Every program, example and test, all at once: what is built for some crates alone has other features, and
# would be built again.
build_all() {
    cargo build --profile "$profile" --workspace --all-targets --keep-going \
        --message-format=json-render-diagnostics >"$checks_dir/messages"
}

# The examples in the documentation are tests that cargo alone can run.
doc_tests() {
    cargo test --profile "$profile" --workspace --doc --quiet >"$checks_dir/log" 2>&1 || {
        cat "$checks_dir/log"
        return 1
    }
}

# The tests of the programs of these groups, which tests/run/src/group.rs explains:
# ROOT [OPTION VALUE]... GROUP... ROOT is the word before a command that makes it run as root, or empty.
run_programs() {
    root=$1
    shift
    options=
    while [ "${1#--}" != "${1:-}" ]; do
        options="$options $1 $2"
        shift 2
    done
    rm -f "$checks_dir/counts"
    # Not run as a part of a condition: it says itself what failed, and what it cannot count has failed.
    # shellcheck disable=SC2086
    $root "$SPRY_PROGRAMS/run-tests" $options "$checks_dir/messages" "$checks_dir/counts" "$@" || :
    good=0 bad=1 before=0
    [ ! -e "$checks_dir/counts" ] || read -r good bad before <"$checks_dir/counts"
    passed=$((passed + good))
    failed=$((failed + bad))
    passed_before=$((passed_before + before))
}

build_tests() {
    SPRY_PROGRAMS=$CARGO_TARGET_DIR/$profile
    export SPRY_PROGRAMS
    check "everything builds" build_all
    check "examples in the documentation work" doc_tests
}

quick_tests() {
    build_tests
    say "== tests that need neither root nor the lab"
    run_programs '' pure alone
}

# What the first cell needs is fetched and built here, once: tests have a limit of time each.
first_cell() {
    "$SPRY_PROGRAMS/spry" run typing --on lab --quiet -o "$checks_dir/first-cell"
}

tests() {
    check "readers of exports are there" python_readers
    SPRY_PYTHON=$CARGO_TARGET_DIR/python/bin/python
    export SPRY_PYTHON
    build_tests
    check "a published scheduler builds" a_peer
    check "the lab runs a cell (with an emulator, a kernel and an image of its own)" first_cell
    say "== tests that need no privilege"
    # --all runs each test, whatever passed before. No path of the target directory holds a space.
    # shellcheck disable=SC2086
    run_programs '' ${notes:+--kept "$notes"} pure lab alone
    say "== tests of the running kernel, as root"
    root=$(root_word)
    run_programs "${root:+$root --preserve-env}" root
}

# A shipped scenario twice in the lab with one seed, side by side: what is printed (figures, digests, inputs)
# must be the same.
repeats_in_the_lab() {
    kept=$checks_dir/$(basename "$1" .toml)
    for time in first again; do
        {
            "$SPRY_PROGRAMS/spry" run "$1" --on lab --json --quiet --jobs 1 -o "$kept/$time" \
                >"$kept-$time.json" || : >"$kept-failed"
        } &
    done
    wait
    [ ! -e "$kept-failed" ] || return 1
    cmp "$kept-first.json" "$kept-again.json" || {
        "$SPRY_PROGRAMS/spry" compare "$kept/first" "$kept/again"
        return 1
    }
    cat "$kept/first/table.txt"
}

# As root: some scenarios ask for real-time classes. One that asks for input devices of a kernel that has none
# is refused.
runs_on_this_machine() {
    kept=$checks_dir/$(basename "$1" .toml)-host
    if grep -q '^server = "xorg"' "$1" && [ ! -e /dev/uinput ]; then
        ! as_root "$SPRY_PROGRAMS/spry" run "$1" --on host --quiet -o "$kept" 2>"$kept.errors" || return 1
        cat "$kept.errors"
        grep -q 'no input device can be made' "$kept.errors"
        return
    fi
    as_root "$SPRY_PROGRAMS/spry" run "$1" --on host --quiet -o "$kept"
}

# The lab's tests under N perturbations: N [NAME...]. What passed for the same programs is not run again.
shaken_tests() {
    count=$1
    shift
    build_tests
    check "a published scheduler builds" a_peer
    only=
    for name in "$@"; do
        only="$only --only $name"
    done
    # Names of tests hold no spaces.
    # shellcheck disable=SC2086
    run_programs '' --shakes "$count" --kept "$CARGO_TARGET_DIR/shaken" $only lab
}

scenarios() {
    for file in scenarios/*.toml; do
        scenario=$(basename "$file" .toml)
        about=$(sed -n 's/^about = "\(.*\)"$/\1/p' "$file")
        check "$scenario repeats in the lab ($about)" repeats_in_the_lab "$file"
        check "$scenario runs on this machine ($about)" runs_on_this_machine "$file"
    done
}

# Scratch space of the checks, removed at their end. Ctrl-C ends what runs, and then here; it is no success.
begin() {
    checks_dir=$(mktemp -d)
    trap 'rm -rf "$checks_dir" 2>/dev/null || as_root rm -rf "$checks_dir"' EXIT
    trap 'failed=$((failed + 1)); say "Interrupted."; finish || exit 130' INT TERM
}

finish() {
    if [ -s "$checks_dir/counts.failed" ]; then
        say "What failed:"
        cat "$checks_dir/counts.failed"
    fi
    before=
    [ "$passed_before" -eq 0 ] || before=", $passed_before passed before with equal guests"
    say "$passed passed, $failed failed$before"
    [ "$failed" -eq 0 ]
}

run_lints() {
    setup quick
    begin
    lints
    check "form and licences are as they should be (crates/base/tidy)" tidy
    finish
}

run_shaken_tests() {
    shift
    setup test
    begin
    shaken_tests "$@"
    finish
}

run_tests() {
    case $* in
    '' | --all | --quick) ;;
    --shake\ [1-9]*)
        run_shaken_tests "$@"
        return
        ;;
    *) fail "usage: ./x test [--quick|--all|--shake N [NAME...]]" ;;
    esac
    was_clean=no
    if [ "${1:-}" != --quick ]; then
        rm -f "$CARGO_TARGET_DIR/tests-passed"
        ! tree_is_clean || was_clean=yes
    fi
    case ${1:-} in
    --quick) setup quick ;;
    --all) setup test scenarios ;;
    *) setup test ;;
    esac
    begin
    lints
    notes=$CARGO_TARGET_DIR/passed
    case ${1:-} in
    --quick) quick_tests ;;
    --all)
        notes=
        # So long the scheduler is promised to hold against attacks.
        SPRY_TEST_ATTACK_S=60
        # So often a run is repeated beside other work.
        SPRY_TEST_RUNS=50
        # Some tests have a long form: more CPUs, more attacks of a kind, larger crowds.
        SPRY_TEST_LONG=1
        export SPRY_TEST_ATTACK_S SPRY_TEST_RUNS SPRY_TEST_LONG
        tests
        scenarios
        ;;
    *) tests ;;
    esac
    finish
    if [ "$was_clean" = yes ] && tree_is_clean; then
        git rev-parse 'HEAD^{tree}' >"$CARGO_TARGET_DIR/tests-passed"
    fi
}

# Whether the tree is what its last commit says, without files that git does not know.
tree_is_clean() {
    changed=$(git status --porcelain 2>/dev/null) && [ -z "$changed" ]
}
