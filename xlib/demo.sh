# ./x demo: a recording of a loaded desktop, then in the lab: how can I play a DVD and compile Linux at the
# same time?

run_demo() {
    case "$#-${1:-}" in
    # Each part in a script of its own: where one fails, the other still runs.
    0-)
        bad=
        ./x demo record || bad="the recording"
        ./x demo lab || bad="${bad:+$bad and }the lab"
        [ -z "$bad" ] || fail "of the demo failed: $bad; its messages are above"
        ;;
    1-record) run_record_demo ;;
    1-lab) run_lab_demo ;;
    *) fail "usage: ./x demo [record|lab]" ;;
    esac
}

# What both parts run, built at once: alone, each would be built with other features, and so once more.
build_for_demo() {
    cargo build --release -p spry-cli -p spry-lab -p spry-runner -p spry-scheduler -p spry-eyes
}

# A film and a typist beside CPU hogs, under the stock scheduler, a peer and Spry, where every run repeats.
run_lab_demo() {
    # shellcheck source=xlib/peers.sh
    . xlib/peers.sh
    setup lab
    build_for_demo
    build_peers "$(peers_root)" scx_bpfland
    spry=$CARGO_TARGET_DIR/release/spry
    out=demo-out
    mkdir -p "$out"
    say "How can I play a DVD and compile Linux at the same time?"
    say "A film and a typist on a real X server beside 0 and 8 CPU hogs, under the stock scheduler (EEVDF), \
scx_bpfland and Spry."
    for scenario in movie typing; do
        "$spry" run "scenarios/$scenario-x11.toml" --on lab --scheduler eevdf --scheduler scx_bpfland \
            --scheduler spry --vary stressers=0,8 -o "$out/$scenario"
    done
    demo_page >"$out/index.html"
    say "The pictures are $out/movie/picture.svg and $out/typing/picture.svg; open $out/index.html for both."
    say "Every figure above repeats digit for digit: run ./x demo again, beside anything, and compare the \
digests."
}

demo_page() {
    cat <<'END'
<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Spry: a film beside a compiler</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 760px; margin: 30px auto; padding: 0 16px; }
img { max-width: 100%; }
</style></head>
<body><h1>How can I play a DVD and compile Linux at the same time?</h1>
<p>A film of 25 frames a second and a typist of 8 characters a second, beside CPU hogs, in the lab: under the
kernel's own scheduler, under scx_bpfland, and under Spry.</p>
<p><a href="movie/index.html"><img src="movie/picture.svg" alt="frames shown beside 0 and 8 hogs"></a></p>
<p><a href="typing/index.html">
<img src="typing/picture.svg" alt="how long a typed character takes beside 0 and 8 hogs"></a></p>
</body></html>
END
}

run_record_demo() {
    setup demo
    build_for_demo
    spry=$CARGO_TARGET_DIR/release/spry
    out=demo-out
    mkdir -p "$out"
    demo/prepare "$CARGO_TARGET_DIR/demo"
    say "Starting the desktop: a film, an editor, a compiler and CPU hogs on a virtual display."
    # The load ends, and with it everything it started, when the recorder does.
    # shellcheck disable=SC2046
    demo/load --work "$CARGO_TARGET_DIR/demo" -- $(root_word) "$spry" record -o "$out/demo.spry" \
        --duration 20 --events sched,timer,irq,resched,ipc,mark
    as_root chown "$(id -u):$(id -g)" "$out/demo.spry"
    "$spry" report "$out/demo.spry" --html "$out/report.html"
    say "The recording is $out/demo.spry; open $out/report.html for the whole report."
}
