# What every part of ./x uses: messages, privilege, versions, places.

# Where everything that is built or generated goes; cargo reads the same variable.
CARGO_TARGET_DIR=$(readlink -m "${CARGO_TARGET_DIR:-target}")
export CARGO_TARGET_DIR

# How often cargo tries again to fetch a crate.
CARGO_NET_RETRY=${CARGO_NET_RETRY:-10}
export CARGO_NET_RETRY

say() {
    printf '%s\n' "$*"
}

fail() {
    printf 'x: %s\n' "$*" >&2
    exit 1
}

have() {
    command -v "$1" >/dev/null 2>&1
}

# The word before a command that makes it run as root: none, or sudo.
root_word() {
    if [ "$(id -u)" -eq 0 ]; then
        return
    fi
    have sudo || fail "this needs root: run ./x as root, or install sudo"
    say sudo
}

# Runs a command as root.
as_root() {
    $(root_word) "$@"
}

# Whether version $1 is at least $2; both are dotted numbers, $1 may have a Debian epoch and revision.
at_least() {
    dpkg --compare-versions "${1#*:}" ge "$2"
}
