# Which Rust: the toolchain that is there if it is new enough, else the distribution's.

rust_needed=1.85

# Puts a versioned toolchain of the distribution (Ubuntu has such) on the path if the plain commands are too
# old.
use_rust() {
    ! rust_is_new || return 0
    for bin in /usr/lib/rust-1.*/bin; do
        [ -x "$bin/cargo" ] && at_least "${bin#/usr/lib/rust-}" "$rust_needed" || continue
        PATH=$bin:$PATH
        export PATH
        return
    done
    fail "no Rust $rust_needed or newer came with the packages: install one (for example with rustup), then \
run ./x again"
}

# Whether both rustc and cargo are there and new enough.
rust_is_new() {
    for tool in rustc cargo; do
        version=$("$tool" --version 2>/dev/null | cut -d' ' -f2)
        [ -n "$version" ] && at_least "${version%%-*}" "$rust_needed" || return 1
    done
}

# The suffix by which the distribution names its newest good-enough toolchain: "", "-web" or "-1.NN".
distribution_rust() {
    update_lists
    # A transitional or backported toolchain under its plain name, then Debian's for browsers, then Ubuntu's
    # versioned ones.
    versioned=$(apt-cache pkgnames rustc-1. | sed -n 's/^rustc\(-1\.[0-9]*\)$/\1/p' | sort -rV)
    for suffix in '' -web $versioned; do
        version=$(candidate "rustc$suffix")
        if [ -n "$version" ] && [ -n "$(candidate "cargo$suffix")" ] &&
            at_least "$version" "$rust_needed"; then
            say "plain$suffix"
            return
        fi
    done
}

needs_rust() {
    ! rust_is_new || return 0
    ! (use_rust) 2>/dev/null || return 0
    family=$(distribution_rust)
    [ -n "$family" ] ||
        fail "the distribution has no Rust $rust_needed or newer: install one (for example with rustup), \
then run ./x again"
    want "rustc${family#plain}" "the Rust compiler"
    want "cargo${family#plain}" "builds and fetches Rust crates"
}

# rustfmt and clippy, of the family that the compiler is from.
needs_rust_lints() {
    if rust_is_new && cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1; then
        return
    fi
    if rust_is_new && have rustup; then
        say "Adding rustfmt and clippy to the Rust toolchain (rustup component add)."
        rustup component add rustfmt clippy || fail "rustup could not add rustfmt and clippy"
        return
    fi
    family=plain
    if rust_is_new; then
        owner=$(dpkg -S "$(readlink -f "$(command -v rustc)")" 2>/dev/null | cut -d: -f1)
        case $owner in
        rustc*) family=plain${owner#rustc} ;;
        *) fail "this Rust toolchain lacks rustfmt or clippy: add them by the means it was installed with" ;;
        esac
    else
        family=$(distribution_rust)
    fi
    case ${family#plain} in
    '') lints="rustfmt rust-clippy" ;;
    -web) lints="rustfmt-web rust-web-clippy" ;;
    *) lints="rustfmt${family#plain} rust${family#plain}-clippy" ;;
    esac
    want "${lints% *}" "checks the Rust sources' form"
    want "${lints#* }" "finds mistakes in the Rust sources"
}
