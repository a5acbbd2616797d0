#!/usr/bin/env bash
# `make test` gives the same answer on every machine: each of these circumstances holds in two runs, each time beside
# others, and every run must pass and execute the same tests.
#
#     benchmarks/anywhere.sh                            ten runs (about an hour on two cores)
#     benchmarks/anywhere.sh bare zone+order-3          these runs: where a combination failed, which part of it was it?
#
# It works in clones of HEAD below a temporary folder and leaves nothing behind but the reports in out/anywhere.
set -u
top=$(cd "$(dirname "$0")/.." && pwd)
all="bare+order-1 language+zone+order-2 user+order-3 space+background+order-4 crowded+load+order-5
     bare+space+order-1 language+user+order-2 zone+crowded+order-3 background+order-4 load+order-5"
for version in 3.12 3.13 3.14; do
    "python$version" -c 'import ssl, venv' > /dev/null 2>&1 && all="$all python-$version python-$version+order-6" # that this machine has
done
reports=$top/out/anywhere
folder=$(mktemp -d)
failed=0
trap 'kill $(jobs -p) 2> /dev/null; rm -rf "$folder"' EXIT
chmod 755 "$folder"
mkdir -p "$reports"
rm -f "$reports"/*.xml # of other commits, which may have had other tests

# A clone with an environment of its own. The real transcripts are not beside it.
prepare() { # PLACE
    [ -e "$folder/$1" ] && return
    case $1 in
        user) # an ordinary user, made for this run where there is none
            id refold-tester > /dev/null 2>&1 || useradd --create-home refold-tester || return 1
            git clone --quiet --bare "$top" "$folder/bare.git" && mkdir "$folder/user" || return 1
            chown -R refold-tester "$folder/user" "$folder/bare.git" # git clones only what the user owns
            # PYTHON must be one that everybody may start
            as_user "git clone --quiet '$folder/bare.git' refold && make --silent -C refold setup PYTHON='${USER_PYTHON:-/usr/bin/python3}'" ;;
        *)
            local python=python3
            case $1 in python-*) python=${1/-/} ;; esac
            git clone --quiet "$top" "$folder/$1" && make --silent -C "$folder/$1" setup PYTHON="$python" || return 1
            [ "$1" != crowded ] || "$folder/$1/.venv/bin/python" -m pip install --quiet botocore kubernetes numpy ;;
    esac
}

as_user() { su refold-tester -s /bin/bash -c "cd '$folder/user' && $1"; }

tested() { # REPORT PLACE ENVIRONMENT...
    local report=$1 place=$2
    shift 2
    if [ "$place" = user ]; then
        as_user "env $* make -C refold test OPTIONS=--junitxml=$folder/user/report.xml" && cp "$folder/user/report.xml" "$report"
    else
        env "$@" make -C "$folder/$place" test OPTIONS="--junitxml=$report"
    fi
}

run() { # CIRCUMSTANCE+… REPORT
    local place=plain background="" load="" environment=() loops=() one code
    for one in ${1//+/ }; do
        case $one in
            bare)                       environment=(-i "PATH=$PATH" HOME=/nonexistent "${environment[@]}") ;;
            language)                   environment+=(LANG=C LC_ALL=C) ;;
            zone)                       environment+=(TZ=Asia/Kolkata) ;;
            order-*)                    environment+=("REFOLD_ORDER=${one#order-}") ;;
            space)                      place="with a space" ;;
            user | crowded | python-*)  place=$one ;;
            background)                 background=yes ;;
            load)                       load=yes ;;
            *)                          echo "unknown circumstance: $one; known: ${all//+/ }"; return 2 ;;
        esac
    done
    prepare "$place" || return 1
    [ -z "$load" ] || for _ in 1 2 3 4 5 6; do (while :; do :; done) & loops+=($!); done
    if [ -n "$background" ]; then
        (trap '' INT QUIT; tested "$2" "$place" "${environment[@]}" < /dev/null) & wait $!
    else
        tested "$2" "$place" "${environment[@]}"
    fi
    code=$?
    [ -z "$load" ] || { kill "${loops[@]}"; wait "${loops[@]}" 2> /dev/null; }
    return $code
}

for name in ${*:-$all}; do
    began=$(date +%s)
    if run "$name" "$reports/$name.xml" > "$reports/$name.log" 2>&1; then answer=passed; else answer=FAILED; failed=1; fi
    echo "$name: $answer, $(($(date +%s) - began)) s, $(tail -n 20 "$reports/$name.log" | grep -E '[0-9]+ (passed|failed)' | tail -n 1)"
done

# Every run executed the same tests.
python3 - "$reports"/*.xml << 'PYTHON' || failed=1
import sys
import xml.etree.ElementTree as tree

runs = {}
for path in sys.argv[1:]:
    cases = tree.parse(path).getroot().iter("testcase")
    runs[path] = {f"{c.get('classname')}::{c.get('name')}" for c in cases if c.find("skipped") is None}
every = set().union(*runs.values())
for path, executed in runs.items():
    print(f"{path}: {len(executed)} executed, {len(every - executed)} missing", *sorted(every - executed)[:5], sep="\n  ")
sys.exit(any(every - executed for executed in runs.values()))
PYTHON
exit $failed
