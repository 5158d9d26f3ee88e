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
    command -v apt-get >/dev/null && command -v dpkg >/dev/null || { echo "no apt-get" && return 1; }
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

# unpack SUITE FOLDER PACKAGE... : the packages alone.
unpack() {
    local archives=$place/.apt/$1/cache/archives
    rm -f "$archives"/*.deb
    (cd "$archives" && suite_apt "$1" download "${@:3}") && unpack_files "$archives" "$2"
}

# unpack_whole SUITE FOLDER PACKAGE... : with all that they depend on, the C library too.
unpack_whole() {
    local archives=$place/.apt/$1/cache/archives
    rm -f "$archives"/*.deb
    suite_apt "$1" --download-only install "${@:3}" && unpack_files "$archives" "$2"
}

unpack_files() { # ARCHIVES FOLDER
    local file
    rm -rf "$2"
    mkdir -p "$2"
    for file in "$1"/*.deb; do
        dpkg -x "$file" "$2" || return 1
    done
    rm -f "$1"/*.deb
}

# with_own_libraries FOLDER PROGRAM... : in FOLDER/bin, with the libraries of FOLDER, which are newer than the machine's.
# OCI runtimes run themselves anew by /proc/self/exe, so the loader cannot be told to run them.
with_own_libraries() {
    local folder=$1 loader libraries name
    libraries=$(dirname "$(find "$folder/usr/lib" -name libc.so.6 | head -n 1)")
    loader=$(find "$libraries" -maxdepth 1 -name 'ld-linux*.so*' | head -n 1)
    mkdir -p "$folder/bin" "$folder/libexec"
    for name in "${@:2}"; do
        cp -L "$folder/usr/bin/$name" "$folder/libexec/$name" || return 1
        "$loader" --library-path "$libraries" "$folder/usr/bin/patchelf" --set-interpreter "$loader" \
            --force-rpath --set-rpath "$libraries" "$folder/libexec/$name" || return 1
        ln -sf "../libexec/$name" "$folder/bin/$name"
        "$folder/bin/$name" --version || return 1
    done
}

# crun refuses to work where cgroup v2 has controllers beside those of v1, so it gets to see v1 alone.
without_hybrid() { # FILE PROGRAM
    rm -f "$1"
    cat >"$1" <<END
#!/bin/sh
if grep -qs . /sys/fs/cgroup/unified/cgroup.controllers; then
    exec unshare --mount --propagation slave sh -c 'umount /sys/fs/cgroup/unified && exec "\$0" "\$@"' "$2" "\$@"
fi
exec "$2" "\$@"
END
    chmod 755 "$1"
}

containerd_1_7() {
    know_suite trixie && unpack trixie "$1" containerd
}

containerd_2() {
    know_suite sid && unpack sid "$1" containerd
}

oci() {
    know_suite sid && unpack_whole sid "$1" runc crun patchelf && with_own_libraries "$1" runc crun &&
        without_hybrid "$1/bin/crun" "$1/libexec/crun"
}

# bring NAME FUNCTION: build/runtimes/NAME, or the reason why it is not there.
bring() {
    local target=$place/$1 reason
    if [ -e "$target/complete" ]; then return; fi
    echo "unpacking build/runtimes/$1"
    mkdir -p "$place/.apt/none/partial"
    if "$2" "$target" >"$target.log" 2>&1; then
        touch "$target/complete"
        rm -f "$target.missing"
    else
        reason=$(grep -m 1 '^E: ' "$target.log" || tail -n 1 "$target.log")
        echo "$1 cannot be had here: ${reason:-no reason}" | tee "$target.missing" >&2
    fi
}

# The tests know them by these names (tests/support/lab/installations.py). containerd runs with any C library of today.
bring containerd-1.7 containerd_1_7
bring containerd-2 containerd_2
bring oci oci
exit 0
