# Builds that do not depend on their folder: what enters a guest of the lab must be equal everywhere.

# Has rustc write fixed names in place of the tree, the target directory and cargo's home, for whatever cargo
# builds from here on. Of two prefixes that match, rustc takes the later. The words of RUSTFLAGS, which
# CARGO_ENCODED_RUSTFLAGS replaces, come first. Objects of BPF do not depend on folders in any build
# (crates/base/clang).
hide_paths() {
    if [ -z "${CARGO_ENCODED_RUSTFLAGS:-}" ]; then
        # shellcheck disable=SC2086
        CARGO_ENCODED_RUSTFLAGS=$(encoded ${RUSTFLAGS:-})
    fi
    CARGO_ENCODED_RUSTFLAGS=$(
        with_renamed "$(pwd -P)=/spry" "$CARGO_TARGET_DIR=/target" "$(cargo_home)=/cargo"
    )
    export CARGO_ENCODED_RUSTFLAGS
}

cargo_home() {
    readlink -m "${CARGO_HOME:-$HOME/.cargo}"
}

# with_renamed FROM=TO...: rustc's flags, after which it also writes each TO in place of the prefix FROM.
with_renamed() {
    for pair in "$@"; do
        shift
        set -- "$@" "--remap-path-prefix=$pair"
    done
    encoded ${CARGO_ENCODED_RUSTFLAGS:+"$CARGO_ENCODED_RUSTFLAGS"} "$@"
}

# encoded FLAG...: the flags in the form of CARGO_ENCODED_RUSTFLAGS.
encoded() (
    IFS=$(printf '\037')
    printf %s "$*"
)
