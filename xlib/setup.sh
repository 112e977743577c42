# Finds what the machine lacks, names it, and installs it from the distribution.

# Scratch space of one run of setup, removed at its end.
setup_dir=

# Packages to install: the names, and one line for people each.
missing=
missing_lines=

# Adds a package to those to be installed: NAME WHY.
want() {
    case " $missing " in *" $1 "*) return 0 ;; esac
    missing="$missing $1"
    missing_lines="$missing_lines$(printf '  %-22s %s' "$1" "$2")
"
}

# need COMMAND PACKAGE WHY: the package, unless the command is there.
need() {
    have "$1" || want "$2" "$3"
}

# need_file FILE PACKAGE WHY: the package, unless the file is there.
need_file() {
    [ -e "$1" ] || want "$2" "$3"
}

# The version of a package that the distribution would install; nothing if it has none.
candidate() {
    apt-cache policy "$1" 2>/dev/null | sed -n 's/^  Candidate: \([^(].*\)$/\1/p'
}

# The first of the named packages that the distribution has.
first_of() {
    update_lists
    for package in "$@"; do
        if [ -n "$(candidate "$package")" ]; then
            say "$package"
            return
        fi
    done
    say "$1"
}

# Brings apt's package lists up to date, once a run and only if something is to be installed.
update_lists() {
    [ ! -e "$setup_dir/updated" ] || return 0
    say "Bringing the package lists up to date (apt-get update)." >&2
    as_root apt-get -qq -o Acquire::Retries=5 update >&2 ||
        fail "could not fetch the package lists: see apt-get's message above"
    : >"$setup_dir/updated"
}

# Ends with a list of what is needed on a system that this script cannot install on.
require_debian() {
    if have apt-get && have dpkg && [ -r /etc/os-release ]; then
        # shellcheck disable=SC1091
        case $(. /etc/os-release && echo " ${ID:-} ${ID_LIKE:-} ") in
        *" debian "* | *" ubuntu "*) return ;;
        esac
    fi
    cat >&2 <<'END'
x: this system is neither Debian nor Ubuntu. Install these by its own means, then use cargo and the scripts
directly:
  to build   Rust 1.85 or newer with cargo, a C compiler, make, pkg-config, clang 16 or newer with libclang,
             bpftool, the headers of libelf and zlib
  lab        ninja, pkg-config, the headers of glib 2, dpkg-source, patch, Python 3 with venv, mkfs.erofs,
             zstd, xz, apt-get, dpkg-deb, Debian's archive keys
  scenarios  the programs that scenarios/*.toml name, ffmpeg
  demo       Xvfb, xterm, xdotool, mplayer, ffmpeg, emacs, Python 3, the source of a C project
  quick      rustfmt, clippy, clang-format, chromium, Xvfb, xterm, zstd, xz, cpio
  test       those of quick and lab, perf, trace-cmd, hackbench, Python 3 with venv, xdotool, vi, tmux,
             stress-ng, ip, bindfs, dbus-daemon, Python 3's dbus
  bench      perf, trace-cmd, hackbench and cyclictest (rt-tests), taskset, Python 3
END
    exit 1
}

needs_build() {
    need cc build-essential "C compiler and linker, for Rust and libbpf"
    need make build-essential "C compiler and make, for Rust and libbpf"
    need pkg-config pkg-config "finds libelf and zlib"
    need_file /usr/include/libelf.h libelf-dev "libbpf reads BPF programs with it"
    need_file /usr/include/zlib.h zlib1g-dev "libelf's compression"
    need_file /etc/ssl/certs/ca-certificates.crt ca-certificates "cargo fetches crates over TLS"
    needs_bpftool
    needs_clang
    needs_rust
}

# In /usr/sbin, which is on root's path alone. Ubuntu keeps it with the kernel's own tools.
needs_bpftool() {
    [ ! -x /usr/sbin/bpftool ] && ! have bpftool || return 0
    want "$(first_of bpftool linux-tools-generic)" "writes the kernel's types down for the BPF programs"
}

# The newest clang on the machine, as a command; nothing if it is older than 16.
find_clang() {
    for clang in ${CLANG:-} clang clang-22 clang-21 clang-20 clang-19 clang-18 clang-17 clang-16; do
        have "$clang" || continue
        major=$("$clang" --version | sed -n 's/.*clang version \([0-9]*\).*/\1/p')
        if [ "${major:-0}" -ge 16 ]; then
            say "$clang"
            return
        fi
    done
}

needs_clang() {
    [ -z "$(find_clang)" ] || return 0
    update_lists
    for version in 19 20 18 17 16; do
        if [ -n "$(candidate "clang-$version")" ]; then
            want "clang-$version" "compiles the BPF programs; its libclang reads the shared header"
            return
        fi
    done
    fail "the distribution has no clang 16 or newer: install one, then run ./x again"
}

