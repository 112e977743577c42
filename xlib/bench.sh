# ./x bench: measures Spry beside its peers, in one run each.

run_bench() {
    case ${1:-} in
    record | report)
        parts=$1
        shift
        ;;
    *) parts="record report" ;;
    esac
    setup bench
    cargo build --release -p spry-cli
    for part in $parts; do
        case $part in
        record)
            cargo build --release -p spry-recorder --example floor
            as_root bench/record --spry "$CARGO_TARGET_DIR/release/spry" \
                --floor "$CARGO_TARGET_DIR/release/examples/floor" "$@"
            ;;
        *) as_root "bench/$part" --spry "$CARGO_TARGET_DIR/release/spry" "$@" ;;
        esac
    done
}
