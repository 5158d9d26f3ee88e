#!/usr/bin/env bash
# Bring the container runtimes of other suites of the distribution into build/runtimes: unpacked, with all they depend on,
# never installed. They come from the archive that the machine itself uses, and apt checks what it gets as always. Never
# fails: what cannot be had is skipped by the tests, with the reason, which is in build/runtimes/NAME.missing.
set -uo pipefail
cd "$(dirname "$0")/.."

place=$PWD/build/runtimes
declare -A known

# The archive of the machine: where its own suite comes from, whatever form its sources have.
archive() {
    local codename
    codename=$(. /etc/os-release && echo "${VERSION_CODENAME:?}") || return 1
    apt-get -o Dir::State::lists="$place/.apt/none" update --print-uris |
        sed -n "s|^'\(.*\)/dists/$codename/InRelease'.*|\1|p" | head -n 1
}

# suite_apt SUITE ARGUMENT... : apt-get that knows this suite only, and no package as installed.
suite_apt() {
    local state=$place/.apt/$1
    shift
    # As ourselves: the user that apt has for downloads may not be allowed to look into this checkout.
    apt-get -qq -y -o Dir::Etc::sourcelist="$state/sources.list" -o Dir::Etc::sourceparts=/dev/null \
        -o Dir::State="$state" -o Dir::State::status="$state/status" -o Dir::Cache="$state/cache" \
        -o APT::Sandbox::User="$(id -un)" -o APT::Install-Recommends=false -o APT::Update::Error-Mode=any \
        -o Acquire::Retries=1 -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20 "$@"
}

# know_suite SUITE: what is in it.
know_suite() {
    local state=$place/.apt/$1 base signed="" key
    if [ -n "${known[$1]:-}" ]; then return 0; fi
    base=$(archive)
    [ -n "$base" ] || { echo "the sources of apt name no archive of this distribution" && return 1; }
    for key in /usr/share/keyrings/debian-archive-keyring.{pgp,gpg}; do
        if [ -e "$key" ]; then signed="[signed-by=$key]"; fi
    done
    mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
    echo "deb $signed $base $1 main" >"$state/sources.list"
    : >"$state/status"
    suite_apt "$1" update && known[$1]=yes
}

# unpack SUITE PACKAGE FOLDER: the package, and with "whole" all that it depends on.
unpack() {
    local state=$place/.apt/$1 file
    rm -rf "$3" "$state"/cache/archives/*.deb
    if [ "$4" = whole ]; then
        suite_apt "$1" --download-only install "$2" || return 1
    else
        (cd "$state/cache/archives" && suite_apt "$1" download "$2") || return 1
    fi
    mkdir -p "$3"
    for file in "$state"/cache/archives/*.deb; do
        dpkg -x "$file" "$3" || return 1
    done
    rm -f "$state"/cache/archives/*.deb
}

# with_loader FOLDER PROGRAM: FOLDER/PROGRAM runs it with the libraries beside it, which are newer than the machine's.
with_loader() {
    local loader libraries
    loader=$(find "$1/usr" -name 'ld-linux*.so*' | head -n 1)
    libraries=$(dirname "$(find "$1/usr/lib" -name 'libc.so.6' | head -n 1)")
    cat >"$1/$2" <<END
#!/bin/sh
# Where cgroup v2 has controllers beside those of v1, crun refuses to work: it gets to see v1 alone.
if grep -qs . /sys/fs/cgroup/unified/cgroup.controllers; then
    exec unshare --mount --propagation slave sh -c 'umount /sys/fs/cgroup/unified && exec "\$@"' sh "\$0" "\$@"
fi
exec "$loader" --argv0 "$2" --library-path "$libraries" "$1/usr/bin/$2" "\$@"
END
    chmod 755 "$1/$2"
    "$1/$2" --version
}

# bring NAME SUITE PACKAGE alone|whole: true if it is there in the end.
bring() {
    local target=$place/$1
    command -v apt-get >/dev/null && command -v dpkg >/dev/null || { echo "no apt-get" && return 1; }
    know_suite "$2" && unpack "$2" "$3" "$target.new" "$4" || return 1
    mv "$target.new" "$target"
    [ "$4" = alone ] || with_loader "$target" "$3" || { rm -rf "$target" && return 1; }
}

# The tests know them by these names (tests/support/lab/installations.py). containerd runs on any C library of today.
while read -r name suite package how; do
    if [ -e "$place/$name" ]; then continue; fi
    mkdir -p "$place/.apt/none/partial"
    echo "unpacking $package of $suite in build/runtimes/$name"
    if ! bring "$name" "$suite" "$package" "$how" >"$place/$name.log" 2>&1; then
        reason=$(grep -v '^$' "$place/$name.log" | tail -n 1)
        echo "$package of $suite cannot be had here: ${reason:-no reason}" | tee "$place/$name.missing" >&2
        continue
    fi
    rm -f "$place/$name.missing"
done <<END
containerd-1.7 trixie containerd alone
containerd-2 sid containerd alone
crun sid crun whole
END
exit 0
