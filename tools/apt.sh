# Sourced by the scripts beside it: installs Debian packages if that is possible here.

# apt_install PACKAGE... : true if they were installed; else says why not.
apt_install() {
    if [ "$(id -u)" != 0 ]; then
        echo "not root: cannot install $*" >&2
        return 1
    fi
    if ! command -v apt-get >/dev/null; then
        echo "no apt-get: cannot install $*" >&2
        return 1
    fi
    echo "installing $*"
    local policy=/usr/sbin/policy-rc.d made="" result=0
    # Only programs are wanted: no package may start its service on this machine.
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod 755 "$policy"
        made=yes
    fi
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"; } \
        >/dev/null || result=1
    if [ -n "$made" ]; then rm -f "$policy"; fi
    if [ "$result" != 0 ]; then echo "apt-get could not install $*" >&2; fi
    return "$result"
}
