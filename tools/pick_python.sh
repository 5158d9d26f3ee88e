#!/usr/bin/env bash
# Name the interpreter the virtual environment is made with: the distribution's if it is new enough, because that is the
# one a node has, and it is built with profile-guided optimisation (about a tenth faster than a plain build); else
# whatever `python3` is.
for python in /usr/bin/python3 python3; do
    if "$python" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        echo "$python"
        exit
    fi
done
echo python3
