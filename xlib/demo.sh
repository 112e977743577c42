# ./x demo: records a loaded desktop for 20 s and reports on it.

run_demo() {
    [ $# -eq 0 ] || fail "./x demo takes no arguments"
    setup demo
    cargo build --release -p spry-cli
    spry=$CARGO_TARGET_DIR/release/spry
    out=demo-out
    mkdir -p "$out"
    demo/prepare "$CARGO_TARGET_DIR/demo"
    say "Starting the desktop: a film, an editor, a compiler and CPU hogs on a virtual display."
    # The load ends, and with it everything it started, when the recorder does.
    # shellcheck disable=SC2046
    demo/load --work "$CARGO_TARGET_DIR/demo" -- $(root_word) "$spry" record -o "$out/demo.spry" --duration 20 \
        --events sched,timer,irq,resched,ipc,mark
    as_root chown "$(id -u):$(id -g)" "$out/demo.spry"
    "$spry" report "$out/demo.spry" --html "$out/report.html"
    say "The recording is $out/demo.spry; open $out/report.html for the whole report."
}
