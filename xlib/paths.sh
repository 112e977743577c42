# Builds that do not depend on their folder: what enters a guest of the lab must be equal everywhere.

# Has rustc, and clang for BPF programs, write fixed names in place of the tree, the target directory and cargo's home,
# for whatever cargo builds from here on. Of two prefixes that match, both take the later. The words of RUSTFLAGS, which
# CARGO_ENCODED_RUSTFLAGS replaces, come first.
hide_paths() {
    separator=$(printf '\037')
    hidden=${CARGO_ENCODED_RUSTFLAGS:-}
    if [ -z "$hidden" ]; then
        for word in ${RUSTFLAGS:-}; do
            hidden=${hidden:+$hidden$separator}$word
        done
    fi
    for pair in "$(pwd -P)=/spry" "$CARGO_TARGET_DIR=/target" "$(readlink -m "${CARGO_HOME:-$HOME/.cargo}")=/cargo"; do
        hidden=${hidden:+$hidden$separator}--remap-path-prefix=$pair
        BPF_EXTRA_CFLAGS_PRE_INCL="${BPF_EXTRA_CFLAGS_PRE_INCL:-} -ffile-prefix-map=$pair"
    done
    CARGO_ENCODED_RUSTFLAGS=$hidden
    export CARGO_ENCODED_RUSTFLAGS BPF_EXTRA_CFLAGS_PRE_INCL
}
