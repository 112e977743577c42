# ./x peers: builds published sched_ext schedulers for Spry to be compared with.

# As they are named on crates.io; the newest versions, since figures do not transfer between versions anyway.
peers="scx_bpfland scx_lavd scx_flash scx_cosmos"

# Where the lab looks for them.
peers_root() {
    cache=${SPRY_CACHE:-}
    [ -n "$cache" ] || cache=${XDG_CACHE_HOME:-$HOME/.cache}/spry
    say "$cache/peers"
}

run_peers() {
    root=$(peers_root)
    while [ $# -gt 0 ]; do
        case $1 in
        --root)
            [ $# -ge 2 ] || fail "--root needs a directory"
            root=$2
            shift 2
            ;;
        scx_*)
            asked="${asked:-} $1"
            shift
            ;;
        *) fail "usage: ./x peers [--root DIR] [scx_NAME]..." ;;
        esac
    done
    setup build
    # shellcheck disable=SC2086
    build_peers "$root" ${asked:-$peers}
    say "The schedulers are in $root/bin; \`spry run --scheduler NAME\` finds them there."
}

# build_peers ROOT NAME...: puts the newest version of each into ROOT/bin; what is there and newest stays as
# it is.
build_peers() {
    root=$1
    shift
    at=0
    # A path of the same length everywhere: clang orders some types by addresses, and these depend on it.
    peers_target=$(mktemp -d /tmp/spry-peers-XXXXXX)
    for peer in "$@"; do
        at=$((at + 1))
        say "$peer ($at of $#; about a minute on two CPUs if it has to be built)"
        # Its own lock file first; where that no longer resolves, the newest versions that this compiler can
        # build. What was built before stays if neither does. Else, where it asks for a newer compiler, this
        # one all the same; last an older one, with the packages of its time, for distributions' compilers
        # that the newer ones have left behind.
        install_peer "$root" "$peer" --locked || install_peer "$root" "$peer" || peer_stays "$root" "$peer" ||
            install_peer "$root" "$peer" --ignore-rust-version ||
            install_peer "$root" "$peer" '--locked --version <1.1' ||
            {
                rm -rf "$peers_target"
                fail "cargo could not build $peer: see its messages above (a newer Rust may help)"
            }
    done
    rm -rf "$peers_target"
}

# Whether an older one was built before: ROOT NAME. To try the newest all the same would take minutes each
# time, and fail each time.
peer_stays() {
    [ -x "$1/bin/$2" ] && say "The $2 that was built before stays."
}

# install_peer ROOT NAME [OPTION]
install_peer() {
    # A binary that cargo does not know to be its own would be in its way.
    [ ! -e "$1/bin/$2" ] || grep -q "\"$2 " "$1/.crates.toml" 2>/dev/null || rm "$1/bin/$2"
    # A peer enters guests of the lab, so it names no folder of this machine, neither in Rust nor in BPF. A
    # peer that does is built anew. scx_cargo reads BPF_EXTRA_CFLAGS_PRE_INCL.
    ! grep -q "$(cargo_home)/" "$1/bin/$2" 2>/dev/null || rm "$1/bin/$2"
    # shellcheck disable=SC2086
    PATH=$PATH:$1/bin BPF_CLANG=$CLANG CARGO_RESOLVER_INCOMPATIBLE_RUST_VERSIONS=fallback \
        CARGO_ENCODED_RUSTFLAGS="$(with_renamed "$peers_target=/target")" \
        BPF_EXTRA_CFLAGS_PRE_INCL="-ffile-prefix-map=$(cargo_home)=/cargo \
-ffile-prefix-map=$peers_target=/target" \
        cargo install --root "$1" --target-dir "$peers_target" ${3:-} "$2"
}
