# Builds that do not depend on their folder: what enters a guest of the lab must be equal everywhere.

# Has rustc write fixed names in place of the tree, the target directory and cargo's home, for whatever cargo builds
# from here on. Of two prefixes that match, rustc takes the later. The words of RUSTFLAGS, which CARGO_ENCODED_RUSTFLAGS
# replaces, come first. Objects of BPF do not depend on folders in any build (crates/base/clang).
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
    done
    CARGO_ENCODED_RUSTFLAGS=$hidden
    export CARGO_ENCODED_RUSTFLAGS
}