# What the lab starts; `spry lab doctor` knows the rest.
needs_lab() {
    needs_build
    need ninja ninja-build "builds the lab's emulator"
    need_file /usr/include/glib-2.0/glib.h libglib2.0-dev "the lab's emulator is built with it"
    need dpkg-source dpkg-dev "unpacks the emulator's source"
    need patch patch "has several CPUs take even turns in it"
    need_file /usr/bin/python3 python3 "configures it"
    /usr/bin/python3 -c 'import ensurepip' 2>/dev/null || want python3-venv "configures it"
    need mkfs.erofs erofs-utils "writes the lab's root file systems"
    need zstd zstd "unpacks the distribution's packages"
    need xz xz-utils "unpacks the distribution's packages"
    need_file /usr/share/keyrings/debian-archive-keyring.gpg debian-archive-keyring \
        "verifies the lab's packages"
}

needs_demo() {
    needs_build
    need Xvfb xvfb "the virtual display"
    need xterm xterm "the editor's terminal"
    need xdotool xdotool "types at 8 characters a second"
    need mplayer mplayer "plays the film"
    need ffmpeg ffmpeg "makes the film"
    need emacs emacs-nox "the editor that is typed into"
    need python3 python3 "runs the load and counts its frames and keys"
    need dpkg-source dpkg-dev "unpacks the C source that is compiled beside it"
}

# What the tests need that need neither root nor the lab.
needs_quick() {
    needs_build
    needs_rust_lints
    need Xvfb xvfb "the X server of tests with windows"
    need xterm xterm "a real program with a window"
    need zstd zstd "packs what is to be unpacked"
    need xz xz-utils "packs what is to be unpacked"
    need cpio cpio "reads the archives that the lab boots from"
    find_clang_format >/dev/null ||
        want "$(first_of clang-format-19 clang-format)" "checks the C sources' form"
    find_chromium >/dev/null || want chromium "opens the HTML report"
    need_file /usr/share/fonts/truetype/dejavu fonts-dejavu-core "letters for the HTML report"
}

needs_test() {
    needs_quick
    needs_lab
    need perf "$(have perf || first_of linux-perf linux-tools-generic)" "recordings are compared with perf's"
    need trace-cmd trace-cmd "its files are read, and compared with what it says of them"
    need hackbench rt-tests "a load of many tasks"
    need xdotool xdotool "types into a window"
    need vi vim-tiny "the editor that is typed into"
    need tmux tmux "a terminal for the live view"
    need stress-ng stress-ng "most of the loads of spry load"
    need ip iproute2 "ties two networks of a test together"
    need bindfs bindfs "the FUSE mount of its compilation"
    need python3 python3 "opens the exports"
    need dbus-daemon dbus-daemon "the bus of clients that ask for real-time priorities"
    need_file /usr/lib/python3/dist-packages/dbus/__init__.py python3-dbus "such clients"
    python3 -c 'import ensurepip' 2>/dev/null ||
        want python3-venv "holds pandas, polars and perfetto, which open the exports"
}

# The programs of every shipped scenario, as this machine runs them; their packages are those of the lab's
# image.
needs_scenarios() {
    needs_lab
    need ffmpeg ffmpeg "makes the film that players show"
    for file in scenarios/*.toml; do
        for package in $(sed -n 's/^packages = \[\(.*\)\]$/\1/p' "$file" | tr -d '",'); do
            dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q ' installed$' ||
                want "$package" "the scenario $(basename "$file" .toml) runs it"
        done
    done
}

find_chromium() {
    for browser in chromium chromium-browser google-chrome; do
        if have "$browser"; then
            say "$browser"
            return
        fi
    done
    return 1
}

find_clang_format() {
    for formatter in clang-format-19 clang-format; do
        if have "$formatter"; then
            say "$formatter"
            return
        fi
    done
    return 1
}

needs_bench() {
    needs_build
    need perf "$(have perf || first_of linux-perf linux-tools-generic)" "a peer, and the pipe benchmark"
    need trace-cmd trace-cmd "a peer"
    need hackbench rt-tests "hackbench and cyclictest, two loads"
    need taskset util-linux "pins loads to a CPU"
    need python3 python3 "runs the rounds and prints the tables"
}

# setup PURPOSE...: installs what these purposes need and the machine lacks.
setup() {
    require_debian
    setup_dir=$(mktemp -d)
    trap 'rm -rf "$setup_dir"' EXIT
    missing='' missing_lines=''
    for purpose in "$@"; do
        case $purpose in
        build | lab | demo | quick | test | scenarios | bench) "needs_$purpose" ;;
        *)
            fail "there is nothing to set up for '$purpose': build, lab, demo, quick, test, scenarios or \
bench"
            ;;
        esac
    done
    if [ -n "$missing" ]; then
        update_lists
        say "Installing from the distribution (apt-get):"
        printf '%s' "$missing_lines"
        # shellcheck disable=SC2086
        as_root env DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=5 \
            install -qq -y --no-install-recommends $missing >"$setup_dir/log" 2>&1 || {
            cat "$setup_dir/log" >&2
            fail "apt-get could not fetch or install:$missing"
        }
    fi
    rm -rf "$setup_dir"
    trap - EXIT
    use_rust
    hide_paths
    CLANG=$(find_clang)
    # What the headers of sched_ext are built with.
    BPF_CLANG=$CLANG
    export CLANG BPF_CLANG
}
