#!/bin/sh
# Compiles with clang in a folder of its own, for which each machine has a name of the same length. Clang
# orders some types of BTF by addresses, and these depend on the lengths of paths: an object would be another
# one in each folder. What clang reads is copied, since clang asks for the real paths of links.
set -eu
clang='@CLANG@'
tree='@TREE@'
package='@PACKAGE@'

case " $* " in
*' -c '*) ;;
*) exec "$clang" "$@" ;;
esac

work=$(mktemp -d /tmp/spry-clang-XXXXXX)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' HUP INT TERM
mkdir -p "$work/$package/src"
cp -r "$tree/$package/src/bpf" "$work/$package/src/"
[ ! -d "$tree/$package/examples" ] || cp -r "$tree/$package/examples" "$work/$package/"
mkdir -p "$work/crates/base/kernel"
cp -r "$tree/crates/base/kernel/include" "$work/crates/base/kernel/"

# A folder of headers that is not the system's, by its copy.
copies=0
copy() {
    case $1 in
    /usr/*) copied=$1 ;;
    *)
        copies=$((copies + 1))
        copied=headers$copies
        mkdir "$work/$copied"
        cp -rL "$1/." "$work/$copied/"
        ;;
    esac
}

object=
before=
for arg in "$@"; do
    shift
    case $before in
    -I | -isystem | -idirafter)
        copy "$arg"
        set -- "$@" "$copied"
        ;;
    -o)
        object=$arg
        set -- "$@" object
        ;;
    *)
        case $arg in
        -I?*)
            copy "${arg#-I}"
            set -- "$@" "-I$copied"
            ;;
        *.bpf.c) set -- "$@" "$package/$arg" ;;
        *) set -- "$@" "$arg" ;;
        esac
        ;;
    esac
    before=$arg
done
(cd "$work" && "$clang" -fdebug-compilation-dir=/spry "$@")
cp "$work/object" "$object"
